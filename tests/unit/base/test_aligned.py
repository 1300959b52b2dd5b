"""Memory for vector code."""

import numpy as np
import pytest

from tilewright import nd
from tilewright.base.aligned import ALIGNMENT, aligned_empty, is_aligned
from tilewright.base.mapped import compact


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (7, 5)])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_arrays_begin_at_a_line(shape: tuple[int, ...], dtype: str) -> None:
    kept = [aligned_empty(shape, np.dtype(dtype)) for _ in range(20)]
    kept += [compact(np.ones(shape, dtype)) for _ in range(20)]
    for array in kept:
        assert array.ctypes.data % ALIGNMENT == 0 and is_aligned(array)
        assert array.shape == shape and array.dtype == dtype and array.flags.writeable
        array[...] = 3
    assert all((array == 3).all() for array in kept)


def test_what_is_aligned() -> None:
    whole = np.asarray(nd.empty((8, 32)))
    assert is_aligned(whole) and is_aligned(whole[1:])
    assert not is_aligned(whole[:, :16])  # not in order
    assert not is_aligned(whole.reshape(-1)[1:])  # a float32 further
