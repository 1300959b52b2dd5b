"""Small networks of benchmarks/blocks_models.py."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import onnx
import pytest

from benchmarks import blocks
from benchmarks.blocks_models import BLOCKS


def test_all_are_networks() -> None:
    assert len(BLOCKS) >= 50
    for make in BLOCKS.values():
        onnx.checker.check_model(make(), full_check=True)


@pytest.mark.parametrize(
    "name", ["grouped_1024_32_7_1", "channel_attention", "wavenet", "feature_pyramid"]
)
def test_small_networks_are_right(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "blocks.json"
    how = ["--rounds", "1", "--seconds", "0.001", "--profile", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["blocks", "--names", name, *how])
    assert blocks.main() == 0
    assert f"{name} " in capsys.readouterr().err
    assert '"error"' in out.read_text()


def test_results_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    given = argparse.Namespace(rounds=1, seconds=0.001, threads=2, profile=False)
    for name in ("grouped_512_32_14_1", "resize_linear_21_65", "cross_stage"):
        assert blocks.measure(name, tmp_path, given)["error"] < 1e-4
