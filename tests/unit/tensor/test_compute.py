import functools

import numpy as np
import pytest

from tests.narrow import int_of, some, value_of
from tilewright import te
from tilewright.loopir.expr import IntImm, Var
from tilewright.loopir.iter import IterVar, ProducerLoad
from tilewright.tensor.op import ComputeOp, PlaceholderOp


def names(tensor):
    return [a.var.name for a in tensor.op.axis]


def extents(tensor):
    return [int(d) for d in tensor.shape]


def test_placeholder_has_tvm_defaults():
    a = te.placeholder((3, 4))
    assert (a.name, a.dtype, extents(a), a.ndim) == ("placeholder", "float32", [3, 4], 2)
    assert isinstance(a.op, PlaceholderOp) and a.op.output(0) is a and a.value_index == 0


@pytest.mark.parametrize(
    ("shape", "expected"),
    [(5, [5]), ((5,), [5]), ([2, 3], [2, 3]), ((), []), ((4.0, 2), [4, 2]), (np.int64(7), [7])],
)
def test_shapes_as_users_write_them(shape, expected):
    assert extents(te.placeholder(shape)) == expected


def test_numpy_extents_do_not_widen_indices():
    shape = tuple(np.zeros((3, 5)).shape) + (np.int64(2),)
    t = te.compute(shape, lambda *i: 1.0)
    assert {a.var.dtype for a in t.op.axis} == {"int32"}


def test_symbolic_shape_keeps_its_variables():
    n, m = te.var("n"), te.size_var("m")
    t = te.compute((n, m * 2), lambda i, j: 0.0)
    assert t.shape[0] is n and str(t.shape[1]) == "m * 2"
    assert n.dtype == "int32" and str(t) == "Tensor(shape=[n, m * 2], op.name=compute)"


def test_axes_take_the_names_of_the_parameters():
    assert names(te.compute((2, 3, 4), lambda batch, row, col: 0.0)) == ["batch", "row", "col"]


def test_parameterless_lambda_gets_numbered_axes():
    t = te.compute((2, 3), lambda: 1.0)
    assert names(t) == ["ax0", "ax1"] and extents(t) == [2, 3]


def test_varargs():
    seen: list[int] = []

    def first(*ix):
        seen.append(len(ix))
        return ix[0]

    t = te.compute((2, 3, 4), first)
    assert names(t) == ["i0", "i1", "i2"] and seen == [3] and t.dtype == "int32"
    t = te.compute((2, 3, 4), lambda n, *rest: len(rest) + n)
    assert names(t) == ["n", "i0", "i1"]
    t = te.compute((2, 3, 4), lambda n, *rest: 0.0, varargs_names=["y", "x"])
    assert names(t) == ["n", "y", "x"]


def test_fewer_parameters_leave_implicit_axes():
    a = te.placeholder((5,), name="a")
    t = te.compute((5, 3, 2), lambda i: a[i])
    assert names(t) == ["i", "ax0", "ax1"] and extents(t) == [5, 3, 2]
    assert all(x.iter_type == IterVar.DataPar for x in t.op.axis)


def test_callables_of_all_kinds():
    class Row:
        def element(self, i, j):
            return i + j

        def __call__(self, i, j):
            return i * j

    assert names(te.compute((2, 2), Row().element)) == ["i", "j"]
    assert names(te.compute((2, 2), Row())) == ["i", "j"]
    assert names(te.compute((2, 2), functools.partial(lambda s, i, j: i + s, 3))) == ["i", "j"]
    made = [te.compute((2,), lambda i, k=k: i + k) for k in range(3)]
    assert [names(t) for t in made] == [["i"]] * 3 and str(made[2].op.body[0]) == "i + 2"


def test_several_outputs():
    a = te.placeholder((4,), name="a")
    x, y = te.compute((4,), lambda i: (a[i] + 1.0, te.floordiv(i, 2)), name="two")
    assert x.op is y.op and (x.value_index, y.value_index) == (0, 1)
    assert (x.dtype, y.dtype) == ("float32", "int32") and x.op.num_outputs == 2
    assert (x.name, y.name) == ("two.v0", "two.v1")
    assert x.op.output(1) is y and x.op.output(0) is x


def test_results_convert():
    a = te.placeholder((), name="a")
    assert te.compute((), lambda: 3).dtype == "int32"
    assert te.compute((), lambda: True).dtype == "bool"
    assert te.compute((2,), lambda i: a).op.input_tensors == (a,)
    assert te.compute((2,), lambda i: np.float64(2)).dtype == "float64"


def test_zero_dimensional():
    a = te.placeholder((), "int32", name="a")
    t = te.compute((), lambda: a() + 1)
    assert t.shape == () and t.op.axis == () and isinstance(t(), ProducerLoad)
    assert isinstance(a.asexpr(), ProducerLoad)


def test_int64_extents_give_int64_axes():
    n = te.var("n", "int64")
    t = te.compute((n, 4), lambda i, j: i)
    assert [a.var.dtype for a in t.op.axis] == ["int64", "int32"] and t.dtype == "int64"


def test_tags_and_attrs():
    t = te.compute((2,), lambda i: i, tag="elemwise", attrs={"k": 1})
    assert t.op.tag == "elemwise" and t.op.attrs == {"k": 1}
    with te.tag_scope(tag="conv"):
        inside = te.compute((2,), lambda i: i)
    assert inside.op.tag == "conv" and te.compute((2,), lambda i: i).op.tag == ""

    @te.tag_scope(tag="relu")
    def relu():
        return te.compute((2,), lambda i: i)

    assert relu().op.tag == "relu"


def test_tag_scope_ends_with_an_error():
    with pytest.raises(RuntimeError), te.tag_scope(tag="x"):
        raise RuntimeError
    assert te.compute((2,), lambda i: i).op.tag == ""


def test_slices():
    a = te.placeholder((2, 3), name="a")
    row = a[1]
    t = te.compute((3,), lambda j: row[j] + a[0, j] * 2.0)
    assert t.op.input_tensors == (a,) and repr(row) == "a[1]"
    assert a[1][2].dtype == "float32"
    i = te.reduce_axis((0, 2), "i")
    assert str(a[i, 2].asexpr()) == "a[i, 2]" and str(a(i, 2)) == "a[i, 2]"
    assert str(a[0, 0] == 1.0) == "a[0, 0] == T.float32(1)"
    assert str(te.exp(a[0, 0])) == "T.exp(a[0, 0])"


def test_tensors_are_compared_by_identity():
    a, b = te.placeholder((2,), name="a"), te.placeholder((2,), name="a")
    assert a == a and a != b and len({a, b, a.op.output(0)}) == 2 and a in [b, a]
    assert a.same_as(a) and not a.same_as(b) and len(a) == 2


def test_inputs_come_once_in_order_of_first_use():
    a, b, c = (te.placeholder((4,), "int32", name=x) for x in "abc")
    t = te.compute((4,), lambda i: c[i] + a[b[i]] + c[0] + b[0])
    assert [x.name for x in t.op.input_tensors] == ["c", "b", "a"]


def test_root_iter_vars():
    a = te.placeholder((4, 5), name="a")
    k = te.reduce_axis((0, 5), "k")
    t = te.compute((4,), lambda i: te.sum(a[i, k], axis=k))
    assert t.op.root_iter_vars() == (*t.op.axis, k) and t.op.reduce_axis == (k,)
    assert isinstance(t.op, ComputeOp) and a.op.root_iter_vars() == ()


def test_deep_bodies_are_walked_without_recursion():
    a = te.placeholder((4,), name="a")

    def body(i):
        e = a[i] + 0.5
        for _ in range(20000):
            e = e + 1.5
        return e

    assert te.compute((4,), body).op.input_tensors == (a,)


def test_axis_declarations():
    k = te.reduce_axis((2, 7), "k")
    assert (int_of(some(k.dom).min), int_of(some(k.dom).extent), k.iter_type) == (
        2,
        5,
        IterVar.CommReduce,
    )
    x = te.thread_axis("threadIdx.x")
    assert x.dom is None and x.thread_tag == "threadIdx.x" and x.var.name == "threadIdx.x"
    y = te.thread_axis((0, 32), "threadIdx.y", name="ty")
    assert (
        int_of(some(y.dom).extent) == 32
        and y.var.name == "ty"
        and y.iter_type == IterVar.ThreadIndex
    )
    assert isinstance(te.var("v", "float32"), Var) and isinstance(te.const(3), IntImm)
    assert te.const(3.0).dtype == "int32" and te.const(3, "float16").dtype == "float16"


def test_every_name_of_te_resolves():
    for name in te.__all__:  # type: ignore[attr-defined]
        assert getattr(te, name) is not None
    assert callable(te.schedule.PostDFSOrder) and te.schedule.create_schedule is te.create_schedule
    with pytest.raises(AttributeError, match="no_such"):
        te.no_such  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="no_such"):
        te.schedule.no_such  # type: ignore[attr-defined]  # noqa: B018


def test_specialized_condition():
    n = te.var("n")
    assert te.SpecializedCondition.current() is None
    with te.SpecializedCondition([n == 128]) as outer:
        with te.SpecializedCondition(n > 3) as inner:
            assert te.SpecializedCondition.current() is inner
        assert te.SpecializedCondition.current() is outer and len(outer.clauses) == 1
    assert te.SpecializedCondition.current() is None


def test_numbers_in_attributes_are_constants():
    given = {"n": 2, "parts": [3, [True]], "name": "x", "inner": {"f": 0.5}}
    made = te.compute((4,), lambda i: i, attrs=given).op.attrs
    assert (value_of(made["n"]), made["name"]) == (2, "x")
    assert value_of(made["parts"][0]) == 3 and made["parts"][1][0].dtype == "bool"
    assert value_of(made["inner"]["f"]) == 0.5 and given["n"] == 2
