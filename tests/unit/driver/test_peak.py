"""Measuring the machine: the numbers are sane and fit each other."""

import math
import os
import re

import pytest

from tilewright.codegen.llvm import backend
from tilewright.driver import peak
from tilewright.target import Target


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(peak, "STEPS", 20_000)
    monkeypatch.setattr(peak, "ADDITION_STEPS", 20_000)


def test_a_clock_ticks():
    cycles = peak.clock(Target("llvm"), attempts=2)
    assert math.isfinite(cycles) and cycles > 0


def test_operations_a_second():
    target = Target("llvm")
    for threads in (1, 2):
        rate = peak.sample_peak(target, threads)
        assert math.isfinite(rate) and rate > 0


def test_the_code_is_the_widest_fma_of_the_target():
    text = peak._chains(16, peak.CHAINS, True)
    assert text.count("call <16 x float> @llvm.fma.v16f32") == peak.CHAINS
    additions = peak._additions()
    assert additions.count("xor i64") + additions.count("= add i64 %x") == peak.ADDITIONS


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_chains_stay_in_registers(cpu):
    """Sixteen FMAs and their factor did not fit into AVX2's registers: half the peak. Without FMAs,
    the intrinsic was a call of the C library for each lane: a thirtieth of it."""
    target = Target(f"llvm -mcpu={cpu}")
    count = peak.chains(target)
    text = peak._chains(target.vector_bytes // 4, count, target.has_fma)
    text = backend.emit_assembly(text, target)
    (loop,) = re.findall(r"^\.LBB0_\d+:\n(?:\s+.*\n)+?\s+j\w+\s.*\n", text, re.MULTILINE)
    fused = len(re.findall(r"vfn?m(?:add|sub)\d+ps", loop))
    pairs = min(len(re.findall(rf"\s{op}ps\s", loop)) for op in ("mul", "add"))
    assert (fused if target.has_fma else pairs) == count
    assert "(%rsp" not in loop and "call" not in loop


def test_threads_have_cores_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the caller may run where it did."""
    before, chosen = os.sched_getaffinity(0), list[set[int]]()
    monkeypatch.setattr(os, "sched_setaffinity", lambda who, cores: chosen.append(cores))
    peak.sample_peak(Target("llvm"), 1)
    if len(before) > 1:
        peak.sample_peak(Target("llvm"), 2)
        assert chosen[1] != chosen[2] and chosen[1] | chosen[2] <= before
    peak.sample_peak(Target("llvm"), len(before) + 1)  # no core for each
    assert len(chosen) == (3 if len(before) > 1 else 1)
    monkeypatch.undo()
    peak.sample_peak(Target("llvm"), 1)
    assert os.sched_getaffinity(0) == before
