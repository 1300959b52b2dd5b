"""Depthwise, dilated and transposed convolutions in te."""

import numpy as np
import tvm
import tvm.testing
from tvm import te


def run(s, args, arrays):
    f = tvm.build(s, args, "llvm")
    out = tvm.nd.array(np.zeros([int(x) for x in args[-1].shape], args[-1].dtype))
    f(*[tvm.nd.array(x) for x in arrays], out)
    return out.numpy()


C, H, W = 4, 12, 10
X = te.placeholder((C, H, W), name="X")
K = te.placeholder((C, 3, 3), name="K")
x = np.random.rand(C, H, W).astype("float32")
w = np.random.rand(C, 3, 3).astype("float32")
pad = te.compute(
    (C, H + 2, W + 2),
    lambda c, i, j: te.if_then_else(
        te.all(i >= 1, i < H + 1, j >= 1, j < W + 1), X[c, i - 1, j - 1], 0.0
    ),
    name="pad",
)
di, dj = te.reduce_axis((0, 3), "di"), te.reduce_axis((0, 3), "dj")
Y = te.compute(
    (C, H, W), lambda c, i, j: te.sum(pad[c, i + di, j + dj] * K[c, di, dj], axis=[di, dj]), "Y"
)
s = te.create_schedule(Y.op)
ho, wo, hi, wi = s[Y].tile(Y.op.axis[1], Y.op.axis[2], 5, 4)
s[pad].compute_at(s[Y], wo)
s[Y].unroll(dj)
s[Y].vectorize(wi)
px = np.pad(x, ((0, 0), (1, 1), (1, 1)))
want = sum(
    px[:, a : a + H, b : b + W] * w[:, a, b][:, None, None] for a in range(3) for b in range(3)
)
tvm.testing.assert_allclose(run(s, [X, K, Y], [x, w]), want, rtol=1e-4)

D = te.compute(
    (C, H - 4, W - 4),
    lambda c, i, j: te.sum(X[c, i + di * 2, j + dj * 2] * K[c, di, dj], axis=[di, dj]),
    name="D",
)
want = sum(
    x[:, 2 * a : 2 * a + H - 4, 2 * b : 2 * b + W - 4] * w[:, a, b][:, None, None]
    for a in range(3)
    for b in range(3)
)
tvm.testing.assert_allclose(run(te.create_schedule(D.op), [X, K, D], [x, w]), want, rtol=1e-4)

up = te.compute(
    (C, 2 * H + 3, 2 * W + 3),
    lambda c, i, j: te.if_then_else(
        te.all(
            i >= 2,
            j >= 2,
            i < 2 * H + 1,
            j < 2 * W + 1,
            te.indexmod(i, 2) == 0,
            te.indexmod(j, 2) == 0,
        ),
        X[c, te.indexdiv(i - 2, 2), te.indexdiv(j - 2, 2)],
        tvm.tir.const(0, "float32"),
    ),
    name="up",
)
T = te.compute(
    (C, 2 * H + 1, 2 * W + 1),
    lambda c, i, j: te.sum(up[c, i + di, j + dj] * K[c, 2 - di, 2 - dj], axis=[di, dj]),
    name="T",
)
s = te.create_schedule(T.op)
s[up].compute_inline()
want = np.zeros((C, 2 * H + 1, 2 * W + 1), "float32")
for i in range(H):
    for j in range(W):
        want[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += x[:, i, j][:, None, None] * w
tvm.testing.assert_allclose(run(s, [X, K, T], [x, w]), want, rtol=1e-4)
