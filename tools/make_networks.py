"""Make ONNX files of well-known convolutional networks with seeded random weights.

    python -m tools.make_networks resnet50 resnet50.onnx --seed 0

Weights are He-normal (He et al., ICCV 2015). Batch-norm statistics are those of a small seeded
calibration batch, perturbed; a random deep net with arbitrary statistics maps every input to about
the same logits, and then agreement of logits shows little. Biases of SqueezeNet, which has no batch
norm, are centred by the same batch. All networks end in logits, before softmax.

Architectures: ResNet v1 (He et al., CVPR 2016; the stride stands in the 3x3 convolution, as
torchvision has it), SqueezeNet 1.1 (Iandola et al., 2016), VGG-16 (Simonyan and Zisserman, 2014),
MobileNet v1 (Howard et al., 2017), and a LeNet-5-like net (LeCun et al., 1998) with ReLU and max
pooling.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.onnx_writer import Array, GraphWriter


class RandomNet:
    """A graph writer that draws weights from one seeded generator and follows the activations.

    ``values`` holds the activations of a calibration batch of small images: convolutional networks
    that end in a global pool do not mind the image's size, and the statistics hardly do. ``lift``
    moves channels up by so many standard deviations before ReLU: a deep random net without
    shortcuts multiplies differences layer by layer (Yang et al., "A mean field theory of batch
    normalization", ICLR 2019), as trained ones do not, unless most of its units are active.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        shape: tuple[int, int, int, int],
        calibration_size: int,
        lift: float = 0.0,
    ) -> None:
        self.lift = np.float32(lift)
        self.graph = GraphWriter(name, "input", shape)
        self.rng = np.random.default_rng(seed)
        images = self.normal(2, shape[1], calibration_size, calibration_size, std=1.0)
        self.values: dict[str, Array] = {"input": images}

    def normal(self, *shape: int, std: float, mean: float = 0.0) -> Array:
        """Normally distributed float32 values."""
        return self.rng.normal(mean, std, shape).astype(np.float32)

    def uniform(self, low: float, high: float, size: int) -> Array:
        """Uniformly distributed float32 values."""
        return self.rng.uniform(low, high, size).astype(np.float32)

    def conv(
        self,
        x: str,
        name: str,
        channels: tuple[int, int],
        kernel: int,
        *,
        stride: int = 1,
        pad: int = 0,
        bias: bool = False,
        depthwise: bool = False,
    ) -> str:
        """Convolution from ``channels[0]`` to ``channels[1]`` with He-normal weights.

        A bias centres each output channel on the calibration batch, give or take 0.02. A
        ``depthwise`` one works on every channel by itself.
        """
        cin, cout = (1 if depthwise else channels[0]), channels[1]
        std = float(np.sqrt(2.0 / (cin * kernel * kernel)))
        weight = self.normal(cout, cin, kernel, kernel, std=std)
        slide = convolve_depthwise if depthwise else convolve
        value = slide(self.values[x], weight, stride, pad)
        b = None
        if bias:
            b = self.normal(cout, std=0.02) - value.mean((0, 2, 3))
            b = b + self.lift * value.std((0, 2, 3))
            value = value + b[:, None, None]
        self.values[name] = value
        group = cout if depthwise else 1
        return self.graph.conv(x, name, weight, b, stride=stride, pad=pad, group=group)

    def batch_norm(self, x: str, name: str, channels: int, gain: float = 1.0) -> str:
        """Batch norm with perturbed statistics of the calibration batch; ``gain`` scales gamma."""
        value = self.values[x]
        std = value.std((0, 2, 3))
        mean = value.mean((0, 2, 3)) + std * self.normal(channels, std=0.1)
        var = std**2 * self.uniform(0.7, 1.4, channels) + np.float32(1e-3)
        gamma = self.uniform(0.6, 1.4, channels) * np.float32(gain)
        beta = self.normal(channels, std=0.1) + self.lift
        scale = gamma / np.sqrt(var + np.float32(1e-5))
        self.values[name] = value * scale[:, None, None] + (beta - mean * scale)[:, None, None]
        return self.graph.batch_norm(x, name, gamma, beta, mean, var)

    def relu(self, x: str, name: str) -> str:
        """max(x, 0)."""
        self.values[name] = np.maximum(self.values[x], 0)
        return self.graph.relu(x, name)

    def max_pool(
        self, x: str, name: str, kernel: int, stride: int, pad: int = 0, ceil: bool = False
    ) -> str:
        """Max pooling with a square window."""
        value = np.pad(self.values[x], ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(value, (kernel, kernel), axis=(2, 3))
        self.values[name] = windows[:, :, ::stride, ::stride].max((4, 5))
        return self.graph.pool("MaxPool", x, name, kernel, stride, pad=pad, ceil=ceil)

    def add(self, x: str, y: str, name: str) -> str:
        """x + y."""
        self.values[name] = self.values[x] + self.values[y]
        return self.graph.node("Add", [x, y], name)

    def concat(self, x: str, y: str, name: str) -> str:
        """x and y joined along the channels."""
        self.values[name] = np.concatenate([self.values[x], self.values[y]], axis=1)
        return self.graph.node("Concat", [x, y], name, axis=1)

    def conv_bn_relu(
        self,
        x: str,
        name: str,
        channels: tuple[int, int],
        kernel: int,
        *,
        stride: int = 1,
        pad: int = 0,
        depthwise: bool = False,
    ) -> str:
        """Convolution without bias, batch norm, ReLU."""
        x = self.conv(
            x, f"{name}.conv", channels, kernel, stride=stride, pad=pad, depthwise=depthwise
        )
        x = self.batch_norm(x, f"{name}.bn", channels[1])
        return self.relu(x, f"{name}.relu")

    def global_pool(self, x: str, name: str) -> str:
        """Mean over height and width, flattened to (N, C)."""
        self.values[name] = self.values[x].mean((2, 3))
        x = self.graph.node("GlobalAveragePool", [x], f"{name}.mean")
        return self.graph.node("Flatten", [x], name, axis=1)

    def flatten(self, x: str, name: str) -> str:
        """(N, C, H, W) to (N, C * H * W)."""
        self.values[name] = self.values[x].reshape(len(self.values[x]), -1)
        return self.graph.node("Flatten", [x], name, axis=1)

    def linear(self, x: str, name: str, cin: int, cout: int) -> str:
        """Fully connected layer, He-normal, centred on the calibration batch give or take 0.02."""
        weight = self.normal(cout, cin, std=float(np.sqrt(2.0 / cin)))
        value = self.values[x] @ weight.T
        bias = self.normal(cout, std=0.02) - value.mean(0)
        self.values[name] = value + bias
        return self.graph.linear(x, name, weight, bias)


def convolve(x: Array, weight: Array, stride: int, pad: int) -> Array:
    """2-D convolution of x (N, C, H, W) by weight (O, C, kh, kw), as one matrix product."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    out = np.tensordot(windows[:, :, ::stride, ::stride], weight, ((1, 4, 5), (1, 2, 3)))
    return np.ascontiguousarray(out.transpose(0, 3, 1, 2))


def convolve_depthwise(x: Array, weight: Array, stride: int, pad: int) -> Array:
    """Every channel of x (N, C, H, W) by its own filter of weight (C, 1, kh, kw)."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    out: Array = np.einsum("nchwyx,cyx->nchw", windows[:, :, ::stride, ::stride], weight[:, 0])
    return out


def basic_block(net: RandomNet, x: str, name: str, cin: int, width: int, stride: int) -> str:
    """Residual block of two 3x3 convolutions (ResNet-18 and -34)."""
    y = net.conv_bn_relu(x, f"{name}.1", (cin, width), 3, stride=stride, pad=1)
    y = net.conv(y, f"{name}.2.conv", (width, width), 3, pad=1)
    y = net.batch_norm(y, f"{name}.2.bn", width, gain=0.5)
    return join(net, x, y, name, (cin, width), stride)


def bottleneck(net: RandomNet, x: str, name: str, cin: int, width: int, stride: int) -> str:
    """Residual block of 1x1, 3x3 and 1x1 convolutions (ResNet-50 and deeper)."""
    y = net.conv_bn_relu(x, f"{name}.1", (cin, width), 1)
    y = net.conv_bn_relu(y, f"{name}.2", (width, width), 3, stride=stride, pad=1)
    y = net.conv(y, f"{name}.3.conv", (width, 4 * width), 1)
    y = net.batch_norm(y, f"{name}.3.bn", 4 * width, gain=0.5)
    return join(net, x, y, name, (cin, 4 * width), stride)


def join(net: RandomNet, x: str, y: str, name: str, channels: tuple[int, int], stride: int) -> str:
    """relu(y + shortcut(x)); the shortcut is a 1x1 convolution where the shapes differ."""
    if stride != 1 or channels[0] != channels[1]:
        x = net.conv(x, f"{name}.down.conv", channels, 1, stride=stride)
        x = net.batch_norm(x, f"{name}.down.bn", channels[1])
    return net.relu(net.add(y, x, f"{name}.add"), f"{name}.relu")


def resnet(
    name: str,
    seed: int,
    block: Callable[[RandomNet, str, str, int, int, int], str],
    depths: tuple[int, ...],
    expansion: int,
) -> onnx.ModelProto:
    """ResNet v1 on 1x3x224x224 with 1000 logits; ``depths`` counts the blocks of each stage."""
    net = RandomNet(name, seed, (1, 3, 224, 224), 224)
    x = net.conv_bn_relu("input", "stem", (3, 64), 7, stride=2, pad=3)
    x = net.max_pool(x, "stem.pool", 3, 2, pad=1)
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for i in range(depth):
            stride = 2 if stage > 0 and i == 0 else 1
            x = block(net, x, f"layer{stage + 1}.{i}", channels, width, stride)
            channels = width * expansion
    x = net.global_pool(x, "pool")
    return net.graph.model(net.linear(x, "logits", channels, 1000), (1, 1000))


def fire(net: RandomNet, x: str, name: str, cin: int, squeeze: int, expand: int) -> str:
    """SqueezeNet's fire module: squeeze by 1x1, expand by 1x1 and 3x3, concatenated."""
    s = net.conv(x, f"{name}.squeeze", (cin, squeeze), 1, bias=True)
    s = net.relu(s, f"{name}.squeeze.relu")
    a = net.conv(s, f"{name}.expand1x1", (squeeze, expand), 1, bias=True)
    a = net.relu(a, f"{name}.expand1x1.relu")
    b = net.conv(s, f"{name}.expand3x3", (squeeze, expand), 3, pad=1, bias=True)
    b = net.relu(b, f"{name}.expand3x3.relu")
    return net.concat(a, b, f"{name}.concat")


def squeezenet(seed: int) -> onnx.ModelProto:
    """SqueezeNet 1.1 on 1x3x224x224 with 1000 logits."""
    net = RandomNet("squeezenet1_1", seed, (1, 3, 224, 224), 128)
    x = net.relu(net.conv("input", "conv1", (3, 64), 3, stride=2, bias=True), "conv1.relu")
    x = net.max_pool(x, "pool1", 3, 2, ceil=True)
    channels = 64
    fires = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
    for i, (squeeze, expand) in enumerate(fires, start=2):
        x = fire(net, x, f"fire{i}", channels, squeeze, expand)
        channels = 2 * expand
        if i in (3, 5):
            x = net.max_pool(x, f"pool{i}", 3, 2, ceil=True)
    x = net.conv(x, "conv10", (channels, 1000), 1, bias=True)
    return net.graph.model(net.global_pool(x, "logits"), (1, 1000))


def lenet(seed: int) -> onnx.ModelProto:
    """LeNet-5-like network on 1x1x28x28 with 10 logits: batch norm after the first convolution."""
    net = RandomNet("lenet", seed, (1, 1, 28, 28), 28)
    x = net.conv_bn_relu("input", "conv1", (1, 6), 5, pad=2)
    x = net.max_pool(x, "pool1", 2, 2)
    x = net.relu(net.conv(x, "conv2", (6, 16), 5, bias=True), "relu2")
    x = net.max_pool(x, "pool2", 2, 2)
    x = net.flatten(x, "flat")
    x = net.relu(net.linear(x, "fc1", 400, 120), "relu3")
    x = net.relu(net.linear(x, "fc2", 120, 84), "relu4")
    return net.graph.model(net.linear(x, "logits", 84, 10), (1, 10))


def vgg16(seed: int) -> onnx.ModelProto:
    """VGG-16 on 1x3x224x224 with 1000 logits: thirteen 3x3 convolutions and three dense layers."""
    net = RandomNet("vgg16", seed, (1, 3, 224, 224), 224, lift=1.0)
    x, channels = "input", 3
    for stage, (width, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        for i in range(depth):
            name = f"conv{stage + 1}.{i + 1}"
            x = net.conv(x, name, (channels, width), 3, pad=1, bias=True)
            x = net.relu(x, f"{name}.relu")
            channels = width
        x = net.max_pool(x, f"pool{stage + 1}", 2, 2)
    x = net.flatten(x, "flat")
    x = net.relu(net.linear(x, "fc6", 512 * 7 * 7, 4096), "relu6")
    x = net.relu(net.linear(x, "fc7", 4096, 4096), "relu7")
    return net.graph.model(net.linear(x, "logits", 4096, 1000), (1, 1000))


def mobilenet(seed: int) -> onnx.ModelProto:
    """MobileNet v1 on 1x3x224x224 with 1000 logits: depthwise and pointwise convolutions."""
    net = RandomNet("mobilenet", seed, (1, 3, 224, 224), 224, lift=1.0)
    x, channels = net.conv_bn_relu("input", "stem", (3, 32), 3, stride=2, pad=1), 32
    widths = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    widths += [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    for i, (width, stride) in enumerate(widths):
        both, how = (channels, channels), {"stride": stride, "pad": 1}
        x = net.conv_bn_relu(x, f"block{i}.depth", both, 3, depthwise=True, **how)
        x = net.conv_bn_relu(x, f"block{i}.point", (channels, width), 1)
        channels = width
    x = net.global_pool(x, "pool")
    return net.graph.model(net.linear(x, "logits", channels, 1000), (1, 1000))


NETWORKS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "lenet": lenet,
    "mobilenet": mobilenet,
    "resnet18": lambda seed: resnet("resnet18", seed, basic_block, (2, 2, 2, 2), 1),
    "resnet50": lambda seed: resnet("resnet50", seed, bottleneck, (3, 4, 6, 3), 4),
    "squeezenet": squeezenet,
    "vgg16": vgg16,
}


def make(name: str, seed: int = 0) -> onnx.ModelProto:
    """The network ``name`` (a key of NETWORKS) with weights drawn from ``seed``.

    Raises KeyError for an unknown name. The input is ``input``, float32 NCHW with batch 1; the
    output is ``logits``.
    """
    return NETWORKS[name](seed)


def main(argv: list[str] | None = None) -> int:
    """Command line: network, output file, seed."""
    parser = argparse.ArgumentParser(description="Write an ONNX network with seeded weights.")
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    model = make(args.network, args.seed)
    onnx.save(model, str(args.output))
    size = args.output.stat().st_size / 1e6
    print(f"{args.output}: {len(model.graph.node)} nodes, {size:.1f} MB, seed {args.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
