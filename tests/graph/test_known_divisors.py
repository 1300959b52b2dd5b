"""Divisions of whole numbers by one that is known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.test_attention import Writer
from tests.narrow import as_a
from tilewright import graph
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.ir import Graph, Value, constant
from tilewright.graph.passes.known_divisors import know_divisors


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_divisors_stand_in_the_code(dtype: str) -> None:
    w, x = Writer(), Value("x", (5, 7), dtype)
    seven, five = (constant(str(n), np.array(n, dtype)) for n in (7, -5))
    out = w("add", w("floor_divide", x, seven), w("mod", x, five, fmod=False))
    made = Graph("whole", [x], [out], w.nodes)
    assert [n.op for n in know_divisors(made).nodes] == ["divide_by", "divide_by", "add"]
    data = np.arange(-17, 18, dtype=dtype).reshape(5, 7)
    (got,) = graph.compile(made, "llvm").run({"x": data}).values()
    np.testing.assert_array_equal(got, data // 7 + data % -5)
    compiled = as_a(DeviceExecutable, graph.compile(made, "cuda -arch=sm_80"))
    assert not compiled.constants


def test_unknown_divisors_and_zero_stay() -> None:
    w, x, y = Writer(), Value("x", (5,), "int64"), Value("y", (1,), "int64")
    out = w("add", w("floor_divide", x, y), w("mod", x, constant("0", np.array(0)), fmod=False))
    made = know_divisors(Graph("whole", [x, y], [out], w.nodes))
    assert [n.op for n in made.nodes] == ["floor_divide", "mod", "add"]
