import numpy as np
import pytest

from tests.narrow import int_of
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.tensor.broadcast import broadcast, broadcast_shape

RNG = np.random.default_rng(3)


def ints(*shape, dtype="float32"):
    return RNG.integers(-8, 9, shape).astype(dtype)


OPERATORS = [
    ("add", lambda x, y: x + y),
    ("subtract", lambda x, y: x - y),
    ("multiply", lambda x, y: x * y),
    ("less", lambda x, y: x < y),
    ("less_equal", lambda x, y: x <= y),
    ("greater", lambda x, y: x > y),
    ("greater_equal", lambda x, y: x >= y),
]
SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 1, 5), (3, 1)), ((1,), (0,))]


@pytest.mark.parametrize(("name", "apply"), OPERATORS)
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_tensor_with_tensor(name, apply, left, right):
    a, b = te.placeholder(left, name="a"), te.placeholder(right, name="b")
    x, y = ints(*left), ints(*right)
    t = apply(a, b)
    assert t.op.name == f"T_{name}" and t.op.tag == "broadcast"
    expected = apply(x, y)
    result = te_eval(t, {a: x, b: y})[0]
    assert result.dtype == expected.dtype and np.array_equal(result, expected)


@pytest.mark.parametrize(("name", "apply"), OPERATORS)
def test_tensor_with_scalar_on_both_sides(name, apply):
    a, x = te.placeholder((3, 4), name="a"), ints(3, 4)
    for scalar in (2, 2.5, np.float32(3)):
        assert np.array_equal(te_eval(apply(a, scalar), {a: x})[0], apply(x, np.float32(scalar)))
        assert np.array_equal(te_eval(apply(scalar, a), {a: x})[0], apply(np.float32(scalar), x))


def test_division_and_integer_operators():
    a, b = te.placeholder((7,), name="a"), te.placeholder((7,), name="b")
    x, y = ints(7), np.arange(1, 8).astype("float32")
    np.testing.assert_array_equal(te_eval(a / b, {a: x, b: y})[0], x / y)
    np.testing.assert_array_equal(te_eval(1 / b, {b: y})[0], np.float32(1) / y)
    p, q = te.placeholder((7,), "int32", "p"), te.placeholder((7,), "int32", "q")
    x, y = ints(7, dtype="int32"), np.arange(1, 8).astype("int32")
    for apply in (
        lambda u, v: u // v,
        lambda u, v: u % v,
        lambda u, v: u & v,
        lambda u, v: u | v,
        lambda u, v: u ^ v,
        lambda u, v: u << (v % 4),
        lambda u, v: u >> (v % 4),
    ):
        np.testing.assert_array_equal(te_eval(apply(p, q), {p: x, q: y})[0], apply(x, y))
    np.testing.assert_array_equal(te_eval(~p, {p: x})[0], ~x)
    np.testing.assert_array_equal(te_eval(20 // q, {q: y})[0], 20 // y)
    with pytest.raises(TilewrightError, match="integer divisions"):
        _ = p / q


def test_unary_and_conversion():
    a, x = te.placeholder((2, 3), name="a"), ints(2, 3)
    assert (-a).op.tag == "elemwise" and a.astype("float32") is a
    np.testing.assert_array_equal(te_eval(-a, {a: x})[0], -x)
    np.testing.assert_array_equal(te_eval(a.astype("int8"), {a: x})[0], x.astype("int8"))


def test_types_are_brought_together():
    a, b = te.placeholder((3,), "int8", "a"), te.placeholder((3,), "float32", "b")
    assert (a + b).dtype == "float32" and (a + 1).dtype == "int32" and (a + 1.5).dtype == "float32"


def test_tensor_without_dimensions_meets_expressions():
    a, s = te.placeholder((4,), name="a"), te.placeholder((), name="s")
    t = te.compute((4,), lambda i: a[i] * s + s * a[i])
    assert t.op.input_tensors == (a, s)
    np.testing.assert_array_equal(
        te_eval(t, {a: ints(4) * 0 + 3, s: np.float32(2).reshape(())})[0], [12] * 4
    )
    assert (s + 1).ndim == 0 and (s + a).ndim == 1 and (s * s).op.name == "T_multiply"


def test_symbolic_shapes():
    n, m = te.var("n"), te.var("m")
    a, b, c = te.placeholder((n, m)), te.placeholder((m,)), te.placeholder((n, 1))
    x, y, z = ints(3, 4), ints(4), ints(3, 1)
    np.testing.assert_array_equal(te_eval(a + b * c, {a: x, b: y, c: z})[0], x + y * z)
    d = te.placeholder((4,))
    assert int_of((b + d).shape[0]) == 4
    assert (a + te.placeholder((1,))).shape[1] is m


def test_shapes_that_do_not_fit():
    a, b = te.placeholder((3, 4)), te.placeholder((3,))
    with pytest.raises(TilewrightError, match=r"Incompatible broadcast dims: 4 and 3"):
        _ = a + b
    n, m = te.var("n"), te.var("m")
    with pytest.raises(TilewrightError, match="Incompatible broadcast dims: n and m"):
        broadcast_shape([n], [m])


def test_nonsense_operands_are_type_errors():
    with pytest.raises(TypeError):
        _ = te.placeholder((3,)) + [1, 2]


def test_function_of_several():
    a, b = te.placeholder((3, 1)), te.placeholder((4,))
    t = broadcast(lambda x, y, z: te.if_then_else(x > y, x, z), a, b, 7.0, name="pick")
    x, y = ints(3, 1), ints(4)
    np.testing.assert_array_equal(te_eval(t, {a: x, b: y})[0], np.where(x > y, x, 7))
    assert [v.var.name for v in t.op.axis] == ["ax0", "ax1"]


def test_tags_tell_one_tensor_from_several():
    a, s, n = te.placeholder((2, 3), name="a"), te.placeholder((), name="s"), te.var("n")
    for one in (a + 1, 2 * a, a - n, n + s, s * n):
        assert isinstance(one, te.Tensor) and one.op.tag == "elemwise"
    for several in (a + a, a * s, a[0, 0] + s, s - a[0, 0]):
        assert isinstance(several, te.Tensor)
    assert (a + a).op.tag == (a * s).op.tag == "broadcast"
