"""te.create_prim_func: functions of tensor programs; and JSON text of all parts of programs."""

import numpy as np
import pytest

import tilewright as tvm
from tests.narrow import some
from tilewright import te, tir
from tilewright.base.errors import TilewrightError, UsageError
from tilewright.te.operation import create_prim_func_from_outputs


def two_stages():
    a = te.placeholder((4, 5), name="A")
    b = te.compute((4, 5), lambda i, j: a[i, j] * 2, name="B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((4,), lambda i: te.sum(b[i, k], axis=k), name="C")
    return a, c


def test_the_function_has_loops_and_can_be_built():
    a, c = two_stages()
    func = te.create_prim_func([a, c])
    assert isinstance(func, tir.PrimFunc) and func.attrs["global_symbol"] == "main"
    assert "T.allocate([4, 5]" in str(func) and "for i, j in T.grid(4, 5)" in str(func)
    values = np.arange(20, dtype="float32").reshape(4, 5)
    out = tvm.nd.empty((4,))
    tvm.build(func, target="llvm")(tvm.nd.array(values), out)
    np.testing.assert_array_equal(out.numpy(), values.sum(1) * 2)


def test_the_order_of_arguments_is_given_or_found():
    a, c = two_stages()
    func = te.create_prim_func([c, a])
    assert [b.name for b in func.buffer_map.values()] == ["C", "A"]
    found = create_prim_func_from_outputs([c])
    assert [b.name for b in found.buffer_map.values()] == ["A", "C"]


def test_sizes_may_be_symbolic():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    func = te.create_prim_func([a, b])
    out = tvm.nd.empty((3,))
    tvm.build(func)(tvm.nd.array(np.zeros(3, "float32")), out)
    np.testing.assert_array_equal(out.numpy(), [1, 1, 1])


def test_what_is_refused():
    a, c = two_stages()
    with pytest.raises(UsageError, match="widened where they do not fit"):
        te.create_prim_func([a, c], index_dtype_override="int64")
    with pytest.raises(UsageError, match="placeholders only"):
        te.create_prim_func([a])
    with pytest.raises(UsageError, match="tensors and variables"):
        te.create_prim_func([3])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="Relax is not part"):
        te.create_relax_prim_func([a, c])


def test_schedules_and_tensors_as_json():
    a, c = two_stages()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], 2)
    again = tvm.ir.load_json(tvm.ir.save_json(s))
    assert isinstance(again, te.Schedule) and again.outputs[0] is not s.outputs[0]
    assert str(again.outputs[0].body) == str(s.outputs[0].body)
    names = [x.var.name for x in again.stages[-1].leaf_iter_vars]
    assert names == ["i.outer", "i.inner", "k"]
    tensor = tvm.ir.load_json(tvm.ir.save_json(c))
    assert isinstance(tensor, te.Tensor) and str(tensor) == str(c)
    assert isinstance(tvm.ir.load_json(tvm.ir.save_json(a.op)), te.PlaceholderOp)


def test_other_objects_as_json():
    x = te.var("x")
    target = tvm.target.Target("nvidia/nvidia-a100")
    array = tvm.nd.array(np.arange(6, dtype="int16").reshape(2, 3))
    found = tvm.ir.load_json(tvm.ir.save_json({"t": target, "a": [array, 1, "text"], "e": x + 1}))
    assert found["t"] == target and found["a"][1:] == [1, "text"]
    np.testing.assert_array_equal(found["a"][0].numpy(), array.numpy())
    assert isinstance(found["e"], tir.Add)
    loop = tir.For(x, 0, 4, 0, tir.Evaluate(x))
    assert tvm.ir.structural_equal(tvm.ir.load_json(tvm.ir.save_json(loop)), loop)
    text = some(tvm.ir.save_json(target)).replace('"version": 1', '"version": 9')
    with pytest.raises(TilewrightError, match="version 9, this is 1"):
        tvm.ir.load_json(text)
    with pytest.raises(TilewrightError, match="no object saved as JSON"):
        tvm.ir.load_json('{"kind": "tilewright object", "version": 1, "what": "hat"}')


def test_scripts_as_json():
    @te.hybrid.script
    def doubled(a):
        b = output_tensor((4,), "float32")  # type: ignore[name-defined] # noqa: F821
        for i in range(4):
            b[i] = a[i] * 2.0
        return b

    a = te.placeholder((4,), name="a")
    again = tvm.ir.load_json(tvm.ir.save_json(doubled(a)))
    assert isinstance(again.op, te.HybridOp) and len(again.op.axis) == 1
    out = tvm.nd.empty((4,))
    given = again.op.input_tensors[0]
    tvm.build(te.create_schedule(again.op), [given, again])(
        tvm.nd.array(np.arange(4, dtype="float32")), out
    )
    np.testing.assert_array_equal(out.numpy(), [0, 2, 4, 6])
