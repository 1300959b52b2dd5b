"""The networks of Ansor's evaluation: which are imported, and what is said of the others."""

import onnxruntime
import pytest

import tools.paper_networks as networks
from benchmarks.networks import image
from tilewright import graph
from tilewright.base.errors import TilewrightError


@pytest.mark.parametrize(("name", "says"), [("dcgan", "ConvTranspose"), ("resnet3d18", "Conv")])
def test_what_is_not_imported_says_why(name, says, tmp_path):
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(networks.NETWORKS[name](0).SerializeToString())
    onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    with pytest.raises(TilewrightError, match=says):
        graph.load_onnx(path)


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
