"""What tests of te_eval share."""

import numpy as np
import pytest

from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval

RNG = np.random.default_rng(7)


def ints(*shape, dtype="float32", low=-8, high=9):
    return RNG.integers(low, high, shape).astype(dtype)


def one(tensor, feeds, **kwargs):
    (result,) = te_eval(tensor, feeds, **kwargs)
    return result


def fails(words, run):
    with pytest.raises(TilewrightError) as caught:
        run()
    for word in words:
        assert word in str(caught.value)
