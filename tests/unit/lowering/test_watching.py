"""Watchers see every pass."""

from __future__ import annotations

import tilewright as tvm
from tilewright import te
from tilewright.loopir.stmt import PrimFunc
from tilewright.lowering.options import LowerOptions
from tilewright.lowering.pipeline import PHASES, watching


def test_watchers_see_each_pass_in_order() -> None:
    b = te.compute((8,), lambda i: i * 2, name="B")
    s = te.create_schedule(b.op)
    seen: list[tuple[str, PrimFunc]] = []

    def watch(name: str, func: PrimFunc, options: LowerOptions) -> None:
        seen.append((name, func))

    with watching(watch):
        module = tvm.lower(s, [b], name="twice")
    names = ["loop_nest", *(one.__name__ for phase in PHASES for one in phase)]
    assert [name for name, _ in seen] == names
    assert seen[-1][1] is module["twice"]
    tvm.lower(s, [b])
    assert len(seen) == len(names)
