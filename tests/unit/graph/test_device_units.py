"""Kernels of networks for devices: kept on disk, made by helpers, the same as made here."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx")

import tilewright
from tests.unit.graph.test_compile_kernels import network
from tilewright.driver.device_unit import DeviceUnit
from tilewright.graph import compile_kernels, kernel
from tilewright.target.target import Target


def source(net) -> str:
    text: str = net.module.imported_modules[0].get_source()
    return text


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "opencl -fp16=1"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_second_build_lowers_nothing(target, precision, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    first = tilewright.compile(network(), target, precision=precision)

    def lowers(*args, **how):
        raise AssertionError("lowered again")

    with monkeypatch.context() as patch:
        patch.setattr(kernel, "lower_group", lowers)
        again = tilewright.compile(network(), target, precision=precision)
    assert source(again) == source(first)
    one, other = (n.module.imported_modules[0].device_code for n in (first, again))
    assert one.kernels == other.kernels and set(one.payload) == set(other.payload)
    for call in first.calls:
        name = compile_kernels.symbol_of(call.kernel)
        assert first.module[name].info == again.module[name].info
    assert again.module.get_source("tir") == first.module.get_source("tir")  # made when asked for


def test_simt_runs_what_the_disk_had(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 12), np.float32)
    found = []
    for _ in range(2):
        net = tilewright.compile(network(), "cuda -arch=sm_80")
        net.device = tilewright.nd.device("simt")
        found.append(net(x))
    assert np.array_equal(*found)
    assert np.allclose(found[0], tilewright.compile(network(), "llvm")(x), atol=1e-4)


def test_units_come_back_from_bytes() -> None:
    target = Target("cuda -arch=sm_80")
    net = tilewright.compile(network(), target)
    assert source(net)
    made: list[DeviceUnit] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE", "0")
        real = compile_kernels.make_unit
        patch.setattr(
            compile_kernels, "make_unit", lambda *args: made.append(real(*args)) or made[-1]
        )
        tilewright.compile(network(), target)
    for unit in made:
        back = DeviceUnit.from_bytes(unit.to_bytes(), target, unit.lowered)
        assert back.functions == unit.functions and back.kernels == unit.kernels
        assert back.forms == unit.forms and back.programs.keys() == unit.programs.keys()
