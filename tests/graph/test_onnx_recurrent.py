"""Recurrent layers, attention and transforms against ONNX Runtime and NumPy."""

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.graph.ort import compare, model_of, ours
from tests.graph.test_onnx_ops import floats
from tilewright import graph
from tilewright.graph.build import copy_graph
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.passes.recurrent import recurrent
from tilewright.rt.network import Executable
from tilewright.target.target import Target

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _made(
    kind: str, steps: int, batch: int, direction: str = "forward", hidden: int = 7, **more: Any
) -> tuple[Any, dict[str, Any]]:
    """A model of one layer, and an input of it."""
    size, dirs = 5, 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * hidden
    x = {"x": floats(steps, batch, size)}
    weights = {
        "w": floats(dirs, rows, size), "r": floats(dirs, rows, hidden) * np.float32(0.3),
        "b": floats(dirs, 2 * rows), "lens": more.pop("lens", None),
        "h": floats(dirs, batch, hidden), "c": floats(dirs, batch, hidden),
        "p": floats(dirs, 3 * hidden),
    }  # fmt: skip
    if kind != "LSTM":
        weights["c"] = weights["p"] = None
    known = {k: v for k, v in weights.items() if v is not None}
    names = ["x", *(k if v is not None else "" for k, v in weights.items())]
    while not names[-1]:
        names.pop()
    outputs = ["y", "yh", "yc"] if kind == "LSTM" else ["y", "yh"]
    node = helper.make_node(kind, names, outputs, hidden_size=hidden, direction=direction, **more)
    return model_of([node], x, outputs, known), x


def _layer(*args: Any, **more: Any) -> None:
    compare(*_made(*args, **more))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_directions_and_lengths(kind: str, direction: str) -> None:
    _layer(kind, 4, 3, direction)
    _layer(kind, 4, 3, direction, lens=np.array([2, 4, 1], np.int32))


@pytest.mark.parametrize("kind", GATES)
def test_clipping(kind: str) -> None:
    _layer(kind, 3, 2, clip=0.4)
    _layer(kind, 1, 1)


def test_forms_of_gates() -> None:
    _layer("GRU", 4, 2, linear_before_reset=1)
    _layer("GRU", 4, 2, "bidirectional", linear_before_reset=1)
    _layer("LSTM", 3, 2, input_forget=1)


@pytest.mark.parametrize(
    "name, alpha, beta",
    [("Relu", [], []), ("Affine", [0.5], [0.1]), ("LeakyRelu", [0.2], []), ("Elu", [0.7], []),
     ("ScaledTanh", [0.8], [1.2]), ("HardSigmoid", [0.3], [0.4]), ("Softsign", [], []),
     ("Softplus", [], []), ("ThresholdedRelu", [0.5], [])],
)  # fmt: skip
def test_activations(name: str, alpha: Any, beta: Any) -> None:
    more = {}
    if alpha:
        more["activation_alpha"] = alpha
    if beta:
        more["activation_beta"] = beta
    _layer("RNN", 3, 2, activations=[name], **more)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("hidden, batch", [(1, 1), (8, 5), (37, 2), (64, 17), (100, 1), (520, 1)])
def test_tiles_of_rows_and_columns(kind: str, hidden: int, batch: int) -> None:
    _layer(kind, 3, batch, hidden=hidden)
    if kind == "GRU":
        _layer(kind, 3, batch, "reverse", hidden, linear_before_reset=1)


@pytest.mark.parametrize("kind", GATES)
def test_a_layer_is_one_kernel_however_long(kind: str) -> None:
    short, long = (
        graph.compile(graph.load_onnx(_made(kind, steps, 2, "bidirectional")[0]))
        for steps in (3, 700)
    )
    assert isinstance(short, Executable) and isinstance(long, Executable)
    # of the short one's inputs some parts begin between vectors, and are copied
    assert len(long.calls) <= len(short.calls) < 16
    _layer(kind, 700, 1)


@pytest.mark.parametrize("kind, more", [
    ("RNN", {}), ("LSTM", {}), ("LSTM", {"input_forget": 1}), ("GRU", {}),
    ("GRU", {"linear_before_reset": 1}),
])  # fmt: skip
@pytest.mark.parametrize("device", ["opencl", "cuda -arch=sm_80"])
def test_steps_by_themselves_are_the_layer(kind: str, more: Any, device: str) -> None:
    """What devices compute, one step after the other, run by the kernels of a CPU: with products
    in between on some, in one on others."""
    lens = np.array([2, 5, 1], np.int32)
    model, x = _made(kind, 5, 3, "bidirectional", lens=lens, clip=2.0, **more)
    network = graph.load_onnx(model)
    want = graph.compile(network).run(x)
    single = graph.compile(recurrent(copy_graph(network), Target(device))).run(x)
    for name, value in want.items():
        np.testing.assert_allclose(single[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads, kv_heads", [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention(heads: int, kv_heads: int, causal: int) -> None:
    rng = np.random.default_rng(heads)
    x = {
        "q": rng.standard_normal((2, heads, 3, 8)), "k": rng.standard_normal((2, kv_heads, 5, 8)),
        "v": rng.standard_normal((2, kv_heads, 5, 6)), "m": rng.random((2, 1, 3, 7)) > 0.3,
        "pk": rng.standard_normal((2, kv_heads, 2, 8)),
        "pv": rng.standard_normal((2, kv_heads, 2, 6)),
    }  # fmt: skip
    outputs = ["y", "ok", "ov", "s"]
    how: dict[str, Any] = {"is_causal": causal, "softcap": 2.0, "qk_matmul_output_mode": 3}
    node = helper.make_node("Attention", list(x), outputs, **how)
    exact = model_of([node], x, outputs, opset=24)
    wanted = ReferenceEvaluator(exact).run(None, x)
    for dtype, error in (("float64", 1e-12), ("float32", 2e-6), ("float16", 4e-3)):
        given = {k: a if a.dtype == bool else a.astype(dtype) for k, a in x.items()}
        results = ours(model_of([node], given, outputs, opset=24), given)
        for got, right in zip(results.values(), wanted):
            assert got.dtype == dtype
            np.testing.assert_allclose(got.astype(np.float64), right, atol=error * 4)


@pytest.mark.parametrize("length", [1, 2, 7, 30, 97, 600, 1021, 1024, 2 * 523, 2081])
@pytest.mark.parametrize("inverse, onesided", [(0, 0), (0, 1), (1, 0)])
def test_transforms(length: int, inverse: int, onesided: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, length, 1 if onesided else 2))
    node = helper.make_node("DFT", ["x"], ["y"], inverse=inverse, onesided=onesided, axis=1)
    got = ours(model_of([node], {"x": x}, ["y"], opset=17), {"x": x})["y"]
    z = x[..., 0] if onesided else x[..., 0] + 1j * x[..., 1]
    wanted = np.fft.ifft(z) if inverse else np.fft.rfft(z) if onesided else np.fft.fft(z)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], wanted, atol=1e-10)


@pytest.mark.parametrize("half", [2, 40, 513, 1050])
def test_real_numbers_of_half_a_transform(half: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, half, 2))
    node = helper.make_node("DFT", ["x"], ["y"], inverse=1, onesided=1, axis=1)
    (got,) = ours(model_of([node], {"x": x}, ["y"], opset=17), {"x": x}).values()
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1], axis=1)
    np.testing.assert_allclose(got[..., 0], wanted, atol=1e-10)


@pytest.mark.parametrize("length", [700, 1301])
def test_a_transform_of_another_length(length: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 1009, 2))
    node = helper.make_node("DFT", ["x", "length"], ["y"], axis=1)
    model = model_of([node], {"x": x}, ["y"], {"length": np.array(length)}, opset=17)
    got = ours(model, {"x": x})["y"]
    wanted = np.fft.fft(x[..., 0] + 1j * x[..., 1], n=length, axis=1)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], wanted, atol=1e-10)


def test_a_large_prime_takes_no_matrix_of_its_length() -> None:
    node = helper.make_node("DFT", ["x"], ["y"], axis=1)
    made = graph.load_onnx(model_of([node], {"x": floats(1, 4001, 2)}, ["y"], opset=17))
    assert sum(v.data.nbytes for n in made.nodes for v in n.inputs if v.data is not None) < 4e6


def test_short_time_transform() -> None:
    x = {"x": floats(2, 50, 1)}
    window = np.hanning(12).astype(np.float32)
    node = helper.make_node("STFT", ["x", "step", "w"], ["y"], onesided=1)
    model = model_of([node], x, ["y"], {"step": np.array(5), "w": window})
    compare(model, x)


@pytest.mark.parametrize("kind, launches", [("RNN", 1), ("LSTM", 1), ("GRU", 2)])
def test_a_step_of_few_rows_is_a_launch_on_devices(kind: str, launches: int) -> None:
    """Or two, where a GRU resets all of its state before the product."""
    short, long = (
        graph.compile(graph.load_onnx(_made(kind, steps, 2)[0]), "cuda -arch=sm_80")
        for steps in (3, 7)
    )
    assert isinstance(short, DeviceExecutable) and isinstance(long, DeviceExecutable)
    assert len(long.calls) - len(short.calls) == 4 * launches
    assert len({c.kernel for c in long.calls}) == len({c.kernel for c in short.calls})
