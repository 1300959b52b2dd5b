"""Row norms whose sum of squares is factored, so that its additions become vector instructions.

    python examples/08_rfactor_norm.py

Floating-point additions are not reordered behind one's back: ``rfactor`` is how a schedule says
that they may be. With ``factor_axis=1`` the partial sums of a row lie next to each other.
"""

import numpy as np

import tilewright as tvm
from tilewright import te

ROWS, COLUMNS, LANES = 24, 1000, 16


def norms():
    A = te.placeholder((ROWS, COLUMNS), name="A")
    k = te.reduce_axis((0, COLUMNS), name="k")
    squares = te.compute((ROWS,), lambda i: te.sum(A[i, k] * A[i, k], axis=k), name="squares")
    norm = te.compute((ROWS,), lambda i: te.sqrt(squares[i]), name="norm")
    return A, squares, norm


def plain():
    A, _, norm = norms()
    return te.create_schedule(norm.op), [A, norm]


def factored():
    A, squares, norm = norms()
    s = te.create_schedule(norm.op)
    _, ki = s[squares].split(squares.op.reduce_axis[0], factor=LANES)
    partial = s.rfactor(squares, ki, factor_axis=1)
    i, lane = s[partial].op.axis
    s[partial].reorder(i, s[partial].op.reduce_axis[0], lane)
    s[partial].vectorize(lane)
    s[partial].compute_at(s[squares], s[squares].op.axis[0])
    s[squares].compute_at(s[norm], norm.op.axis[0])
    return s, [A, norm]


def main():
    data = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("float32")
    want = np.linalg.norm(data.astype("float64"), axis=1)
    a = tvm.nd.array(data)
    for make in (plain, factored):
        s, args = make()
        func = tvm.build(s, args, "llvm", name="norm")
        out = tvm.nd.array(np.zeros(ROWS, dtype="float32"))
        func(a, out)
        tvm.testing.assert_allclose(out.numpy(), want, rtol=1e-5)
        seconds = func.time_evaluator(func.entry_name, tvm.cpu(0), number=200)(a, out).mean
        print(f"{make.__name__:<10}{seconds * 1e6:8.2f} us")
    print(tvm.lower(s, args, simple_mode=True))


if __name__ == "__main__":
    main()
