"""Batched softmax: four stages fused into one parallel loop over rows.

python examples/07_softmax.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te


def main():
    m = te.var("m")
    n = 1000
    X = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), name="k")
    peak = te.compute((m,), lambda i: te.max(X[i, k], axis=k), name="peak")
    power = te.compute((m, n), lambda i, j: te.exp(X[i, j] - peak[i]), name="power")
    r = te.reduce_axis((0, n), name="r")
    total = te.compute((m,), lambda i: te.sum(power[i, r], axis=r), name="total")
    Y = te.compute((m, n), lambda i, j: power[i, j] / total[i], name="Y")

    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    _, ji = s[Y].split(j, factor=8)
    s[Y].vectorize(ji)
    s[Y].parallel(i)
    for stage in (peak, power, total):
        s[stage].compute_at(s[Y], i)
    _, pi = s[power].split(power.op.axis[1], factor=8)
    s[power].vectorize(pi)
    print(tvm.lower(s, [X, Y], simple_mode=True))
    func = tvm.build(s, [X, Y], "llvm", name="softmax")

    for rows in (1, 7, 64):
        x = np.random.default_rng(rows).standard_normal((rows, n)).astype("float32") * 5
        y = tvm.nd.array(np.zeros_like(x))
        func(tvm.nd.array(x), y)
        e = np.exp(x.astype("float64") - x.max(axis=1, keepdims=True))
        want = e / e.sum(axis=1, keepdims=True)
        tvm.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-7)
    print("softmax agrees with NumPy for 1, 7 and 64 rows")


if __name__ == "__main__":
    main()
