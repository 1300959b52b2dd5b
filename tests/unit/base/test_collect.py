"""The garbage collector held back."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tilewright.base.collect import collecting_rarely

FROZEN_MEANWHILE = """
import gc
from tilewright.base.collect import collecting_rarely

counts = [gc.get_freeze_count()]
with collecting_rarely():
    counts.append(gc.get_freeze_count())
counts.append(gc.get_freeze_count())
assert counts[0] == counts[2] == 0 < counts[1], counts
"""


@pytest.fixture
def as_python_does() -> Iterator[None]:
    """The tests' own threshold is a high one."""
    tests = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*tests)


@pytest.mark.usefixtures("as_python_does")
def test_collections_are_rarer_meanwhile_and_then_as_before() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), collecting_rarely():
        assert gc.get_threshold()[0] > 10 * before[0] and gc.get_freeze_count() > 0
        raise KeyError
    assert gc.get_threshold() == before


def test_what_was_there_is_passed_over_meanwhile() -> None:
    subprocess.run([sys.executable, "-c", FROZEN_MEANWHILE], check=True, timeout=60)


def test_what_others_froze_stays_frozen() -> None:
    frozen = gc.get_freeze_count()
    assert frozen > 0, "what these tests are was frozen when it was collected"
    with collecting_rarely():
        pass
    assert gc.get_freeze_count() > 0.9 * frozen
