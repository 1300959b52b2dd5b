"""Values of the runtime: what convert makes of Python's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.base.errors import OperandError
from tilewright.loopir.equal import structural_equal
from tilewright.runtime import convert
from tilewright.runtime.container import ADT, ShapeTuple, String, tuple_object


def test_plain_values_stay_plain() -> None:
    given: Any = [1, True, 2.5, "text", None]
    assert convert(given) == (1, True, 2.5, "text", None)
    assert [type(x) for x in convert(given)] == [int, bool, float, str, type(None)]
    assert type(convert(np.int8(3))) is int and {convert(1)} == {convert(1)}
    assert int(te.placeholder((convert(8),)).shape[0]) == 8
    i = te.var("i")
    assert convert({i: [i, 2]}) == {i: (i, 2)}
    assert isinstance(convert(i + 1), tir.Add)
    array = tw.nd.array(np.zeros(3, "float32"))
    assert convert([array])[0] is array
    with pytest.raises(OperandError, match="nothing of the runtime's"):
        convert(object())


def test_shapes_and_tuples() -> None:
    shape = ShapeTuple([2, 3])
    assert shape == [2, 3] and shape == (2, 3) and shape != [3, 2]
    assert hash(shape) == hash((2, 3))
    made = ADT(3, ["a", 1])
    assert (made.tag, len(made), made[1]) == (3, 2, 1)
    assert tuple_object(["a"]).tag == 0 and tuple_object(["a"])[0] == "a"


def test_text_is_text_and_numbers_are_numbers() -> None:
    assert structural_equal(String("a"), "a") and not structural_equal(String("a"), "b")
    assert structural_equal([tir.const(2), tir.const(0.5)], (2, 0.5))
    assert not structural_equal([tir.const(2, "int64")], [2])


def test_nodes_by_name() -> None:
    a = te.placeholder((4,), name="a")
    made = tw.ir.make_node(
        "Tensor", shape=a.shape, dtype=a.dtype, op=a.op, value_index=a.value_index
    )
    assert made.op is a.op and made.shape == a.shape
    with pytest.raises(ValueError, match=r"there is no node 'tir\.Nothing'"):
        tw.ir.make_node("tir.Nothing")
