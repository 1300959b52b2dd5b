"""Random schedules of reductions over threads, in simt, against NumPy."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from tests.unit.lowering.kernels import run_schedule, small_integers
from tilewright import te

FOLDS = {"sum": (te.sum, np.sum), "max": (te.max, np.max), "min": (te.min, np.min)}


class Case:
    """B[i] = fold of A[i, :, :]; perhaps C = B + A, with B computed inside of C."""

    def __init__(self, seed: int) -> None:
        self.random = r = Random(seed)
        self.shape = (r.choice([1, 5, 7]), r.choice([1, 6, 17, 33, 100]), r.choice([1, 3, 8]))
        self.dtype = r.choice(["float32", "int32", "float16", "int8", "float64"])
        self.fold = r.choice(list(FOLDS))
        n, m, q = self.shape
        self.a = te.placeholder(self.shape, name="A", dtype=self.dtype)
        self.k, self.l = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, q), name="l")
        reduce = FOLDS[self.fold][0]
        both = [self.k, self.l]
        self.b = te.compute((n,), lambda i: reduce(self.a[i, self.k, self.l], axis=both), name="B")
        self.out = self.b
        if r.random() < 0.4:
            self.out = te.compute((n, m), lambda i, j: self.b[i] + self.a[i, j, 0], name="C")
        self.s = te.create_schedule(self.out.op)
        self.tx, self.ty = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
        self.threads = r.choice([1, 2, 4, 7, 8, 16, 20, 32, 33, 64, 96])
        if r.random() < 0.35:
            self.factored()
        else:
            self.split()
        if self.out is not self.b:
            self.inside_of_a_consumer()

    def factored(self) -> None:
        s, b, r = self.s, self.b, self.random
        parts = s.rfactor(b, s[b].split(self.k, factor=self.threads)[1])
        axis = s[b].op.reduce_axis[0]
        self.rows(bind_y=r.random() < 0.5)
        s[b].bind(axis, self.tx)
        s[parts].compute_at(s[b], axis)
        if self.out is b and r.random() < 0.3:
            s[b].set_store_predicate(self.tx.var.equal(0))

    def split(self) -> None:
        s, b, r = self.s, self.b, self.random
        ko, kx = s[b].split(self.k, factor=self.threads)
        axes, across = [ko, kx], False
        if r.random() < 0.5 and self.threads <= 64:
            lo, ly = s[b].split(self.l, factor=r.choice([1, 2, 3, 8]))
            axes += [lo, ly]
            across = True
        else:
            axes.append(self.l)
        r.shuffle(axes)
        s[b].reorder(*axes)
        self.rows(bind_y=not across and r.random() < 0.5)
        s[b].bind(kx, self.tx)
        if across:
            s[b].bind(ly, self.ty)

    def rows(self, bind_y: bool) -> None:
        if self.out is not self.b:
            return
        s, b, r = self.s, self.b, self.random
        outer, inner = s[b].split(s[b].op.axis[0], factor=r.choice([1, 2, 3]))
        s[b].bind(outer, te.thread_axis("blockIdx.x"))
        if bind_y:
            s[b].bind(inner, self.ty)
        elif r.random() < 0.3:
            s[b].unroll(inner)

    def inside_of_a_consumer(self) -> None:
        s, b, c, r = self.s, self.b, self.out, self.random
        row, column = c.op.axis
        s[c].bind(row, te.thread_axis("blockIdx.x"))
        # at least as many threads as those that reduce inside of them
        jo, ji = s[c].split(column, factor=r.choice([self.threads, max(self.threads, 32)]))
        s[c].reorder(ji, jo)
        s[c].bind(ji, self.tx)
        enough = self.shape[1] >= self.threads
        s[b].compute_at(s[c], r.choice([row, ji]) if enough else row)

    def check(self, target: str) -> None:
        a = small_integers(self.shape, self.dtype)
        fold: Any = FOLDS[self.fold][1]
        options = {"dtype": self.dtype} if self.fold == "sum" else {}
        want = fold(a, axis=(1, 2), **options).astype(self.dtype)
        if self.out is not self.b:
            want = (want[:, None] + a[:, :, 0]).astype(self.dtype)
        got = np.zeros_like(want)
        run_schedule(self.s, [self.a, self.out], {"A": a, self.out.op.name: got}, target)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize("seed", range(60))
def test_random_schedules(seed: int, target: str) -> None:
    Case(seed).check(target)
