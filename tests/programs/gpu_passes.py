"""Passes and intrinsics of GPUs by TVM's names."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import te


def lowered(s, args, target="cuda"):
    module = tvm.lower(s, args, name="main")
    return tvm.tir.transform.BindTarget(tvm.target.Target(target, host="llvm"))(module)


def test_thread_storage_sync():
    m, l = te.size_var("m"), te.size_var("l")
    A = te.placeholder((m, l), name="A")
    A1 = te.compute((m, l), lambda i, j: A[i, j], name="A1")
    A2 = te.compute((m, l), lambda i, j: A1[i, j] + 3, name="A2")
    s = te.create_schedule(A2.op)
    xo, _ = s[A2].split(A2.op.axis[0], factor=8)
    s[A2].bind(xo, te.thread_axis("blockIdx.x"))
    s[A1].compute_at(s[A2], xo)
    s[A1].set_scope("shared")
    tx = te.thread_axis("threadIdx.x")
    _, i1 = s[A1].split(A1.op.axis[1], factor=4)
    s[A1].bind(i1, tx)
    _, i2 = s[A2].split(A2.op.axis[1], factor=4)
    s[A2].bind(i2, tx)
    module = lowered(s, [A, A2])
    assert "storage_sync" not in str(module)
    assert "storage_sync" in str(tvm.tir.transform.ThreadSync("shared")(module))
    with pytest.raises(ValueError, match="scopes of barriers"):
        tvm.tir.transform.ThreadSync("global")


def test_allreduce_and_split():
    A = te.placeholder((8, 32), name="A")
    k = te.reduce_axis((0, 32), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(B.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    for target, sign in (("cuda", "tvm_warp_shuffle_down"), ("opencl", "storage_sync")):
        module = tvm.tir.transform.LowerThreadAllreduce()(lowered(s, [A, B], target))
        text = str(module)
        assert "tvm_thread_allreduce" not in text and sign in text
        parts = tvm.tir.transform.SplitHostDevice()(module)
        assert len(parts.functions) == 2


def test_intrinsics_of_the_target():
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    for target, name in (("cuda", "__expf"), ("opencl", "exp")):
        text = str(tvm.tir.transform.LowerIntrin()(lowered(s, [A, B], target)))
        assert f'"{name}"' in text


def test_tensor_core_calls_by_hand():
    """One tile of a matrix product by WMMA, as tensorize's intrinsics write it."""

    def product(ins, outs):
        ib = tvm.tir.ir_builder.create()
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 32)
        frag = {
            name: ib.allocate(dtype, (256,), name=name, scope=f"wmma.{scope}")._buffer.data
            for name, dtype, scope in (
                ("FA", "float16", "matrix_a"),
                ("FB", "float16", "matrix_b"),
                ("FC", "float32", "accumulator"),
            )
        }
        ib.emit(tvm.tir.tvm_fill_fragment(frag["FC"], 16, 16, 16, 0, 0.0))
        for name, buffer in zip(("FA", "FB"), ins):
            ptr = buffer.access_ptr("r")
            ib.emit(tvm.tir.tvm_load_matrix_sync(frag[name], 16, 16, 16, 0, ptr, 16, "row_major"))
        mma = [x for name in ("FC", "FA", "FB", "FC") for x in (frag[name], 0)]
        ib.emit(tvm.tir.tvm_mma_sync(*mma))
        ptr = outs[0].access_ptr("w")
        ib.emit(tvm.tir.tvm_store_matrix_sync(frag["FC"], 16, 16, 16, 0, ptr, 16, "row_major"))
        return ib.get()

    A, B = (te.placeholder((16, 16), "float16", name=x) for x in "AB")
    C = te.extern((16, 16), [A, B], product, dtype="float32", name="C")
    f = tvm.build(te.create_schedule(C.op), [A, B, C], "cuda -arch=sm_80")
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (16, 16)).astype("float16") for _ in "ab")
    c = np.zeros((16, 16), "float32")
    f.run_simt(a, b, c)
    tvm.testing.assert_allclose(c, a.astype("float32") @ b.astype("float32"), rtol=1e-3)
    assert "wmma" in f.imported_modules[0].get_source()


if __name__ == "__main__":
    tvm.testing.main()
