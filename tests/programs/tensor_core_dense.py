"""A fully connected layer on tensor cores with the intrinsics of topi.cuda, as TVM has it."""

import numpy as np
import tvm
from tvm import te
from tvm.topi.cuda.tensor_intrin import (
    intrin_wmma_gemm,
    intrin_wmma_load_matrix_A,
    intrin_wmma_load_matrix_W,
    intrin_wmma_store_matrix,
)

BATCH, OUT, IN = 64, 32, 64
wmma_m, wmma_n, wmma_k = 16, 16, 16
warp_rows, warp_cols, warps_row, warps_col, chunk, offset, vec = 2, 1, 2, 2, 2, 8, 4

A = te.placeholder((BATCH, IN), name="A", dtype="float16")
B = te.placeholder((OUT, IN), name="B", dtype="float16")
k = te.reduce_axis((0, IN), name="k")
C = te.compute(
    (BATCH, OUT),
    lambda i, j: te.sum(A[i, k].astype("float32") * B[j, k].astype("float32"), axis=k),
    name="T_dense",
)
s = te.create_schedule(C.op)
AS, BS = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
AF = s.cache_read(AS, "wmma.matrix_a", [C])
BF = s.cache_read(BS, "wmma.matrix_b", [C])
CF = s.cache_write(C, "wmma.accumulator")
CS = s.cache_read(CF, "shared", [C])

AS_align = chunk * wmma_k + offset
BS_align = chunk * wmma_k + offset
CS_align = warp_cols * warps_col * wmma_n + offset
AS_stride, BS_stride = [AS_align, 1], [BS_align, 1]
AF_stride, BF_stride = [wmma_k, 1], [wmma_k, 1]
CF_stride, CS_stride = [warp_cols * wmma_n, 1], [CS_align, 1]

block_x, block_y = te.thread_axis("blockIdx.x"), te.thread_axis("blockIdx.y")
thread_x = te.thread_axis("threadIdx.x")
thread_y, thread_z = te.thread_axis("threadIdx.y"), te.thread_axis("threadIdx.z")

# what leaves shared memory
block_i, bc = s[C].split(C.op.axis[0], factor=wmma_m * warp_rows * warps_row)
block_j, oc = s[C].split(C.op.axis[1], factor=wmma_n * warp_cols * warps_col)
s[C].reorder(block_i, block_j, bc, oc)
t = s[C].fuse(bc, oc)
t, vi = s[C].split(t, factor=vec)
t, tx = s[C].split(t, factor=32)
t, ty = s[C].split(t, factor=warps_row)
t, tz = s[C].split(t, factor=warps_col)
s[C].bind(block_i, block_x)
s[C].bind(block_j, block_y)
s[C].bind(tz, thread_z)
s[C].bind(ty, thread_y)
s[C].bind(tx, thread_x)
s[C].vectorize(vi)

s[CS].compute_at(s[C], block_j)
bb, oo = CS.op.axis
s[CS].storage_align(bb, CS_align - 1, CS_align)
bb, bbi = s[CS].split(bb, factor=wmma_m)
oo, ooi = s[CS].split(oo, factor=wmma_n)
bb, bbii = s[CS].split(bb, factor=warp_rows)
oo, ooii = s[CS].split(oo, factor=warp_cols)
s[CS].reorder(bb, oo, bbii, ooii, bbi, ooi)
s[CS].bind(bb, thread_y)
s[CS].bind(oo, thread_z)

s[CF].compute_at(s[CS], oo)
warp_i, warp_j = CF.op.axis
warp_i, _ii = s[CF].split(warp_i, factor=wmma_m)
warp_j, _jj = s[CF].split(warp_j, factor=wmma_n)
(k,) = CF.op.reduce_axis
k, _k = s[CF].split(k, factor=wmma_k)
ko, ki = s[CF].split(k, factor=chunk)
s[CF].reorder(ko, ki, warp_i, warp_j, _ii, _jj, _k)

s[AF].compute_at(s[CF], ki)
b, i = AF.op.axis
b, b_ii = s[AF].split(b, factor=wmma_m)
i, i_jj = s[AF].split(i, factor=wmma_k)
s[AF].reorder(b, i, b_ii, i_jj)

s[BF].compute_at(s[CF], ki)
o, i = BF.op.axis
o, o_ii = s[BF].split(o, factor=wmma_n)
i, i_ii = s[BF].split(i, factor=wmma_k)
s[BF].reorder(o, i, o_ii, i_ii)


def shared_schedule(stage, strides):
    s[stage].compute_at(s[CF], ko)
    xo, yo = stage.op.axis
    s[stage].storage_align(xo, strides - 1, strides)
    t = s[stage].fuse(xo, yo)
    t, vi = s[stage].split(t, factor=vec)
    t, tx = s[stage].split(t, factor=32)
    t, ty = s[stage].split(t, factor=warps_row)
    _, tz = s[stage].split(t, factor=warps_col)
    s[stage].bind(ty, thread_y)
    s[stage].bind(tz, thread_z)
    s[stage].bind(tx, thread_x)
    s[stage].vectorize(vi)


shared_schedule(AS, AS_align)
shared_schedule(BS, BS_align)

shape = (wmma_m, wmma_n, wmma_k)
AL_gemm = te.placeholder((wmma_m, wmma_k), name="AL_gemm", dtype="float16")
BL_gemm = te.placeholder((wmma_n, wmma_k), name="BL_gemm", dtype="float16")
k_gemm = te.reduce_axis((0, wmma_k), name="k_gemm")
CL_compute = te.compute(
    (wmma_m, wmma_n),
    lambda ii, jj: te.sum(
        AL_gemm[ii, k_gemm].astype("float32") * BL_gemm[jj, k_gemm].astype("float32"),
        axis=k_gemm,
    ),
    name="CL_compute",
)
s[AF].tensorize(
    b_ii,
    intrin_wmma_load_matrix_A(
        AF_stride, AS_stride, shape, "row_major", (wmma_m, wmma_k), (wmma_m, wmma_k), "float16"
    ),
)
s[BF].tensorize(
    o_ii,
    intrin_wmma_load_matrix_W(
        BF_stride, BS_stride, shape, "col_major", (wmma_n, wmma_k), (wmma_n, wmma_k), "float16"
    ),
)
s[CF].tensorize(
    _ii, intrin_wmma_gemm(AL_gemm, BL_gemm, CL_compute, AF_stride, BF_stride, CF_stride, shape)
)
s[CS].tensorize(
    bbi,
    intrin_wmma_store_matrix(
        CS_stride,
        CF_stride,
        shape,
        "float32",
        (wmma_m, wmma_n),
        (wmma_m, wmma_n),
        C_scope="shared",
    ),
)
func = tvm.build(s, [A, B, C], "cuda", name="dense")

rng = np.random.default_rng(0)
a, b = ((rng.integers(-8, 9, (n, IN)) / 8).astype("float16") for n in (BATCH, OUT))
c = np.zeros((BATCH, OUT), "float32")
dev = tvm.cuda(0)
if dev.exist:
    out = tvm.nd.array(c, dev)
    func(tvm.nd.array(a, dev), tvm.nd.array(b, dev), out)
    c = out.numpy()
else:
    func.run_simt(a, b, c)
np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32").T)
print(func.imported_modules[0].get_source().count("__syncthreads()"))
