"""Which architecture builds for which device: a tiny network of each, for OpenCL and CUDA, in
float32 and float16. Some also run, on PoCL or another OpenCL device, and in the interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import tilewright as tw  # noqa: E402
from tilewright.graph.device import DeviceExecutable  # noqa: E402
from tilewright.rt.drivers import nvrtc  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:The tensor attributes:UserWarning"),  # of LSTM's weights
]
Module: Any = nn.Module
F: Any = nn.functional


def _conv(a: int, b: int, size: int = 3, stride: int = 1, groups: int = 1) -> Any:
    conv = nn.Conv2d(a, b, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(b), nn.ReLU6())


class Residual(Module):
    """ResNet: a strided stem, a pool, a sum, a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.inner = _conv(3, 8, 7, 2), _conv(8, 8)
        self.end = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        return self.end(F.adaptive_avg_pool2d(x + self.inner(x), 1).flatten(1))


class Squeeze(Module):
    """MobileNet v3, EfficientNet: an inverted bottleneck, its channels weighted."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.deep = _conv(8, 16, 1), _conv(16, 16, 5, 2, groups=16)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.SiLU(), nn.Conv2d(4, 16, 1)
        )
        self.thin = _conv(16, 8, 1)

    def forward(self, x: Any) -> Any:
        x = F.hardswish(self.deep(self.wide(x)))
        return self.thin(x * F.hardsigmoid(self.gate(x)))


class Dense(Module):
    """DenseNet: what came before is concatenated, then normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = nn.BatchNorm2d(8), _conv(8, 4)
        self.last = nn.BatchNorm2d(12)

    def forward(self, x: Any) -> Any:
        x = torch.cat([x, self.inner(F.relu(self.norm(x)))], 1)
        return F.avg_pool2d(F.relu(self.last(x)), 2)


class UNet(Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = _conv(3, 4), _conv(4, 8)
        self.up, self.mix = nn.ConvTranspose2d(8, 4, 2, 2), _conv(8, 4)

    def forward(self, x: Any) -> Any:
        kept = self.down(x)
        return self.mix(torch.cat([kept, self.up(self.deep(F.max_pool2d(kept, 2)))], 1))


class Transformer(Module):
    """One layer; `past` are keys and values of earlier tokens, as in GPT's cache."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Any, *past: Any) -> Any:
        batch, rows, width = x.shape
        parts = self.qkv(self.first(x)).reshape(batch, rows, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if past:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        if self.causal:
            scores = scores + torch.full((rows, k.shape[2]), -1e4).triu(k.shape[2] - rows + 1)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, rows, width)
        x = x + self.out(mixed)
        x = x + self.mlp(self.second(x))
        return (x, k, v) if past else x


class Patches(Module):
    """ViT: an image in patches, a token of the class before them."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.layer = nn.Conv2d(3, 16, 4, 4), Transformer(16, 2)
        self.token = nn.Parameter(torch.randn(1, 1, 16))

    def forward(self, x: Any) -> Any:
        x = self.cut(x).flatten(2).transpose(1, 2)
        return self.layer(torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1))[:, 0]


class Words(Module):
    """BERT: embedded words, normalised, through a layer of hidden 32."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.layer = Transformer(32, 2)

    def forward(self, ids: Any) -> Any:
        return torch.tanh(self.layer(self.norm(self.words(ids)))[:, 0])


class Recurrent(Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(8, 8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.inner(x)[0]


def _generator() -> Any:
    parts = [nn.ConvTranspose2d(10, 8, 4, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*parts, nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh())


def _video() -> Any:
    parts = [nn.Conv3d(3, 4, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(4)]
    return nn.Sequential(*parts, nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten())


NETWORKS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "resnet": (Residual, ((1, 3, 20, 20),)),
    "mobilenet_v1_v2": (
        lambda: nn.Sequential(_conv(8, 8, 3, 1, groups=8), _conv(8, 12, 1)),
        ((1, 8, 9, 9),),
    ),
    "mobilenet_v3_efficientnet": (Squeeze, ((1, 8, 9, 9),)),
    "vgg": (
        lambda: nn.Sequential(_conv(3, 8), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)),
        ((1, 3, 8, 8),),
    ),
    "densenet": (Dense, ((1, 8, 8, 8),)),
    "unet": (UNet, ((1, 3, 8, 8),)),
    "dcgan": (_generator, ((1, 10, 1, 1),)),
    "resnet3d": (_video, ((1, 3, 4, 8, 8),)),
    "vit": (Patches, ((1, 3, 8, 8),)),
    "bert": (Words, ((1, 7),)),
    "gpt2_prefill": (lambda: Transformer(16, 2, causal=True), ((1, 6, 16),)),
    "gpt2_token": (
        lambda: Transformer(16, 2, causal=True),
        ((1, 1, 16), (1, 2, 5, 8), (1, 2, 5, 8)),
    ),
    "lstm": (Recurrent, ((1, 4, 8),)),
}
RUN = ("mobilenet_v1_v2", "gpt2_token", "lstm")
"""Those that are compiled further and run: convolutions, attention, recurrence."""
DTYPES = {"float32": 1e-4, "float16": 2e-2}
"""Precisions, and how far results may be from PyTorch's in float32, relative to the largest."""


@cache
def _made(name: str) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """A network in use, what it is called with, and PyTorch's results."""
    make, shapes = NETWORKS[name]
    torch.manual_seed(7)
    module = make().eval()
    ids = name == "bert"
    args = tuple(torch.randint(0, 50, s) if ids else torch.randn(s) for s in shapes)
    with torch.no_grad():
        found = module(*args)
    return module, args, [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


@cache
def _built(name: str, target: str, dtype: str) -> DeviceExecutable:
    module, args, _ = _made(name)
    with torch.no_grad():
        net = tw.compile(module, target, precision=dtype, args=args)
    assert isinstance(net, DeviceExecutable)
    return net


def _check(net: DeviceExecutable, name: str, off: float) -> None:
    _, args, wanted = _made(name)
    found = net.run({v.name: a.numpy() for v, a in zip(net.inputs, args, strict=True)})
    assert len(net.output_names) == len(wanted)
    for key, w in zip(net.output_names, wanted):
        assert found[key].shape == w.shape
        error = np.abs(found[key].astype("float64") - w).max()
        assert error <= off * np.abs(w).max(), f"{name}, {key}: off by {error}"


@pytest.mark.parametrize("target", ["opencl", "cuda -arch=sm_80"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_builds(name: str, dtype: str, target: str) -> None:
    net = _built(name, target, dtype)
    source = net.module.imported_modules[0].get_source()
    mark = "__global__" if target.startswith("cuda") else "__kernel"
    assert source.count(mark) >= len({c.kernel for c in net.calls}) > 0


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing() or "NVRTC is here")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RUN)
def test_nvrtc_compiles_the_source(name: str, dtype: str) -> None:
    net = _built(name, "cuda -arch=sm_80", dtype)
    image, log = nvrtc.compile_cuda(net.module.imported_modules[0].get_source(), "sm_80")
    assert image and log == ""


@pytest.mark.skipif(not tw.opencl(0).exist, reason="there is no OpenCL device")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RUN)
def test_opencl(name: str, dtype: str) -> None:
    _check(_built(name, "opencl", dtype), name, DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RUN)
def test_cuda_in_the_interpreter(name: str, dtype: str) -> None:
    net = _built(name, "cuda -arch=sm_80", dtype)
    net.device = tw.simt(0)
    _check(net, name, DTYPES[dtype])


class Attending(Module):
    """Dense layers and attention that fill the tiles of Hopper's warp groups."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.thin = nn.Linear(128, 256), nn.Linear(256, 128)
        self.heads = nn.Linear(128, 384)

    def forward(self, x: Any) -> Any:
        y = self.thin(F.gelu(self.wide(x))) + x
        parts = [t.reshape(1, 72, 2, 64).transpose(1, 2) for t in self.heads(y).chunk(3, -1)]
        return F.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(1, 72, 128)


@pytest.mark.parametrize(("dtype", "off"), [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_hopper_in_the_interpreter(dtype: str, off: float) -> None:
    torch.manual_seed(7)
    module, x = Attending().eval(), torch.randn(1, 72, 128)
    with torch.no_grad():
        net = tw.compile(module, "cuda -arch=sm_90a", precision=dtype, args=(x,))
        wanted = module(x).numpy()
    assert isinstance(net, DeviceExecutable)
    source = net.module.imported_modules[0].get_source()
    kernels = source.split("__global__")[1:]
    by_groups = [k for k in kernels if "tw_wgmma_fence();" in k]
    assert sum("tw_tensor_map" in k for k in by_groups) == 3  # three layers
    (attention,) = [k for k in by_groups if "tw_tensor_map" not in k]  # in one kernel
    assert "_rs(" in attention and "tw_mma" not in source
    net.device = tw.simt(0)
    found = net.run({net.inputs[0].name: x.numpy()})[net.output_names[0]]
    assert np.abs(found.astype("float64") - wanted).max() <= off * np.abs(wanted).max()
