"""What `tilewright compile` refuses, before anything is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from tilewright.cli.main import main

SAVED = "m.onnx cannot be saved to {}: files hold networks for CPUs, and --target is '{}'; compile"
OPTIONS = "--name and --threads are of libraries of C (.so, .o); {} becomes a saved network"
ODD = "mo dèls 日本/dïgits 模型.so"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a model, and one that leaves an extent open."""
    tensor = helper.make_tensor_value_info
    for file, extent in (("m.onnx", 2), ("open.onnx", "n")):
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])], "tiny",
            [tensor("x", TensorProto.FLOAT, [extent, 3])],
            [tensor("y", TensorProto.FLOAT, [extent, 3])],
        )  # fmt: skip
        opset = [helper.make_opsetid("", 13)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / file)
    (tmp_path / ODD).parent.mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["m.onnx", "-o", ODD],
         ["'dïgits_模型' cannot begin the names of C", "the file, dïgits 模型.so)", "by --name"]),
        (["m.onnx", "-o", "lib3.o"], ["'3' cannot begin", "the file, lib3.o)", "by --name"]),
        (["m.onnx", "-o", "m.so", "--name", "3x"], ["'3x' cannot begin", "give another name"]),
        (["m.onnx", "-o", "m.so", "--name", "a b"], ["'a b' cannot begin", "give another name"]),
        (["m.onnx", "-o", "m.net", "--target", "cuda"], [SAVED.format("m.net", "cuda")]),
        (["m.onnx", "-o", "m.so", "--target", "opencl"], [SAVED.format("m.so", "opencl")]),
        (["open.onnx", "-o", "m.o"], ["tiny cannot become a library", "--shape gives what"]),
        (["m.onnx", "-o", "m.net", "--threads", "none"], [OPTIONS.format("m.net")]),
        (["m.onnx", "-o", "m.net", "--threads", "own"], [OPTIONS.format("m.net")]),
        (["m.onnx", "-o", "m.so.1", "--name", "m"], [OPTIONS.format("m.so.1")]),
        (["m.onnx", "-o", "m.so", "--format", "network", "--name", "m"],
         [OPTIONS.format("m.so")]),
    ],
)  # fmt: skip
def test_refused_before_compiling(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    def compiled(*args: Any, **options: Any) -> None:
        raise AssertionError("it compiles")

    monkeypatch.setattr("tilewright.cli.compile.compile_model", compiled)
    before = sorted(folder.rglob("*"))
    done = CliRunner().invoke(main, ["compile", *arguments])
    assert done.exit_code == 2, done.output
    assert all(part in done.stderr for part in parts), done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_a_name_helps(folder: Path) -> None:
    done = CliRunner().invoke(main, ["compile", "m.onnx", "-o", ODD, "--name", "digits"])
    assert done.exit_code == 0, done.output
    assert "digits_run(" in (folder / ODD).with_suffix(".h").read_text()
    done = CliRunner().invoke(main, ["compile", "open.onnx", "-o", "m.so", "--shape", "x=4,3"])
    assert done.exit_code == 0, done.output
