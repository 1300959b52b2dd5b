import inspect
import math

import pytest

from tests.narrow import int_of, value_of
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.loopir.expr import FloatImm, IntImm, Max, Min, Select, Var
from tilewright.loopir.iter import Reduce
from tilewright.loopir.op import select
from tilewright.tensor.reduce import builtin_kind


def matrix(dtype="float32"):
    return te.placeholder((4, 6), dtype, name="a"), te.reduce_axis((0, 6), "k")


def body(fcompute, dtype="float32"):
    a, k = matrix(dtype)
    return te.compute((4,), lambda i: fcompute(a[i, k], k)).op.body[0]


@pytest.mark.parametrize(
    ("reducer", "dtype", "identity"),
    [
        (te.sum, "float32", 0.0),
        (te.sum, "int8", 0),
        (te.prod, "float64", 1.0),
        (te.prod, "uint8", 1),
        (te.max, "float32", -math.inf),
        (te.max, "int8", -128),
        (te.max, "uint16", 0),
        (te.min, "float16", math.inf),
        (te.min, "int32", 2**31 - 1),
        (te.min, "uint8", 255),
    ],
)
def test_builtin_reducers(reducer, dtype, identity):
    r = body(lambda e, k: reducer(e, axis=k), dtype)
    assert isinstance(r, Reduce) and r.dtype == dtype and builtin_kind(r.combiner) is not None
    (e,) = r.combiner.identity_element
    assert isinstance(e, (IntImm, FloatImm)) and e.value == identity and e.dtype == dtype
    assert [v.name for v in (*r.combiner.lhs, *r.combiner.rhs)] == ["x", "y"]
    assert value_of(r.condition) == 1 and r.init == () and r.value_index == 0


def test_reductions_print_as_in_the_tutorial():
    r = body(lambda e, k: te.sum(e, axis=k))
    assert str(r) == (
        "T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), source=[a[i, k]], init=[], "
        'axis=[T.iter_var(k, T.Range(0, 6), "CommReduce", "")], condition=T.bool(True), '
        "value_index=0)"
    )


def test_reducers_combine_when_called_without_axes():
    x, y = Var("x", "float32"), Var("y", "float32")
    assert isinstance(te.max(x, y), Max) and isinstance(te.min(x, 0.0), Min)
    assert str(te.sum(x, y, x)) == "x + y + x" and int_of(te.max(te.const(3), 5)) == 5
    assert str(te.prod(x, y, x, y)) == "x * y * x * y"


def test_one_axis_several_axes_and_lists():
    a = te.placeholder((3, 4), name="a")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 4), "j")
    t = te.compute((), lambda: te.sum(a[i, j], axis=[i, j]))
    assert t.op.reduce_axis == (i, j)
    assert te.compute((), lambda: te.sum(a[i, 0], axis=(i,))).op.reduce_axis == (i,)


def test_no_axes_is_one_element():
    a = te.placeholder((3,), name="a")
    t = te.compute((3,), lambda i: te.sum(a[i], axis=[]))
    assert str(t.op.body[0]) == "a[i]" and t.op.reduce_axis == ()
    t = te.compute((3,), lambda i: te.max(a[i], axis=[], where=i > 0))
    assert isinstance(t.op.body[0], Select)
    t = te.compute((3,), lambda i: te.sum(a[i], axis=[], init=2.0))
    assert str(t.op.body[0]) == "T.float32(2) + a[i]"


def test_where_and_init():
    a, k = matrix()
    b = te.placeholder((4,), name="b")
    t = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=k < 3, init=b[i]))
    r = t.op.body[0]
    assert str(r.condition) == "k < 3" and str(r.init[0]) == "b[i]"
    assert t.op.input_tensors == (a, b)
    r = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, init=1)).op.body[0]
    assert r.init[0].dtype == "float32" and r.init[0].value == 1.0


def test_an_axis_serves_in_two_computes():
    a, k = matrix()
    x = te.compute((4,), lambda i: te.sum(a[i, k], axis=k))
    y = te.compute((4,), lambda i: te.max(a[i, k], axis=k))
    assert x.op.reduce_axis == y.op.reduce_axis == (k,)


def argmax():
    def combine(x, y):
        return select(x[1] >= y[1], x[0], y[0]), select(x[1] >= y[1], x[1], y[1])

    return te.comm_reducer(combine, lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), "argmax")


def test_tuple_reductions_share_everything_but_the_index():
    a, k = matrix()
    index, value = te.compute((4,), lambda i: argmax()((k.var, a[i, k]), axis=k), name="am")
    assert index.op is value.op and (index.dtype, value.dtype) == ("int32", "float32")
    first, second = index.op.body
    assert first.combiner is second.combiner and (first.value_index, second.value_index) == (0, 1)
    assert [v.name for v in first.combiner.lhs] == ["x_0", "x_1"]
    assert builtin_kind(first.combiner) is None and index.op.input_tensors == (a,)


def test_user_reducer_of_one_value():
    product = te.comm_reducer(lambda p, q: p * q, lambda t: te.const(1, t), name="product")
    r = body(lambda e, k: product(e, axis=k))
    assert [v.name for v in (*r.combiner.lhs, *r.combiner.rhs)] == ["p", "q"]
    assert product.__name__ == "product" and str(product(Var("a"), 3)) == "a * 3"


def test_plain_numbers_in_reducers_take_the_type_reduced():
    either = te.comm_reducer(lambda x, y: te.any(x, y), lambda t: False, name="either")
    r = body(lambda e, k: either(e > 0, axis=k))
    assert r.dtype == "bool" and r.combiner.identity_element[0].dtype == "bool"
    half = te.comm_reducer(lambda x, y: x + y, lambda t: 0, name="half")
    assert body(lambda e, k: half(e, axis=k), "float16").combiner.identity_element[0].value == 0.0


def test_any_and_all_join_conditions_or_reduce():
    a, k = matrix()
    i, j = Var("i"), Var("j")
    assert str(te.any(i > 0, j > 0)) == "i > 0 or j > 0"
    assert str(te.all(i > 0, j > 0, i < 4)) == "i > 0 and j > 0 and i < 4"
    for reducer, combined, identity in ((te.any, "x or y", 0), (te.all, "x and y", 1)):
        t = te.compute((4,), lambda i, r=reducer: r(a[i, k] > 0, axis=k, where=k < 5))
        (r,) = t.op.body
        assert str(r.combiner.result[0]) == combined and t.dtype == "bool"
        assert r.combiner.identity_element[0].value == identity and str(r.condition) == "k < 5"
        assert str(
            te.compute((4,), lambda i, r=reducer: r(a[i, k], axis=k)).op.body[0].source[0]
        ) == ("a[i, k] != T.float32(0)")
    fails(lambda: te.any(i > 0, j > 0, axis=k), "one condition")


def fails(make, *words):
    with pytest.raises(TilewrightError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_misuse():
    a, k = matrix()
    i = te.placeholder((3,), name="x").op.output(0)
    x = te.compute((3,), lambda j: i[j]).op.axis[0]
    fails(lambda: te.sum(a[0, x], axis=x), "axis must be made by te.reduce_axis")
    fails(lambda: te.sum(a[0, k], axis=[k, k]), "twice")
    fails(lambda: te.sum(a[0, k], axis=k, init=[1, 2]), "Number of inits should match")
    fails(lambda: te.sum(a[0, k], axis=k, init=a[0, 0] + 1), "init can only be")
    fails(lambda: te.comm_reducer(lambda x: x, lambda t: 0), "two arguments")
    bad = te.comm_reducer(lambda x, y: (x[0], y[0]), lambda t, u: (0,), "bad")
    fails(lambda: bad((a[0, k], a[1, k]), axis=k), "bad", "must give 2 values")
    widens = te.comm_reducer(lambda x, y: (x + y).astype("float64"), lambda t: 0, "widens")
    fails(lambda: widens(a[0, k], axis=k), "widens", "float64")
    fails(lambda: te.max(a, a), "whole tensors")


def test_reducers_say_how_they_are_called():
    names = list(inspect.signature(te.sum).parameters)
    assert names == ["expr", "axis", "where", "init", "args"]
    mine = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, t))
    assert str(inspect.signature(mine)) == str(inspect.signature(te.max))
