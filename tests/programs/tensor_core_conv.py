"""A convolution on tensor cores as TVM's users write it, by intrinsics of their own."""

import numpy as np
import tvm
from tvm import te

BATCH, HEIGHT, WIDTH, IN, OUT, KERNEL, PAD, TILE = 32, 4, 4, 32, 64, 3, 1, 16
DATA = (BATCH // TILE, HEIGHT, WIDTH, IN // TILE, TILE, TILE)
WEIGHT = (KERNEL, KERNEL, IN // TILE, OUT // TILE, TILE, TILE)
OUTPUT = (BATCH // TILE, HEIGHT, WIDTH, OUT // TILE, TILE, TILE)

A = te.placeholder(DATA, name="A", dtype="float16")
W = te.placeholder(WEIGHT, name="W", dtype="float16")
ic, ii = te.reduce_axis((0, IN // TILE), name="ic"), te.reduce_axis((0, TILE), name="ii")
kh, kw = te.reduce_axis((0, KERNEL), name="kh"), te.reduce_axis((0, KERNEL), name="kw")

Apad = te.compute(
    (BATCH // TILE, HEIGHT + 2 * PAD, WIDTH + 2 * PAD, IN // TILE, TILE, TILE),
    lambda n, h, w, i, nn, ci: tvm.tir.if_then_else(
        tvm.tir.all(h >= PAD, h - PAD < HEIGHT, w >= PAD, w - PAD < WIDTH),
        A[n, h - PAD, w - PAD, i, nn, ci],
        tvm.tir.const(0.0, "float16"),
    ),
    name="Apad",
)
Conv = te.compute(
    OUTPUT,
    lambda n, h, w, o, nn, oo: te.sum(
        Apad[n, h + kh, w + kw, ic, nn, ii].astype("float32")
        * W[kh, kw, ic, o, ii, oo].astype("float32"),
        axis=[ic, kh, kw, ii],
    ),
    name="Conv",
)

s = te.create_schedule(Conv.op)
s[Apad].compute_inline()
AS = s.cache_read(Apad, "shared", [Conv])
WS = s.cache_read(W, "shared", [Conv])
AF = s.cache_read(AS, "wmma.matrix_a", [Conv])
WF = s.cache_read(WS, "wmma.matrix_b", [Conv])
ConvF = s.cache_write(Conv, "wmma.accumulator")


def load_matrix(scope):
    n = TILE
    x = te.placeholder((n, n), name="x", dtype="float16")
    bx = tvm.tir.decl_buffer(x.shape, x.dtype, scope="shared", data_alignment=32, offset_factor=256)
    y = te.compute((n, n), lambda i, j: x[i, j], name="y")
    by = tvm.tir.decl_buffer(y.shape, y.dtype, scope=scope, data_alignment=32, offset_factor=256)

    def intrin(ins, outs):
        ib = tvm.tir.ir_builder.create()
        (source,), (fragment,) = ins, outs
        ib.emit(
            tvm.tir.call_intrin(
                "handle",
                "tir.tvm_load_matrix_sync",
                fragment.data,
                n,
                n,
                n,
                fragment.elem_offset // 256,
                source.access_ptr("r"),
                n,
                "row_major",
            )
        )
        return ib.get()

    return te.decl_tensor_intrin(y.op, intrin, binds={x: bx, y: by})


def gemm():
    n = TILE
    a, b = (te.placeholder((n, n), name=name, dtype="float16") for name in "ab")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute(
        (n, n),
        lambda i, j: te.sum(a[i, k].astype("float") * b[k, j].astype("float"), axis=k),
        name="c",
    )

    def declare(t, scope, name):
        return tvm.tir.decl_buffer(
            t.shape, t.dtype, name=name, scope=scope, data_alignment=32, offset_factor=256
        )

    ba, bb = declare(a, "wmma.matrix_a", "BA"), declare(b, "wmma.matrix_b", "BB")
    bc = declare(c, "wmma.accumulator", "BC")

    def intrin(ins, outs):
        x, y = ins
        (z,) = outs

        def init():
            ib = tvm.tir.ir_builder.create()
            ib.emit(
                tvm.tir.call_intrin(
                    "handle", "tir.tvm_fill_fragment", z.data, n, n, n, z.elem_offset // 256, 0.0
                )
            )
            return ib.get()

        def update():
            ib = tvm.tir.ir_builder.create()
            ib.emit(
                tvm.tir.call_intrin(
                    "handle",
                    "tir.tvm_mma_sync",
                    z.data,
                    z.elem_offset // 256,
                    x.data,
                    x.elem_offset // 256,
                    y.data,
                    y.elem_offset // 256,
                    z.data,
                    z.elem_offset // 256,
                )
            )
            return ib.get()

        return update(), init(), update()

    return te.decl_tensor_intrin(c.op, intrin, binds={a: ba, b: bb, c: bc})


def store_matrix():
    n = TILE
    x = te.placeholder((n, n), name="x", dtype="float32")
    bx = tvm.tir.decl_buffer(
        x.shape, x.dtype, scope="wmma.accumulator", data_alignment=32, offset_factor=256
    )
    y = te.compute((n, n), lambda i, j: x[i, j], name="y")
    by = tvm.tir.decl_buffer(y.shape, y.dtype, scope="global", data_alignment=32, offset_factor=256)

    def intrin(ins, outs):
        ib = tvm.tir.ir_builder.create()
        (fragment,), (target,) = ins, outs
        ib.emit(
            tvm.tir.call_intrin(
                "handle",
                "tir.tvm_store_matrix_sync",
                fragment.data,
                n,
                n,
                n,
                fragment.elem_offset // 256,
                target.access_ptr("w"),
                n,
                "row_major",
            )
        )
        return ib.get()

    return te.decl_tensor_intrin(y.op, intrin, binds={x: bx, y: by})


row_warps, col_warps, warp_rows, warp_cols, warp_size, chunk, vector = 1, 2, 2, 2, 32, 2, 8
block_x, block_y = te.thread_axis("blockIdx.x"), te.thread_axis("blockIdx.y")
block_z = te.thread_axis("blockIdx.z")
thread_x = te.thread_axis("threadIdx.x")
thread_y, thread_z = te.thread_axis("threadIdx.y"), te.thread_axis("threadIdx.z")

nc, hc, wc, oc, nnc, ooc = Conv.op.axis
block_k = s[Conv].fuse(hc, wc)
s[Conv].bind(block_k, block_z)
nc, nci = s[Conv].split(nc, factor=warp_rows)
block_i, nc = s[Conv].split(nc, factor=row_warps)
oc, oci = s[Conv].split(oc, factor=warp_cols)
block_j, oc = s[Conv].split(oc, factor=col_warps)
s[Conv].reorder(block_k, block_i, block_j, nc, oc, nci, oci, nnc, ooc)
s[Conv].bind(block_i, block_x)
s[Conv].bind(block_j, block_y)
s[Conv].bind(nc, thread_y)
s[Conv].bind(oc, thread_z)

s[ConvF].compute_at(s[Conv], oc)
n, h, w, o, nnf, oof = ConvF.op.axis
ko, ki = s[ConvF].split(ic, factor=chunk)
s[ConvF].reorder(ko, kh, ki, kw, n, o, nnf, oof, ii)
s[AF].compute_at(s[ConvF], kw)
s[WF].compute_at(s[ConvF], kw)
s[WS].compute_at(s[ConvF], kh)
s[AS].compute_at(s[ConvF], kh)

n, h, w, i, nn, ci = AS.op.axis
tx, xo = s[AS].split(n, nparts=row_warps)
ty, yo = s[AS].split(xo, nparts=col_warps)
to, ti = s[AS].split(s[AS].fuse(nn, ci), factor=warp_size)
s[AS].bind(tx, thread_y)
s[AS].bind(ty, thread_z)
s[AS].bind(ti, thread_x)

rh, rw, i, o, ci, oo = WS.op.axis
tx, xo = s[WS].split(o, nparts=row_warps)
ty, yo = s[WS].split(xo, nparts=col_warps)
to, ti = s[WS].split(s[WS].fuse(ci, oo), nparts=warp_size)
s[WS].bind(tx, thread_y)
s[WS].bind(ty, thread_z)
s[WS].bind(to, thread_x)
s[WS].vectorize(ti)

s[AF].tensorize(AF.op.axis[-2], load_matrix("wmma.matrix_a"))
s[WF].tensorize(WF.op.axis[-2], load_matrix("wmma.matrix_b"))
s[Conv].tensorize(nnc, store_matrix())
s[ConvF].tensorize(nnf, gemm())
print(tvm.lower(s, [A, W, Conv], simple_mode=True))
func = tvm.build(s, [A, W, Conv], "cuda")

rng = np.random.default_rng(0)
a = (rng.integers(-8, 9, DATA) / 8).astype("float16")
weight = (rng.integers(-8, 9, WEIGHT) / 8).astype("float16")
out = np.zeros(OUTPUT, "float32")
dev = tvm.cuda(0)
if dev.exist:
    result = tvm.nd.array(out, dev)
    func(tvm.nd.array(a, dev), tvm.nd.array(weight, dev), result)
    out = result.numpy()
else:
    func.run_simt(a, weight, out)

pad = np.pad(a.astype("float32"), ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0), (0, 0), (0, 0)))
want = np.zeros(OUTPUT, "float32")
for y in range(KERNEL):
    for x in range(KERNEL):
        part = pad[:, y : y + HEIGHT, x : x + WIDTH]
        want += np.einsum("nhwiac,iocd->nhwoad", part, weight[y, x].astype("float32"))
np.testing.assert_array_equal(out, want)
