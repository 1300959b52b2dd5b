"""Lines of statements in the printer's text."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.loopir import stmt as S
from tilewright.loopir.print_lines import script_with_lines
from tilewright.loopir.visit import nodes


def functions() -> list[Any]:
    n = te.var("n")
    a = te.placeholder((n, 7), name="A")
    b = te.compute((n, 7), lambda i, j: te.if_then_else(i > 2, a[i, j] + 1, 0.0), name="B")
    k = te.reduce_axis((0, 7), "k")
    c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    outer, _inner = s[c].split(c.op.axis[0], 4)
    s[c].parallel(outer)
    plain = tvm.lower(s, [a, c], name="plain")["plain"]
    d = te.compute((8, 9, 10), lambda i, j, k: i + j + k, name="D")
    grid = tvm.lower(te.create_schedule(d.op), [d], name="grid")["grid"]
    return [plain, grid]


def heads(s: Any) -> str:
    """What the line on which a statement begins must have."""
    if isinstance(s, S.For):
        return "for "
    if isinstance(s, S.BufferStore):
        return "] = "
    if isinstance(s, S.IfThenElse):
        return "if "
    if isinstance(s, S.Allocate):
        return "T.allocate"
    return ""


@pytest.mark.parametrize("func", functions(), ids=lambda f: f.name)
def test_each_statement_begins_on_its_line(func: Any) -> None:
    text, places = script_with_lines(func)
    assert text == str(func)
    lines = text.split("\n")
    found = 0
    for s in nodes(func.body):
        if isinstance(s, S.Stmt) and not isinstance(s, S.SeqStmt):
            assert heads(s) in lines[places[id(s)] - 1], (s, places[id(s)])
            found += bool(heads(s))
            if isinstance(s, S.BufferStore):
                own = str(s).split("\n")[-1].split("[")[0].strip()
                assert lines[places[id(s)] - 1].strip().startswith(own[0])
    assert found > 2


def test_loops_of_a_grid_share_a_line() -> None:
    func = functions()[1]
    _, places = script_with_lines(func)
    loops = [s for s in nodes(func.body) if isinstance(s, S.For)]
    assert len(loops) == 3 and len({places[id(s)] for s in loops}) == 1


def test_modules_have_lines_too() -> None:
    func = functions()[1]
    text, places = script_with_lines(tvm.IRModule({"grid": func}))
    assert text == str(tvm.IRModule({"grid": func}))
    store = next(s for s in nodes(func.body) if isinstance(s, S.BufferStore))
    assert "D" in text.split("\n")[places[id(store)] - 1]


def test_programs_may_be_deep() -> None:
    body: Any = S.Evaluate(tvm.tir.const(1))
    for k in range(3000):
        body = S.IfThenElse(tvm.tir.Var(f"v{k}", "bool"), body)
    func = S.PrimFunc([], body)
    text, places = script_with_lines(func)
    lines = text.split("\n")
    assert len(places) == 3001 and "evaluate(1)" in lines[max(places.values()) - 1]
