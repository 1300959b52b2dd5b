"""Small networks of the kinds that larger ones are made of, as ONNX files with random weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tools.onnx_writer import GraphWriter

OPSET, IR_VERSION = 18, 9


class Layers:
    """Nodes one after the other, from input "x" to output "y"; calls append one and give the name
    of its output, or the names of `n`."""

    def __init__(self, *shape: int) -> None:
        self.graph = GraphWriter("block", "x", shape)
        self.rng = np.random.default_rng(0)
        self.kind = TensorProto.FLOAT  # of the output

    def __call__(self, op: str, *inputs: str, n: int = 1, **attributes: Any) -> Any:
        nodes = self.graph.nodes
        outputs = [f"{op.lower()}{len(nodes)}_{k}" for k in range(n)]
        nodes.append(helper.make_node(op, list(inputs), outputs, **attributes))
        return outputs[0] if n == 1 else outputs

    def fixed(self, value: Any, dtype: str = "float32") -> str:
        return self.graph.weight(f"c{len(self.graph.initializers)}", np.asarray(value, dtype))

    def whole(self, *values: int) -> str:
        return self.fixed(values, "int64")

    def weights(self, *shape: int) -> str:
        return self.fixed(self.rng.standard_normal(shape) * 0.05)

    def conv(
        self, x: str, channels: int, filters: int, k: int = 3, s: int = 1, g: int = 1, d: int = 1
    ) -> str:
        w, bias = self.weights(filters, channels // g, k, k), self.weights(filters)
        sides: dict[str, Any] = {
            "pads": [k // 2 * d] * 4,
            "strides": [s, s],
            "group": g,
            "dilations": [d, d],
        }
        made: str = self("Conv", x, w, bias, **sides)
        return made

    def relu(self, x: str) -> str:
        made: str = self("Relu", x)
        return made

    def swish(self, x: str) -> str:
        made: str = self("Mul", x, self("Sigmoid", x))
        return made

    def dense(self, x: str, size: int, last: int) -> str:
        made: str = self("Add", self("MatMul", x, self.weights(size, last)), self.weights(last))
        return made

    def reshape(self, x: str, *shape: int) -> str:
        made: str = self("Reshape", x, self.whole(*shape))
        return made

    def split(self, x: str, *sizes: int, axis: int = 1) -> list[str]:
        made: list[str] = self("Split", x, self.whole(*sizes), n=len(sizes), axis=axis)
        return made

    def resize(self, x: str, by: int, mode: str) -> str:
        how: dict[str, Any] = {"mode": mode}
        if mode == "nearest":
            how |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        made: str = self("Resize", x, "", self.fixed([1, 1, by, by]), **how)
        return made

    def model(self, last: str) -> onnx.ModelProto:
        made = self.graph
        made.node("Identity", [last], "y")
        y = helper.make_tensor_value_info("y", self.kind, None)
        graph = helper.make_graph(made.nodes, made.name, [made.input], [y], made.initializers)
        imports = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model)  # says the output's shape


BLOCKS: dict[str, Callable[[], onnx.ModelProto]] = {}


def block(make: Callable[[], tuple[Layers, str]]) -> Callable[[], tuple[Layers, str]]:
    def model() -> onnx.ModelProto:
        layers, last = make()
        return layers.model(last)

    BLOCKS[make.__name__] = model
    return make


def grouped(channels: int, groups: int, size: int, stride: int = 1) -> None:
    """ResNeXt's: a grouped convolution between two of 1x1."""

    def make() -> onnx.ModelProto:
        b = Layers(1, 64, size, size)
        x = b.relu(b.conv("x", 64, channels, 1))
        x = b.relu(b.conv(x, channels, channels, 3, stride, groups))
        return b.model(b.conv(x, channels, 64, 1))

    BLOCKS[f"grouped_{channels}_{groups}_{size}_{stride}"] = make


for sizes in ((128, 32, 56), (256, 32, 28), (512, 32, 14), (1024, 32, 7), (120, 40, 28)):
    grouped(*sizes)
for sizes in ((128, 4, 28), (96, 3, 28), (96, 12, 28)):
    grouped(*sizes)
grouped(256, 4, 14, 2)


def resized(mode: str, channels: int, size: int) -> None:
    """Of U-Nets: a resized image between two convolutions."""

    def make() -> onnx.ModelProto:
        b = Layers(1, channels, size, size)
        x = b.resize(b.relu(b.conv("x", channels, channels)), 2, mode)
        return b.model(b.conv(x, channels, channels))

    BLOCKS[f"resize_{mode}_{channels}_{size}"] = make


for how in (("linear", 64, 56), ("linear", 32, 112), ("linear", 21, 65), ("nearest", 64, 56)):
    resized(*how)


@block
def squeeze_excite() -> tuple[Layers, str]:
    b = Layers(1, 96, 56, 56)
    x = b.relu(b.conv("x", 96, 96))
    weight = b.relu(b.conv(b("GlobalAveragePool", x), 96, 24, 1))
    weight = b("Sigmoid", b.conv(weight, 24, 96, 1))
    return b, b.conv(b("Mul", x, weight), 96, 96, 1)


@block
def channel_shuffle() -> tuple[Layers, str]:
    b = Layers(1, 116, 28, 28)
    x = b.reshape(b.conv("x", 116, 116, 1), 1, 2, 58, 28, 28)
    x = b.reshape(b("Transpose", x, perm=[0, 2, 1, 3, 4]), 1, 116, 28, 28)
    one, two = b.split(x, 58, 58)
    return b, b("Concat", one, b.conv(two, 58, 58, 1), axis=1)


@block
def pixel_shuffle() -> tuple[Layers, str]:
    b = Layers(1, 64, 90, 120)
    x = b.conv(b.relu(b.conv("x", 64, 64)), 64, 48)
    return b, b("DepthToSpace", x, blocksize=4, mode="CRD")


@block
def super_resolution() -> tuple[Layers, str]:
    b = Layers(1, 3, 128, 128)
    x = b.conv(b.relu(b.conv(b.relu(b.conv("x", 3, 64, 5)), 64, 32)), 32, 12)
    return b, b("DepthToSpace", x, blocksize=2, mode="CRD")


@block
def unet_up() -> tuple[Layers, str]:
    b = Layers(1, 128, 32, 32)
    x = b.relu(b.conv("x", 128, 128))
    up = b("ConvTranspose", x, b.weights(128, 64, 2, 2), strides=[2, 2])
    return b, b.conv(b("Concat", up, up, axis=1), 128, 64)


@block
def deconvolution() -> tuple[Layers, str]:
    b = Layers(1, 128, 32, 32)
    x, w = b.relu(b.conv("x", 128, 128)), b.weights(128, 64, 4, 4)
    return b, b.conv(b.relu(b("ConvTranspose", x, w, strides=[2, 2], pads=[1] * 4)), 64, 32)


@block
def cross_stage() -> tuple[Layers, str]:
    b = Layers(1, 64, 80, 80)
    one, two = b.split(b.swish(b.conv("x", 64, 64, 1)), 32, 32)
    three = b("Add", two, b.conv(b.relu(b.conv(two, 32, 32)), 32, 32))
    return b, b.conv(b("Concat", one, two, three, axis=1), 96, 64, 1)


@block
def pyramid_pool() -> tuple[Layers, str]:
    b = Layers(1, 128, 20, 20)
    parts = [b.relu(b.conv("x", 128, 64, 1))]
    for _ in range(3):
        side = [2] * 4
        parts.append(b("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=side))
    return b, b.conv(b("Concat", *parts, axis=1), 256, 128, 1)


@block
def yolo_head() -> tuple[Layers, str]:
    b = Layers(1, 64, 40, 40)
    x = b.swish(b.conv("x", 64, 64))
    boxes = b.conv(b.swish(b.conv(x, 64, 64)), 64, 64, 1)
    classes = b.conv(b.swish(b.conv(x, 64, 80)), 80, 80, 1)
    both = b.reshape(b("Concat", boxes, classes, axis=1), 1, 144, -1)
    return b, b("Transpose", both, perm=[0, 2, 1])


@block
def feature_pyramid() -> tuple[Layers, str]:
    b = Layers(1, 64, 56, 56)
    near = b.relu(b.conv("x", 64, 64))
    far = b.conv(b.relu(b.conv(near, 64, 128, 3, 2)), 128, 64, 1)
    return b, b.conv(b("Add", b.resize(far, 2, "nearest"), b.conv(near, 64, 64, 1)), 64, 64)


@block
def scene_pool() -> tuple[Layers, str]:
    b = Layers(1, 64, 60, 60)
    x = b.relu(b.conv("x", 64, 64))
    p = b("AveragePool", x, kernel_shape=[10, 10], strides=[10, 10])
    p = b.resize(b.relu(b.conv(p, 64, 16, 1)), 10, "linear")
    return b, b.conv(b("Concat", x, p, axis=1), 80, 64)


@block
def group_norm() -> tuple[Layers, str]:
    b = Layers(1, 64, 64, 64)
    x = b.reshape(b.conv("x", 64, 64), 1, 32, -1)
    x = b("InstanceNormalization", x, b.fixed(np.ones(32)), b.fixed(np.zeros(32)))
    x = b("Mul", b.reshape(x, 1, 64, 64, 64), b.weights(1, 64, 1, 1))
    return b, b.conv(b.swish(b("Add", x, b.weights(1, 64, 1, 1))), 64, 64)


@block
def instance_norm() -> tuple[Layers, str]:
    b = Layers(1, 64, 64, 64)
    x = b("Pad", "x", b.whole(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    x = b("Conv", x, b.weights(64, 64, 3, 3))
    x = b("InstanceNormalization", x, b.fixed(np.ones(64)), b.fixed(np.zeros(64)))
    return b, b.conv(b.relu(x), 64, 64)


@block
def reflected() -> tuple[Layers, str]:
    b = Layers(1, 64, 112, 112)
    x = b.relu(b.conv("x", 64, 64))
    x = b("Pad", x, b.whole(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    return b, b("Conv", x, b.weights(64, 64, 3, 3))


@block
def convnext() -> tuple[Layers, str]:
    b = Layers(1, 96, 56, 56)
    x = b("Transpose", b.conv("x", 96, 96, 7, g=96), perm=[0, 2, 3, 1])
    x = b("LayerNormalization", x, b.weights(96), b.weights(96), axis=-1)
    x = b.dense(x, 96, 384)
    erf = b("Erf", b("Mul", x, b.fixed(0.5**0.5)))
    x = b("Mul", b("Mul", x, b.fixed(0.5)), b("Add", erf, b.fixed(1.0)))
    return b, b("Add", b("Transpose", b.dense(x, 384, 96), perm=[0, 3, 1, 2]), "x")


@block
def swin() -> tuple[Layers, str]:
    b = Layers(1, 56, 56, 96)

    def cut(v: str, begin: int, end: int, axis: int) -> Any:
        return b("Slice", v, b.whole(begin), b.whole(end), b.whole(axis))

    x = b("LayerNormalization", "x", b.weights(96), b.weights(96), axis=-1)
    for axis in (1, 2):
        x = b("Concat", cut(x, 3, 56, axis), cut(x, 0, 3, axis), axis=axis)
    x = b("Transpose", b.reshape(x, 1, 8, 7, 8, 7, 96), perm=[0, 1, 3, 2, 4, 5])
    x = b.reshape(b.dense(b.reshape(x, 64, 49, 96), 96, 288), 64, 49, 3, 3, 32)
    parts = b.split(b("Transpose", x, perm=[2, 0, 3, 1, 4]), 1, 1, 1, axis=0)
    q, k, v = (b("Squeeze", p, b.whole(0)) for p in parts)
    scores = b("MatMul", q, b("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b("Softmax", b("Add", scores, b.weights(1, 3, 49, 49)), axis=-1)
    x = b("Transpose", b("MatMul", scores, v), perm=[0, 2, 1, 3])
    x = b("MatMul", b.reshape(x, 64, 49, 96), b.weights(96, 96))
    x = b("Transpose", b.reshape(x, 1, 8, 8, 7, 7, 96), perm=[0, 1, 3, 2, 4, 5])
    return b, b("Add", b.reshape(x, 1, 56, 56, 96), "x")


@block
def channel_attention() -> tuple[Layers, str]:
    b = Layers(1, 64, 32, 32)
    x = b.reshape(b.conv("x", 64, 192, 1), 1, 3, 4, 16, 1024)
    q, k, v = (b.reshape(p, 4, 16, 1024) for p in b.split(x, 1, 1, 1))
    chances = b("Softmax", b("MatMul", b("Transpose", q, perm=[0, 2, 1]), k), axis=-1)
    x = b("MatMul", v, b("Transpose", chances, perm=[0, 2, 1]))
    return b, b.conv(b.reshape(x, 1, 64, 32, 32), 64, 64, 1)


@block
def patches() -> tuple[Layers, str]:
    b = Layers(1, 3, 224, 224)
    x = b("Conv", "x", b.weights(192, 3, 16, 16), b.weights(192), strides=[16, 16])
    x = b("Transpose", b.reshape(x, 1, 192, 196), perm=[0, 2, 1])
    return b, b("Add", b("Concat", b.weights(1, 1, 192), x, axis=1), b.weights(1, 197, 192))


@block
def classes_of_pixels() -> tuple[Layers, str]:
    b = Layers(1, 64, 128, 128)
    return b, b("Softmax", b.conv("x", 64, 21, 1), axis=1)


@block
def best_of_pixels() -> tuple[Layers, str]:
    b = Layers(1, 64, 128, 128)
    b.kind = TensorProto.INT64
    return b, b("ArgMax", b.conv("x", 64, 21, 1), axis=1, keepdims=0)


@block
def dilated() -> tuple[Layers, str]:
    b = Layers(1, 64, 65, 65)
    x = b.relu(b.conv(b.relu(b.conv("x", 64, 64, d=2)), 64, 64, d=6))
    return b, b.conv(x, 64, 64, 1)


@block
def wavenet() -> tuple[Layers, str]:
    b, x = Layers(1, 64, 4000), "x"
    for d in (1, 2, 4):
        both = b("Conv", x, b.weights(128, 64, 2), pads=[d, 0], dilations=[d])
        one, gate = b.split(both, 64, 64)
        z = b("Mul", b("Tanh", one), b("Sigmoid", gate))
        x = b("Add", b("Conv", z, b.weights(64, 64, 1)), x)
    return b, x


@block
def convolutions_1d() -> tuple[Layers, str]:
    b = Layers(1, 12, 5000)
    x = b.relu(b("Conv", "x", b.weights(64, 12, 15), pads=[7, 7]))
    x = b("MaxPool", x, kernel_shape=[2], strides=[2])
    x = b.relu(b("Conv", x, b.weights(128, 64, 9), pads=[4, 4]))
    return b, b("Flatten", b("GlobalAveragePool", x))


@block
def separable_1d() -> tuple[Layers, str]:
    b, x = Layers(1, 128, 1000), "x"
    for _ in range(2):
        x = b.relu(b("Conv", x, b.weights(128, 1, 9), pads=[4, 4], group=128))
        x = b.relu(b("Conv", x, b.weights(128, 128, 1)))
    return b, x


@block
def convolutions_3d() -> tuple[Layers, str]:
    b = Layers(1, 3, 16, 56, 56)
    x = b.relu(b("Conv", "x", b.weights(32, 3, 3, 3, 3), pads=[1] * 6))
    x = b("MaxPool", x, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    return b, b("Conv", x, b.weights(64, 32, 3, 3, 3), pads=[1] * 6)


@block
def dense_block() -> tuple[Layers, str]:
    b = Layers(1, 64, 56, 56)
    x, one = b("Concat", b.conv("x", 64, 64, 1), "x", axis=1), np.ones(128)
    how = [b.fixed(v) for v in (one, one, one * 0, one)]
    return b, b.conv(b.relu(b("BatchNormalization", x, *how)), 128, 32)


@block
def recurrent() -> tuple[Layers, str]:
    b = Layers(100, 1, 40)
    weights = (b.weights(1, 192, 40), b.weights(1, 192, 64), b.weights(1, 384))
    y = b("GRU", "x", *weights, n=2, hidden_size=64, linear_before_reset=1)[0]
    return b, b("Squeeze", y, b.whole(1))


@block
def text_of_images() -> tuple[Layers, str]:
    b = Layers(1, 1, 32, 100)
    x = b("MaxPool", b.relu(b.conv("x", 1, 32)), kernel_shape=[2, 2], strides=[2, 2])
    x = b("MaxPool", b.relu(b.conv(x, 32, 64)), kernel_shape=[4, 1], strides=[4, 1])
    x = b.reshape(b("Transpose", x, perm=[3, 0, 1, 2]), 50, 1, 256)
    weights = (b.weights(1, 512, 256), b.weights(1, 512, 128), b.weights(1, 1024))
    return b, b("Squeeze", b("LSTM", x, *weights, n=2, hidden_size=128)[0], b.whole(1))


@block
def averages() -> tuple[Layers, str]:
    b = Layers(1, 64, 35, 35)
    x = b.relu(b.conv("x", 64, 64, 1))
    x = b("AveragePool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    return b, b.conv(x, 64, 64, 1)


@block
def inception() -> tuple[Layers, str]:
    b = Layers(1, 192, 35, 35)
    one = b.relu(b.conv("x", 192, 64, 1))
    two = b.relu(b.conv(b.relu(b.conv("x", 192, 48, 1)), 48, 64, 5))
    three = b.relu(b.conv(b.relu(b.conv("x", 192, 64, 1)), 64, 96))
    three = b.relu(b.conv(three, 96, 96))
    how: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
    four = b.relu(b.conv(b("AveragePool", "x", **how), 192, 32, 1))
    return b, b("Concat", one, two, three, four, axis=1)


@block
def asymmetric() -> tuple[Layers, str]:
    b = Layers(1, 128, 17, 17)
    x = b.relu(b("Conv", "x", b.weights(96, 128, 1, 7), pads=[0, 3, 0, 3]))
    return b, b.relu(b("Conv", x, b.weights(96, 96, 7, 1), pads=[3, 0, 3, 0]))


@block
def ghost() -> tuple[Layers, str]:
    b = Layers(1, 40, 56, 56)
    x = b.relu(b.conv("x", 40, 20, 1))
    x = b("Concat", x, b.relu(b.conv(x, 20, 20, g=20)), axis=1)
    return b, b.conv(b.relu(b.conv(x, 40, 40, 5, 2, 40)), 40, 24, 1)


@block
def inverted() -> tuple[Layers, str]:
    b = Layers(1, 80, 14, 14)
    x = b("HardSwish", b.conv("x", 80, 200, 1))
    x = b("HardSwish", b.conv(x, 200, 200, g=200))
    return b, b("Add", b.conv(x, 200, 80, 1), "x")


@block
def parametric() -> tuple[Layers, str]:
    b = Layers(1, 3, 112, 112)
    x = b("PRelu", b.conv("x", 3, 64, 3, 2), b.weights(64, 1, 1))
    x = b("PRelu", b.conv(x, 64, 64, g=64), b.weights(64, 1, 1))
    return b, b.conv(x, 64, 128, 1)


@block
def places_attention() -> tuple[Layers, str]:
    b = Layers(1, 64, 56, 56)
    x = b.conv("x", 64, 64)
    parts = [b(op, x, b.whole(1), keepdims=1) for op in ("ReduceMean", "ReduceMax")]
    gate = b("Sigmoid", b.conv(b("Concat", *parts, axis=1), 2, 1, 7))
    return b, b.conv(b("Mul", x, gate), 64, 64, 1)


@block
def responses() -> tuple[Layers, str]:
    b = Layers(1, 3, 112, 112)
    x = b("LRN", b.relu(b.conv("x", 3, 96, 7, 2)), size=5)
    return b, b.conv(b("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2]), 96, 64)


@block
def perceptron() -> tuple[Layers, str]:
    b = Layers(1, 784)
    x = b.relu(b("Gemm", "x", b.weights(784, 300), b.weights(300)))
    return b, b("Softmax", b("Gemm", x, b.weights(300, 10), b.weights(10)), axis=1)


@block
def time_series() -> tuple[Layers, str]:
    b = Layers(8, 96, 7)
    x = b("LayerNormalization", b.dense("x", 7, 128), b.weights(128), b.weights(128), axis=-1)
    y = b("MatMul", b.relu(b.dense(x, 128, 512)), b.weights(512, 128))
    return b, b("Add", x, y)


@block
def deviations() -> tuple[Layers, str]:
    b = Layers(64, 100, 33)
    away = b("Sub", "x", b("ReduceMean", "x", b.whole(-1), keepdims=1))
    v = b("ReduceMean", b("Mul", away, away), b.whole(-1), keepdims=1)
    return b, b("Div", away, b("Sqrt", b("Add", v, b.fixed(1e-5))))


@block
def bag_of_words() -> tuple[Layers, str]:
    b = Layers(16, 50, 300)
    x = b("ReduceMax", b("MatMul", "x", b.weights(300, 64)), b.whole(1), keepdims=0)
    return b, b("Gemm", x, b.weights(64, 5), b.weights(5))


@block
def gram() -> tuple[Layers, str]:
    b = Layers(16, 100, 60)
    return b, b("MatMul", b("Transpose", "x", perm=[0, 2, 1]), "x")


@block
def running_sums() -> tuple[Layers, str]:
    b = Layers(64, 500, 20)
    return b, b("Exp", b("Neg", b("Abs", b("CumSum", "x", b.fixed(1, "int64")))))


@block
def best_hundred() -> tuple[Layers, str]:
    b = Layers(1, 80, 8400)
    return b, b("TopK", b("Sigmoid", "x"), b.whole(100), n=2, axis=-1)[0]


def names(parts: Sequence[str]) -> list[str]:
    """Of those blocks whose name has one of these parts; all for none."""
    return [n for n in BLOCKS if not parts or any(p in n for p in parts)]
