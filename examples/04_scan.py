"""Recurrences with te.scan: a cumulative sum, and a recurrent network's cell run over time.

python examples/04_scan.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te


def cumulative_sum():
    m = te.var("m")
    n = te.var("n")
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(init, update, state, inputs=[X], name="total")

    s = te.create_schedule(total.op)
    _, xi = s[update].split(update.op.axis[1], factor=8)
    s[update].vectorize(xi)
    print(tvm.lower(s, [X, total], simple_mode=True))
    func = tvm.build(s, [X, total], "llvm")

    data = np.random.default_rng(0).standard_normal((50, 21)).astype("float32")
    out = tvm.nd.array(np.zeros_like(data))
    func(tvm.nd.array(data), out)
    tvm.testing.assert_allclose(out.numpy(), np.cumsum(data, axis=0), rtol=1e-4, atol=1e-5)
    print("cumulative sum agrees with NumPy")


def recurrent_cell():
    """h[t] = tanh(X[t] + W h[t - 1]): the update has a stage of its own for the product."""
    steps, batch, hidden = 12, 3, 40
    X = te.placeholder((steps, batch, hidden), name="X")
    W = te.placeholder((hidden, hidden), name="W")
    state = te.placeholder((steps, batch, hidden), name="state")
    init = te.compute((1, batch, hidden), lambda _, b, i: te.tanh(X[0, b, i]), name="init")
    k = te.reduce_axis((0, hidden), name="k")
    product = te.compute(
        (steps, batch, hidden),
        lambda t, b, i: te.sum(state[t - 1, b, k] * W[i, k], axis=k),
        name="product",
    )
    update = te.compute(
        (steps, batch, hidden),
        lambda t, b, i: te.tanh(X[t, b, i] + product[t, b, i]),
        name="update",
    )
    h = te.scan(init, update, state, inputs=[X, W], name="h")

    s = te.create_schedule(h.op)
    s[product].compute_at(s[update], update.op.axis[1])
    func = tvm.build(s, [X, W, h], "llvm")

    rng = np.random.default_rng(1)
    x = rng.standard_normal((steps, batch, hidden)).astype("float32")
    w = (rng.standard_normal((hidden, hidden)) / np.sqrt(hidden)).astype("float32")
    out = tvm.nd.array(np.zeros_like(x))
    func(tvm.nd.array(x), tvm.nd.array(w), out)
    want = np.zeros_like(x)
    want[0] = np.tanh(x[0])
    for t in range(1, steps):
        want[t] = np.tanh(x[t] + want[t - 1] @ w.T)
    tvm.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-5)
    print("recurrent cell agrees with NumPy over", steps, "steps")


if __name__ == "__main__":
    cumulative_sum()
    recurrent_cell()
