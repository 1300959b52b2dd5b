"""A slice of the fuzzer for every run: some cases with a fresh seed, and one mutant as a check."""

import os
import time

import pytest

import tilewright as tvm

from .__main__ import first_caught, histogram, run_cases
from .gpu_mutants import GPU_MUTANTS
from .isolated import report
from .mutants import MUTANTS

CASES = 60
KERNEL_CASES = 100


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


@pytest.mark.parametrize("device", ["simt", "opencl"])
def test_some_random_kernels(device, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    if not tvm.device(device, 0).exist:
        pytest.skip(f"no {device} device")
    seed = fresh_seed()
    # in processes of their own: the OpenCL compiler may crash
    stats, failures = run_cases(KERNEL_CASES, seed, 2, 3, quiet=True, device=device)
    reports = [report(f, 60) for f in failures]
    assert not failures, "\n".join(reports)
    assert stats.cases == KERNEL_CASES


@pytest.mark.parametrize("name", list(GPU_MUTANTS))
def test_a_mistake_in_kernels_is_caught(name):
    assert first_caught(name, 200, 0) is not None


@pytest.mark.parametrize("name", ["split_by_outer_extent", "minima_ignored", "fuse_by_outer"])
def test_a_mistake_in_the_compiler_is_caught(name):
    assert name in MUTANTS
    assert first_caught(name, 200, 0) is not None
