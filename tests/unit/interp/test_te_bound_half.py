"""What casts between the two 16-bit floats leave uncertain: neither holds the other."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tilewright import te
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
