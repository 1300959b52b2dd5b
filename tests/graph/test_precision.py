"""A slice of benchmarks.precision: errors against float64 beside ONNX Runtime's."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from benchmarks import precision, precision_quantized
from tilewright.target import Target

HARD = (
    *("rms norm, large", "product beyond float16, scaled", "steps of 0.01", "gelu, left"),
    *("squares beyond float16", "dense of 8192, positive", "softmax of 5000 equals"),
    "attention, loud",
)


@pytest.mark.parametrize("name", HARD)
def test_float16_is_as_near_to_float64_as_onnxruntime(name):
    rows = precision.measure(name, "float16", "llvm")
    assert [r["how"] for r in rows] == ["file", "option"]
    assert all("peer" in r and precision.good(r) for r in rows), rows


@pytest.mark.parametrize("name", ["layer norm, large mean", "steps of 0.01"])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
def test_bfloat16_is_rounded_once(name, target):
    """ONNX Runtime has a few operators of it. Where CPUs multiply it (haswell does not), what a
    product reads is rounded, too."""
    dots = Target(target).capabilities.dots
    times = 1 + any(dot.row == "bfloat16" for dot in dots)
    for row in precision.measure(name, "bfloat16", target):
        assert precision.good(row)
        assert all(a <= 1.01 * times * b for a, b in zip(row["ours"], row["noise"])), row


WHOLE = ("uint8 x int8", "uint8 x uint8", "int8 x int8, symmetric", "dynamic, int8")


@pytest.mark.parametrize("way", WHOLE)
def test_sums_at_the_ends_of_bytes_are_exact(way):
    """Where those of ONNX Runtime saturate on some processors."""
    (row,) = precision_quantized.measure(f"dense at the ends of bytes, {way}", "int8", "llvm")
    assert precision.good(row) and row["exact"][0] == row["whole_exact"][0] == 0, row


def test_convolutions_of_bytes_are_exact():
    name = "conv at the ends of bytes, uint8 x int8, per channel"
    (row,) = precision_quantized.measure(name, "int8", "llvm")
    assert precision.good(row) and row["exact"][0] == row["whole_exact"][0] == 0, row


def test_errors_are_of_the_worst_output_and_leave_out_what_does_not_fit():
    wanted = [np.array([1.0, -4.0]), np.array([2.0, 7e4])]
    found = [np.array([1.0, -4.0], "f4"), np.array([1.5, np.inf], "f4")]
    assert precision.errors(found, wanted, "float16") == (0.25, 0.25)
    found[0][0] = np.nan
    assert precision.errors(found, wanted, "float16") == (np.inf, np.inf)
    with pytest.raises(ValueError, match="1 outputs, not 2"):
        precision.errors(found[:1], wanted, "float16")
    with pytest.raises(ValueError, match="shape"):
        precision.errors([wanted[0][:1], wanted[1]], wanted, "float16")


def test_the_bar_is_one_rounding_beside_onnxruntime():
    row = {
        "precision": "float16",
        "ours": (3e-4, 2e-4),
        "peer": (1e-4, 1e-4),
        "noise": (2e-4, 1e-4),
    }
    assert precision.good(row)
    assert not precision.good(row | {"ours": (3.1e-4, 2e-4)})
    assert not precision.good(row | {"ours": (3e-4, 2.1e-4)})
    assert not precision.good(row | {"failed": "CompileError: no"})
    near, far = (1, 0.5, ""), (2, 0.1, "")
    byte = {"precision": "int8", "whole_exact": None, "peer_whole_exact": None}
    byte |= {"exact": None, "peer_exact": None}
    assert precision.good(byte | {"alone": near, "whole": near})
    assert not precision.good(byte | {"alone": far, "whole": near})
    exact = {"exact": (0, 0.0, ""), "peer_exact": far}
    assert precision.good(byte | exact | {"alone": far, "whole": near})


def test_the_command_keeps_what_it_measured(tmp_path, monkeypatch, capsys):
    path = tmp_path / "precision.json"
    argv = ["precision", "--network", "tanh", "--precision", "float16", "--results", str(path)]
    monkeypatch.setattr(sys, "argv", [*argv, "--json"])
    assert precision.main() == 0
    rows = json.loads(capsys.readouterr().out)
    assert [r["how"] for r in rows] == ["file", "option"]
    assert json.loads(path.read_text())["rows"] == rows
    assert "| tanh | file |" in path.with_suffix(".md").read_text()
    monkeypatch.setattr(precision, "measure", None)  # known rows are not measured again
    assert precision.main() == 0
    monkeypatch.setattr(sys, "argv", ["precision", "--network", "tanhh"])
    with pytest.raises(SystemExit):
        precision.main()
    assert "there is no network 'tanhh'" in capsys.readouterr().err
