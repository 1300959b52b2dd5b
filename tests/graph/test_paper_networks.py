"""The networks of Ansor's evaluation."""

import onnxruntime
import pytest

import tools.paper_networks as networks
from benchmarks.networks import image
from tilewright import graph


@pytest.mark.parametrize("name", ["dcgan", "resnet3d18"])
def test_networks_of_other_convolutions(name, tmp_path):
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(networks.NETWORKS[name](0).SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (item,) = session.get_inputs()
    x = image(tuple(item.shape), 0)
    (wanted,) = session.run(None, {item.name: x})
    (got,) = graph.compile(graph.load_onnx(path)).run({item.name: x}).values()
    assert got.shape == wanted.shape
    assert abs(got - wanted).max() < 1e-4 * abs(wanted).max()


def test_a_layer_of_bert(monkeypatch, tmp_path):
    monkeypatch.setattr(networks, "LAYERS", 1)
    model = networks.bert(0)
    path = tmp_path / "bert.onnx"
    path.write_bytes(model.SerializeToString())
    x = image((1, networks.TOKENS, networks.WIDTH), 0)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    got = graph.compile(graph.load_onnx(path)).run({"input": x})["logits"]
    assert abs(got - wanted).max() < 1e-4 * abs(wanted).max()


def test_mobilenet_v2_has_the_published_number_of_convolutions():
    model = networks.mobilenet_v2(0)
    kinds = [n.op_type for n in model.graph.node]
    assert kinds.count("Conv") == 52 and kinds.count("Clip") == 35 and kinds.count("Add") == 10
