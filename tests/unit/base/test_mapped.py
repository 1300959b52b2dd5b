"""Files as arrays, and memory that is given back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.base.mapped import compact, give_back, map_file


def resident() -> int:
    """Bytes of files that this process has in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile:"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say")
def test_what_is_given_back_is_read_again(tmp_path: Path) -> None:
    path, size = tmp_path / "numbers", 1 << 25
    np.arange(size // 4, dtype=np.int32).tofile(path)
    before = resident()
    numbers = map_file(path)[4:].view(np.int32)
    total = int(numbers.sum(dtype=np.int64))
    assert resident() - before > size // 2
    give_back(numbers[::-1])  # whichever way it is looked at
    assert resident() - before < size // 2
    assert int(numbers.sum(dtype=np.int64)) == total == (size // 4) * (size // 4 - 1) // 2


def test_other_memory_stays() -> None:
    own = np.arange(1 << 16)
    give_back(own)
    give_back(own[:0])
    assert own[-1] == (1 << 16) - 1


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert map_file(tmp_path / "empty").size == 0
    with pytest.raises(OSError, match=r"regular file|directory"):
        map_file(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say")
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_copies_take_no_memory_of_the_file(tmp_path: Path, axes: tuple[int, ...]) -> None:
    path, shape = tmp_path / "numbers", (64, 256, 1024)
    np.arange(1 << 24, dtype=np.int32).tofile(path)
    view = map_file(path).view(np.int32).reshape(shape).transpose(axes)
    before = resident()
    made = compact(view)
    assert made.flags.c_contiguous
    assert resident() - before < made.nbytes // 4
    np.testing.assert_array_equal(made, view)


def test_copies_of_other_arrays() -> None:
    own = np.arange(24).reshape(2, 3, 4)
    for array in (own.T, own[::-1, 1], own[:0], own[1, 1, 1:2].reshape(())):
        made = compact(array)
        assert made.flags.c_contiguous and made.dtype == array.dtype
        np.testing.assert_array_equal(made, array)
