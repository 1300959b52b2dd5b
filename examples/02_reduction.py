"""Sums: the default loop nest, a split one, and one whose reduction is factored to run in parallel.

python examples/02_reduction.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te


def row_sum():
    n = te.var("n")
    m = te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return A, B


def default():
    A, B = row_sum()
    return te.create_schedule(B.op), A, B


def split():
    """Rows by 32, columns by 16; neither n nor m need be a multiple, so both are guarded."""
    A, B = row_sum()
    s = te.create_schedule(B.op)
    s[B].split(B.op.reduce_axis[0], factor=16)
    s[B].split(B.op.axis[0], factor=32)
    return s, A, B


def factored():
    """16 partial sums a row, computed side by side, then added: the order of additions changes,
    and only ``rfactor`` may change it."""
    A, B = row_sum()
    s = te.create_schedule(B.op)
    _, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    s[BF].parallel(s[BF].op.axis[0])
    return s, A, B


def product_of_rows():
    """A reducer of one's own: any associative function with an identity element."""
    n = te.var("n")
    m = te.var("m")
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="prod")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
    return te.create_schedule(B.op), A, B


def main():
    rng = np.random.default_rng(0)
    data = rng.uniform(0.5, 1.5, (37, 101)).astype("float32")
    cases = [(default, np.sum), (split, np.sum), (factored, np.sum), (product_of_rows, np.prod)]
    for make, reference in cases:
        s, A, B = make()
        print(f"# {make.__name__}\n{tvm.lower(s, [A, B], simple_mode=True)}")
        func = tvm.build(s, [A, B], "llvm")
        b = tvm.nd.array(np.zeros(37, dtype="float32"))
        func(tvm.nd.array(data), b)
        want = reference(data.astype("float64"), axis=1)
        tvm.testing.assert_allclose(b.numpy(), want, rtol=1e-5)
    print("all four agree with NumPy")


if __name__ == "__main__":
    main()
