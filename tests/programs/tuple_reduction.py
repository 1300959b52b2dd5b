"""Argmax by comm_reducer of tuples, with rfactor, and a batch of two outputs."""

import numpy as np
import tvm
import tvm.testing
from tvm import te


def fcombine(x, y):
    lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
    rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
    return lhs, rhs


def fidentity(t0, t1):
    return tvm.tir.const(-1, t0), tvm.te.min_value(t1)


argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
m, n = te.var("m"), te.var("n")
idx = te.placeholder((m, n), name="idx", dtype="int32")
val = te.placeholder((m, n), name="val", dtype="float32")
k = te.reduce_axis((0, n), "k")
T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")

np_idx = np.repeat(np.arange(37, dtype="int32")[None, :], 11, axis=0)
np_val = np.random.rand(11, 37).astype("float32")


def check(s):
    f = tvm.build(s, [idx, val, T0, T1], "llvm")
    t0 = tvm.nd.empty((11,), "int32")
    t1 = tvm.nd.empty((11,), "float32")
    f(tvm.nd.array(np_idx), tvm.nd.array(np_val), t0, t1)
    np.testing.assert_array_equal(t0.numpy(), np_val.argmax(axis=1))
    tvm.testing.assert_allclose(t1.numpy(), np_val.max(axis=1))


s = te.create_schedule(T0.op)
print(tvm.lower(s, [idx, val, T0, T1], simple_mode=True))
check(s)
s = te.create_schedule(T0.op)
ko, ki = s[T0].split(T0.op.reduce_axis[0], factor=8)
F0, F1 = s.rfactor(T0, ki)
check(s)
