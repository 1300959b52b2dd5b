"""Kernels of networks for devices: kept on disk, made by helpers, the same as made here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx")

import tilewright
from tests.unit.graph.test_compile_kernels import network
from tilewright.driver.device_unit import DeviceUnit
from tilewright.graph import build, kernel
from tilewright.rt.plan import symbol_of
from tilewright.target.target import Target


def compiled(target: str, precision: str = "float32") -> Any:
    return tilewright.compile(network(), target, precision=precision)


def source(net: Any) -> str:
    text: str = net.module.imported_modules[0].get_source()
    return text


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "opencl -fp16=1"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_second_build_lowers_nothing(target, precision, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    first = compiled(target, precision)

    def lowers(*args, **how):
        raise AssertionError("lowered again")

    with monkeypatch.context() as patch:
        patch.setattr(kernel, "lower_group", lowers)
        again = compiled(target, precision)
    assert source(again) == source(first)
    one, other = (n.module.imported_modules[0].device_code for n in (first, again))
    assert one.kernels == other.kernels and set(one.payload) == set(other.payload)
    for call in first.calls:
        name = symbol_of(call.kernel)
        assert first.module[name].info == again.module[name].info
    assert again.module.get_source("tir") == first.module.get_source("tir")  # made when asked for


def test_simt_runs_what_the_disk_had(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 12), np.float32)
    found: list[Any] = []
    for _ in range(2):
        net = compiled("cuda -arch=sm_80")
        net.device = tilewright.nd.device("simt")
        found.append(net(x))
    assert np.array_equal(found[0], found[1])
    assert np.allclose(found[0], compiled("llvm")(x), atol=1e-4)


def test_units_come_back_from_bytes() -> None:
    target = Target("cuda -arch=sm_80")
    _, groups = build.prepare(network(), target)
    for number, group in enumerate(groups):
        unit = kernel.make_unit(group, target, f"f{number}", None, "")
        back = DeviceUnit.from_bytes(unit.to_bytes(), target, unit.lowered)
        assert back.functions == unit.functions and back.kernels == unit.kernels
        assert back.forms == unit.forms and back.programs.keys() == unit.programs.keys()
