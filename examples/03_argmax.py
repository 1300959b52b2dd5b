"""argmax: a reduction over pairs (index, value), which gives two outputs.

python examples/03_argmax.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te


def fcombine(x, y):
    """The pair with the larger value; the left one where they are equal."""
    lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
    rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
    return lhs, rhs


def fidentity(t0, t1):
    """Index -1 with the least value of the type: it loses to everything."""
    return tvm.tir.const(-1, t0), te.min_value(t1)


def main():
    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    m = te.var("m")
    n = te.var("n")
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="float32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")

    s = te.create_schedule(T0.op)
    print(tvm.lower(s, [idx, val, T0, T1], simple_mode=True))
    func = tvm.build(s, [idx, val, T0, T1], "llvm")

    rng = np.random.default_rng(0)
    rows, columns = 33, 127
    values = rng.standard_normal((rows, columns)).astype("float32")
    indices = np.tile(np.arange(columns, dtype="int32"), (rows, 1))
    t0 = tvm.nd.array(np.zeros(rows, dtype="int32"))
    t1 = tvm.nd.array(np.zeros(rows, dtype="float32"))
    func(tvm.nd.array(indices), tvm.nd.array(values), t0, t1)
    np.testing.assert_array_equal(t0.numpy(), values.argmax(axis=1))
    tvm.testing.assert_allclose(t1.numpy(), values.max(axis=1))
    print("argmax of", rows, "rows agrees with NumPy")


if __name__ == "__main__":
    main()
