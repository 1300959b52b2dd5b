"""Operations with several outputs: plain ones, reductions, caches of all outputs at once."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

m, n = te.var("m"), te.var("n")
A0 = te.placeholder((m, n), name="A0")
A1 = te.placeholder((m, n), name="A1")
B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
s = te.create_schedule(B0.op)
f = tvm.build(s, [A0, A1, B0, B1], "llvm")
a0, a1 = (np.random.default_rng(i).standard_normal((5, 7)).astype("float32") for i in range(2))
b0, b1 = (tvm.nd.array(np.zeros((5, 7), "float32")) for _ in range(2))
f(tvm.nd.array(a0), tvm.nd.array(a1), b0, b1)
tvm.testing.assert_allclose(b0.numpy(), a0 + 2)
tvm.testing.assert_allclose(b1.numpy(), a1 * 3)


def fcombine(x, y):
    return x[0] + y[0], te.max(x[1], y[1])


def fidentity(t0, t1):
    return tvm.tir.const(0, t0), te.min_value(t1)


sum_and_peak = te.comm_reducer(fcombine, fidentity, name="sum_and_peak")
M, N = 24, 36
A = te.placeholder((M, N), name="A")
k = te.reduce_axis((0, N), "k")
total, peak = te.compute((M,), lambda i: sum_and_peak((A[i, k], A[i, k]), axis=k), name="T")


def plain(s):
    pass


def cached(s):
    local = s.cache_write([total, peak], "local")
    io, _ = s[total].split(s[total].op.axis[0], factor=4)
    s[local[0]].compute_at(s[total], io)


def factored(s):
    _, ki = s[total].split(total.op.reduce_axis[0], factor=8)
    first, _ = s.rfactor([total, peak][0], ki)
    s[first].parallel(s[first].op.axis[0])


a = np.random.default_rng(3).standard_normal((M, N)).astype("float32")
for change in (plain, cached, factored):
    s = te.create_schedule(total.op)
    change(s)
    print(tvm.lower(s, [A, total, peak], simple_mode=True))
    f = tvm.build(s, [A, total, peak], "llvm")
    t, p = (tvm.nd.array(np.zeros(M, "float32")) for _ in range(2))
    f(tvm.nd.array(a), t, p)
    tvm.testing.assert_allclose(t.numpy(), a.sum(1), rtol=1e-4, atol=1e-5)
    tvm.testing.assert_allclose(p.numpy(), a.max(1))
