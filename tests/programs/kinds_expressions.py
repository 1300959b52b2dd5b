"""Expressions, statements, equality, JSON, visitors."""

import json

import pytest
import tvm
import tvm.testing
from tvm import te, tir
from tvm.ir import structural_equal


def test_const_and_make():
    x = tvm.tir.const(1, "int32")
    assert x.dtype == "int32" and isinstance(x, tvm.tir.IntImm) and x.value == 1
    y = te.var("y")
    z = x + y
    assert isinstance(z, tvm.tir.Add) and z.dtype == "int32"
    assert isinstance(tvm.tir.max(x, y), tvm.tir.Max)
    assert isinstance(tvm.tir.min(x, y), tvm.tir.Min)
    assert isinstance(y.equal(1), tvm.tir.EQ)
    assert str(tvm.tir.const(1.5, "float32")).find("1.5") >= 0
    assert tvm.tir.const(True).dtype == "bool"
    assert tvm.runtime.convert(10) == 10
    arr = tvm.runtime.convert([1, 2, 3])
    assert len(arr) == 3 and arr[1] == 2
    m = tvm.runtime.convert({"a": 1})
    assert m["a"] == 1
    s = tvm.runtime.convert("abc")
    assert s == "abc"


def test_let_attr_ifs():
    x = te.var("x")
    y = te.var("y")
    stmt = tvm.tir.LetStmt(x, 10, tvm.tir.Evaluate(x + 1))
    assert stmt.var.same_as(x) and stmt.value.value == 10
    at = tvm.tir.AttrStmt(y, "stride", 10, tvm.tir.Evaluate(x + 1))
    assert at.value.value == 10 and at.attr_key == "stride"
    it = tvm.tir.IfThenElse(x > 1, tvm.tir.Evaluate(1), tvm.tir.Evaluate(2))
    assert it.else_case is not None
    print(stmt, at, it)


def test_basic_ops_and_types():
    a = te.var("a")
    b = te.var("b")
    for e in (
        a + b,
        a - b,
        a * b,
        a // b,
        a % b,
        tvm.tir.truncdiv(a, b),
        tvm.tir.truncmod(a, b),
        tvm.tir.floordiv(a, b),
        tvm.tir.floormod(a, b),
        tvm.tir.indexdiv(a, b),
        tvm.tir.indexmod(a, b),
        a << 2,
        a >> 2,
        a & b,
        a | b,
        a ^ b,
        ~a,
        -a,
    ):
        assert e.dtype == "int32"
        str(e)
    f = te.var("f", "float32")
    assert (f * 2).dtype == "float32" and (f / 2).dtype == "float32" and (a + f).dtype == "float32"
    assert (a > b).dtype == "bool"
    assert tvm.tir.all(a > b, b > 1, a < 3).dtype == "bool"
    assert tvm.tir.any(a > b, b > 1).dtype == "bool"
    with pytest.raises((TypeError, tvm.TVMError)):
        a / b
    with pytest.raises(ValueError):
        if a < b:
            pass
    with pytest.raises(ValueError):
        bool(tvm.tir.all(a > b))
    assert (a == a) and a != b and (a != b)
    assert isinstance(tvm.tir.Cast("float32", a), tvm.tir.Cast)
    assert a.astype("float64").dtype == "float64"
    assert tvm.tir.Select(a > b, a, b).dtype == "int32"
    assert tvm.tir.Ramp(a, 1, 4).dtype == "int32x4"
    assert tvm.tir.Broadcast(f, 8).dtype == "float32x8"
    assert tvm.tir.Let(a, 3, a + 1).dtype == "int32"
    assert tvm.tir.Shuffle([tvm.tir.Broadcast(f, 2), tvm.tir.Broadcast(f, 2)], [0, 2]).dtype in (
        "float32x2",
    )
    assert a.equal(b).dtype == "bool"
    v = tvm.tir.Var("v", tvm.ir.PointerType(tvm.ir.PrimType("float32"), "global"))
    assert v.dtype == "handle"
    assert tvm.DataType("float32x4").lanes == 4 and tvm.DataType("float32x4").bits == 32


def test_math_folding():
    for name in [
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "sqrt",
        "rsqrt",
        "floor",
        "ceil",
        "trunc",
        "round",
        "nearbyint",
        "erf",
        "sigmoid",
    ]:
        x = te.var("x", "float32")
        y = getattr(te, name, None) or getattr(tvm.tir, name)
        r = y(x)
        assert r.dtype == "float32"
        if name in ("floor", "ceil", "trunc"):
            assert (
                y(tvm.tir.const(1.5, "float32")).value == {"floor": 1, "ceil": 2, "trunc": 1}[name]
            )
    assert te.abs(te.var("i")).dtype == "int32"
    assert te.power(te.var("x", "float32"), 2.0).dtype == "float32"
    assert te.fmod(te.var("x", "float32"), te.var("y", "float32")).dtype == "float32"
    assert te.popcount(te.var("x", "uint32")).dtype == "uint32"
    assert te.isnan(te.var("x", "float32")).dtype == "bool"
    assert te.isfinite(te.var("x", "float32")).dtype == "bool"
    assert te.isinf(te.var("x", "float32")).dtype == "bool"
    assert te.min_value("int8").value == -128 and te.max_value("int8").value == 127
    assert tir.atan2(te.var("x", "float32"), te.var("y", "float32")).dtype == "float32"
    assert tir.infinity("float32").dtype == "float32"
    assert tir.reinterpret("int32", te.var("x", "float32")).dtype == "int32"
    assert tir.clz(te.var("a")).dtype == "int32"
    assert te.div(te.var("a"), te.var("b")).dtype == "int32"


def test_structural_equal_and_json():
    x, y = te.var("x"), te.var("y")
    assert tvm.ir.structural_equal(x + 1, x + 1)
    assert not tvm.ir.structural_equal(x + 1, y + 1)
    assert tvm.ir.structural_equal(x + y, y + x, map_free_vars=True)
    assert tvm.ir.structural_hash(x + 1) == tvm.ir.structural_hash(x + 1)
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    mod = tvm.lower(te.create_schedule(B.op), [A, B])
    text = tvm.ir.save_json(mod)
    json.loads(text)
    back = tvm.ir.load_json(text)
    tvm.ir.assert_structural_equal(mod, back)
    tvm.ir.assert_structural_equal(mod["main"], back["main"], True)
    e = tvm.ir.load_json(tvm.ir.save_json(x * 3 + 2))
    assert isinstance(e, tvm.tir.Add)
    with pytest.raises(ValueError):
        tvm.ir.assert_structural_equal(x + 1, x + 2)
    assert structural_equal(tvm.tir.const(1, "int32"), tvm.tir.const(1, "int32"))


def test_stmt_functor():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + tvm.tir.exp(A[i]), name="B")
    mod = tvm.lower(te.create_schedule(B.op), [A, B])
    body = mod["main"].body
    seen = []
    tvm.tir.stmt_functor.post_order_visit(body, lambda x: seen.append(type(x).__name__))
    assert "For" in seen and "BufferStore" in seen and "BufferLoad" in seen and "Call" in seen
    names = []
    tvm.tir.stmt_functor.pre_order_visit(body, lambda x: names.append(type(x)) or True)  # type: ignore[func-returns-value]
    assert tvm.tir.For in names

    def post(op):
        if isinstance(op, tvm.tir.Call) and op.op.name == "tir.exp":
            return tvm.tir.log(op.args[0])
        if isinstance(op, tvm.tir.Call) and op.op.same_as(tvm.ir.Op.get("tir.exp")):
            raise AssertionError
        return None

    new = tvm.tir.stmt_functor.ir_transform(body, None, post, ["tir.Call"])
    assert "log" in str(new) and "exp" not in str(new)
    i = te.var("i")
    sub = tvm.tir.stmt_functor.substitute(i + 1, {i: n * 2})
    assert tvm.ir.structural_equal(sub, n * 2 + 1)
    x = te.var("x")
    ud = tvm.tir.analysis.undefined_vars(tvm.tir.Evaluate(x + i), [i])
    assert len(ud) == 1 and ud[0].same_as(x)
    assert tvm.tir.analysis.expr_deep_equal(x + 1, x + 1)
    assert tvm.tir.analysis.verify_ssa(tvm.tir.PrimFunc([x], tvm.tir.Evaluate(x + 1)))
    z = tvm.tir.LetStmt(
        i, 1, tvm.tir.SeqStmt([tvm.tir.LetStmt(i, 2, tvm.tir.Evaluate(i)), tvm.tir.Evaluate(i)])
    )
    assert not tvm.tir.analysis.verify_ssa(tvm.tir.PrimFunc([], z))
    assert tvm.tir.analysis.verify_memory(
        mod["main"].with_attr("target", tvm.target.Target("llvm"))
    )


if __name__ == "__main__":
    tvm.testing.main()
