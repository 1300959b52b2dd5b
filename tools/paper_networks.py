"""Make ONNX files of the networks of Ansor's evaluation (OSDI 2020) that make_networks lacks.

    python -m tools.paper_networks bert bert.onnx --seed 0

MobileNet v2 (Sandler et al., CVPR 2018), the generator of DCGAN (Radford et al., ICLR 2016),
3D-ResNet-18 (Hara et al., CVPR 2018), and the encoder of BERT base (Devlin et al., NAACL 2019) on
128 tokens, behind the embedding. Weights are seeded and random; batch 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import onnx

from tools.make_networks import NETWORKS as OTHERS
from tools.make_networks import RandomNet
from tools.onnx_writer import Array, GraphWriter

TOKENS, WIDTH, HEADS, LAYERS = 128, 768, 12, 12


def mobilenet_v2(seed: int) -> onnx.ModelProto:
    """MobileNet v2 on 1x3x224x224 with 1000 logits; ReLU6 is Clip from 0 to 6."""
    net = RandomNet("mobilenet_v2", seed, (1, 3, 224, 224), 224)
    bounds = [net.graph.weight(n, np.array(v, np.float32)) for n, v in (("zero", 0), ("six", 6))]

    def block(x: str, name: str, channels: tuple[int, int], kernel: int = 1, stride: int = 1,
              relu: bool = True, depthwise: bool = False) -> str:  # fmt: skip
        pad = kernel // 2
        x = net.conv(
            x, f"{name}.conv", channels, kernel, stride=stride, pad=pad, depthwise=depthwise
        )
        x = net.batch_norm(x, f"{name}.bn", channels[1])
        if relu:
            net.values[f"{name}.relu6"] = np.clip(net.values[x], 0, 6)
            x = net.graph.node("Clip", [x, *bounds], f"{name}.relu6")
        return x

    x, channels = block("input", "stem", (3, 32), 3, 2), 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    for stage, (expansion, width, depth, first) in enumerate(stages):
        for i in range(depth):
            name, inner = f"block{stage}.{i}", channels * expansion
            stride = first if i == 0 else 1
            y = block(x, f"{name}.expand", (channels, inner)) if expansion > 1 else x
            y = block(y, f"{name}.depth", (inner, inner), 3, stride, depthwise=True)
            y = block(y, f"{name}.project", (inner, width), relu=False)
            x = net.add(x, y, f"{name}.add") if stride == 1 and channels == width else y
            channels = width
    x = net.global_pool(block(x, "last", (channels, 1280)), "pool")
    return net.graph.model(net.linear(x, "logits", 1280, 1000), (1, 1000))


class Plain:
    """A graph writer with random weights, which follows no activations."""

    def __init__(self, name: str, seed: int, shape: tuple[int, ...]) -> None:
        self.graph = GraphWriter(name, "input", shape)
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape: int) -> Array:
        """He-normal by all dimensions but the first."""
        std = np.sqrt(2.0 / prod(shape[1:]))
        return self.rng.standard_normal(shape, np.float32) * np.float32(std)

    def norm_relu(self, x: str, name: str, channels: int) -> str:
        """Batch norm of unit statistics, ReLU."""
        one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        return self.graph.relu(self.graph.batch_norm(x, f"{name}.bn", one, zero, zero, one), name)

    def conv3d(self, x: str, name: str, cin: int, cout: int, kernel: int, stride: list[int]) -> str:
        """A convolution over three dimensions."""
        weight = self.graph.weight(f"{name}.weight", self.normal(cout, cin, *[kernel] * 3))
        pads = [kernel // 2] * 6
        return self.graph.node("Conv", [x, weight], name, pads=pads, strides=stride)

    def dense(self, x: str, name: str, cin: int, cout: int) -> str:
        """A product with a matrix, and a bias."""
        weight = self.rng.standard_normal((cin, cout), np.float32) * np.float32(0.02)
        y = self.graph.node("MatMul", [x, self.graph.weight(f"{name}.weight", weight)], f"{name}.m")
        bias = self.graph.weight(f"{name}.bias", np.zeros(cout, np.float32))
        return self.graph.node("Add", [y, bias], name)

    def layer_norm(self, x: str, name: str) -> str:
        """Over the last dimension."""
        g = self.graph
        mean = g.node("ReduceMean", [x], f"{name}.mean", axes=[-1], keepdims=1)
        centred = g.node("Sub", [x, mean], f"{name}.centred")
        square = g.node("Mul", [centred, centred], f"{name}.square")
        var = g.node("ReduceMean", [square], f"{name}.var", axes=[-1], keepdims=1)
        more = g.node("Add", [var, self.scalar(f"{name}.eps", 1e-12)], f"{name}.more")
        y = g.node("Div", [centred, g.node("Sqrt", [more], f"{name}.std")], f"{name}.unit")
        gain, shift = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        y = g.node("Mul", [y, g.weight(f"{name}.gain", gain)], f"{name}.scaled")
        return g.node("Add", [y, g.weight(f"{name}.shift", shift)], name)

    def scalar(self, name: str, value: float) -> str:
        """A constant."""
        return self.graph.weight(name, np.array(value, np.float32))


def dcgan(seed: int) -> onnx.ModelProto:
    """The generator: 100 numbers to an image of 3x64x64."""
    net, x = Plain("dcgan", seed, (1, 100, 1, 1)), "input"
    for n, (cin, cout) in enumerate(((100, 512), (512, 256), (256, 128), (128, 64), (64, 3))):
        weight = net.graph.weight(f"up{n}.weight", net.normal(cin, cout, 4, 4))
        how = {"strides": [2, 2], "pads": [1] * 4} if n else {}
        x = net.graph.node("ConvTranspose", [x, weight], f"up{n}", **how)
        x = net.norm_relu(x, f"up{n}.relu", cout) if n < 4 else x
    return net.graph.model(net.graph.node("Tanh", [x], "logits"), (1, 3, 64, 64))


def resnet3d18(seed: int) -> onnx.ModelProto:
    """3D-ResNet-18 on 16 frames of 3x112x112 with 400 logits."""
    net = Plain("resnet3d18", seed, (1, 3, 16, 112, 112))
    x = net.norm_relu(net.conv3d("input", "stem", 3, 64, 7, [1, 2, 2]), "stem.relu", 64)
    how = {"kernel_shape": [3] * 3, "strides": [2] * 3, "pads": [1] * 6}
    x, channels = net.graph.node("MaxPool", [x], "stem.pool", **how), 64
    for stage in range(4):
        for i in range(2):
            name, width = f"layer{stage}.{i}", 64 << stage
            stride = [2] * 3 if stage and not i else [1] * 3
            y = net.conv3d(x, f"{name}.1", channels, width, 3, stride)
            y = net.conv3d(
                net.norm_relu(y, f"{name}.r", width), f"{name}.2", width, width, 3, [1] * 3
            )
            if channels != width:
                x = net.conv3d(x, f"{name}.down", channels, width, 1, stride)
            x = net.norm_relu(net.graph.node("Add", [y, x], f"{name}.add"), f"{name}.out", width)
            channels = width
    x = net.graph.node("GlobalAveragePool", [x], "mean")
    x = net.graph.node("Flatten", [x], "flat", axis=1)
    zero = np.zeros(400, np.float32)
    return net.graph.model(net.graph.linear(x, "logits", net.normal(400, 512), zero), (1, 400))


def bert(seed: int) -> onnx.ModelProto:
    """The encoder of BERT base on 1x128x768."""
    net, x = Plain("bert", seed, (1, TOKENS, WIDTH)), "input"
    g, size = net.graph, WIDTH // HEADS
    split = g.weight("split", np.array([1, TOKENS, HEADS, size], np.int64))
    join = g.weight("join", np.array([1, TOKENS, WIDTH], np.int64))
    scale, root = net.scalar("scale", size**-0.5), net.scalar("root", 2**-0.5)
    one, half = net.scalar("one", 1.0), net.scalar("half", 0.5)
    for n in range(LAYERS):
        parts = []
        for kind, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            y = net.dense(x, f"{n}.{kind}", WIDTH, WIDTH)
            y = g.node("Reshape", [y, split], f"{n}.{kind}.heads")
            parts.append(g.node("Transpose", [y], f"{n}.{kind}.t", perm=order))
        y = g.node("MatMul", parts[:2], f"{n}.qk")
        y = g.node("Mul", [y, scale], f"{n}.scaled")
        y = g.node("MatMul", [g.node("Softmax", [y], f"{n}.p", axis=-1), parts[2]], f"{n}.pv")
        y = g.node("Transpose", [y], f"{n}.pv.t", perm=[0, 2, 1, 3])
        y = net.dense(g.node("Reshape", [y, join], f"{n}.joined"), f"{n}.out", WIDTH, WIDTH)
        x = net.layer_norm(g.node("Add", [x, y], f"{n}.add1"), f"{n}.norm1")
        y = net.dense(x, f"{n}.up", WIDTH, 4 * WIDTH)
        e = g.node("Erf", [g.node("Mul", [y, root], f"{n}.root")], f"{n}.erf")
        e = g.node("Mul", [g.node("Add", [e, one], f"{n}.erf1"), half], f"{n}.half")
        y = net.dense(g.node("Mul", [y, e], f"{n}.gelu"), f"{n}.down", 4 * WIDTH, WIDTH)
        name = "logits" if n == LAYERS - 1 else f"{n}.norm2"
        x = net.layer_norm(g.node("Add", [x, y], f"{n}.add2"), name)
    return g.model(x, (1, TOKENS, WIDTH))


NETWORKS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "resnet50": OTHERS["resnet50"],
    "mobilenet_v2": mobilenet_v2,
    "resnet3d18": resnet3d18,
    "dcgan": dcgan,
    "bert": bert,
}


def main() -> int:
    """Command line: network, output file, seed."""
    parser = argparse.ArgumentParser(description="Write an ONNX network of Ansor's evaluation.")
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    onnx.save(NETWORKS[args.network](args.seed), str(args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
