"""Functions for given values of parameters, and with new variables throughout."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import tir
from tilewright.base.errors import UsageError
from tilewright.loopir import expr as E
from tilewright.loopir.equal import assert_structural_equal, structural_equal
from tilewright.script import tir as T


@T.prim_func(private=True)
def scaled(a: T.handle, b: T.handle, n: T.int32, factor: T.float32):
    m = T.int32()
    A = T.match_buffer(a, (m, n))
    B = T.match_buffer(b, (m, n), strides=(n + 4, 1))
    for i, j in T.grid(m, n - 1):
        B[i, j] = A[i, j] * factor


def test_numbers_and_buffers() -> None:
    @T.prim_func(private=True)
    def wanted(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (16, 8))
        B = T.match_buffer(b, (16, 8), strides=(12, 1))
        for i, j in T.grid(16, 7):
            B[i, j] = A[i, j] * T.float32(0.5)

    a, _, n, factor = scaled.params
    given = tir.decl_buffer((16, 8))
    found = scaled.specialize({a: given, factor: 0.5})
    assert_structural_equal(found, wanted)
    assert found.buffer_map[found.params[0]].data is given.data
    by_number = scaled.specialize({n: 8, factor: 0.5})
    assert [p.name for p in by_number.params] == ["a", "b"]
    assert str(by_number.buffer_map[by_number.params[1]].strides) == "(12, 1)"
    assert scaled.specialize({}) is scaled


def test_a_pointer_into_another_array() -> None:
    @T.prim_func(private=True)
    def copy(p: T.handle("float32"), q: T.handle("float32")):
        A = T.decl_buffer(32, "float32", data=p)
        B = T.decl_buffer(16, "float32", data=q)
        for i in range(16):
            B[i] = A[i]

    first: Any = next(b for b in _buffers(copy.body) if b.data is copy.params[0])
    found = copy.specialize({copy.params[1]: tir.address_of(first[16])})
    assert [p.name for p in found.params] == ["p"]
    declared: Any = found.body
    let: Any = declared.body
    assert type(let) is tir.LetStmt and let.var is copy.params[1]
    value: Any = let.value
    assert value.args[0].buffer is declared.buffer


def _buffers(body: Any) -> list[Any]:
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        body, lambda e: found.append(e.buffer) if isinstance(e, E.BufferLoad) else None
    )
    return found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda p: {E.Var("z"): 1}, "z is no parameter"),
        (lambda p: {p[0]: tir.decl_buffer((4,))}, "ndim of a is 2"),
        (lambda p: {p[0]: tir.decl_buffer((4, 4), "int8")}, "dtype of a is float32"),
        (lambda p: {p[2]: tir.decl_buffer((4, 4))}, "does not fit the parameter n"),
        (lambda p: {p[2]: 4, p[0]: tir.decl_buffer((4, 5))}, "n is 4 and 5"),
        (lambda p: {p[1]: tir.decl_buffer((4, 5), strides=(6, 1))}, r"n \+ 4 in the description"),
    ],
)
def test_what_does_not_fit(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        scaled.specialize(given(scaled.params))


def test_new_definitions() -> None:
    found: Any = tir.stmt_functor.renew_defs(scaled)
    assert structural_equal(found, scaled)
    for was, now in zip(scaled.params, found.params):
        assert was is not now and was.name == now.name
    for before, after in zip(scaled.buffer_map.values(), found.buffer_map.values()):
        assert before.data is not after.data and before.shape[0] is not after.shape[0]
        assert after.data.type_annotation == before.data.type_annotation
    assert found.body.loop_var is not scaled.body.loop_var
    assert tir.stmt_functor.renew_defs(found) is not found
    assert not tir.analysis.undefined_vars(found.body, _known(found))


def _known(func: Any) -> list[Any]:
    buffers = func.buffer_map.values()
    return [*func.params, *(v for b in buffers for v in (b.data, *b.shape) if type(v) is E.Var)]
