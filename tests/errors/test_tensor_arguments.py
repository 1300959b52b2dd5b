"""Tensor programs put together out of things that are no shape, dtype, axis or function."""

import math

import numpy as np
import pytest

from tests.narrow import int_of, value_of
from tilewright import te, tir
from tilewright.base.errors import OperandError, TilewrightError

JUNK = [None, 2.5, math.nan, "a\nb", b"x", 1j, [], {}, object(), len, te.var("f", "float32")]


def message(make):
    with pytest.raises(TilewrightError) as caught:
        make()
    return str(caught.value)


def matrix():
    return te.placeholder((4, 5), name="A"), te.reduce_axis((0, 5), "k")


@pytest.mark.parametrize("value", [None, 2.5, math.nan, math.inf, "x", b"x", 1j, object(), len])
def test_what_is_no_extent(value):
    for shape in ((3, value), [value]):
        for make in (
            lambda s=shape: te.placeholder(s),
            lambda s=shape: te.compute(s, lambda *i: 1.0),
            lambda s=shape: te.extern(s, [], lambda ins, outs: None, dtype="int8"),
        ):
            assert "a shape holds integers, got" in message(make)
    text = message(lambda: te.reduce_axis((0, value)))
    assert "the domain of an axis holds integers" in text or "in an expression" in text


def test_extents_that_no_array_has():
    assert "zero or more, got -1" in message(lambda: te.placeholder(-1))
    assert "does not fit 64 bits" in message(lambda: te.placeholder((2**63,)))
    a, _ = matrix()
    assert "Tensor(shape=[4, 5], op.name=A) stands where one element is needed" in message(
        lambda: te.placeholder(a)
    )
    assert value_of(te.placeholder(np.array(3)).shape[0]) == 3
    assert [int_of(d) for d in te.placeholder(np.array([2, 3])).shape] == [2, 3]


@pytest.mark.parametrize("value", [0, 2.5, "float33", "x", b"x", [], {}, object(), len, math.nan])
def test_what_is_no_data_type(value):
    a, _ = matrix()
    for make in (
        lambda: te.placeholder((3,), value),
        lambda: te.var("n", value),
        lambda: a[0, 0].astype(value),
        lambda: tir.const(1, value),
        lambda: te.extern((3,), [a], lambda ins, outs: None, dtype=[value]),
        lambda: tir.decl_buffer((3,), value),
    ):
        assert f"unknown data type {value!r}" in message(make)
    assert "unknown data type None" in message(lambda: a[0, 0].astype(None))


@pytest.mark.parametrize("value", [None, 3, 2.5, [], ("a",), b"x"])
def test_what_is_no_name(value):
    got = f"must be text, got {value!r}"
    one = {"name": value}
    assert f"the name of an operation {got}" in message(lambda: te.placeholder((3,), **one))
    assert got in message(lambda: te.compute((3,), lambda i: 1.0, **one))
    assert f"the name of a variable {got}" in message(lambda: te.var(value))
    assert f"the name of a variable {got}" in message(lambda: te.size_var(value))
    assert f"the name of an axis {got}" in message(lambda: te.reduce_axis((0, 3), value))
    assert f"the tag {got}" in message(lambda: te.compute((3,), lambda i: 1.0, tag=value))
    assert f"name {got}" in message(lambda: tir.decl_buffer((3,), name=value))
    assert f"scope {got}" in message(lambda: tir.decl_buffer((3,), scope=value))


@pytest.mark.parametrize("value", [None, 3, "f", [], 2.5])
def test_what_is_no_function(value):
    a, _ = matrix()
    got = f"must be a function, got {value!r}"
    assert f"fcompute {got}" in message(lambda: te.compute((3,), value))
    assert f"fcompute {got}" in message(lambda: te.extern((3,), [a], value))
    assert f"fcombine {got}" in message(lambda: te.comm_reducer(value, lambda t: 0))
    assert f"fidentity {got}" in message(lambda: te.comm_reducer(lambda x, y: x + y, value))


@pytest.mark.parametrize("value", [None, 3, "A", [3], 2.5, object()])
def test_what_is_no_tensor(value):
    a, _ = matrix()
    double = te.compute((4, 5), lambda i, j: a[i, j] * 2.0)
    assert "the output must be a tensor, got" in message(lambda: te.gradient(value, [a]))
    assert "inputs must be tensors, got" in message(lambda: te.gradient(double, value))
    assert "expect inputs to be tensor, got" in message(lambda: te.extern((3,), value, len))
    if value is not None:
        text = message(lambda: te.gradient(double, [a], value))
        assert "the head must be a tensor, got" in text


@pytest.mark.parametrize("value", [0, 2.5, "k", {}, te.var("n"), object(), True])
def test_what_is_no_axis_of_a_reduction(value):
    a, k = matrix()
    for axis in (value, [value], (k, value)):
        text = message(lambda x=axis: te.sum(a[0, 0], axis=x))
        assert "sum: axis must be made by te.reduce_axis, got" in text
    assert "te.reduce_axis" in message(lambda: te.sum(a[0, k]))
    assert "te.reduce_axis" in message(lambda: te.max(a[0, k], where=a[0, k] > 0))
    row = te.compute((4, 5), lambda i, j: 1.0).op.axis[0]
    assert "te.reduce_axis" in message(lambda: te.sum(a[row, 0], axis=row))


def test_arguments_of_a_reduction():
    a, k = matrix()
    takes = "sum takes expr, axis, where and init"
    assert takes in message(lambda: te.sum(a[0, k], k, None, None, 3))
    assert takes in message(lambda: te.sum(a[0, k], k, axis=k))
    assert takes in message(lambda: te.sum(a[0, k], axis=k, start=3))
    assert "the same axis stands twice" in message(lambda: te.sum(a[0, k], axis=[k, k]))
    assert "Number of inits" in message(lambda: te.sum(a[0, k], axis=k, init=[1.0, 2.0]))
    assert str(te.max(te.var("x"), te.var("y"), 3)) == "T.max(T.max(x, y), 3)"


def test_bodies_that_are_no_numbers():
    a, _ = matrix()
    for value in (None, {}, object(), a):
        text = message(lambda v=value: te.compute((3,), lambda i: v, name="C"))
        assert "compute 'C': fcompute must give expressions" in text or "one element" in text
    assert "fcompute must give numbers" in message(lambda: te.compute((3,), lambda i: "text"))
    text = message(lambda: te.compute((3,), lambda i: 1.0, attrs=3))
    assert "attrs must be a dictionary, got 3" in text


@pytest.mark.parametrize("value", JUNK, ids=lambda v: type(v).__name__)
def test_constants(value):
    if not isinstance(value, float):
        with pytest.raises(OperandError, match=r"cannot make a constant of type int8 of "):
            tir.const(value, "int8")
    elif math.isnan(value):
        with pytest.raises(OperandError, match="cannot make a constant of type int8 of nan"):
            tir.const(value, "int8")
        assert math.isnan(value_of(tir.const(value, "float32")))


def test_constants_of_arrays_and_of_too_many_bits():
    assert "an array of shape (2,)" in message(lambda: tir.const(np.array([1, 2])))
    assert "does not fit 64 bits; give a dtype such as uint64" in message(lambda: tir.const(2**63))
    assert value_of(tir.const(2**63, "uint64")) == 2**63
    with pytest.raises(TypeError):  # what Python programs expect of operands
        te.var("n") + object()


def test_buffers():
    make = tir.decl_buffer
    assert "shape and strides hold integers, got 2.5" in message(lambda: make((3, 2.5)))
    assert "shape and strides hold integers, got 'n'" in message(lambda: make("n"))
    assert "shape and strides hold integers" in message(lambda: make((3, 4), strides=[4, 0.5]))
    assert "strides must be a list, got 4" in message(lambda: make((3, 4), strides=4))
    align = message(lambda: make((3,), data_alignment="64"))
    assert "data_alignment must be an integer, got '64'" in align
    assert "offset_factor must be an integer" in message(lambda: make((3,), offset_factor=0.5))
