"""A case that ends its process fails, and the fuzzer goes on."""

import os
import time

import pytest

from . import isolated
from .check import Statistics


def _dies_at_two(seed, device):
    if seed == 2:
        os.abort()
    stats = Statistics()
    stats.cases = 1
    return stats, "wrong" if seed == 3 else None


def test_a_crash_is_a_failure_of_its_case(monkeypatch):
    monkeypatch.setattr(isolated, "_case", _dies_at_two)
    ((stats, failed),) = isolated.run_chunks([(0, 5, "llvm")], 1)
    assert stats.cases == 5
    assert failed == [(2, "the process died: SIGABRT"), (3, "wrong")]


def test_a_hang_is_a_failure():
    worker = isolated.Worker()
    with pytest.raises(isolated.Dead, match="no answer within"):
        worker.ask(time.sleep, (600,), 0.5)
    worker.close()


def test_a_failure_is_reported_even_if_its_process_dies():
    failure = isolated.made_again(7, "the process died: SIGSEGV", "opencl")
    assert "seed 7: the process died: SIGSEGV" in isolated.report(failure, 1)
