"""Reverse-mode differentiation of a small layer, against finite differences."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

ROWS, INNER, OUT = 4, 6, 3
X = te.placeholder((ROWS, INNER), name="X", dtype="float64")
W = te.placeholder((OUT, INNER), name="W", dtype="float64")
k = te.reduce_axis((0, INNER), name="k")
Y = te.compute((ROWS, OUT), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="Y")
Z = te.compute((ROWS, OUT), lambda i, j: te.tanh(Y[i, j]), name="Z")
r = te.reduce_axis((0, ROWS), name="r")
c = te.reduce_axis((0, OUT), name="c")
L = te.compute((1,), lambda _: te.sum(Z[r, c] * Z[r, c], axis=[r, c]), name="L")

head = te.placeholder((1, 1), name="head", dtype="float64")
dX, dW = te.gradient(L, [X, W], head)
loss = tvm.build(te.create_schedule(L.op), [X, W, L], "llvm")
grad = tvm.build(te.create_schedule([dX.op, dW.op]), [X, W, head, dX, dW], "llvm")

rng = np.random.default_rng(0)
x, w = rng.standard_normal((ROWS, INNER)), rng.standard_normal((OUT, INNER))
gx, gw = np.zeros((1, ROWS, INNER)), np.zeros((1, OUT, INNER))
assert tuple(int(d) for d in dX.shape) == gx.shape
tgx, tgw = tvm.nd.array(gx), tvm.nd.array(gw)
grad(tvm.nd.array(x), tvm.nd.array(w), tvm.nd.array(np.ones((1, 1))), tgx, tgw)


def value(x, w):
    out = tvm.nd.array(np.zeros(1))
    loss(tvm.nd.array(x), tvm.nd.array(w), out)
    return out.numpy()[0]


def numeric(of, at):
    g = np.zeros_like(at)
    for index in np.ndindex(*at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-6
        g[index] = (of(at + step) - of(at - step)) / 2e-6
    return g


tvm.testing.assert_allclose(tgx.numpy()[0], numeric(lambda v: value(v, w), x), rtol=1e-5, atol=1e-7)
tvm.testing.assert_allclose(tgw.numpy()[0], numeric(lambda v: value(x, v), w), rtol=1e-5, atol=1e-7)
