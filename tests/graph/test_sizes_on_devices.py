"""Networks on devices whose sizes come with their inputs: compiled once, bound for each size."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

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
from tests.narrow import as_a
from tests.stub_cuda import installed
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.open import OpenExecutable

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


@pytest.mark.parametrize("target", CUDA[1:])
def test_convolutions_of_any_number_of_images_are_made_by_tensor_cores(target: str) -> None:
    model = model_of(
        """
        net (float[n, 64, 10, 9] x) => (float[n, 64, 5, 5] y) {
            a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1, bias)
            b = Relu (a)
            c = Conv <pads = [1, 1, 1, 1]> (b, w2)
            d = Add (b, c)
            y = Conv (d, w3)
        }""",
        w1=floats(64, 64, 3, 3) / 24,
        w2=floats(64, 64, 3, 3) / 24,
        w3=floats(64, 64, 1, 1) / 8,
        bias=floats(64),
    )
    images = [{"x": floats(n, 64, 10, 9)} for n in (1, 3, 8)]
    net = check(model, *images, target=target, precision="float16")
    module = as_a(DeviceExecutable, net.whole).module.imported_modules[0]
    kernels = module.get_source().split("__global__")[1:]
    assert sum("mma" in k for k in kernels) == 3
    assert sum("im2col" in k for k in kernels) == (3 if "90a" in target else 0)


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


GROWING = """
net (float[1, 4, past, 8] keys, float[1, 4, 1, 8] key) =>
(float[1, 4, all, 8] grown, float[1, 4, 1, all] scores) {
    grown = Concat <axis = 2> (keys, key)
    t = Transpose <perm = [0, 1, 3, 2]> (grown)
    scores = MatMul (key, t)
}
"""


@pytest.mark.parametrize("target", TWO)
def test_what_one_call_gives_goes_into_the_next_without_leaving_the_device(target: str) -> None:
    """As the keys of a decoder grow by one at each token."""
    model = model_of(GROWING)
    known = floats(1, 4, 3, 8)
    net = check(model, {"keys": known, "key": floats(1, 4, 1, 8)}, target=target)
    whole = net.whole
    assert isinstance(whole, DeviceExecutable)
    kept: Any = tilewright.nd.array(known, whole.device)
    for _ in range(4):
        key = floats(1, 4, 1, 8)
        want = reference(model, {"keys": known, "key": key})
        with patch.object(type(kept), "numpy", side_effect=AssertionError("it left the device")):
            found = net.run_on_device({"keys": kept, "key": key})
        np.testing.assert_allclose(found["scores"].numpy(), want["scores"], rtol=2e-5, atol=2e-5)
        kept, known = found["grown"], want["grown"]
        assert kept.device == whole.device and kept.shape == known.shape
    found_here = net.run({"keys": kept, "key": key})
    np.testing.assert_array_equal(found_here["grown"][:, :, :-1], known)
    text = "'keys' has shape"
    with pytest.raises(ArgumentError, match=text):
        net.run_on_device(
            {"keys": tilewright.nd.array(floats(1, 5, 2, 8), whole.device), "key": key}
        )
    with pytest.raises(ArgumentError, match="'keys' is float64, expected float32"):
        doubles = tilewright.nd.array(known.astype(np.float64), whole.device)
        net.run_on_device({"keys": doubles, "key": key})
    on_cpu = as_a(OpenExecutable, tilewright.compile(model))
    with pytest.raises(TilewrightError, match="outputs stay on devices only"):
        on_cpu.run_on_device({"keys": known, "key": key})


def test_streams_take_turns_with_what_is_bound() -> None:
    with installed("sm_80") as stub:
        device = tilewright.cuda(0)
        graph = tilewright.graph.load_onnx(dense(), {"x": (2, 3, 24)})
        made = tilewright.graph.compile(graph, tilewright.Target.from_device(device))
        net, x = as_a(DeviceExecutable, made), floats(2, 3, 24)
        want = net.run({"x": x})["y"]
        first = net.run_on_device({"x": x})["y"]
        with tilewright.rt.device.stream(device.create_stream()) as side:
            second = net.run_on_device({"x": 2 * x})["y"]
            waits = [c for c in stub.calls if c[0] == "cuStreamWaitEvent"]
            side.sync()
        assert waits, "another stream waits before it writes to the same arrays"
        np.testing.assert_array_equal(first.numpy(), want)
        np.testing.assert_array_equal(second.numpy(), net.run({"x": 2 * x})["y"])
        assert not stub.violations
