"""The `tilewright` command with bad input: one line that says what is wrong, nothing written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from tilewright.auto_scheduler.boosting import Forest
from tilewright.base.errors import TilewrightError
from tilewright.cli.data import compare
from tilewright.cli.main import main
from tilewright.graph import load_onnx
from tilewright.graph.onnx.load import load_tensor
from tilewright.runtime import load_module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "tiny",
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
    )
    opset = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    shape = graph.input[0].type.tensor_type.shape
    shape.dim[1].ClearField("dim_value")
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "open.onnx")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "long.npy", np.ones((2, 4), np.float32))
    np.save(tmp_path / "wide.npy", np.ones((2, 3), np.float64))
    np.save(tmp_path / "words.npy", np.array([["a", "b", "c"]] * 2))
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(2))
    (tmp_path / "empty.npy").touch()
    head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 3), }"
    (tmp_path / "huge.npy").write_bytes((head % 10**15).ljust(127) + b"\n")
    np.save(tmp_path / "objects.npy", np.array([[None] * 3] * 2), allow_pickle=True)
    (tmp_path / "junk.npy").write_bytes(b"no array")
    (tmp_path / "junk.pb").write_bytes(b"\xff\xfe no tensor")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-5])
    return tmp_path


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_files_without_an_end(folder: Path, kind: str) -> None:
    """A device may never end, and a pipe never begin."""
    place = Path("/dev/zero")
    if kind == "pipe":
        place = folder / "pipe"
        os.mkfifo(place)
    model = str(folder / "m.onnx")
    for words in (
        ["run", str(place)],
        ["run", model, "--input", f"x={place}"],
        ["run", model, "--check", str(place)],
        ["run", model, "--records", str(place)],
        ["records", "show", str(place)],
        ["inspect", str(place)],
    ):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("error: ") and str(place) in result.stderr
        assert result.stderr.count("\n") == 1
    for load in (load_module, load_onnx, load_tensor, Forest.load):
        with pytest.raises(TilewrightError, match=f"{place}: .*it is not a regular file"):
            load(place)
    for load in (load_onnx, load_module):
        with pytest.raises(TilewrightError, match="Is a directory"):
            load(folder)


CASES: list[tuple[tuple[str, ...], str]] = [
    (("--input", "z={d}/x.npy"), "--input: the model has no input 'z'; it has: x"),
    (("--input", "x={d}/long.npy"), "input 'x' has shape (2, 4), expected (2, 3)"),
    (("--input", "x={d}/wide.npy"), "input 'x' is float64, expected float32"),
    (("--input", "x"), "--input: expected NAME=VALUE, got 'x'"),
    (("--input", "x={d}/x.npy", "--input", "x={d}/x.npy"), "--input: 'x' is given twice"),
    (("--input", "x={d}"), "cannot read an array from"),
    (("--input", "x={d}/huge.npy"), "cannot read an array from"),
    (("--input", "x={d}/empty.npy"), "cannot read an array from"),
    (("--input", "x={d}/objects.npy"), "Python objects in dtype"),
    (("--input", "x=a\nb"), "cannot read an array from"),
    (("--check", "{d}/empty.npy"), "cannot read an array from"),
    (("--rtol", "nan"), "--rtol must be 0 or more, got nan"),
    (("--rtol", "-0.1"), "--rtol must be 0 or more, got -0.1"),
    (("--shape", "x=2,3", "--shape", "x=2,3"), "--shape: 'x' is given twice"),
    (("--shape", "x="), "--shape: expected NAME=VALUE, got 'x='"),
    (("--shape", "x=99999999999999999999,3"), "dimension 0 is 2 in the model, got 99999999"),
    (("--target", ""), "the target is empty"),
    (("--target", "llvm -mcpu"), "attribute 'mcpu' takes str, got ''"),
    (("--target", "llvm -mcpu='x"), "cannot be read: No closing quotation"),
    (("--output", "y={d}/x.npy/y.npy"), "there is no directory"),
    (("--output", "y=/dev/null"), "it is a device or pipe, not a file"),
    (("--output", "y={d}/a.npy", "--output", "y={d}/b.npy"), "--output: 'y' is given twice"),
    (("--threads", "99999999999"), "at most 1024, got 99999999999"),
    (("--input", "=a.npy"), "expected NAME=VALUE, got '=a.npy'"),
    (("--input", "x={d}/none.npy"), "cannot read an array from"),
    (("--input", "x={d}/junk.npy"), "cannot read an array from"),
    (("--input", "x={d}/cut.npy"), "cannot read an array from"),
    (("--input", "x={d}/two.npz"), "holds several arrays; give a .npy file with one"),
    (("--input", "x={d}/junk.pb"), "cannot read an ONNX tensor from"),
    (("--check", "{d}/long.npy"), "has shape (2, 4), the output has (2, 3)"),
    (("--check", "{d}/junk.npy"), "cannot read an array from"),
    (("--check", "{d}/words.npy"), "which are no numbers"),
    (("--check", "{d}/junk.pb"), "cannot read an ONNX tensor from"),
    (("--shape", "x=2,a"), "--shape: a shape is numbers with commas between, got '2,a'"),
    (("--shape", "x=2,4"), "input 'x': dimension 1 is 3 in the model, got 4"),
    (("--shape", "x=2"), "input 'x' has 2 dimensions, got shape [2]"),
    (("--shape", "q=2,3"), "the model has no input 'q' to shape; inputs: x"),
    (("--target", "abacus"), "unknown target kind 'abacus'"),
    (("--target", "llvm -mcpu=z80"), "z80"),
    (("--target", "c"), "targets, not 'c'"),
    (("--output", "y={d}/no/y.npy"), "there is no directory"),
    (("--output", "y={d}"), "it is a directory"),
    (("--output", "w={d}/w.npy"), "--output: the model has no output 'w'; it has: y"),
    (("--warm-up", "-1"), "--warm-up must be 0 or more, got -1"),
    (("--duration", "0"), "--duration is in seconds, above 0, got 0.0"),
    (("--duration", "inf"), "--duration is in seconds, above 0, got inf"),
    (("--duration", "nan"), "--duration is in seconds, above 0, got nan"),
    (("--streams", "0"), "--streams must be at least 1, and at most 1024, got 0"),
    (("--threads", "0"), "--threads must be at least 1, and at most 1024, got 0"),
    (("--threads", "-2"), "--threads must be at least 1, and at most 1024, got -2"),
    (("--repeat", "0"), "--repeat must be at least 1, got 0"),
]


def run(*args: str) -> Any:
    return CliRunner().invoke(main, ["run", *args])


@pytest.mark.parametrize("arguments, text", CASES)
def test_bad_option(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    before = sorted(folder.iterdir())
    keep = [] if "--output" in arguments else ["--output", f"y={folder}/result.npy"]
    filled = [a.replace("{d}", str(folder)) for a in arguments]
    done = run(f"{folder}/m.onnx", *filled, *keep)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: "), done.stderr
    assert len(done.stderr.splitlines()) == 1 + "\n".join(arguments).count("a\nb"), "one line"
    assert text in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""
    assert sorted(folder.iterdir()) == before, "nothing was written"


def test_open_dimension(folder: Path) -> None:
    done = run(f"{folder}/open.onnx")
    assert done.exit_code == 2
    assert "input 'x': dimension 1 (?) is open; give shapes={'x': (...)}" in done.stderr
    assert run(f"{folder}/open.onnx", "--shape", "x=2,5", "--repeat", "1").exit_code == 0
    wrong = run(f"{folder}/open.onnx", "--shape", "x=2,-3")
    assert "extents must not be negative, got shape [2, -3]" in wrong.stderr


@pytest.mark.parametrize("name", ["none.onnx", "."])
def test_missing_model(folder: Path, name: str) -> None:
    done = run(f"{folder}/{name}")
    assert done.exit_code == 2
    assert "Invalid value for 'MODEL'" in done.stderr


def test_no_model_but_junk(folder: Path) -> None:
    done = run(f"{folder}/x.npy")
    assert done.exit_code == 2
    assert "x.npy is no ONNX model" in done.stderr


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("--threads", "x"), "Invalid value for '--threads': 'x' is not a valid int"),
        (("--repeat", "1.5"), "Invalid value for '--repeat': '1.5' is not a valid int"),
        (("--rtol", "small"), "Invalid value for '--rtol': 'small' is not a valid float"),
        (("--check", "{d}/none.npy"), "Invalid value for '--check'"),
        (("--check", "{d}"), "Invalid value for '--check'"),
        (("--frobnicate",), "No such option"),
        (("another.onnx",), "unexpected extra argument"),
    ],
)
def test_options_that_cannot_be_read(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    filled = [a.replace("{d}", str(folder)) for a in arguments]
    done = run(f"{folder}/m.onnx", *filled, "--output", f"y={folder}/result.npy")
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr
    assert not (folder / "result.npy").exists()


def test_compare_counts_what_is_not_finite() -> None:
    nan, inf = np.float32("nan"), np.float32("inf")
    a = np.array([1, nan, inf], np.float32)
    assert compare(a, a, 1e-3) == {"ok": True, "worst_error": 0.0, "rtol": 1e-3}
    wrong = compare(a, np.array([1, 2, inf], np.float32), 1e-3)
    assert wrong["ok"] is False
    assert wrong["worst_error"] is None
    assert compare(a, np.array([1, nan, -inf], np.float32), 1e-3)["ok"] is False
    assert compare(np.zeros(0), np.zeros(0), 0.0)["ok"] is True
    assert compare(np.array([2.0]), np.array([4.0]), 0.4)["worst_error"] == 0.5


PROGRAM = "def fails(n):\n    return 1 // (n - n)\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("tune op.py:fails 5 --trials 1 --records new.json", "op.py, line 2: ZeroDivisionError"),
        ("tune m.onnx --trials 1 --records op.py", "op.py is there already and is no file of"),
        ("records show op.py", "op.py is no file of records"),
        ("inspect m.onnx --stage tir", "no code of stage tir; it has: graph, groups, lowered"),
        ("run m.onnx --trace no/t.json", "there is no directory no"),
        ("run m.onnx --input x=op.py", "op.py: it is no .npy or .pb file"),
        ("compile m.onnx -o m.so --format o", "a file of --format o ends in .o"),
    ],
)
def test_what_files_do_not_have(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, text: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "op.py").write_text(PROGRAM)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    before = sorted(p.name for p in folder.iterdir())
    result = CliRunner().invoke(main, arguments.split())
    assert result.exit_code == 2
    assert text in result.stderr
    assert (folder / "op.py").read_text() == PROGRAM
    assert sorted(p.name for p in folder.iterdir()) == before


def test_the_end_of_a_name_says_what_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name, begin in (("m.so", b"\x7fELF"), ("m.o", b"\x7fELF"), ("m.net", b"")):
        result = CliRunner().invoke(main, ["compile", "m.onnx", "-o", name])
        assert result.exit_code == 0, result.output
        assert (folder / name).read_bytes().startswith(begin)
        assert (folder / "m.h").exists() is (name != "m.net")
        (folder / "m.h").unlink(missing_ok=True)
