"""A batched product on tensor cores in the three shapes of fragments, as TVM's users write it."""

import numpy as np
import tvm
from tvm import te


def tile_buffer(t, scope, name):
    rows, cols = t.shape
    return tvm.tir.decl_buffer(
        t.shape, t.dtype, name=name, scope=scope, data_alignment=32, offset_factor=rows * cols
    )


def load(shape, scope):
    n, m, l = shape
    row, col = (n, l) if scope == "wmma.matrix_a" else (l, m)
    A = te.placeholder((row, col), name="A", dtype="float16")
    C = te.compute((row, col), lambda i, j: A[i, j], name="C")
    BA, BC = tile_buffer(A, "shared", "BA"), tile_buffer(C, scope, "BC")

    def body(ins, outs):
        ib = tvm.tir.ir_builder.create()
        place = outs[0].elem_offset // (row * col)
        where = ins[0].access_ptr("r"), col, "row_major"
        ib.emit(
            tvm.tir.call_intrin(
                "handle", "tir.tvm_load_matrix_sync", outs[0].data, n, m, l, place, *where
            )
        )
        return ib.get()

    return te.decl_tensor_intrin(C.op, body, binds={A: BA, C: BC})


def gemm(shape):
    n, m, l = shape
    A = te.placeholder((n, l), name="A", dtype="float16")
    B = te.placeholder((l, m), name="B", dtype="float16")
    k = te.reduce_axis((0, l), name="k")
    C = te.compute(
        (n, m),
        lambda i, j: te.sum(A[i, k].astype("float") * B[k, j].astype("float"), axis=k),
        name="C",
    )
    BA, BB = tile_buffer(A, "wmma.matrix_a", "BA"), tile_buffer(B, "wmma.matrix_b", "BB")
    BC = tile_buffer(C, "wmma.accumulator", "BC")

    def body(ins, outs):
        (BA, BB), BC = ins, outs[0]

        def init():
            ib = tvm.tir.ir_builder.create()
            place = BC.elem_offset // (n * m)
            ib.emit(
                tvm.tir.call_intrin("handle", "tir.tvm_fill_fragment", BC.data, n, m, l, place, 0.0)
            )
            return ib.get()

        def update():
            ib = tvm.tir.ir_builder.create()
            own = BC.data, BC.elem_offset // (n * m)
            ib.emit(
                tvm.tir.call_intrin(
                    "handle",
                    "tir.tvm_mma_sync",
                    *own,
                    BA.data,
                    BA.elem_offset // (n * l),
                    BB.data,
                    BB.elem_offset // (l * m),
                    *own,
                )
            )
            return ib.get()

        return update(), init(), update()

    return te.decl_tensor_intrin(C.op, body, binds={A: BA, B: BB, C: BC})


def store(shape):
    n, m, l = shape
    A = te.placeholder((n, m), name="A", dtype="float32")
    C = te.compute((n, m), lambda i, j: A[i, j], name="C")
    BA, BC = tile_buffer(A, "wmma.accumulator", "BA"), tile_buffer(C, "global", "BC")

    def body(ins, outs):
        ib = tvm.tir.ir_builder.create()
        place = ins[0].elem_offset // (n * m)
        where = outs[0].access_ptr("w"), m, "row_major"
        ib.emit(
            tvm.tir.call_intrin(
                "handle", "tir.tvm_store_matrix_sync", ins[0].data, n, m, l, place, *where
            )
        )
        return ib.get()

    return te.decl_tensor_intrin(C.op, body, binds={A: BA, C: BC})


def batched(shape, batch=2, nn=64, mm=64, ll=64):
    n, m, l = shape
    A = te.placeholder((batch, nn // n, ll // l, n, l), name="A", dtype="float16")
    B = te.placeholder((batch, ll // l, mm // m, l, m), name="B", dtype="float16")
    k1 = te.reduce_axis((0, ll // l), name="k1")
    k2 = te.reduce_axis((0, l), name="k2")
    C = te.compute(
        (batch, nn // n, mm // m, n, m),
        lambda b, i, j, ii, jj: te.sum(
            A[b, i, k1, ii, k2].astype("float") * B[b, k1, j, k2, jj].astype("float"),
            axis=[k1, k2],
        ),
        name="C",
    )
    s = te.create_schedule(C.op)
    AS, BS = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    AF = s.cache_read(AS, "wmma.matrix_a", [C])
    BF = s.cache_read(BS, "wmma.matrix_b", [C])
    CF = s.cache_write(C, "wmma.accumulator")

    b, i, j, ii, jj = C.op.axis
    block_i, i = s[C].split(i, factor=2)
    block_j, j = s[C].split(j, factor=2)
    s[C].reorder(b, block_i, block_j, i, j, ii, jj)
    s[C].bind(b, te.thread_axis("blockIdx.z"))
    s[C].bind(block_i, te.thread_axis("blockIdx.x"))
    s[C].bind(block_j, te.thread_axis("blockIdx.y"))
    s[C].bind(i, te.thread_axis("threadIdx.y"))
    s[CF].compute_at(s[C], i)
    b, i, j, ii, jj = CF.op.axis
    k1, k2 = CF.op.reduce_axis
    ko, ki = s[CF].split(k1, factor=2)
    s[CF].reorder(ko, ki, i, j, ii, jj, k2)
    s[AF].compute_at(s[CF], ki)
    s[BF].compute_at(s[CF], ki)
    for shared in (AS, BS):
        s[shared].compute_at(s[CF], ko)
        fused = s[shared].fuse(*shared.op.axis)
        fused, lanes = s[shared].split(fused, factor=4)
        fused, tx = s[shared].split(fused, factor=32)
        fused, ty = s[shared].split(fused, factor=2)
        s[shared].bind(tx, te.thread_axis("threadIdx.x"))
        s[shared].bind(ty, te.thread_axis("threadIdx.y"))
        s[shared].vectorize(lanes)
    s[AF].tensorize(AF.op.axis[-2], load(shape, "wmma.matrix_a"))
    s[BF].tensorize(BF.op.axis[-2], load(shape, "wmma.matrix_b"))
    s[CF].tensorize(ii, gemm(shape))
    s[C].tensorize(C.op.axis[-2], store(shape))
    return tvm.build(s, [A, B, C], "cuda", name="batched"), [A, B, C]


for shape in [(16, 16, 16), (32, 8, 16), (8, 32, 16)]:
    func, args = batched(shape)
    assert "wmma.mma.sync" in func.imported_modules[0].get_source()
    rng = np.random.default_rng(0)
    a, b = ((rng.integers(-8, 9, t.shape) / 8).astype("float16") for t in args[:2])
    c = np.zeros([int(d) for d in args[2].shape], "float32")
    dev = tvm.cuda(0)
    if dev.exist:
        out = tvm.nd.array(c, dev)
        func(tvm.nd.array(a, dev), tvm.nd.array(b, dev), out)
        c = out.numpy()
    else:
        func.run_simt(a, b, c)
    want = np.einsum("biknl,bkjlm->bijnm", a.astype("float32"), b.astype("float32"))
    np.testing.assert_array_equal(c, want)
