"""Nodes, operators and folding; walks and rewriters; buffers."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.golden.listings import LISTINGS
from tests.golden.test_printer import kitchen_sink
from tests.narrow import as_a, value_of
from tilewright.base.errors import TilewrightError
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.fold import fold_binary, round_float, sticky_float, wrap_int
from tilewright.loopir.iter import IterVar, Range
from tilewright.loopir.module import IRModule
from tilewright.loopir.names import Names, legal_name
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.loopir.subst import substitute
from tilewright.loopir.visit import children, free_vars, nodes, post_order_visit, tree_size, walk

i, j = E.Var("i"), E.Var("j")
x = E.Var("x", "float32")


def test_operands_come_to_one_type() -> None:
    cases: list[tuple[Any, str]] = [
        (i + x, "float32"),
        (x + E.Var("d", "float64"), "float64"),
        (E.Var("h", "float16") + E.Var("b", "bfloat16"), "float32"),
        (i + E.Var("l", "int64"), "int64"),
        (i + E.Var("u", "uint32"), "uint32"),
        (E.Var("u", "uint64") + 1, "uint64"),
        (E.Var("a", "uint8") + E.Var("b", "uint16"), "uint16"),
        (E.Var("a", "int8") + 1, "int32"),
        (E.Var("a", "float16") + 1.0, "float32"),
        (E.Var("a", "int8") + 300, "int32"),
        (E.Var("a", "float16") * 2, "float16"),
        (E.Var("a", "bool") + i, "int32"),
        (x + E.Var("v", "float32x4"), "float32x4"),
        (i < x, "bool"),
        (1 - i, "int32"),
        (2 // i, "int32"),
        (2 % i, "int32"),
        (2.0 / x, "float32"),
        (2 * x, "float32"),
        (1 << i, "int32"),
        (8 >> i, "int32"),
        (3 & i, "int32"),
        (3 | i, "int32"),
        (3 ^ i, "int32"),
        (i >= 2, "bool"),
        (i <= 2, "bool"),
        (i > 2, "bool"),
    ]
    for e, dtype in cases:
        assert e.dtype == dtype, str(e)
    with pytest.raises(TilewrightError, match="different lanes: int32x2 and int32x4"):
        _ = E.Ramp(i, 1, 2) + E.Ramp(i, 1, 4)
    with pytest.raises(TilewrightError, match="do not match: handle and int32"):
        _ = E.Var("p", "handle") + i
    with pytest.raises(TypeError, match="cannot use"):
        _ = i + object()  # type: ignore[operator]


def test_nodes_take_plain_numbers() -> None:
    axis = IterVar((0, 4), "k", IterVar.CommReduce)
    for kind in (E.Add, E.Min, E.FloorDiv, E.EQ, E.LT):
        for a, b in ((i, 3), (3, i), (axis, 3), (axis, axis)):
            e = kind(a, b)
            assert isinstance(e.a, E.PrimExpr) and isinstance(e.b, E.PrimExpr)
            assert e.a.dtype == e.b.dtype == "int32"
    assert E.Mul(x, 2).b.dtype == "float32" and E.Not(False).a.dtype == "bool"
    assert E.And(i < 3, True).b.dtype == "bool"


def test_units_and_zeros_disappear() -> None:
    assert i + 0 is i and 0 + i is i and i - 0 is i and i * 1 is i and 1 * i is i and i // 1 is i
    assert E.is_const(i * 0, 0) and E.is_const(0 * i, 0)
    assert isinstance(x + 0.0, E.Add)  # -0.0 + 0.0 is not -0.0
    assert isinstance(x * 0.0, E.Mul)  # nor is NaN * 0 zero


def test_equality_is_an_expression_and_identity() -> None:
    assert i == i and bool(i == j) is False and i != j and i in [j, i]
    assert isinstance(i == j, E.EQ) and isinstance(i.equal(j), E.EQ)
    assert (i == "text") is False and (i != object()) is True
    assert E.StringImm("a") == "a" and E.StringImm("a") != "b"
    with pytest.raises(ValueError, match="Cannot use and / or / not / if"):
        bool(i < j)
    axis = IterVar((0, 4), "k", IterVar.CommReduce)
    assert axis == axis and isinstance(axis == 3, E.EQ) and axis.dtype == "int32"
    with pytest.raises(TypeError, match="strings are not compared"):
        _ = i < "a"  # type: ignore[operator]


def test_constants() -> None:
    assert E.const(2**40).dtype == "int64" and E.const(True).dtype == "bool"
    assert E.const(np.float16(1.5)).dtype == "float16" and E.const(np.int8(3)).dtype == "int8"
    assert E.const(3, "float32x4").dtype == "float32x4"
    seven: Any = E.const(7)
    two: Any = E.const(2)
    wide: Any = E.const(1.5)
    assert int(seven) == 7 and list(range(4))[two] == 2 and float(wide) == 1.5
    assert bool(E.const(0)) is False and bool(E.const(0.5)) is True
    assert value_of(E.cast("int32", E.const(2.9))) == 2
    assert isinstance(E.cast("int8", E.const(1000.0)), E.Cast)  # saturates at run time
    assert E.cast("float32x2", i).dtype == "float32x2"
    assert isinstance(E.cast("int8x2", E.Broadcast(i, 2)), E.Broadcast)
    with pytest.raises(TilewrightError, match="lanes differ"):
        E.cast("int32x2", E.Ramp(i, 1, 4))
    with pytest.raises(TilewrightError, match="handle has no constants"):
        E.const(0, "handle")
    with pytest.raises(TypeError, match="cannot make a constant"):
        E.const(None)
    assert (
        (-x).dtype == "float32"
        and value_of(-E.const(1.5)) == -1.5
        and value_of(as_a(E.Mul, -i).b) == -1
    )
    assert i.astype("int64").dtype == "int64"


def test_folding_agrees_with_numpy() -> None:
    rng = random.Random(1)
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum}
    more = {"max": np.maximum, "floordiv": np.floor_divide, "floormod": np.remainder}
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"):
        info = np.iinfo(dtype)
        for _ in range(300):
            a, b = (rng.choice([info.min, info.max, 0, 1, rng.randint(-9, 9)]) for _ in "ab")
            a, b = wrap_int(dtype, a), wrap_int(dtype, b)
            for name, f in {**functions, **more}.items():
                got = fold_binary(name, dtype, a, b)
                if "floor" in name and b == 0:
                    assert got is None
                    continue
                with np.errstate(all="ignore"):
                    wanted = f(np.array(a, dtype), np.array(b, dtype))
                if got is None:
                    assert dtype == "int32"  # signed overflow stays in the program
                else:
                    assert got == wanted, (name, dtype, a, b)


def test_floats_round_once() -> None:
    assert round_float("bfloat16", 1 + 2**-8 + 2**-40) == 1 + 2**-7
    assert round_float("bfloat16", 1 + 2**-8) == 1.0
    assert round_float("bfloat16", -(1 + 2**-8 + 2**-40)) == -(1 + 2**-7)
    assert round_float("bfloat16", 1e39) == float("inf")
    rng = random.Random(2)
    for _ in range(500):
        value = rng.uniform(-1, 1) * 2.0 ** rng.randint(-140, 120)
        near = float(np.float32(value).astype(ml_dtypes.bfloat16))
        got = round_float("bfloat16", value)
        assert abs(got - value) <= abs(near - value)
    big = 2**60 + 2**36 + 1
    assert np.float32(sticky_float(big)) == np.float32(2**60 + 2**37)
    assert sticky_float(2**53) == 2.0**53 and sticky_float(-big) == -sticky_float(big)
    assert value_of(E.cast("float32", E.const(big))) == 2**60 + 2**37
    assert fold_binary("div", "float32", 1.0, 0.0) is None
    assert str(fold_binary("min", "float32", float("nan"), 1.0)) == "nan"
    assert str(fold_binary("min", "float32", 0.0, -0.0)) == "-0.0"
    assert str(fold_binary("max", "float32", 0.0, -0.0)) == "0.0"


def test_buffers() -> None:
    a = decl_buffer((4, 8), name="A")
    assert a.scope() == "global" and a.ndim == 2 and a.with_(name="B").data is a.data
    assert [str(e) for e in a.offset_of((i, j))] == ["i * 8 + j"]
    apart = decl_buffer((4, 16, 8), axis_separators=[2], elem_offset=3)
    assert [str(e) for e in apart.offset_of((1, i, j))] == ["16 + i", "3 + j"]
    strided = decl_buffer((4, 8), name="S", strides=(16, 2), elem_offset=3)
    assert str(strided.element_offset((i, j))) == "3 + i * 16 + j * 2"
    assert E.const_int(decl_buffer(()).element_offset(())) == 0
    with pytest.raises(TilewrightError, match="A has 2 dimensions, got 1 indices"):
        a.offset_of((i,))
    assert str(a.vload((i, 0), "float32x4")) == "A[i, 0:4]"
    assert str(S.vstore(a, (0, 0), a.vload((i, 0), "float32x4"))).endswith("A[0, 0:4] = A[i, 0:4]")
    assert str(decl_buffer(4, name="V").vload(0)) == "V[0]"
    assert str(decl_buffer(4, name="V", offset_factor=4).elem_offset) == "V_elem_offset"
    assert repr(a) == "Buffer(A: float32[4, 8], global)"
    pointer = as_a(E.Call, a.access_ptr("rw", content_lanes=4, offset=8, extent=4))
    assert [str(v) for v in pointer.args[2:]] == ["2", "4", "3"]
    assert pointer.dtype == "handle" and pointer.args[0].dtype == "float32x4"
    whole = as_a(E.Call, a.access_ptr("w", "int64", content_lanes=8))
    assert whole.dtype == "int64" and [str(v) for v in whole.args[2:]] == ["0", "4", "2"]
    plain = as_a(E.Call, a.access_ptr("r", offset=5))
    assert [str(v) for v in plain.args[2:]] == ["5", "27", "1"]


def test_ranges() -> None:
    assert str(Range(4)) == "T.Range(0, 4)" and str(Range(2, i)) == "T.Range(2, 2 + (i - 2))"
    assert Range(E.const(4, "int64")).min.dtype == "int64"
    assert Range.from_min_extent(i, 3).extent.value == 3
    assert (
        IterVar(Range(4), "k", 0).var.name == "k" and str(IterVar(8, i, 2).dom) == "T.Range(0, 8)"
    )


def test_statements() -> None:
    s = S.seq(S.no_op(), [S.SeqStmt([S.Evaluate(op.ret(i))])], None)
    assert isinstance(s, S.Evaluate) and S.is_no_op(S.seq())
    assert S.is_no_op(None) and S.is_no_op(S.SeqStmt([])) and not S.is_no_op(s)
    two = S.seq(s, s)
    assert isinstance(two, S.SeqStmt) and len(two) == 2 and two[0] is s and list(two) == [s, s]
    f = S.PrimFunc([i], s)
    assert f.with_body(s) is f and f.with_attr("a", 1).attrs == {"a": 1} and f.name == "main"
    loop = S.For(i, 0, 4, 0, s)
    assert loop.with_body(s) is loop and loop.with_body(two).body is two
    assert IRModule({"f": f})["f"] is f and "def main" in f.script()


@pytest.mark.parametrize("make", [*LISTINGS.values(), kitchen_sink])
def test_a_rewriter_without_changes_returns_the_same_object(make: Any) -> None:
    program = make()
    body = (program["main"] if isinstance(program, IRModule) else program).body
    assert Rewriter().stmt(body) is body
    assert substitute(body, {}) is body

    class Renew(Rewriter):
        @handles(E.Var, E.SizeVar)
        def _var(self, e: E.Var) -> Any:
            return table.setdefault(e, E.Var(e.name + "_new", e.dtype))

    table: dict[Any, Any] = {}
    changed = Renew().stmt(body)
    read = {v.name for v in nodes(changed) if isinstance(v, E.Var)}
    assert changed is not body and all(name.endswith("_new") for name in read)


def test_walks() -> None:
    shared = i * 2
    e = shared + shared + x
    assert [type(n).__name__ for n in walk(shared)] == ["Mul", "Var", "IntImm"]
    assert sum(n is shared for n in walk(e)) == 2 and sum(n is shared for n in nodes(e)) == 1
    seen: list[Any] = []
    post_order_visit(e, seen.append)
    assert seen.index(i) < seen.index(shared) < len(seen) - 1 and seen[-1] is e
    assert tree_size(e) == len(list(walk(e)))
    assert free_vars(e) == [i, x]
    assert free_vars(E.Let(i, j, i + x)) == [j, x]
    assert children(E.Select(i < 3, i, j))[2] is j


def test_names() -> None:
    names = Names()
    a, b, c, d = (object() for _ in range(4))
    assert (names.define(a, "x"), names.define(b, "x"), names.define(c, "x_1")) == (
        "x",
        "x_1",
        "x_1_1",
    )
    mark = names.mark()
    assert names.define(d, "x") == "x_2"
    names.alias(a, "y.data")
    assert names.get(a) == "y.data"
    names.release(mark)
    assert names.get(a) == "x" and names.get(d) is None
    assert names.define(d, "x") == "x_2"
    assert legal_name("a.b") == "a_b" and legal_name("9") == "_9"
    assert Names().define(a, "lambda") == "lambda_1"


def test_statements_with_other_parts_keep_the_rest() -> None:
    buffer, i = decl_buffer((4,), "float32", "A"), E.Var("i")
    body = S.BufferStore(buffer, 1.0, [i])
    for s in (
        S.For(i, 0, 4, S.ForKind.VECTORIZED, body, annotations={"a": 1}),
        S.Allocate(buffer, body, {"a": 1}),
        S.AttrStmt(buffer, "key", 1, body),
        S.IfThenElse(i < 2, body, body),
        S.LetStmt(i, 1, body),
        body,
    ):
        parts = {name: getattr(s, name) for name in type(s)._fields}
        assert s.with_parts(**parts) is s
        last = "value" if s is body else "then_case" if isinstance(s, S.IfThenElse) else "body"
        new = E.const(2.0, "float32") if s is body else S.no_op()
        made = s.with_parts(**{last: new})
        assert type(made) is type(s) and getattr(made, last) is new
        for name in parts.keys() - {last}:
            kept = getattr(made, name)
            assert kept is parts[name] or kept == parts[name]
