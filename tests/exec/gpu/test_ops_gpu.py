"""benchmarks/ops_gpu.py without an NVIDIA GPU: PyTorch's ways, pages, tuning without LLVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks import ops_gpu
from benchmarks.ops_suite import small_cases

ROOT = Path(__file__).resolve().parents[3]
OPENCL = tw.opencl(0)
CASES = {c.name: c for c in small_cases()}
ABOUT = {"device": "a device", "date": "2026-01-02"}

NO_LLVM = """
import sys
sys.modules["llvmlite"] = sys.modules["llvmlite.binding"] = None
"""
TUNE = """
import sys
from pathlib import Path
import tilewright as tw
from benchmarks import ops_gpu
from benchmarks.ops_suite import small_cases

if __name__ == "__main__":
    dev = tw.opencl(0)
    case = next(c for c in small_cases() if c.name == "NRM 5,7")
    target = tw.Target("opencl").fitted_to(dev)
    built = ops_gpu.tune(case, target, 2, Path(sys.argv[1]), verbose=0)
    row = ops_gpu.measure(case, built, dev, ops_gpu.Torch(), 2)
    assert row["tuned_s"] > 0 and row["error"] < 1e-5, row
    print("tuned", row["case"])
"""


def test_the_cases() -> None:
    names = [c.name for c in ops_gpu.chosen()]
    assert names[4] == "GMM 1024,1024,1024" and len(names) == 13
    assert {n.split()[0] for n in names} == {"GMM", "C2D", "DEP", "NRM"}


@pytest.mark.parametrize(
    "name", ["GMM 24,16,20", "C2D 7,9,6,16,3,2,1", "DEP 8,8,16,3,2,1", "NRM 16,24"]
)
def test_ways_of_pytorch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They compute the case: on this CPU here, and without graphs, which CPUs do not have."""
    torch = pytest.importorskip("torch")
    peer = ops_gpu.Torch()
    monkeypatch.setattr(peer, "torch", torch)
    monkeypatch.setattr(peer, "_on", torch.from_numpy)
    monkeypatch.setattr(peer, "_graph", lambda call: call)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda shape, device: empty(shape))
    case = CASES[name]
    inputs = case.inputs()
    wanted = case.reference(*inputs)
    ways = peer.ways(case, inputs)
    assert len(ways) >= 2 and {runs for _, runs in ways.values()} == {1, ops_gpu.PIECE}
    for call, _ in ways.values():
        got = call().numpy()
        if case.conv is not None:
            got = np.moveaxis(got, 1, -1)
        np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)


def test_rows_and_pages(tmp_path: Path) -> None:
    case = CASES["GMM 24,16,20"]
    slow = ops_gpu.result(case, {"ours": 2e-6, "mm": 8e-6, "mm, graph": 3e-6}, 1e-7)
    assert slow["best_peer"] == "mm, graph" and slow["ratio"] == pytest.approx(1.5)
    assert slow["gflops"] == pytest.approx(case.flop / 2e-6 / 1e9)
    both = ops_gpu.result(case, {"ours": 9e-6, "ours, graph": 2e-6, "mm": 8e-6}, 1e-7)
    assert both["tuned_s"] == 2e-6 and both["peers"] == {"mm": 8e-6}
    alone = ops_gpu.result(CASES["NRM 5,7"], {"ours": 1e-6}, 0.0)
    assert alone["ratio"] is None and ops_gpu.mean_ratio([alone]) is None
    much = ops_gpu.result(CASES["NRM 16,24"], {"ours": 1e-6, "dot": 1e-5}, 0.0)
    assert ops_gpu.mean_ratio([slow, alone, much]) == pytest.approx(3**0.5)
    page = ops_gpu.write(ABOUT, [slow], tmp_path)
    assert ops_gpu.write(ABOUT, [alone], tmp_path) == page
    text = page.read_text()
    assert "| GMM 24,16,20 | 2.0 us |" in text and "| NRM 5,7 | 1.0 us |" in text
    rows = json.loads(page.with_suffix(".json").read_text())["rows"]
    assert [r["case"] for r in rows] == ["GMM 24,16,20", "NRM 5,7"]
    ops_gpu.write({**ABOUT, "device": "another"}, [much], tmp_path)
    assert "GMM" not in page.read_text()


@pytest.mark.skipif(tw.cuda(0).exist, reason="there is a CUDA device to run on")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ops_gpu.main(["--out", str(tmp_path)]) == 2
    assert "no NVIDIA GPU to tune on" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not OPENCL.exist, reason=f"no OpenCL device: {OPENCL.why_missing()}")
def test_tuning_and_timing_without_llvm(tmp_path: Path) -> None:
    script = tmp_path / "tune.py"
    script.write_text(TUNE)
    (tmp_path / "sitecustomize.py").write_text(NO_LLVM)  # for the workers, too
    path = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done: Any = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "records.json")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.strip() == "tuned NRM 5,7", done.stderr
