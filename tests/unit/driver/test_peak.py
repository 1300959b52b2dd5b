"""Measuring the machine: the numbers are sane and fit each other."""

import math

import pytest

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
    text = peak._chains(16)
    assert text.count("call <16 x float> @llvm.fma.v16f32") == peak.CHAINS
    additions = peak._additions()
    assert additions.count("xor i64") + additions.count("= add i64 %x") == peak.ADDITIONS
