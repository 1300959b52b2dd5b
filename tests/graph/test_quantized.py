"""Quantised networks: products and convolutions between conversions, done in whole numbers."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tilewright as tvm
from tests.narrow import as_a
from tilewright import graph as tg
from tilewright.graph.build import prepare
from tilewright.target.target import Target

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(11)


class Net:
    """A network of conversions, products and convolutions, node by node."""

    kind, middle = "int8", 0  # of weights, and their zero point

    def __init__(self, shape, zero, data):
        self.nodes, self.weights, self.count = [], [], 0
        self.zero, self.data = zero, data
        self.x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op, inputs, **attrs):
        self.count += 1
        out = f"v{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [out], f"n{self.count}", **attrs))
        return out

    def narrowed(self, v, scale):
        how = [self.constant(np.float32(scale)), self.constant(np.array(self.zero, self.data))]
        q = self.add("QuantizeLinear", [v, *how])
        return self.add("DequantizeLinear", [q, *how])

    def weight(self, shape, axis):
        w = (RNG.integers(-127, 128, shape) + self.middle).astype(self.kind)
        scale = RNG.uniform(0.002, 0.01, shape[axis]).astype("float32")
        zero = self.constant(np.full(shape[axis], self.middle, self.kind))
        return self.add(
            "DequantizeLinear", [self.constant(w), self.constant(scale), zero], axis=axis
        )

    def model(self, out):
        graph = helper.make_graph(
            self.nodes, "net", [self.x],
            [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], self.weights,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def convolutions(zero, data):
    net = Net((1, 16, 9, 9), zero, data)
    v = net.narrowed("x", 0.02)
    v = net.add("Conv", [v, net.weight((32, 16, 3, 3), 0)], pads=[1, 1, 1, 1])
    v = net.narrowed(net.add("Relu", [v]), 0.05)
    v = net.add("Conv", [v, net.weight((32, 32, 1, 1), 0), net.constant(np.ones(32, "float32"))])
    return net.model(net.narrowed(v, 0.2))


def products(zero, data):
    net = Net((2, 5, 64), zero, data)
    v = net.narrowed("x", 0.02)
    v = net.add("MatMul", [v, net.weight((64, 48), 1)])
    v = net.narrowed(net.add("Add", [v, net.constant(np.ones(48, "float32"))]), 0.05)
    v = net.add("Reshape", [v, net.constant(np.array([10, 48], "int64"))])
    v = net.add("Gemm", [v, net.weight((32, 48), 0)], transB=1)
    return net.model(net.narrowed(v, 0.2))


@pytest.mark.parametrize("make", [convolutions, products])
@pytest.mark.parametrize(("zero", "data"), [(0, "uint8"), (117, "uint8"), (-3, "int8")])
@pytest.mark.parametrize(("kind", "middle"), [("int8", 0), ("uint8", 128)])
def test_within_a_step_of_onnxruntime(make, zero, data, kind, middle, monkeypatch):
    monkeypatch.setattr(Net, "kind", kind)
    monkeypatch.setattr(Net, "middle", middle)
    model = make(zero, data)
    raw = model.SerializeToString()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = RNG.standard_normal(shape).astype("float32")
    (wanted,) = session.run(None, {"x": x})
    (got,) = tvm.compile(raw).run({"x": x}).values()
    assert np.abs(got - wanted).max() <= 0.2 * 1.001  # a step of the last conversion
    assert np.mean(np.abs(got - wanted) > 1e-4) < 0.02 and np.ptp(wanted) > 2

    _, groups = prepare(tg.load_onnx(raw), Target("llvm"))
    sums = [n for g in groups for n in g.nodes if n.op in ("conv_nchwc", "conv2d", "dense")]
    assert len(sums) == 2 and all(n.output.dtype == "int32" for n in sums)
    assert all("int8" in v.dtype for n in sums for v in n.inputs)


@pytest.mark.parametrize(("zero", "weights"), [(None, "int8"), (7, "int8"), (128, "uint8")])
def test_dynamic_quantisation_multiplies_bytes(zero, weights):
    net = Net((5, 64), 0, "uint8")
    three = ["q", "scale", "zero"]
    net.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], three, "dynamic"))
    low, high = (-100, 100) if weights == "int8" else (0, 256)
    w = net.constant(RNG.integers(low, high, (64, 48)).astype(weights))
    own = [] if zero is None else [net.constant(np.array(zero, weights))]
    v = net.add("MatMulInteger", ["q", w, "zero", *own])
    v = net.add("Mul", [net.add("Cast", [v], to=TensorProto.FLOAT), "scale"])
    model = net.model(v)
    raw = model.SerializeToString()
    x = RNG.standard_normal((5, 64)).astype("float32")
    # sums of ONNX Runtime saturate at 16 bits on processors without VNNI
    (wanted,) = as_a(list, ReferenceEvaluator(model).run(None, {"x": x}))
    (got,) = tvm.compile(raw).run({"x": x}).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)
    _, groups = prepare(tg.load_onnx(raw), Target("llvm"))
    (sums,) = (n for g in groups for n in g.nodes if n.op == "dense")
    assert [v.dtype for v in sums.inputs] == ["uint8", "int8"]
