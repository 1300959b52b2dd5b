"""Rooflines and warnings about the machine."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.report import machine
from tilewright.report.machine import busy_notes, roofline_of
from tilewright.report.page import Point, Roofline
from tilewright.rt.plan import Work
from tilewright.target.target import Target


class Quiet:
    def note(self) -> str | None:
        return None


class Busy:
    def note(self) -> str | None:
        return "the machine is busy: others"


@pytest.fixture
def known(monkeypatch: Any) -> None:
    monkeypatch.setattr(machine, "fma_peak", lambda target, threads: 1e11)
    monkeypatch.setattr(machine, "bandwidth", lambda moved, target: 2e10)


def test_shares_and_limits(known: None) -> None:
    rows = [
        (0, "a", "", Work(10**9, 10**6), 0.02, 3),  # 50 GFLOP/s, half of the peak
        (1, "b", "", Work(10**6, 2 * 10**8), 0.04, 1),  # 5 GB/s, a quarter of the rate
    ]
    found = roofline_of(rows, Target("llvm"))
    a, b = found.points
    assert (a.binds, b.binds) == ("compute", "memory")
    assert a.of_limit == pytest.approx(0.5) and b.of_limit == pytest.approx(0.25)
    assert a.share == pytest.approx(0.6) and b.share == pytest.approx(0.4)
    assert found.peak == 1e11 and found.roofs == [("caches", 2e10), ("memory", 2e10)]


def test_a_peak_that_a_kernel_exceeds_is_measured_longer(known: None, monkeypatch: Any) -> None:
    found = iter([5e10, 1.5e11, 2.5e11, 9e11])
    monkeypatch.setattr(machine, "sample_peak", lambda target, threads: next(found))
    rows: Any = [(0, "a", "", Work(10**9, 1), 0.005, 1)]  # 200 GFLOP/s
    roofline = roofline_of(rows, Target("llvm"))
    assert roofline.peak == 2.5e11
    assert roofline.points[0].of_limit == pytest.approx(0.8)


def test_nothing_measured(known: None) -> None:
    rows: Any = [(0, "a", "", Work(300, 1), None, 1), (1, "b", "", Work(50, 1), None, 2)]
    found = roofline_of(rows, Target("cuda"), "there is no GPU")
    assert [p.share for p in found.points] == [pytest.approx(0.75), pytest.approx(0.25)]
    assert found.peak is None and "there is no GPU" in found.note


def test_busy_machines_are_said() -> None:
    quiet: Any = Quiet()
    busy: Any = Busy()
    assert busy_notes(quiet) == [] and busy_notes(busy) == ["The machine is busy: others."]
    points = [Point(0, "k", "", 10**9, 1, 0.005), Point(1, "l", "", 10**9, 1, 0.02)]
    (note,) = busy_notes(quiet, Roofline(points, "", 1e11))
    assert "One kernel is faster than the measured peak (k)" in note
    assert busy_notes(quiet, Roofline(points[1:], "", 1e11)) == []
    assert busy_notes(quiet, Roofline(points, "")) == []
