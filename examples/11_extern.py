"""Stages that are not formulas: a loop nest written by hand, and a call back into Python.

python examples/11_extern.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te

N, BINS = 1000, 16


def histogram(values, counts):
    """Counts of the values 0..15, as loop IR: a scatter, which no formula over outputs can say."""
    ib = tvm.tir.ir_builder.create()
    source = ib.buffer_ptr(values)
    target = ib.buffer_ptr(counts)
    with ib.for_range(0, BINS, name="b") as b:
        target[b] = tvm.tir.const(0, "int32")
    with ib.for_range(0, N, name="i") as i:
        target[source[i]] = target[source[i]] + 1
    return ib.get()


@tvm.register_func("example.sort_descending")
def sort_descending(x, y):
    """Called by compiled code with the arrays of its arguments."""
    y.copyfrom(-np.sort(-x.numpy()))


def main():
    values = te.placeholder((N,), name="values", dtype="int32")
    counts = te.extern(
        (BINS,),
        [values],
        lambda ins, outs: histogram(ins[0], outs[0]),
        dtype="int32",
        name="counts",
    )
    ordered = te.extern(
        (BINS,),
        [counts],
        lambda ins, outs: tvm.tir.call_packed("example.sort_descending", ins[0], outs[0]),
        dtype="int32",
        name="ordered",
    )
    share = te.compute((BINS,), lambda i: ordered[i].astype("float32") / float(N), name="share")
    s = te.create_schedule(share.op)
    func = tvm.build(s, [values, share], "llvm", name="histogram")

    data = np.random.default_rng(0).integers(0, BINS, N).astype("int32")
    out = tvm.nd.array(np.zeros(BINS, dtype="float32"))
    func(tvm.nd.array(data), out)
    want = np.sort(np.bincount(data, minlength=BINS))[::-1] / N
    tvm.testing.assert_allclose(out.numpy(), want, rtol=1e-6)
    print("histogram by loops, sorted in Python, scaled by a formula: agrees with NumPy")


if __name__ == "__main__":
    main()
