"""Layouts by letters, and where elements of one are in another."""

import itertools

import numpy as np
import pytest

import tilewright as tvm
from tests.narrow import some
from tilewright import te, tir
from tilewright.base.errors import UsageError


def test_axes_and_factors():
    layout = tir.layout("NCHW16c")
    assert str(layout) == "NCHW16c" and len(layout) == 5 and list(layout) == list("NCHWc")
    assert layout[0] == "N" and layout[-1] == "c" and "C" in layout and "c" in layout
    assert "O" not in layout and "16" not in layout
    assert layout.index_of("W") == 3 and layout.index_of("O") == -1
    assert layout.factor_of("C") == layout.factor_of("c") == 16 and layout.factor_of("N") == -1
    with pytest.raises(IndexError):
        layout[5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NCHW0c", "the factor of c is 0"),
        ("NCHN", "duplicate axis N"),
        ("NHW4c", "missing axis C"),
        ("NC-H", "at '-H'"),
    ],
)
def test_what_is_no_layout(text, said):
    with pytest.raises(UsageError, match=said):
        tir.layout(text)


@pytest.mark.parametrize(
    ("source", "target"), [("NCHW", "ABCD"), ("", "NCHW"), ("__undef__", "NCHW"), ("NCHW", "NCH")]
)
def test_layouts_of_other_axes(source, target):
    assert tir.bijective_layout(source, target) is None


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("NCHW", "NCHW4c", (2, 8, 3, 5)),
        ("NCHW", "NHWC", (2, 3, 4, 5)),
        ("NCHW4c", "NHWC2c", (1, 2, 3, 2, 4)),
        ("OIHW", "OIHW4i2o", (4, 8, 1, 3)),
    ],
)
def test_elements_are_where_numpy_puts_them(source, target, shape):
    both = some(tir.bijective_layout(source, target))
    new = tuple(int(d) for d in both.forward_shape(shape))
    assert np.prod(new) == np.prod(shape)
    assert tuple(int(d) for d in both.backward_shape(new)) == shape
    seen = set()
    for at in itertools.product(*map(range, shape)):
        there = tuple(int(i) for i in both.forward_index(at))
        assert all(i < n for i, n in zip(there, new))
        assert tuple(int(i) for i in both.backward_index(there)) == at
        seen.add(there)
    assert len(seen) == np.prod(shape)


def test_indices_may_be_expressions():
    both = some(tir.bijective_layout("NC", "NC16c"))
    n, c = te.var("n"), te.var("c")
    found = both.forward_index([n, c])
    assert [str(e) for e in found] == ["n", "c // 16", "c % 16"]
    back = both.backward_index([n, c, te.var("d")])
    assert str(back[1]) == "c * 16 + d"
    assert [int(d) for d in both.forward_shape((1, 20))] == [1, 2, 16]
    with pytest.raises(UsageError, match="has 2 axes, got indices of 1"):
        both.forward_index([n])


def test_logaddexp_has_no_overflow():
    a, b = te.placeholder((3,), name="a"), te.placeholder((3,), name="b")
    c = te.compute((3,), lambda i: te.logaddexp(a[i], b[i]))
    x, y = np.array([1, 1000, -5], "float32"), np.array([2, 1000, 80], "float32")
    out = tvm.nd.empty((3,))
    tvm.build(te.create_schedule(c.op), [a, b, c])(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), np.logaddexp(x, y), rtol=1e-6)
