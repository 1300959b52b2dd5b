"""Kernels that another process draws look as those that this one draws."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.exec.report.test_report import DIGITS
from tilewright.graph import team
from tilewright.graph.onnx.load import load_onnx
from tilewright.report import share
from tilewright.report.network import _Plan
from tilewright.target.target import Target

TARGET = Target("llvm")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> _Plan:
    monkeypatch.setattr(team, "WORTH", 1)
    monkeypatch.setenv("TILEWRIGHT_COMPILE_PROCESSES", "2")
    return _Plan(load_onnx(DIGITS), TARGET, "float32", None)


def test_another_process_draws_the_same(plan: _Plan) -> None:
    with share.Share(plan.distinct, plan.tuned, TARGET) as others:
        assert others.numbers, "it has a part of them"
        theirs = others.found()
    assert set(theirs) == others.numbers
    for k, kernel in theirs.items():
        ours = share.draw(plan.distinct[k], TARGET, k, plan.tuned[k])
        assert [c.lines for c in kernel.codes] == [c.lines for c in ours.codes]
        assert (kernel.name, kernel.passes, kernel.tree) == (ours.name, ours.passes, ours.tree)


def test_what_another_process_leaves_is_drawn_here(
    plan: _Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    whole = plan.kernels(TARGET, lambda done, total, name: told.append((done, total)))
    monkeypatch.setattr(share.Share, "found", lambda self: {})
    alone = plan.kernels(TARGET, None)
    assert [k.to_json() for k in whole] == [k.to_json() for k in alone]
    count = len(plan.distinct)
    assert told == [(k + 1, count) for k in range(count)]


def test_no_process_is_left_where_drawing_fails(
    plan: _Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    popen = subprocess.Popen

    def begin(*args: Any, **options: Any) -> Any:
        begun.append(popen(*args, **options))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", begin)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.report.network.draw", fail)
    with pytest.raises(KeyboardInterrupt):
        plan.kernels(TARGET, None)
    assert begun and all(p.poll() is not None for p in begun)


def test_a_small_network_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    made = _Plan(load_onnx(DIGITS), TARGET, "float32", None)
    monkeypatch.setattr(team, "WORTH", len(made.distinct) + 1)
    assert made.kernels(TARGET, None)
