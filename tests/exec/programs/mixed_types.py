"""Integer and narrow float types, casts, selects, zero-dimensional tensors."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

rng = np.random.default_rng(0)


def run(args, *arrays):
    f = tvm.build(te.create_schedule(args[-1].op), list(args), "llvm")
    shape = tuple(int(d) for d in args[-1].shape)
    out = tvm.nd.array(np.zeros(shape, args[-1].dtype))
    f(*(tvm.nd.array(a) for a in arrays), out)
    return out.numpy()


N = 33
A = te.placeholder((N, N), name="A", dtype="int8")
B = te.placeholder((N, N), name="B", dtype="int8")
k = te.reduce_axis((0, N), name="k")
C = te.compute(
    (N, N),
    lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k),
    name="C",
)
a, b = (rng.integers(-128, 127, (N, N)).astype("int8") for _ in range(2))
np.testing.assert_array_equal(run([A, B, C], a, b), a.astype("int32") @ b.astype("int32").T)

H = te.placeholder((N,), name="H", dtype="float16")
D = te.compute((N,), lambda i: (H[i].astype("float32") * 2 + 1).astype("float16"), name="D")
h = rng.standard_normal(N).astype("float16")
np.testing.assert_array_equal(run([H, D], h), (h.astype("float32") * 2 + 1).astype("float16"))

S = te.compute((N,), lambda i: tvm.tir.Select(H[i] > 0, H[i], -H[i]), name="S")
np.testing.assert_array_equal(run([H, S], h), np.abs(h))

J = te.placeholder((N,), name="J", dtype="int32")
Q = te.compute((N,), lambda i: te.floordiv(J[i], 7) * 7 + te.floormod(J[i], 7), name="Q")
R = te.compute((N,), lambda i: te.truncdiv(J[i], 7) * 100 + te.truncmod(J[i], 7), name="R")
i = np.arange(N, dtype="int32") - N // 2
np.testing.assert_array_equal(run([J, Q], i), i)
np.testing.assert_array_equal(run([J, R], i), np.trunc(i / 7) * 100 + np.fmod(i, 7))

U = te.placeholder((N,), name="U", dtype="uint8")
V = te.compute((N,), lambda i: ((U[i] << 1) ^ (U[i] >> 3)).astype("uint8"), name="V")
u = rng.integers(0, 255, N).astype("uint8")
np.testing.assert_array_equal(run([U, V], u), (u << 1) ^ (u >> 3))

P = te.placeholder((), name="P")
X = te.placeholder((N,), name="X")
Y = te.compute((N,), lambda i: X[i] * P(), name="Y")
x = rng.standard_normal(N).astype("float32")
tvm.testing.assert_allclose(run([P, X, Y], np.array(1.5, "float32"), x), x * 1.5)
z = te.reduce_axis((0, N), name="z")
T = te.compute((), lambda: te.max(X[z], axis=z), name="T")
assert run([X, T], x) == x.max()

E = X * 2.0 + X
tvm.testing.assert_allclose(run([X, E], x), x * 3, rtol=1e-6)
G = te.compute((N,), lambda i: X[tvm.te.max(tvm.te.min(J[i], N - 1), 0)], name="G")
np.testing.assert_array_equal(run([X, J, G], x, i), x[np.clip(i, 0, N - 1)])
