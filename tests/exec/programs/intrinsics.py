"""Math intrinsics, external functions, and an intrinsic with a lowering rule of the user's own."""

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.ir import register_intrin_lowering, register_op_attr

x = np.random.default_rng(0).uniform(0.1, 2.0, 1000).astype("float32")


def run(formula, vector=True):
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda i: formula(A[i]), name="B")
    s = te.create_schedule(B.op)
    if vector:
        _, inner = s[B].split(B.op.axis[0], factor=16)
        s[B].vectorize(inner)
    f = tvm.build(s, [A, B], "llvm", name="f")
    out = tvm.nd.array(np.zeros_like(x))
    f(tvm.nd.array(x), out)
    return out.numpy(), f


for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "floor", "ceil", "log2", "exp2", "atan"):
    got, _ = run(getattr(te, name))
    want = getattr(np, {"atan": "arctan"}.get(name, name))(x.astype("float64"))
    tvm.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
got, _ = run(te.sigmoid)
tvm.testing.assert_allclose(got, 1 / (1 + np.exp(-x.astype("float64"))), rtol=1e-5)
got, _ = run(lambda v: te.power(v, 2.5))
tvm.testing.assert_allclose(got, x.astype("float64") ** 2.5, rtol=1e-5)

got, f = run(lambda v: tvm.tir.call_pure_extern("float32", "cbrtf", v), vector=False)
tvm.testing.assert_allclose(got, np.cbrt(x), rtol=1e-5)
assert "cbrtf" in f.get_source()


def mylog(value):
    """customized log intrinsic function"""
    return tvm.tir.call_intrin(value.dtype, "tir.mylog", value)


def my_lowering_rule(op):
    assert isinstance(op, tvm.tir.Call) and op.op.name == "tir.mylog"
    return tvm.tir.log(op.args[0]) * tvm.tir.const(2, op.dtype)


register_op_attr("tir.mylog", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
register_intrin_lowering("tir.mylog", target="llvm", f=my_lowering_rule, level=99)
got, _ = run(mylog)
tvm.testing.assert_allclose(got, 2 * np.log(x.astype("float64")), rtol=1e-5, atol=1e-6)
