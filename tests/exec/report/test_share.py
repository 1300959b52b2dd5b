"""Kernels that another process draws look as those that this one draws."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.exec.report.test_report import DIGITS
from tilewright import graph
from tilewright.graph import compile_kernels, team
from tilewright.graph.kernel import make_kernel
from tilewright.graph.onnx.load import load_onnx
from tilewright.report import share
from tilewright.report.network import _Plan
from tilewright.rt import cache as disk
from tilewright.rt.plan import symbol_of
from tilewright.target.target import Target

TARGET = Target("llvm")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> _Plan:
    monkeypatch.setattr(team, "WORTH", 1)
    monkeypatch.setenv("TILEWRIGHT_COMPILE_PROCESSES", "2")
    return _Plan(load_onnx(DIGITS), TARGET, "float32", None)


def test_another_process_draws_the_same(plan: _Plan) -> None:
    with share.Share(plan.distinct, plan.tuned, TARGET, plan.keys) as others:
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


def test_what_is_drawn_is_compiled(
    plan: _Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who compiles the network after that lowers no kernel again, and starts no process."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    plan.keys = share.keys(plan.distinct, plan.tuned, TARGET)
    assert all(plan.keys)
    plan.kernels(TARGET, None)
    team.tell_made(load_onnx(DIGITS), TARGET)
    drawn = {key: disk.get(key) for key in plan.keys}
    monkeypatch.setattr(compile_kernels, "make_kernel", None)
    monkeypatch.setattr(team, "WorkerProcess", None)
    graph.compile(load_onnx(DIGITS), TARGET)
    monkeypatch.undo()
    for k, (key, obj) in enumerate(drawn.items()):
        own = make_kernel(plan.distinct[k], TARGET, symbol_of(k), plan.tuned[k], "")
        assert obj == own, key


def test_without_a_cache_what_is_drawn_is_not_compiled(
    plan: _Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    assert not any(share.keys(plan.distinct, plan.tuned, TARGET))
