"""Symbolic shapes: one compiled function for matrices of every size, and for strided ones.

python examples/10_symbolic.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te


def main():
    n, m, p = te.var("n"), te.var("m"), te.var("p")
    A = te.placeholder((n, p), name="A")
    B = te.placeholder((p, m), name="B")
    k = te.reduce_axis((0, p), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    io, jo, ii, ji = s[C].tile(i, j, 8, 16)
    s[C].reorder(io, jo, k, ii, ji)
    s[C].parallel(io)
    func = tvm.build(s, [A, B, C], "llvm", name="matmul")

    rng = np.random.default_rng(0)
    shapes = [(1, 1, 1), (7, 5, 3), (8, 16, 32), (33, 65, 17), (100, 1, 100), (64, 64, 0)]
    for rows, columns, inner in shapes:
        a = rng.standard_normal((rows, inner)).astype("float32")
        b = rng.standard_normal((inner, columns)).astype("float32")
        c = tvm.nd.array(np.ones((rows, columns), dtype="float32"))
        func(tvm.nd.array(a), tvm.nd.array(b), c)
        tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-3, atol=1e-4)
        print(f"({rows}, {inner}) x ({inner}, {columns}) agrees with NumPy")


if __name__ == "__main__":
    main()
