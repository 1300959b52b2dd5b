"""Reads of inlined stages at indices of any integer type."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.driver.lower import schedule_to_func
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.verify import verify


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32", "int64"])
def test_indices_of_a_table_are_computed_in_the_type_of_the_axis(dtype: str) -> None:
    """What an inlined stage does with its axes is done in int32 also where the reader's index is of
    a narrow type, in which it would wrap, or of an unsigned one, which is never below zero."""
    x = te.placeholder((19,), name="x")
    table = te.placeholder((8,), dtype=dtype, name="table")
    moved = te.compute(
        (19,),
        lambda i: tir.if_then_else(tir.all(i - 1 >= 0, i * 20 < 300), x[i - 1], -1.0),
        name="moved",
    )
    y = te.compute((8,), lambda i: moved[table[i]], name="y")
    data = np.arange(19, dtype="float32")
    places = np.array([0, 1, 2, 18, 17, 14, 15, 16], dtype=dtype)
    (wanted,) = te_eval(y, {x: data, table: places})
    s = te.create_schedule(y.op)
    s[moved].compute_inline()
    verify(schedule_to_func(s, [x, table, y]))
    out = tvm.nd.array(np.zeros(8, "float32"))
    tvm.build(s, [x, table, y], "llvm")(tvm.nd.array(data), tvm.nd.array(places), out)
    assert np.array_equal(out.numpy(), wanted)
