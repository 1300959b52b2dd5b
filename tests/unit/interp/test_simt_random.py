"""Random kernels without communication: simt and the sequential interpreter agree bit for bit."""

import random

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import make_kernel
from tilewright import tir
from tilewright.interp.simt import run_kernel
from tilewright.interp.tir_eval import tir_eval
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S

N = 24
DIVISIONS = (tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod)


class Writer:
    """Makes expressions of one type, of a thread's index and an array's elements."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.dtype = self.random.choice(["int32", "int8", "uint8", "int64", "float32", "float16"])

    def leaf(self, k):
        r = self.random
        kind = r.randrange(4)
        if kind == 0:
            low = 0 if self.dtype == "uint8" else -5
            return tir.const(r.randrange(low, 9), self.dtype)
        if kind == 1:
            return E.Cast(self.dtype, k.tx)
        return k.A[(k.tx * r.randrange(1, 4) + r.randrange(5)) % N]

    def expr(self, k, depth):
        r = self.random
        if depth == 0:
            return self.leaf(k)

        def x():
            return self.expr(k, depth - 1)

        kind = r.randrange(10)
        if kind < 4:
            a, b = x(), x()
            return (a + b, a - b, a * b, tir.min(a, b))[kind]
        if kind == 4:
            return tir.max(x(), x())
        if kind == 5:
            return tir.Select(x() > x(), x(), x())
        if kind == 6:
            return tir.if_then_else(tir.all(x() >= x(), k.tx < r.randrange(N)), x(), x())
        if kind == 7:
            late = tir.Not(k.tx < r.randrange(N))
            return tir.if_then_else(tir.any(x() >= x(), late), x(), x())
        if kind == 8:
            v = E.Var("v", self.dtype)
            return E.Let(v, x(), v + v * tir.const(2, self.dtype))
        if self.dtype.startswith("f"):
            return x() / tir.max(x(), tir.const(1, self.dtype))
        return r.choice(DIVISIONS)(x(), tir.const(r.choice([1, 2, 3, 4, 7, 8]), self.dtype))

    def kernel(self):
        def write(ib, k):
            v = ib.allocate(self.dtype, (3,), "v", scope="local")
            v[0] = self.expr(k, 3)
            v[1] = v[0]
            v[2] = self.expr(k, 2)
            with ib.for_range(0, self.random.choice([3, k.tx % 5]), name="i") as i:
                with ib.if_scope(self.expr(k, 1) > self.expr(k, 2)):
                    v[(i + k.tx) % 3] = self.expr(k, 2) + v[1]
                with ib.else_scope():
                    v[i % 3] = v[(i + 1) % 3] + self.expr(k, 1)
            k.B[k.tx] = v[0] + v[1] + v[2]

        return make_kernel(write, {"A": (self.dtype, N), "B": (self.dtype, N)}, (N,))


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels(seed):
    writer = Writer(seed)
    kernel = writer.kernel()
    given = np.random.default_rng(seed).integers(0, 20, N).astype(writer.dtype)
    results = [np.zeros(N, writer.dtype) for _ in range(2)]
    run_kernel(kernel, None, [given, results[0]])
    buffers = [tir.decl_buffer((N,), writer.dtype, data=p) for p in kernel.params]
    params = [tir.Var(p.name, "handle") for p in kernel.params]
    func = S.PrimFunc(params, kernel.body, None, dict(zip(params, buffers)), kernel.attrs)
    tir_eval(func, given, results[1])
    np.testing.assert_array_equal(results[0], results[1])
