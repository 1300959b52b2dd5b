"""An LSTM cell over time with a scan of two states."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

T, B, H = 5, 3, 8
X = te.placeholder((T, B, 4, H), name="X")
W = te.placeholder((4, H, H), name="W")
s_state_h = te.placeholder((T + 1, B, H), name="h")
s_state_c = te.placeholder((T + 1, B, H), name="c")
s_init_c = te.compute((1, B, H), lambda *i: 0.0, name="init_c")
s_init_h = te.compute((1, B, H), lambda *i: 0.0, name="init_h")
k = te.reduce_axis((0, H), name="k")
s_h2h = te.compute(
    (T + 1, B, 4, H),
    lambda t, i, x, j: te.sum(s_state_h[t - 1, i, k] * W[x, j, k], axis=k),
    name="s_h2h",
)
gates = te.compute(
    (T + 1, B, 4, H), lambda t, i, x, j: X[t - 1, i, x, j] + s_h2h[t, i, x, j], name="gates"
)
gshape = (T + 1, B, H)
in_gate = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, i, 0, j]), name="in_gate")
in_t = te.compute(gshape, lambda t, i, j: te.tanh(gates[t, i, 1, j]), name="in_t")
forget = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, i, 2, j]), name="forget")
out_gate = te.compute(gshape, lambda t, i, j: te.sigmoid(gates[t, i, 3, j]), name="out_gate")
next_c = te.compute(
    gshape,
    lambda t, i, j: forget[t, i, j] * s_state_c[t - 1, i, j] + in_gate[t, i, j] * in_t[t, i, j],
    name="next_c",
)
next_h = te.compute(
    gshape, lambda t, i, j: out_gate[t, i, j] * te.tanh(next_c[t, i, j]), name="next_h"
)
update_c = te.compute(gshape, lambda *i: next_c(*i), name="update_c")
update_h = te.compute(gshape, lambda *i: next_h(*i), name="update_h")
scan_h, scan_c = tvm.te.scan(
    [s_init_h, s_init_c], [update_h, update_c], [s_state_h, s_state_c], inputs=[X], name="lstm"
)
s = te.create_schedule(scan_h.op)
s[gates].compute_inline()
for t in (in_gate, in_t, forget, out_gate):
    s[t].compute_inline()
print(tvm.lower(s, [X, W, scan_h, scan_c], simple_mode=True))
f = tvm.build(s, [X, W, scan_h, scan_c], "llvm")
x = np.random.randn(T, B, 4, H).astype("float32")
w = (np.random.randn(4, H, H) * 0.3).astype("float32")
h_out, c_out = tvm.nd.empty((T + 1, B, H)), tvm.nd.empty((T + 1, B, H))
f(tvm.nd.array(x), tvm.nd.array(w), h_out, c_out)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


h, c = np.zeros((B, H)), np.zeros((B, H))
for t in range(T):
    g = x[t] + np.einsum("ik,xjk->ixj", h, w)
    c = sigmoid(g[:, 2]) * c + sigmoid(g[:, 0]) * np.tanh(g[:, 1])
    h = sigmoid(g[:, 3]) * np.tanh(c)
    tvm.testing.assert_allclose(h_out.numpy()[t + 1], h, rtol=1e-4, atol=1e-5)
    tvm.testing.assert_allclose(c_out.numpy()[t + 1], c, rtol=1e-4, atol=1e-5)
