"""Primitives that change no number: what each makes of the loops, as golden text.

Every case lowers one program twice, without and with the primitive. The two texts have to differ
(a primitive that does nothing would pass every numerical test) and the second is golden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.golden.goldens import check
from tilewright import te, tir
from tilewright.driver.lower import lower

Program = tuple[Any, list[Any], dict[str, Any]]


def stages() -> Program:
    """Two stages, the first computed for each block of four rows of the second."""
    a = te.placeholder((16, 256), name="A")
    p = te.compute((16, 256), lambda i, j: a[i, j] * 2.0, name="P")
    c = te.compute((16, 256), lambda i, j: p[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    s[p].compute_at(s[c], outer)
    return s, [a, c], {"A": a, "P": p, "C": c, "outer": outer, "inner": inner}


def window() -> Program:
    """A sum of three neighbours along the rows of a stage that is computed for each row."""
    a = te.placeholder((18, 256), name="A")
    p = te.compute((18, 256), lambda i, j: a[i, j] * 2.0, name="P")
    c = te.compute((16, 256), lambda i, j: p[i, j] + p[i + 1, j] + p[i + 2, j], name="C")
    s = te.create_schedule(c.op)
    s[p].compute_at(s[c], c.op.axis[0])
    return s, [a, c], {"P": p, "C": c}


def block() -> Program:
    """100 elements in blocks of 16, the last one cut short."""
    n = 100
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=16)
    return s, [a, b], {"B": b, "outer": outer, "inner": inner}


def double_buffer(s: Any, at: dict[str, Any]) -> None:
    s[at["P"]].double_buffer()


def rolling_buffer(s: Any, at: dict[str, Any]) -> None:
    s[at["P"]].rolling_buffer()


def prefetch(s: Any, at: dict[str, Any]) -> None:
    s[at["P"]].prefetch(at["A"], at["P"].op.axis[0], 1)


def storage_align(s: Any, at: dict[str, Any]) -> None:
    s[at["P"]].storage_align(at["P"].op.axis[0], 32, 8)


def set_scope(s: Any, at: dict[str, Any]) -> None:
    s[at["P"]].set_scope("local")


def parallel(s: Any, at: dict[str, Any]) -> None:
    s[at["C"]].parallel(at["outer"])


def vectorize(s: Any, at: dict[str, Any]) -> None:
    _outer, inner = s[at["C"]].split(at["C"].op.axis[1], factor=16)
    s[at["C"]].vectorize(inner)


def unroll(s: Any, at: dict[str, Any]) -> None:
    s[at["C"]].unroll(at["inner"])


def auto_unroll(s: Any, at: dict[str, Any]) -> None:
    """Only nests of at most 16 steps are unrolled: the inner loop, not the outer one."""
    s[at["B"]].pragma(at["outer"], "auto_unroll_max_step", 16)
    s[at["B"]].pragma(at["outer"], "unroll_explicit", True)


def auto_unroll_marked(s: Any, at: dict[str, Any]) -> None:
    """Loops are marked for the code generator, not copied out."""
    s[at["B"]].pragma(at["outer"], "auto_unroll_max_step", 16)
    s[at["B"]].pragma(at["outer"], "unroll_explicit", False)


CASES: list[tuple[Callable[[], Program], Callable[[Any, dict[str, Any]], None]]] = [
    (stages, double_buffer),
    (window, rolling_buffer),
    (stages, prefetch),
    (stages, storage_align),
    (stages, set_scope),
    (stages, parallel),
    (stages, vectorize),
    (stages, unroll),
    (block, auto_unroll),
    (block, auto_unroll_marked),
]


@pytest.mark.parametrize("program, primitive", CASES, ids=[p.__name__ for _, p in CASES])
def test_primitive_shows(
    program: Callable[[], Program], primitive: Callable[[Any, dict[str, Any]], None]
) -> None:
    s, args, _at = program()
    plain = str(lower(s, args)["main"])
    s, args, at = program()
    primitive(s, at)
    text = str(lower(s, args)["main"])
    assert text != plain
    check(f"primitives/{primitive.__name__}", text)


def guarded(hint: bool) -> str:
    """Rows below 60 are doubled: a guard that is neither the whole body of the loop nor inside."""
    a = te.placeholder((100, 256), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        if hint:
            ib.scope_attr(None, "pragma_loop_partition_hint", 1)
        with ib.for_range(0, 100, name="i") as i:
            with ib.for_range(0, 256, name="j") as j:
                result[i, j] = source[i, j]
            with ib.if_scope(tir.likely(i < 60)), ib.for_range(0, 256, name="j") as j:
                result[i, j] = result[i, j] * 2.0
        return ib.get()

    b = te.extern((100, 256), [a], body, name="B")
    return str(lower(te.create_schedule(b.op), [a, b])["main"])


def test_partition_hint_shows() -> None:
    """The loop is split where the guard changes, and the guard is gone."""
    text = guarded(hint=True)
    assert text != guarded(hint=False)
    check("primitives/partition_hint", text)
