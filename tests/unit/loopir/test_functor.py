from __future__ import annotations

from typing import Any

import pytest

from tests.golden.listings import LISTINGS
from tilewright import tir
from tilewright.loopir.equal import structural_equal

x, y = tir.Var("x"), tir.Var("y")


def test_post_order_visit_sees_children_first_and_shared_nodes_once() -> None:
    shared = x + 1
    seen: list[Any] = []
    tir.stmt_functor.post_order_visit(shared * shared, seen.append)
    assert [str(s) for s in seen] == ["x", "1", "x + 1", "(x + 1) * (x + 1)"]


def test_pre_order_visit_can_stop() -> None:
    seen: list[str] = []

    def visit(node: Any) -> bool:
        seen.append(type(node).__name__)
        return not isinstance(node, tir.Mul)

    tir.stmt_functor.pre_order_visit(x * 2 + y, visit)
    assert seen == ["Add", "Mul", "Var"]


def test_ir_transform_before_and_after() -> None:
    body = LISTINGS["rfactor"]()["main"].body

    def double(e: Any) -> Any:
        return tir.FloatImm("float32", e.value + 1) if isinstance(e, tir.FloatImm) else None

    changed = tir.stmt_functor.ir_transform(body, None, double)
    assert str(changed) == str(body).replace("T.float32(0)", "T.float32(1)")
    only = tir.stmt_functor.ir_transform(body, None, double, ["tir.IntImm"])
    assert only is body

    def stop(s: Any) -> Any:
        return s if isinstance(s, tir.For) else None

    assert tir.stmt_functor.ir_transform(body, stop, double) is body
    with pytest.raises(ValueError, match="no node type 'Fro'"):
        tir.stmt_functor.ir_transform(body, None, double, ["tir.Fro"])


def test_substitute_and_undefined_vars() -> None:
    e = x * 2 + y
    assert str(tir.stmt_functor.substitute(e, {x: y + 1})) == "(y + 1) * 2 + y"
    assert tir.stmt_functor.substitute(e, {}) is e
    assert tir.analysis.undefined_vars(e, [x]) == [y]
    a = tir.decl_buffer((4,), "int32")
    z = tir.Var("z")
    loop = tir.For(x, 0, 4, 0, tir.BufferStore(a, x + y, [x]))
    assert tir.analysis.undefined_vars(loop) == [a.data, y]
    assert tir.analysis.undefined_vars(tir.Allocate(tir.decl_buffer((z,)), loop)) == [z, a.data, y]
    assert tir.analysis.undefined_vars(LISTINGS["split"]()["main"]) == []
    assert tir.analysis.undefined_vars(LISTINGS["bound to GPU threads"]()["main"]) == []


def test_substitute_in_the_extents_of_an_allocation() -> None:
    a = tir.decl_buffer((x, 2), name="A")
    body = tir.Allocate(a, tir.BufferStore(a, a[0, 0] + 1.0, [0, y]))
    changed = tir.stmt_functor.substitute(body, {x: tir.IntImm("int32", 8)})
    assert str(changed).splitlines()[0] == 'A = T.allocate([8, 2], "float32", "global")'
    assert changed.body.buffer is changed.buffer and changed.body.value.a.buffer is changed.buffer
    assert tir.stmt_functor.substitute(body, {tir.Var("x"): y}) is body
    assert tir.stmt_functor.substitute(body, {y: x}).buffer is a


def test_deep_chains() -> None:
    e: Any = x
    for _ in range(50_000):
        e = tir.Sub(y, e)
    swapped = tir.stmt_functor.substitute(e, {x: y, y: x})
    other: Any = y
    for _ in range(50_000):
        other = tir.Sub(x, other)
    assert structural_equal(swapped, other)
    count = 0

    def visit(node: Any) -> None:
        nonlocal count
        count += 1

    tir.stmt_functor.post_order_visit(e, visit)
    assert count == 50_002
