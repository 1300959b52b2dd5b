"""A slice of the fuzzer of index arithmetic past 31 bits, and that it sees what it is for."""

from __future__ import annotations

import pytest

from tests.fuzz.wide import Wrong, run_case
from tilewright.lowering import pipeline


def test_no_index_overflows() -> None:
    results = [run_case(seed) for seed in range(1000, 1040)]
    assert results.count("ok") >= 25


def test_without_the_pass_indices_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    *before, last = pipeline.PHASES
    monkeypatch.setattr(pipeline, "PHASES", (*before, last[:-1]))
    with pytest.raises(Wrong):
        for seed in range(1000, 1060):
            run_case(seed)
