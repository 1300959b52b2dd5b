"""How much work the kernels of a network are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import graph as tg
from tilewright.graph.ir import Graph, Value
from tilewright.graph.onnx.convert import Builder


def total(result: Any, inputs: list[Value], b: Builder) -> tuple[int, int]:
    net = tg.compile(Graph("net", inputs, [result], b.nodes))
    assert isinstance(net, tg.Executable)
    return sum(w.flops for w in net.work), sum(w.bytes for w in net.work)


@pytest.mark.parametrize("rows", [3, 2000])
def test_of_a_table_as_much_as_is_taken_out_is_read(rows: int) -> None:
    b = Builder(17)
    at = Value("at", (rows,), "int64")
    table = b.constant(np.ones((1000, 8), np.float32), "table")
    y = b.add("take", [table, at], "y", axis=0)
    taken = rows * 8 * 4
    assert total(y, [at], b)[1] == rows * 8 + taken + min(taken, 1000 * 8 * 4)


def test_other_arrays_count_whole() -> None:
    b = Builder(17)
    x = Value("x", (4, 8), "float32")
    y = b.add("relu", [x], "y")
    assert total(y, [x], b)[1] == 2 * 4 * 8 * 4
