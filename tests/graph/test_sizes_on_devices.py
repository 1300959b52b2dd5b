"""Networks on devices whose sizes come with their inputs: compiled once, bound for each size."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.graph.ort import reference
from tests.graph.test_sizes import (
    DENSE,
    RECURRENT,
    attended,
    attention,
    check,
    convolutional,
    floats,
    model_of,
)
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError
from tilewright.graph.device import DeviceExecutable

opencl = pytest.mark.skipif(not tilewright.opencl(0).exist, reason="there is no OpenCL device")
CUDA = ["cuda -arch=sm_75", "cuda -arch=sm_80", "cuda -arch=sm_90a"]
TARGETS = [*(pytest.param(t, marks=opencl) for t in ("opencl", "opencl -device=mali")), *CUDA]
TWO = [TARGETS[0], CUDA[1]]


def dense() -> Any:
    return model_of(DENSE, w=floats(24, 40), bias=floats(40))


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_dense_layer_takes_any_number_of_rows(
    target: str, precision: str, tmp_path: Path
) -> None:
    model = dense()
    calls = [{"x": floats(*s, 24)} for s in ((1, 1), (2, 5), (3, 17), (7, 131))]
    net = check(model, *calls, target=target, precision=precision)
    out = np.empty((2, 5, 40), np.float32)
    assert net.run(calls[1], {"y": out})["y"] is out
    np.testing.assert_array_equal(out, net.run(calls[1])["y"])
    with pytest.raises(ArgumentError, match="'y' has shape"):
        net.run(calls[1], {"y": out[:, 1:]})
    with pytest.raises(ArgumentError, match=r"shape \(2, 5, 23\), expected \(batch, seq, 24\)"):
        net.run({"x": floats(2, 5, 23)})
    assert net.whole is not None
    assert len(net.profile(calls[2], 1)) == len(net.whole.calls)
    net.prepare(calls[0])()
    with pytest.raises(TilewrightError, match="files hold networks for CPUs"):
        net.save(tmp_path / "net")


@pytest.mark.parametrize("target", TWO)
def test_attention_with_shapes_computed_in_the_graph(target: str) -> None:
    check(attention(), *(attended(*s) for s in ((2, 16), (1, 1), (3, 37))), target=target)


@pytest.mark.parametrize("sizes", ["batch", "batch, height and width"])
@pytest.mark.parametrize("target", TWO)
def test_a_convolutional_network(target: str, sizes: str) -> None:
    model, shapes = convolutional(sizes)
    check(model, *({"x": floats(n, 3, h, w)} for n, h, w in shapes), target=target)


@pytest.mark.parametrize("kind, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_in_batches_of_any_size(kind: str, gates: int) -> None:
    rows = gates * 20
    weights = {"w": floats(2, rows, 6), "r": 0.2 * floats(2, rows, 20), "b": floats(2, 2 * rows)}
    weights = {k: v.astype(np.float32) for k, v in weights.items()}
    model = model_of((RECURRENT % kind).replace("seq", "5"), **weights)
    check(model, *({"x": floats(5, n, 6)} for n in (1, 3, 17)), target=CUDA[1])
    for target in ("llvm", CUDA[1]):
        graph = tilewright.graph.load_onnx(model_of(RECURRENT % kind, **weights), symbolic=True)
        if target != "llvm":
            with pytest.raises(CompileError, match=r"step by step.* fix the length"):
                tilewright.graph.compile(graph, target)


def test_sizes_come_and_go_in_any_order() -> None:
    """What is bound for a few sizes is kept, and no size sees another's arrays."""
    model = attention()
    net = check(model, attended(1, 3), target=CUDA[1])
    whole = net.whole
    assert isinstance(whole, DeviceExecutable)
    sizes = [(1, 3), (2, 5), (1, 4), (3, 3), (1, 9), (1, 3), (1, 3), (1, 3)]
    given = [attended(*s) for s in sizes]
    wanted = [reference(model, g)["y"] for g in given]
    for g, want in zip(given, wanted):
        np.testing.assert_allclose(net.run(g)["y"], want, rtol=2e-5, atol=2e-5)
    assert 1 <= len(whole._idle) <= 4
    assert len({b.now.symbols for b in whole._idle}) == len(whole._idle)
    found: dict[int, Any] = {}

    def call(k: int) -> None:
        found[k] = net.run(given[k])["y"]

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k, y in found.items():
        np.testing.assert_allclose(y, wanted[k], rtol=2e-5, atol=2e-5)
    assert len(found) == 4
