"""Mistakes that type checkers must find: exactly one on each line that ends in `# wrong`."""

from __future__ import annotations

import numpy as np

import tilewright as tvm
from tilewright import auto_scheduler, nd, te, tir, topi

A = te.placeholder((8, 8), name="A")
B = te.placeholder((8, 8), nme="B")  # wrong
k = te.reduce_axis((0, 8), name="k")
te.comptue((8,), lambda i: A[i, 0])  # wrong
C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k))
te.compute((8, 8), fcomput=lambda i, j: A[i, j])  # wrong
te.sum(A[0, k], axes=k)  # wrong
s = te.create_schedule(C.op)
s[C].splitt(C.op.axis[0], factor=4)  # wrong
s[C].split(C.op.axis[0], factr=4)  # wrong
xo, xi, xx = s[C].split(C.op.axis[0], factor=4)  # wrong
s[C].reordr(xo, xi)  # wrong
s[C].op.axes  # wrong
s.cache_raed(A, "local", [C])  # wrong
s[C].compute_at(s[C])  # wrong
s[C].vectorize("i")  # wrong
A.shpae  # wrong
(A[0, 0] + 1).atype("int32")  # wrong
te.exp("x")  # wrong
te.epx(A[0, 0])  # wrong
tvm.bulid(s, [A, C])  # wrong
tvm.build(s, [A, C], taget="llvm")  # wrong
f = tvm.build(s, [A, C])
f.time_evalutor("main", tvm.cpu())  # wrong
nd.array(np.ones(8)).nmupy()  # wrong
nd.aray([1.0])  # wrong
tir.Vra("x", "int32")  # wrong
topi.nn.rleu(A)  # wrong
tvm.target.Taget("llvm")  # wrong
auto_scheduler.TuningOptions(num_measure_trial=8)  # wrong
tir.Add(1, 2).lhs  # wrong
te.thread_axis("threadIdx.x").vra  # wrong
