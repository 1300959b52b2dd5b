"""A slice of the fuzzer for every run: some cases with a fresh seed, and one mutant as a check."""

import os
import time

import pytest

from tests.devices import device

from .__main__ import first_caught, histogram, run_cases
from .isolated import report
from .mutants import MUTANTS

CASES = 60
KERNEL_CASES = 60


def fresh_seed():
    """Another one in every run, printed with what fails; TILEWRIGHT_FUZZ_SEED runs one again."""
    seed = int(os.environ.get("TILEWRIGHT_FUZZ_SEED") or time.time_ns() % 10**9)
    print(f"seed {seed}")
    return seed


def test_some_random_schedules():
    seed = fresh_seed()
    stats, failures = run_cases(CASES, seed, 1, 3, quiet=True)
    reports = [report(f, 60) for f in failures]
    assert not failures, "\n".join(reports)
    assert stats.cases == CASES
    assert "primitives a schedule" in histogram(stats)


@pytest.mark.parametrize("name", ["simt", "opencl"])
def test_some_random_kernels(name, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    device(name)
    seed = fresh_seed()
    # in processes of their own: the OpenCL compiler may crash
    stats, failures = run_cases(KERNEL_CASES, seed, 2, 3, quiet=True, device=name)
    reports = [report(f, 60) for f in failures]
    assert not failures, "\n".join(reports)
    assert stats.cases == KERNEL_CASES


QUICK = [
    "split_by_outer_extent", "minima_ignored", "fuse_by_outer", "dropped_barrier",
    "swapped_threads", "short_shared_memory", "wrong_shuffle_offset",
]  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_a_mistake_in_the_compiler_is_caught(name):
    assert name in MUTANTS
    assert first_caught(name, 200, 0) is not None
