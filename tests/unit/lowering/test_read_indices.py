"""Reads at indices that are data, and what extern operations and intrinsics take for granted."""

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir


@pytest.mark.parametrize("extent", [3, 200, 300])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"])
def test_data_of_any_type_are_indices_of_an_intermediate_tensor(dtype, extent):
    a = te.placeholder((extent,), "int32", name="A")
    index = te.placeholder((4,), dtype, name="I")
    b = te.compute((extent,), lambda i: a[i] * 2, name="B")
    c = te.compute((4,), lambda i: b[index[i]], name="C")
    built = tvm.build(te.create_schedule(c.op), [a, index, c], "llvm")
    last = min(extent - 1, np.iinfo(dtype).max)
    where = np.array([0, last, 1, 2], dtype)
    data, out = np.arange(extent, dtype="int32"), np.zeros(4, "int32")
    built(data, where, out)
    assert out.tolist() == (data * 2)[where].tolist()


def read_by(make):
    a = te.placeholder((3, 5), "float32", name="A")
    b = te.compute((3, 5), lambda i, j: a[i, j] + 1, name="B")
    c = te.extern([(3, 5)], [b], make, name="C", dtype="float32")
    s = te.create_schedule(c.op)
    s[b].storage_align(b.op.axis[0], 4, 0)
    return tvm.build(s, [a, c], "llvm")


def test_loops_of_the_users_read_aligned_rows():
    def body(ins, outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 3, name="i") as i, ib.for_range(0, 5, name="j") as j:
            ib.emit(outs[0].vstore([i, j], ins[0].vload([i, j]) * 3))
        return ib.get()

    data, out = np.arange(15, dtype="float32").reshape(3, 5), np.zeros((3, 5), "float32")
    read_by(body)(data, out)
    assert (out == (data + 1) * 3).all()


@tvm.register_func("tests.unit.tripled", override=True)
def tripled(source, target):
    target.copyfrom(source.numpy() * 3)


def test_functions_of_the_runtime_get_the_strides_of_aligned_rows():
    data, out = np.arange(15, dtype="float32").reshape(3, 5), np.zeros((3, 5), "float32")
    read_by(lambda ins, outs: tir.call_packed("tests.unit.tripled", ins[0], outs[0]))(data, out)
    assert (out == (data + 1) * 3).all()


def test_functions_of_the_runtime_get_the_strides_of_arguments():
    a = te.placeholder((te.var("n"), te.var("m")), "float32", name="A")
    c = te.extern(
        [a.shape], [a], lambda ins, outs: tir.call_packed("tests.unit.tripled", ins[0], outs[0]),
        name="C", dtype="float32",
    )  # fmt: skip
    data, out = np.arange(30, dtype="float32").reshape(3, 10)[:, ::2], np.zeros((3, 5), "float32")
    tvm.build(te.create_schedule(c.op), [a, c], "llvm")(data, out)
    assert (out == data * 3).all()


def test_pointers_to_aligned_rows_are_refused():
    with pytest.raises(tvm.ScheduleError, match="passes the address of B on"):
        read_by(lambda ins, outs: tir.call_extern("int32", "f", ins[0].data, outs[0].data))


def reducing_intrinsic(start):
    """The sum of four numbers, beginning at 0; `start`: also says that it begins at 1."""
    x = te.placeholder((4,), "float32", name="x")
    k = te.reduce_axis((0, 4), "k")
    init = {"init": 1.0} if start else {}
    y = te.compute((1,), lambda i: te.sum(x[k], axis=k, **init), name="y")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        ib.emit(outs[0].vstore([0], tir.const(1.0 if start else 0.0, "float32")))
        with ib.for_range(0, 4, name="j") as j:
            ib.emit(outs[0].vstore([0], outs[0].vload([0]) + ins[0].vload([j])))
        return ib.get()

    return te.decl_tensor_intrin(y.op, body)


@pytest.mark.parametrize("start", [False, True])
def test_an_intrinsic_begins_where_the_reduction_begins(start):
    a = te.placeholder((6, 4), "float32", name="A")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k, init=1.0), name="B")
    s = te.create_schedule(b.op)
    s[b].tensorize(k, reducing_intrinsic(start))
    if not start:
        with pytest.raises(tvm.ScheduleError, match="Failed to match the compute"):
            tvm.lower(s, [a, b])
        return
    data, out = np.arange(24, dtype="float32").reshape(6, 4), np.zeros(6, "float32")
    tvm.build(s, [a, b], "llvm")(data, out)
    assert (out == data.sum(1) + 1).all()
