"""What the tutorials of TVM write, in their own way; type checkers must accept every line."""

from __future__ import annotations

import timeit
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import auto_scheduler, autotvm, te, tir, topi
from tilewright.topi.utils import get_const_tuple

# how to optimize matrix products on a CPU
M = K = N = 1024
dtype, bn, factor = "float32", 32, 4
target = tvm.target.Target(target="llvm", host="llvm")
dev = tvm.device(target.kind.name, 0)
a = tvm.nd.array(np.random.rand(M, K).astype(dtype), dev)
b = tvm.nd.array(np.random.rand(K, N).astype(dtype), dev)
answer = np.dot(a.numpy(), b.numpy())
baseline = timeit.timeit(setup="import numpy", stmt="numpy.dot", number=10) / 10
k = te.reduce_axis((0, K), "k")
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
packedB = te.compute((N // bn, K, bn), lambda x, y, z: B[y, x * bn + z])
CP = te.compute(
    (M, N),
    lambda m, n: te.sum(
        A[m, k] * packedB[n // bn, k, tvm.tir.indexmod(n, bn)],
        axis=k,
    ),
    name="C",
)
s = te.create_schedule(CP.op)
CC = s.cache_write(CP, "global")
mo, no, mi, ni = s[CP].tile(CP.op.axis[0], CP.op.axis[1], bn, bn)
s[CC].compute_at(s[CP], no)
mc, nc = s[CC].op.axis
(kaxis,) = s[CC].op.reduce_axis
ko, ki = s[CC].split(kaxis, factor=factor)
s[CC].reorder(ko, mc, ki, nc)
s[CC].vectorize(nc)
s[CC].unroll(ki)
s[CP].parallel(mo)
bigN, _, littleN = s[packedB].op.axis
s[packedB].vectorize(littleN)
print(tvm.lower(s, [A, B, CP], simple_mode=True))
func = tvm.build(s, [A, B, CP], target=target, name="mmult")
assert func
c = tvm.nd.array(np.zeros((M, N), dtype=dtype), dev)
func(a, b, c)
tvm.testing.assert_allclose(c.numpy(), answer, rtol=1e-5)
evaluator = func.time_evaluator(func.entry_name, dev, number=10)
print(f"Opt: {evaluator(a, b, c).mean:f}")
print(func.get_source("asm"))

# how to optimize convolution on a GPU
batch, in_channel, out_channel, in_size, kernel, pad, stride = 256, 256, 512, 14, 3, 1, 1
I = te.placeholder((in_size, in_size, in_channel, batch), name="A")
W = te.placeholder((kernel, kernel, in_channel, out_channel), name="W")
out_size = (in_size - kernel + 2 * pad) // stride + 1
Apad = te.compute(
    (in_size + 2 * pad, in_size + 2 * pad, in_channel, batch),
    lambda yy, xx, cc, nn: tvm.tir.if_then_else(
        tvm.tir.all(yy >= pad, yy - pad < in_size, xx >= pad, xx - pad < in_size),
        I[yy - pad, xx - pad, cc, nn],
        tvm.tir.const(0.0, "float32"),
    ),
    name="Apad",
)
rc = te.reduce_axis((0, in_channel), name="rc")
ry, rx = te.reduce_axis((0, kernel), name="ry"), te.reduce_axis((0, kernel), name="rx")
Conv = te.compute(
    (out_size, out_size, out_channel, batch),
    lambda yy, xx, ff, nn: te.sum(
        Apad[yy * stride + ry, xx * stride + rx, rc, nn] * W[ry, rx, rc, ff], axis=[ry, rx, rc]
    ),
    name="B",
)
g = te.create_schedule(Conv.op)
g[Apad].compute_inline()
AA, WW = g.cache_read(Apad, "shared", [Conv]), g.cache_read(W, "shared", [Conv])
AL, WL = g.cache_read(AA, "local", [Conv]), g.cache_read(WW, "local", [Conv])
BL = g.cache_write(Conv, "local")
block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis((0, 8), "threadIdx.x")
thread_xz = te.thread_axis((0, 2), "vthread", name="vx")
hi, wi, fi, nj = g[Conv].op.axis
bz = g[Conv].fuse(hi, wi)
by, fi = g[Conv].split(fi, factor=64)
g[Conv].bind(bz, te.thread_axis("blockIdx.z"))
g[Conv].bind(by, block_x)
tyz, fi = g[Conv].split(fi, nparts=2)
g[Conv].bind(tyz, thread_xz)
g[BL].compute_at(g[Conv], fi)
rco, rci = g[BL].split(rc, factor=8)
g[AA].compute_at(g[BL], rco)
g[AL].compute_at(g[BL], rci)
g[WW].double_buffer()

# use tensorize to leverage hardware intrinsics


def intrin_gemv(m: int, length: int) -> te.TensorIntrin:
    x = te.placeholder((length,), name="a")
    y = te.placeholder((m, length), name="b")
    r = te.reduce_axis((0, length), name="k")
    z = te.compute((m,), lambda i: te.sum(x[r] * y[i, r], axis=r), name="c")
    Ab = tvm.tir.decl_buffer(x.shape, x.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(y.shape, y.dtype, name="B", strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(z.shape, z.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        builder = tvm.tir.ir_builder.create()
        aa, bb = ins
        cc = outs[0]
        builder.emit(
            tvm.tir.call_extern(
                "int32",
                "gemv_update",
                cc.access_ptr("w"),
                aa.access_ptr("r"),
                bb.access_ptr("r"),
                m,
                length,
                bb.strides[0],
            )
        )
        return builder.get()

    return te.decl_tensor_intrin(z.op, intrin_func, binds={x: Ab, y: Bb, z: Cb})


gemv = intrin_gemv(16, K)
t = te.create_schedule(C.op)
x, y = C.op.axis
(z,) = C.op.reduce_axis
yo, yi = t[C].split(y, factor=16)
t[C].reorder(x, yo, yi, z)
t[C].tensorize(yi, gemv)
t[C].pragma(x, "import_llvm", "; code")


# auto-scheduling matrix products for a CPU
@auto_scheduler.register_workload  # the attribute of the tutorial
def matmul_add(N: int, L: int, M: int, dtype: str) -> list[te.Tensor]:
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    matmul = te.compute(
        (N, M),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="matmul",
        attrs={"layout_free_placeholders": [B]},
    )
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


task = auto_scheduler.SearchTask(func=matmul_add, args=(N, 8, M, "float32"), target=target)
print("Computational DAG:", task.compute_dag)
tune_option = auto_scheduler.TuningOptions(
    num_measure_trials=10,
    measure_callbacks=[auto_scheduler.RecordToFile("matmul.json")],
    verbose=2,
)
task.tune(tune_option)
sch, args = task.apply_best("matmul.json")
print(task.print_best("matmul.json"))
cost_model = auto_scheduler.XGBModel()
search_policy = auto_scheduler.SketchPolicy(
    task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates("matmul.json")]
)
task.tune(tune_option, search_policy=search_policy)

# writing a tunable template


@autotvm.template("tutorial/matmul")
def matmul(N: int, L: int, M: int, dtype: str) -> tuple[te.Schedule, list[te.Tensor]]:
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg = autotvm.get_config()
    cfg.define_knob("tile_x", [1, 2, 4])
    cfg.define_split("tile_y", y, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = s[C].split(x, cfg["tile_x"].val)
    s[C].reorder(yo, xo, yi, xi)
    return s, [A, B, C]


tuned: Any = autotvm.task.create("tutorial/matmul", args=(N, 8, M, "float32"), target="llvm")
measure_option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=5))
tuner = autotvm.tuner.RandomTuner(tuned)
tuner.tune(
    n_trial=10,
    measure_option=measure_option,
    callbacks=[autotvm.callback.log_to_file("matmul.log")],
)
with autotvm.apply_history_best("matmul.log"), tvm.target.Target("llvm"):
    s2, arg_bufs = matmul(N, 8, M, "float32")
    func = tvm.build(s2, arg_bufs)
shape = get_const_tuple(topi.nn.relu(A).shape)
argmax = te.comm_reducer(
    lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
    lambda t0, t1: (tvm.tir.const(-1, t0), te.min_value(t1)),
    name="argmax",
)
T0, T1 = te.compute((M,), lambda i: argmax((A[i, k].astype("int32"), A[i, k]), axis=k), name="T")
