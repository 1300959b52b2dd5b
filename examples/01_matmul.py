"""A matrix product, made fast step by step: block, vectorise, reorder, pack, cache, parallelise.

    python examples/01_matmul.py [SIZE]

Every step is the same computation under another schedule. Each one is checked against NumPy and
timed; the last column compares with the default schedule.
"""

import sys

import numpy as np

import tilewright as tvm
from tilewright import te

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 256
BN = 32
KFACTOR = 4


def product():
    """C = A B, as a formula; how to compute it is for the schedule to say."""
    k = te.reduce_axis((0, SIZE), "k")
    A = te.placeholder((SIZE, SIZE), name="A")
    B = te.placeholder((SIZE, SIZE), name="B")
    C = te.compute((SIZE, SIZE), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    return A, B, C


def packed_product():
    """The same, reading B through an array in which each block's columns are contiguous."""
    k = te.reduce_axis((0, SIZE), "k")
    A = te.placeholder((SIZE, SIZE), name="A")
    B = te.placeholder((SIZE, SIZE), name="B")
    packed = te.compute((SIZE // BN, SIZE, BN), lambda bn, kk, n: B[kk, bn * BN + n], name="packed")
    C = te.compute(
        (SIZE, SIZE),
        lambda m, n: te.sum(
            A[m, k] * packed[tvm.tir.indexdiv(n, BN), k, tvm.tir.indexmod(n, BN)], axis=k
        ),
        name="C",
    )
    return A, B, packed, C


def default():
    A, B, C = product()
    return te.create_schedule(C.op), [A, B, C]


def blocked():
    """Blocks of C of 32x32 fit into the cache; the reduction is cut into strips of 4."""
    A, B, C = product()
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], BN, BN)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=KFACTOR)
    s[C].reorder(mo, no, ko, ki, mi, ni)
    return s, [A, B, C]


def vectorized():
    """The innermost loop runs along rows of B and C, so that it can be vector instructions."""
    s, args = blocked()
    C = args[2]
    s[C].vectorize(s[C].leaf_iter_vars[-1])
    return s, args


def permuted():
    """With ``ki`` inside ``mi`` the elements of A that a block reads are contiguous too."""
    A, B, C = product()
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], BN, BN)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=KFACTOR)
    s[C].reorder(mo, no, ko, mi, ki, ni)
    s[C].vectorize(ni)
    return s, [A, B, C]


def packed():
    """B is repacked first, so that a block reads one contiguous stretch."""
    A, B, packed, C = packed_product()
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], BN, BN)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=KFACTOR)
    s[C].reorder(mo, no, ko, mi, ki, ni)
    s[C].vectorize(ni)
    bn, _, n = s[packed].op.axis
    s[packed].vectorize(n)
    s[packed].parallel(bn)
    return s, [A, B, C]


def cached():
    """A block of C is accumulated in a local array and written to C once."""
    A, B, packed, C = packed_product()
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, _, ni = s[C].tile(C.op.axis[0], C.op.axis[1], BN, BN)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    ko, ki = s[CC].split(s[CC].op.reduce_axis[0], factor=KFACTOR)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].unroll(ki)
    s[CC].vectorize(nc)
    s[C].vectorize(ni)
    bn, _, n = s[packed].op.axis
    s[packed].vectorize(n)
    s[packed].parallel(bn)
    return s, [A, B, C], mo


def parallel():
    """Rows of blocks run on all threads."""
    s, args, mo = cached()
    s[args[2]].parallel(mo)
    return s, args


def main():
    if SIZE % BN:
        raise SystemExit(f"SIZE must be a multiple of {BN}: the packed steps have no tail")
    rng = np.random.default_rng(0)
    dev = tvm.cpu(0)
    a = tvm.nd.array(rng.random((SIZE, SIZE), dtype="float32"), dev)
    b = tvm.nd.array(rng.random((SIZE, SIZE), dtype="float32"), dev)
    want = a.numpy() @ b.numpy()
    first = None
    for step in (default, blocked, vectorized, permuted, packed, cached, parallel):
        s, args = step()[:2]
        func = tvm.build(s, args, "llvm", name="matmul")
        c = tvm.nd.array(np.zeros((SIZE, SIZE), dtype="float32"), dev)
        func(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), want, rtol=1e-4)
        seconds = func.time_evaluator(func.entry_name, dev, number=3, repeat=3)(a, b, c).mean
        first = first or seconds
        rate = 2 * SIZE**3 / seconds / 1e9
        speedup = first / seconds
        print(f"{step.__name__:<12}{seconds * 1e3:9.3f} ms {rate:8.1f} GFLOP/s {speedup:7.1f}x")


if __name__ == "__main__":
    main()
