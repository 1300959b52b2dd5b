"""Prefetches that the steps of inner loops share (lowering/inject_prefetch.py)."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.arith import Analyzer
from tilewright.driver.lower import lower
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.copies import is_prefetch
from tilewright.loopir.expr import const, const_int
from tilewright.loopir.subst import substitute
from tilewright.loopir.visit import walk
from tilewright.topi.schedules.decisions import Decisions

LINE = 16  # float32 elements


def asked(func: Any, buffer: str, at: dict[str, int]) -> list[int]:
    """Offsets into a buffer that are asked for, in order, at one step of the loops named."""
    found: list[int] = []

    def run(s: Any, values: dict[Any, int]) -> None:
        if type(s) is S.For:
            low, extent = (const_int(value(e, values)) for e in (s.min, s.extent))
            assert low is not None and extent is not None
            name = s.loop_var.name
            for n in [at[name]] if name in at else range(low, low + extent):
                run(s.body, {**values, s.loop_var: n})
        elif is_prefetch(s):
            (load,) = (x for x in walk(s) if type(x) is E.BufferLoad)
            if load.buffer.name.startswith(buffer):
                offset = const_int(value(load.indices[0], values))
                assert offset is not None
                found.append(offset)
        elif type(s) is S.LetStmt:
            known = const_int(value(s.value, values))
            run(s.body, values if known is None else {**values, s.var: known})
        elif type(s) is S.SeqStmt:
            for part in s.seq:
                run(part, values)
        elif hasattr(s, "body"):
            run(s.body, values)

    def value(e: Any, values: dict[Any, int]) -> Any:
        table = {v: const(n, v.dtype) for v, n in values.items()}
        return Analyzer().simplify(substitute(e, table))

    run(func.body, {})
    return found


def panels(rows: int, panel_count: int, steps: int, width: int) -> Any:
    a = te.placeholder((rows, steps), name="A")
    b = te.placeholder((panel_count, steps, width), name="B")
    k = te.reduce_axis((0, steps), name="k")
    c = te.compute(
        (panel_count, rows, width), lambda j, i, v: te.sum(a[i, k] * b[j, k, v], axis=k), name="C"
    )
    s = te.create_schedule(c.op)
    return s, a, b, c, k


@pytest.mark.parametrize("rows, steps, width", [(6, 10, 32), (6, 7, 48), (1, 16, 64), (40, 5, 16)])
def test_each_step_asks_for_some_of_the_next_panel(rows: int, steps: int, width: int) -> None:
    s, a, b, c, k = panels(rows, 3, steps, width)
    j, i, v = c.op.axis
    s[c].reorder(j, i, k, v)
    s[c].vectorize(v)
    s[c].prefetch(b, j, 1)
    s[c].pragma(j, "prefetch_evenly")
    func = lower(s, [a, b, c])["main"]
    size = steps * width
    for panel in range(3):
        got = asked(func, "B", {"j": panel})
        assert {n // LINE for n in got} >= {
            n // LINE for n in range(size * (panel + 1), size * (panel + 2))
        }
        assert got == sorted(got)
        assert len(got) <= max(2 * size // LINE, rows * steps)


def test_steps_that_read_the_same_share_it() -> None:
    """Four pieces of rows in a row have a panel: each asks for a quarter of the next."""
    s, a, b, c, k = panels(8, 3, 10, 64)
    j, i, v = c.op.axis
    io, ii = s[c].split(i, nparts=4)
    piece = s[c].fuse(j, io)
    s[c].reorder(piece, ii, k, v)
    s[c].vectorize(v)
    s[c].prefetch(b, piece, 4)
    s[c].pragma(piece, "prefetch_evenly", 4)
    func = lower(s, [a, b, c])["main"]
    name = next(x.loop_var.name for x in walk(func.body) if type(x) is S.For)
    shares = [asked(func, "B", {name: n}) for n in range(4)]
    assert {n // LINE for share in shares for n in share} >= set(range(40, 80))
    for one, after in pairwise(shares):
        assert max(one) < min(after)


def test_rows_of_a_part_that_lie_apart() -> None:
    """Two blocks of filters: of each the next part of the steps."""
    x, w = te.placeholder((5, 8), name="X"), te.placeholder((4, 8, 32), name="W")
    k = te.reduce_axis((0, 8), name="k")
    y = te.compute((2, 5, 2, 32), lambda g, i, f, v: te.sum(x[i, k] * w[g * 2 + f, k, v], axis=k))
    s = te.create_schedule(y.op)
    g, i, f, v = y.op.axis
    ko, ki = s[y].split(k, factor=4)
    s[y].reorder(g, ko, i, ki, f, v)
    s[y].unroll(f)
    s[y].vectorize(v)
    s[y].prefetch(w, ko, 1)
    s[y].pragma(ko, "prefetch_evenly")
    func = lower(s, [x, w, y])["main"]
    lines = {n // LINE for n in asked(func, "W", {"g": 0, "i0": 0, "k_outer": 0, "k.outer": 0})}
    wanted = {
        (f * 256 + k * 32 + v) // LINE for f, k, v in product(range(2), range(4, 8), range(32))
    }
    assert lines >= wanted


@pytest.mark.parametrize("steps, width", [(4, 2048), (1, 4096)])
def test_what_would_take_too_many_at_once_is_not_asked_for(steps: int, width: int) -> None:
    s, a, b, c, k = panels(1, 3, steps, width)
    j, i, v = c.op.axis
    s[c].reorder(j, i, k, v)
    s[c].prefetch(b, j, 1)
    s[c].vectorize(s[c].split(v, factor=16)[1])
    s[c].pragma(j, "prefetch_evenly")
    text = str(lower(s, [a, b, c]))
    assert text.count("T.prefetch") <= 4


def test_conditions_leave_loops_that_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of padding are left out in front of the loops, as they are where nothing is asked for:
    sums within conditions would not stay in registers."""
    x = te.placeholder((1, 1, 7, 7, 16), name="x")
    w = te.placeholder((2, 1, 3, 3, 16, 16), name="w")
    y = topi.nn.conv_nchwc(x, w, (1, 1), (1, 1, 1, 1), (1, 1))
    target = "llvm -mcpu=skylake-avx512 -l2_cache_size_bytes=1024"

    def words() -> list[str]:
        s = topi.schedules.default_schedule([y], target, Decisions())
        lines = str(lower(s, [x, w, y])).splitlines()
        return [line.split()[0] for line in lines if line.strip() and "T.Buffer(" not in line]

    asks = words()
    monkeypatch.setattr("tilewright.topi.schedules.conv2d.ask_ahead", lambda *given: None)
    plain = words()
    calls = [w for w in asks if w.startswith("T.prefetch")]
    assert calls and [w for w in asks if w not in calls] == plain


@pytest.mark.parametrize("rows, asks", [(1, False), (6, False), (40, True), (128, True)])
def test_products_with_weights_from_memory_are_right(rows: int, asks: bool) -> None:
    a, b = te.placeholder((rows, 70), name="a"), te.placeholder((3, 70, 64), name="b")
    r = te.reduce_axis((0, 70), "r")
    c = te.compute((rows, 192), lambda i, j: te.sum(a[i, r] * b[j // 64, r, j % 64], axis=r))
    target = tvm.target.Target("llvm -mcpu=skylake-avx512 -l2_cache_size_bytes=4096")
    s = topi.schedules.default_schedule([c], target, Decisions())
    assert ("T.prefetch" in str(lower(s, [a, b, c]))) == asks
    f = tvm.build(s, [a, b, c], "llvm")
    rng = np.random.default_rng(rows)
    x, y = rng.standard_normal((rows, 70), "float32"), rng.standard_normal((3, 70, 64), "float32")
    z = np.empty((rows, 192), "float32")
    f(x, y, z)
    want = x.astype("float64") @ np.moveaxis(y, 0, 1).reshape(70, 192)
    np.testing.assert_allclose(z, want, rtol=1e-4, atol=1e-4)
