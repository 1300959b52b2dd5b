"""Loops as a tree."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.driver.lower import schedule_to_func
from tilewright.loopir import stmt as S
from tilewright.loopir.expr import Var, const
from tilewright.report.tree import DEEPEST, loop_tree


def flat(trees: list[dict[str, Any]], depth: int = 0) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for t in trees:
        found.append((depth, t))
        found += flat(t.get("children", []), depth + 1)
    return found


def test_how_loops_run_and_where_values_are_stored() -> None:
    a = te.placeholder((32, 64), name="A")
    b = te.compute((32, 64), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((32, 64), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    outer, inner = s[c].split(j, 16)
    s[c].parallel(i)
    s[c].vectorize(inner)
    s[b].set_scope("local")
    s[b].compute_at(s[c], outer)
    s[b].unroll(b.op.axis[1])
    rows = flat(loop_tree(schedule_to_func(s, [a, c])))
    loops = [(d, t["text"], t["extent"], t["how"]) for d, t in rows if t["kind"] == "loop"]
    assert loops == [
        (0, "i", 32, "parallel"),
        (1, "j_outer", 4, "serial"),
        (2, "j", 16, "unrolled"),
        (2, "j_inner", 16, "vectorized"),
    ]
    (memory,) = [t for _, t in rows if t["kind"] == "memory"]
    assert memory["how"] == "local" and memory["bytes"] == 64 and memory["text"].startswith("B: ")
    stores = {t["text"].split("[")[0]: t for _, t in rows if t["kind"] == "store"}
    assert stores["B"]["how"] == "local" and stores["C"]["how"] == "global"
    assert stores["B"]["runs"] == stores["C"]["runs"] == 32 * 64


def test_threads_and_conditions() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], 64)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    rows = flat(loop_tree(schedule_to_func(s, [a, b])))
    threads = {t["how"]: t for _, t in rows if t["kind"] == "thread"}
    assert threads["threadIdx.x"]["extent"] == 64 and threads["blockIdx.x"]["extent"] is None
    assert "n" in threads["blockIdx.x"]["size"]
    assert any(t["kind"] == "condition" and "< n" in t["text"] for _, t in rows)


def test_long_statements_are_cut() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: sum([a[i] * float(k) for k in range(100)], a[i]), name="B")
    rows = flat(loop_tree(schedule_to_func(te.create_schedule(b.op), [a, b])))
    (store,) = [t for _, t in rows if t["kind"] == "store"]
    assert len(store["text"]) == 160 and store["text"].endswith("...")


def test_trees_end_somewhere() -> None:
    body: Any = S.Evaluate(const(1))
    for k in range(2000):
        body = S.IfThenElse(Var(f"v{k}", "bool"), body)
    rows = flat(loop_tree(S.PrimFunc([], body)))
    assert len(rows) == DEEPEST + 2 and "not shown" in rows[-1][1]["text"]
