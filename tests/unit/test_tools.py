"""The models that scripts make: seeded, sane, and sensitive to their input."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tools.make_networks import NETWORKS, convolve, main, make

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def infer(model: onnx.ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    """Logits of ONNX Runtime for each input."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return [session.run(["logits"], {"input": x})[0] for x in inputs]


def dims(model: onnx.ModelProto) -> tuple[int, ...]:
    """Shape of the input."""
    return tuple(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - {"vgg16"}))  # half a gigabyte
def test_logits_are_sane_and_depend_on_the_input(name: str) -> None:
    model = make(name, seed=3)
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(dims(model)).astype("float32") for _ in range(2))
    a, b = infer(model, x, y)
    assert np.isfinite(a).all() and 0.01 < np.abs(a).max() < 100
    assert np.abs(a - b).max() > 0.1 * np.abs(a).max()


def test_weights_follow_the_seed() -> None:
    first, again, other = (make("lenet", seed).SerializeToString() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_batch_norms_are_not_trivial() -> None:
    model = make("resnet18")
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    norms = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
    assert len(norms) == 20
    for norm in norms:
        for name in norm.input[1:]:
            assert values[name].std() > 0


def test_the_reference_convolution_agrees_with_onnxruntime() -> None:
    model = make("lenet")
    weight = numpy_helper.to_array(model.graph.initializer[0])
    x = np.random.default_rng(0).standard_normal((1, 1, 28, 28)).astype("float32")
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("conv1.conv", onnx.TensorProto.FLOAT, (1, 6, 28, 28))
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    want = session.run(None, {"input": x})[0]
    np.testing.assert_allclose(convolve(x, weight, 1, 2), want, rtol=1e-4, atol=1e-5)


def test_the_command_writes_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    assert main(["lenet", str(path), "--seed", "7"]) == 0
    assert "seed 7" in capsys.readouterr().out
    assert onnx.load(str(path)) == make("lenet", 7)


def test_the_digits_files_belong_together() -> None:
    images = np.load(DIGITS / "test_images.npy")
    labels = np.load(DIGITS / "test_labels.npy")
    expected = np.load(DIGITS / "expected_logits.npy")
    said = json.loads((DIGITS / "accuracy.json").read_text())
    model = onnx.load(str(DIGITS / "digits.onnx"))
    logits = np.concatenate(infer(model, *(image[None] for image in images)))
    assert images.shape == (said["test_images"], 1, 8, 8)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    assert int((logits.argmax(1) == labels).sum()) == said["pytorch_correct"]
    assert said["pytorch_accuracy"] > 0.98
    assert "BatchNormalization" in {node.op_type for node in model.graph.node}
