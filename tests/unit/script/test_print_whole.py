"""`node.script()`: nodes by themselves, with what they take from around them."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import ir, tir
from tilewright.script import tir as T
from tilewright.script.ir_builder import IRBuilder

a, b = tir.Var("a", "int32"), tir.Var("b", "int32")
half = tir.decl_buffer((128, 128), "float16", name="A")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (a + b, "a = T.int32()\nb = T.int32()\na + b"),
        (half[a, 128], 'A = T.Buffer((128, 128), "float16")\na = T.int32()\nA[a, 128]'),
        (half, 'A = T.Buffer((128, 128), "float16")\nA'),
        (half[64:128, 0:8], 'A = T.Buffer((128, 128), "float16")\nA[64:128, 0:8]'),
        (tir.SizeVar("n", "int64"), "n = T.int64(is_size_var=True)\nn"),
        (ir.Range(2, 10), "T.Range(2, 10)"),
        (tir.IterVar((0, 8), "a", 0), 'a = T.int32()\nT.iter_var(a, T.Range(0, 8), "DataPar", "")'),
        (ir.PrimType("float32"), "T.float32"),
        (ir.PointerType(ir.PrimType("int32"), "shared"), 'T.handle("int32", "shared")'),
        (ir.TupleType([ir.PrimType("bool")]), "T.Tuple(T.bool)"),
        (
            tir.CommReducer([a], [b], [a + b], [tir.const(0)]),
            "T.comm_reducer(lambda a, b: a + b, [0])",
        ),
        (tir.While(a < b, tir.Evaluate(a)), "a = T.int32()\nb = T.int32()\nwhile a < b:\n    "
         "T.evaluate(a)"),
        (
            tir.LetStmt(b, a, tir.Evaluate(b)),
            "a = T.int32()\nwith T.LetStmt(a) as b:\n    T.evaluate(b)",
        ),
    ],
)  # fmt: skip
def test_text(node: Any, text: str) -> None:
    assert node.script(verbose_expr=True) == text


def test_expressions_are_short_unless_asked(capsys: Any) -> None:
    assert (a + b).script() == "a + b"
    (a + b).show()
    assert capsys.readouterr().out == "a + b\n"
    pointer = tir.Var("p", ir.PointerType(ir.PrimType("float32"), "global"))
    assert tir.Evaluate(pointer).script().startswith('p = T.handle("float32", "global")\n')


def test_builders_name_many() -> None:
    with IRBuilder() as builder, T.grid(2, 3) as (i, j):
        assert builder.name_many(["row", "column"], [i, j]) == [i, j]
        T.evaluate(i + j)
    assert (
        builder.get().script() == "for row, column in T.grid(2, 3):\n    T.evaluate(row + column)"
    )


def test_slices_of_buffers() -> None:
    region = half[a : a + 4, 3]
    assert isinstance(region, tir.BufferRegion)
    assert [str(r.extent) for r in region.region] == ["a + 4 - a", "1"]
    vector = half[1, 0:8:2]
    assert isinstance(vector, tir.BufferLoad) and vector.dtype == "float16x4"


def test_functions_have_names_and_pointers_types() -> None:
    @T.prim_func
    def fill(p: T.handle("int32", "global")):
        A = T.decl_buffer((4,), "int32", data=p)
        A[0] = 1

    assert fill.__name__ == "fill"
    assert fill.params[0].type_annotation == ir.PointerType(ir.PrimType("int32"), "global")
    assert fill.with_attrs({"a": 1, "b": 2}).attrs["b"] == 2
    scoped = tir.Var("v", ir.PointerType(ir.PrimType("float32"), "local"))
    made = tir.Allocate(scoped, "float32", [10], tir.const(True), tir.Evaluate(1))
    assert made.buffer.scope() == "local"


class Tile:
    """What a macro of a class keeps."""

    def __init__(self, extent: int) -> None:
        self.extent = extent

    @T.macro
    def clear(self, x: Any) -> None:
        for i in range(self.extent):
            x[i] = 0


def test_macros_of_classes() -> None:
    tile = Tile(4)

    @T.prim_func
    def cleared(A: T.Buffer((8,), "int32")):
        tile.clear(A)

    assert "for i in range(4):" in cleared.script()
