"""The garbage collector held back."""

from __future__ import annotations

import gc

import pytest

from tilewright.base.collect import collecting_rarely


def test_collections_are_rarer_meanwhile_and_then_as_before() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), collecting_rarely():
        assert gc.get_threshold()[0] > 10 * before[0] and gc.get_freeze_count() > 0
        raise KeyError
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0
