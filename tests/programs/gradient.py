"""te.gradient of a dense layer with a squared loss."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

X = te.placeholder((6, 5), name="X")
W = te.placeholder((4, 5), name="W")
k = te.reduce_axis((0, 5), "k")
Y = te.compute((6, 4), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="Y")
i, j = te.reduce_axis((0, 6), "i"), te.reduce_axis((0, 4), "j")
L = te.compute((1,), lambda _: te.sum(Y[i, j] * Y[i, j], axis=[i, j]), name="L")
dX, dW = te.gradient(L, [X, W])
s = te.create_schedule([dX.op, dW.op])
f = tvm.build(s, [X, W, dX, dW], "llvm")
x, w = np.random.rand(6, 5).astype("float32"), np.random.rand(4, 5).astype("float32")
gx = tvm.nd.empty(tuple(int(v) for v in dX.shape))
gw = tvm.nd.empty(tuple(int(v) for v in dW.shape))
f(tvm.nd.array(x), tvm.nd.array(w), gx, gw)
tvm.testing.assert_allclose(gx.numpy().reshape(6, 5), 2 * (x @ w.T) @ w, rtol=1e-4)
tvm.testing.assert_allclose(gw.numpy().reshape(4, 5), 2 * (x @ w.T).T @ x, rtol=1e-4)
