"""Files of ours that are cut off or damaged: cache entries are made anew, modules refused."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tvm
from tilewright import graph, te
from tilewright.base import config
from tilewright.base.errors import TilewrightError


@pytest.fixture
def folder(tmp_path: Path):
    with config.scoped(cache_dir=str(tmp_path), cache=True):
        yield tmp_path


def double():
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] * 2.0, name="B")
    return tvm.build(te.create_schedule(b.op), [a, b], name="double")


def run_double() -> None:
    y = np.zeros(16, np.float32)
    double()(np.ones(16, np.float32), y)
    assert (y == 2).all()


def run_network() -> None:
    weight = numpy_helper.from_array(np.full((3, 4), 2, np.float32), "w")
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(body, opset_imports=opset, ir_version=8)
    net = graph.compile(graph.load_onnx(model))
    assert (net.run({"x": np.ones((2, 3), np.float32)})["y"] == 6).all()


@pytest.mark.parametrize("run", [run_double, run_network])
@pytest.mark.parametrize("damage", ["half", "empty", "longer", "flipped"])
def test_cache_entries(folder: Path, caplog, run, damage: str):
    run()
    entries = sorted(p for p in folder.rglob("*") if p.is_file())
    assert entries
    whole = {p: p.read_bytes() for p in entries}
    for path, data in whole.items():
        middle = len(data) // 2
        path.write_bytes(
            {
                "half": data[:middle],
                "empty": b"",
                "longer": data + b"\0",
                "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            }[damage]
        )
    with caplog.at_level(logging.WARNING):
        run()
    assert "is damaged" in caplog.text and ": removed" in caplog.text
    for path in entries:
        assert not path.exists() or path.read_bytes() == whole[path], "nothing half-written"
    caplog.clear()
    run()
    assert caplog.text == ""


def test_a_folder_in_the_place_of_an_entry(folder: Path):
    run_double()
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        path.unlink()
        path.mkdir()
    run_double()


@pytest.mark.parametrize("suffix", [".two", ".tar"])
def test_modules_that_are_cut_off(tmp_path: Path, suffix: str):
    path = tmp_path / f"double{suffix}"
    double().export_library(path)
    data = path.read_bytes()
    y = np.zeros(16, np.float32)
    tvm.runtime.load_module(path)(np.ones(16, np.float32), y)
    assert (y == 2).all()
    for size in range(0, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:size])
        with pytest.raises(TilewrightError, match=str(path)):
            tvm.runtime.load_module(path)


def test_modules_that_are_damaged_or_none(tmp_path: Path):
    path = tmp_path / "double.two"
    for junk in (b"", b"PK\3\4" * 9, b"\x7fELF" + bytes(60), b"{}", b"\0" * 512):
        path.write_bytes(junk)
        with pytest.raises(TilewrightError, match=str(path)):
            tvm.runtime.load_module(path)
    for wrong in (tmp_path, tmp_path / "none.two"):
        with pytest.raises(TilewrightError, match="cannot read"):
            tvm.runtime.load_module(wrong)
