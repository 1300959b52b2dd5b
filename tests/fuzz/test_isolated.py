"""A case that ends its process fails, and the fuzzer goes on; one that is late may be right."""

import os
import time

import pytest

import tilewright as tvm
from tests.narrow import some

from . import check, isolated
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
    failure = isolated.made_again(7, "the process died: SIGSEGV", "llvm")
    assert "seed 7: the process died: SIGSEGV" in isolated.report(failure, 1)


LATE = [(50, 1, 1000, True), (50, 50, 1000, False), (50, 1, -1, False), (1, 1, -1, True)]


@pytest.mark.parametrize("first, again, ours, right", LATE)
def test_only_the_compiler_of_the_device_may_be_late(first, again, ours, right, monkeypatch):
    if not tvm.opencl(0).exist:
        pytest.skip("no OpenCL device")
    taken = iter((first, again))
    call = check._timed

    def timed(function, arrays):
        call(function, arrays)
        return next(taken)

    monkeypatch.setattr(check, "_timed", timed)
    monkeypatch.setattr(check, "OURS", ours)
    stats = Statistics()
    failure = check.run_case(13_010_000, stats, "opencl")
    assert stats.rejected == 0
    assert len(stats.slow) == (right and first > 1)
    if right:
        assert failure is None
    else:
        assert some(failure).problem.startswith("TimeoutError: the case took")
