"""Programs as users write them; type checkers must accept every line under their strict rules."""

from __future__ import annotations

import numpy as np

import tilewright as tvm
from tilewright import auto_scheduler, autotvm, nd, te, tir, topi

n, m, l = 64, te.var("m"), te.size_var("l")
A = te.placeholder((n, n), name="A")
B = te.placeholder((n, n), dtype="float32", name="B")
x = te.placeholder((m, l), "float16", "x")
k = te.reduce_axis((0, n), name="k")
C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
D = te.compute((n, n), lambda *i: A(*i) + 1.0, name="D", tag="elemwise")
E = te.compute((n,), lambda i: te.max(A[i, k], axis=k))
F = te.compute((n, n), lambda i, j: te.if_then_else(i < j, A[i, j], te.exp(B[j, i]) / 2))
G = te.compute((n, n), lambda i, j: (A[i, j] * 2).astype("int32") % 3 + (i // 4) * j - 1)
H = te.compute(A.shape, lambda i, j: te.sqrt(te.abs(A[i, j])) + te.power(B[i, j], 2))
low, high = te.compute((n,), lambda i: (A[i, 0] - 1, A[i, 0] + 1), name="both")
total: te.Tensor = A + B * 2 - D / 3
scale = te.placeholder((), name="scale")
scaled: te.Tensor = te.compute((n,), lambda i: A[i, 0] * scale)
extent: int = len(A) + A.ndim
shape = [int(d) for d in A.shape if isinstance(d, tir.IntImm)]
sizes = [int(d) for d in A.shape]

s = te.create_schedule(C.op)
i, j = s[C].op.axis
(kk,) = s[C].op.reduce_axis
io, ii = s[C].split(i, factor=8)
jo, ji = s[C].split(C.op.axis[1], nparts=4)
ko, ki = s[C].split(kk, 4)
s[C].reorder(io, jo, ko, ki, ii, ji)
s[C].vectorize(ji)
s[C].unroll(ki)
fused = s[C].fuse(io, jo)
s[C].parallel(fused)
s[C].pragma(fused, "auto_unroll_max_step", 16)
two = te.create_schedule([D.op, F.op])
xo, yo, xi, yi = two[D].tile(D.op.axis[0], D.op.axis[1], 8, 8)
two[D].bind(xo, te.thread_axis("blockIdx.x"))
two[D].bind(xi, te.thread_axis((0, 8), "threadIdx.x"))
AA = two.cache_read(A, "shared", [D])
two[AA].compute_at(two[D], yo)
two[AA].storage_align(two[AA].op.axis[0], 16, 0)
cached = te.create_schedule(C.op)
CC = cached.cache_write(C, "local")
cached[CC].compute_at(cached[C], cached[C].op.axis[0])
factored = te.create_schedule(E.op)
EF = factored.rfactor(E, factored[E].split(k, factor=16)[0])

target = tvm.target.Target("llvm")
mod = tvm.lower(s, [A, B, C], simple_mode=True)
func = tvm.build(s, [A, B, C], target=target, name="mmult")
text: str = mod["main"].script()
dev = tvm.device("llvm", 0)
a = nd.array(np.random.rand(n, n).astype("float32"), dev)
b = tvm.nd.array(np.ones((n, n), "float32"))
c = tvm.nd.empty((n, n), "float32", tvm.cpu(0))
func(a, b, c)
result: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = c.numpy()
np.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-5)
seconds: float = func.time_evaluator(func.entry_name, dev, number=10)(a, b, c).mean
func["mmult"](a, b, c)
source: str = func.get_source("ll")
with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
    tvm.build(s, [A, B, C], "llvm")
with tvm.target.Target("llvm -mcpu=core-avx2"):
    relu = topi.nn.relu(topi.add(A, B))
pooled = te.create_schedule(topi.nn.softmax(A).op)

ib = tir.ir_builder.create()
v = tir.Var("v", "int32")
node = tir.Add(v, tir.const(1, "int32"))
loop = tir.For(v, 0, 8, tir.ForKind.SERIAL, tir.Evaluate(node))
prod = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="prod")
P = te.compute((n,), lambda i: prod(A[i, k], axis=k))


@autotvm.template("typing/matmul")
def matmul(size: int) -> tuple[te.Schedule, list[te.Tensor]]:
    cfg = autotvm.get_config()
    sch = te.create_schedule(C.op)
    cfg.define_split("tile_y", sch[C].op.axis[0], num_outputs=2)
    cfg["tile_y"].apply(sch, C, sch[C].op.axis[0])
    return sch, [A, B, C]


@auto_scheduler.register_workload
def workload(size: int) -> list[te.Tensor]:
    return [A, B, C]


task = auto_scheduler.SearchTask(func=workload, args=(64,), target="llvm")
options = auto_scheduler.TuningOptions(num_measure_trials=8, verbose=0)
task.tune(options)
sch, args = task.apply_best("log.json")
