"""How far apart two cores are."""

from __future__ import annotations

import os

import pytest

from tilewright.driver import handing


def test_a_word_goes_there_and_back() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        assert handing.round_trip() is None
        return
    seconds = handing.round_trip()
    assert seconds is not None and 1e-9 < seconds < 1e-2


def test_the_caller_keeps_its_cores() -> None:
    before = os.sched_getaffinity(0)
    handing.round_trip()
    assert os.sched_getaffinity(0) == before


def test_one_core_has_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing, "allowed_cores", lambda: {0})
    assert handing.round_trip() is None


def test_threads_that_may_not_choose_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would wait for each other on one core, for as long as the system lets each."""

    def refuse(_thread: int, _cores: set[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(handing, "allowed_cores", lambda: {0, 1})
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert handing.round_trip() is None
