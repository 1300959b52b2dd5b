"""What casts between the two 16-bit floats leave uncertain: neither holds the other."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tilewright import te, tir
from tilewright.interp.te_bound import te_eval_bound


@pytest.mark.parametrize("value", [3.3e38, 1e-39, 1.2e-5, -70000.0])
def test_bfloat16_beyond_float16_is_not_taken_for_exact(value):
    a = te.placeholder((1,), "bfloat16", name="A")
    b = te.compute((1,), lambda i: a[i].astype("float16"), name="B")
    data = np.array([value], bfloat16)
    ((expected, limit),) = te_eval_bound([b], {a: data})
    with np.errstate(over="ignore"):
        found = data.astype(np.float64).astype(np.float16).astype(np.float64)
        assert np.isinf(limit[0]) or abs(found[0] - expected[0]) <= limit[0]


def test_sums_that_begin_with_a_large_number_round_at_its_size() -> None:
    A = te.placeholder((2,), "float16", name="A")
    k = te.reduce_axis((0, 2))
    B = te.compute((), lambda: te.sum(A[k], axis=k, init=tir.const(1.0, "float16")), name="B")
    a = np.array([0.06384, 0.1206], "float16")
    in_order = np.float16(np.float16(np.float16(1) + a[0]) + a[1])
    ((value, error),) = te_eval_bound([B], {A: a})
    assert 0 < abs(float(in_order) - float(value)) <= float(error) < 0.003


def test_a_number_made_of_an_uncertain_comparison_is_uncertain() -> None:
    A, B = (te.placeholder((), "float16", name=name) for name in "AB")
    C = te.compute((), lambda: A() * B(), name="C")
    D = te.compute((), lambda: (C() != B()).astype("float64"), name="D")
    ((value, error),) = te_eval_bound([D], {A: np.float16(0.9644), B: np.float16(-6e-8)})
    assert float(value) == 1.0 and float(error) == 1.0
