"""Loops whose extents are computed with floats, as those over regions of images are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir


@pytest.mark.parametrize("a, b", [(0.5, 3.2), (7.0, 2.0), (3.0, 3.0)])
def test_loops_as_long_as_floats_say(a: float, b: float) -> None:
    x = te.placeholder((2,), name="x")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        a, b = ib.let("a", x[0]), ib.let("b", x[1])
        first = ib.let("first", tir.Cast("int32", te.floor(a)))
        extent = tir.max(a, b) * 2.0 - tir.Cast("float32", first)
        out[0] = 0.0
        with ib.for_range(0, tir.Cast("int32", extent), name="k") as k:
            out[0] = out[0] + tir.Cast("float32", first + k)
        return ib.get()

    y: Any = te.extern((1,), [x], body, name="y", dtype="float32")
    f: Any = tvm.build(te.create_schedule(y.op), [x, y], "llvm")
    out = tvm.nd.array(np.zeros(1, "float32"))
    f(tvm.nd.array(np.array([a, b], "float32")), out)
    assert out.numpy()[0] == sum(range(int(a), int(a) + int(max(a, b) * 2 - int(a))))
