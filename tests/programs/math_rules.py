"""Intrinsic rules of the user's, extern C functions, int64 shapes."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

n = te.var("n", dtype="int64")
A = te.placeholder((n,), name="A")
B = te.compute(A.shape, lambda i: tvm.tir.call_pure_extern("float32", "cosf", A[i]), name="B")
s = te.create_schedule(B.op)
a = np.random.rand(50).astype("float32")


def run(s, B):
    f = tvm.build(s, [A, B], "llvm", name="mymath")
    b = tvm.nd.empty((50,))
    f(tvm.nd.array(a), b)
    return b.numpy()


tvm.testing.assert_allclose(run(s, B), np.cos(a), rtol=1e-5)


def mylog(x):
    return tvm.tir.call_intrin(x.dtype, "tir.mylog", x)


def my_llvm_mylog_rule(op):
    return tvm.tir.call_pure_extern("float32", "log%s" % "f", op.args[0])


tvm.ir.register_op_attr("tir.mylog", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
tvm.ir.register_intrin_lowering("tir.mylog", target="llvm", f=my_llvm_mylog_rule, level=99)
C = te.compute((n,), lambda *i: mylog(A(*i) + 1.0), name="C")
tvm.testing.assert_allclose(run(te.create_schedule(C.op), C), np.log(a + 1), rtol=1e-5, atol=1e-6)
