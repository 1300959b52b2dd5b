"""Kernels written by hand with ir_builder and te.extern, as topi's own CUDA operators are."""

import numpy as np
import tvm
import tvm.testing
from gpu_kit import rand, run_everywhere
from tvm import te


def test_vector_add_with_the_ir_builder():
    n, max_threads = te.size_var("n"), 8

    def extern(ins, outs):
        ib = tvm.tir.ir_builder.create()
        bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        ib.scope_attr(bx, "thread_extent", (n + max_threads - 1) // max_threads)
        ib.scope_attr(tx, "thread_extent", max_threads)
        idx = bx.var * max_threads + tx.var
        a, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.if_scope(ib.likely(idx < n)):
            out[idx] = a[idx] + 1.0
        return ib.get()

    A = te.placeholder((n,), name="A")
    C = te.extern(A.shape, [A], extern, name="vector_add", dtype="float32")
    s = te.create_schedule(C.op)
    a = rand(33)
    run_everywhere(s, [A, C], [a], [a + 1])


def test_histogram_with_atomics():
    n, bins = 200, 16

    def hist(ins, outs):
        ib = tvm.tir.ir_builder.create()
        data, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        tx = te.thread_axis("threadIdx.x")
        with ib.new_scope():
            ib.scope_attr(tx, "thread_extent", bins)
            out[tx.var] = 0
        with ib.new_scope():
            bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
            ib.scope_attr(bx, "thread_extent", tvm.tir.indexdiv(n + 63, 64))
            ib.scope_attr(tx, "thread_extent", 64)
            i = bx.var * 64 + tx.var
            old = ib.allocate("int32", (1,), name="old", scope="local")
            with ib.if_scope(i < n):
                old[0] = tvm.tir.call_intrin(
                    "int32",
                    "tir.atomic_add",
                    tvm.tir.address_of(out[data[i]]),
                    tvm.tir.const(1, "int32"),
                )
        return ib.get()

    A = te.placeholder((n,), "int32", name="A")
    B = te.extern((bins,), [A], hist, dtype="int32", name="hist")
    a = np.random.default_rng(0).integers(0, bins, n).astype("int32")
    s = te.create_schedule(B.op)
    run_everywhere(s, [A, B], [a], [np.bincount(a, minlength=bins).astype("int32")])


def test_suppression_of_boxes():
    """The heart of non-maximum suppression: one block, a loop over boxes, a barrier a step."""
    num, iou_threshold = 20, 0.5

    def nms(ins, outs):
        ib = tvm.tir.ir_builder.create()
        boxes, keep = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 32)
        alive = ib.allocate("int32", (32,), name="alive", scope="shared")
        j = tx.var
        alive[j] = 1
        with ib.for_range(0, num, name="i") as i:
            with ib.if_scope(tvm.tir.all(alive[i] > 0, j > i, j < num)):
                left = te.max(boxes[i * 2], boxes[j * 2])
                right = te.min(boxes[i * 2 + 1], boxes[j * 2 + 1])
                inter = te.max(right - left, 0.0)
                union = boxes[i * 2 + 1] - boxes[i * 2] + boxes[j * 2 + 1] - boxes[j * 2] - inter
                with ib.if_scope(inter > iou_threshold * union):
                    alive[j] = 0
            ib.emit(tvm.tir.Call(None, "tir.tvm_storage_sync", ["shared"]))
        with ib.if_scope(j < num):
            keep[j] = alive[j]
        return ib.get()

    boxes = te.placeholder((num, 2), name="boxes")
    keep = te.extern((num,), [boxes], nms, dtype="int32", name="nms")
    start = np.sort(np.random.default_rng(3).uniform(0, 10, num)).astype("float32")
    data = np.stack([start, start + 2], axis=1)
    alive = np.ones(num, "int32")
    for i in range(num):
        for j in range(i + 1, num):
            if alive[i]:
                inter = max(min(data[i, 1], data[j, 1]) - max(data[i, 0], data[j, 0]), 0.0)
                if inter > iou_threshold * (4 - inter):
                    alive[j] = 0
    assert 0 < alive.sum() < num
    s = te.create_schedule(keep.op)
    run_everywhere(s, [boxes, keep], [data], [alive])


def test_exclusive_scan_by_doubling():
    """A scan in shared memory with two buffers in turns, as topi's cumsum does it."""
    n = 64

    def scan(ins, outs):
        ib = tvm.tir.ir_builder.create()
        a, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", n)
        tmp = ib.allocate("int32", (2, n), name="tmp", scope="shared")
        tid = tx.var
        tmp[0, tid] = tvm.tir.if_then_else(tid > 0, a[te.max(tid - 1, 0)], 0)
        for step in range(6):
            src, dst, gap = step % 2, (step + 1) % 2, 1 << step
            with ib.if_scope(tid >= gap):
                tmp[dst, tid] = tmp[src, tid] + tmp[src, tid - gap]
            with ib.else_scope():
                tmp[dst, tid] = tmp[src, tid]
        out[tid] = tmp[0, tid]
        return ib.get()

    A = te.placeholder((n,), "int32", name="A")
    B = te.extern((n,), [A], scan, dtype="int32", name="scan")
    a = np.arange(n, dtype="int32") % 7
    run_everywhere(te.create_schedule(B.op), [A, B], [a], [(np.cumsum(a) - a).astype("int32")])


def test_sort_in_rounds():
    """An odd-even sort in the device's memory, by one block."""
    n = 32

    def sort(ins, outs):
        ib = tvm.tir.ir_builder.create()
        data, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", n // 2)
        tid = tx.var
        temp = ib.allocate("float32", (1,), name="temp", scope="local")
        with ib.for_range(0, 2, name="copy") as c:
            out[tid * 2 + c] = data[tid * 2 + c]
        ib.emit(tvm.tir.Call(None, "tir.tvm_storage_sync", [tvm.tir.StringImm("shared")]))
        with ib.for_range(0, n, name="round") as r:
            first = 2 * tid + (r % 2)
            with ib.if_scope(tvm.tir.all(first + 1 < n, out[first] > out[first + 1])):
                temp[0] = out[first]
                out[first] = out[first + 1]
                out[first + 1] = temp[0]
            ib.emit(tvm.tir.Call(None, "tir.tvm_storage_sync", [tvm.tir.StringImm("shared")]))
        return ib.get()

    A = te.placeholder((n,), name="A")
    B = te.extern((n,), [A], sort, dtype="float32", name="sort")
    a = rand(n)
    run_everywhere(te.create_schedule(B.op), [A, B], [a], [np.sort(a)])


def test_primfunc_with_two_kernels():
    n = 40
    A, B = tvm.tir.decl_buffer((n,), name="A"), tvm.tir.decl_buffer((n,), name="B")
    ib = tvm.tir.ir_builder.create()
    for src, dst in ((A, B), (B, A)):
        with ib.new_scope():
            tx = te.thread_axis("threadIdx.x")
            ib.scope_attr(tx, "thread_extent", n)
            ib.buffer_ptr(dst)[tx.var] = ib.buffer_ptr(src)[n - 1 - tx.var] * 2.0
    func = tvm.tir.PrimFunc([A, B], ib.get()).with_attr("global_symbol", "twice")
    mod = tvm.build(func, target="cuda")
    a, b = rand(n), np.zeros(n, "float32")
    want = a * 4
    mod.run_simt(a, b)
    tvm.testing.assert_allclose(a, want)


if __name__ == "__main__":
    tvm.testing.main()
