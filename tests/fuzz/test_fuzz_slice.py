"""A slice of the fuzzer for every run: some cases with a fresh seed, and one mutant as a check."""

import os
import time

import pytest

from .__main__ import first_caught, histogram, run_cases
from .mutants import MUTANTS
from .shrink import shrink, text_of

CASES = 60


def test_some_random_schedules():
    seed = int(os.environ.get("TILEWRIGHT_FUZZ_SEED") or time.time_ns() % 10**9)
    print(f"seed {seed}")
    stats, failures = run_cases(CASES, seed, 1, 3, quiet=True)
    reports = [text_of(shrink(f, 60)) for f in failures]
    assert not failures, "\n".join(reports)
    assert stats.cases == CASES
    assert "primitives a schedule" in histogram(stats)


@pytest.mark.parametrize("name", ["split_by_outer_extent", "minima_ignored", "fuse_by_outer"])
def test_a_mistake_in_the_compiler_is_caught(name):
    assert name in MUTANTS
    assert first_caught(name, 200, 0) is not None
