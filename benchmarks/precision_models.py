"""Networks for benchmarks.precision: those of networks_models.py with smaller images, sentences and
fewer layers, some of architectures_models.py, and small ones whose numbers are hard for 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from benchmarks import architectures_models, networks_models
from benchmarks.networks_models import Made, wrapped

Maker = Callable[[], Made]


def _smaller(name: str, *extents: int) -> Maker:
    """A network of full size on a part of its image."""

    def make() -> Made:
        model, (image,) = networks_models.MODELS[name]()
        for axis, extent in enumerate(extents, image.ndim - len(extents)):
            image = image.narrow(axis, 0, extent)
        return model, (image.clone(),)

    return make


_BERT: dict[str, Any] = {
    "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "vocab_size": 1000,
}  # fmt: skip
_GPT2: dict[str, Any] = {"n_layer": 4, "n_embd": 256, "n_head": 4, "vocab_size": 1000}

NETWORKS: dict[str, Maker] = {
    **{
        name: _smaller(name, 64, 64)
        for name in (
            "resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3",
            "efficientnet_b0", "densenet121",
        )
    },
    "vgg16": networks_models.MODELS["vgg16"],
    "unet": networks_models.unet(8, 64),
    "dcgan": networks_models.dcgan(16),
    "resnet3d_18": _smaller("resnet3d_18", 8, 32, 32),
    "vit_b_16": architectures_models.MODELS["vit_b_16"],
    "bert_128": networks_models.bert(64, num_hidden_layers=4, **_BERT),
    "bert_384": networks_models.bert(384, num_hidden_layers=2, **_BERT),
    "gpt2_prefill": networks_models.gpt2(64, 0, **_GPT2),
    "gpt2_token": networks_models.gpt2(1, 63, **_GPT2),
    "lstm": networks_models.lstm(64, 128),
}  # fmt: skip
"""Those of networks_models.py, reduced so that float64 takes seconds."""

ARCHITECTURES = (
    "squeezenet1_1", "shufflenet_v2_x1_0", "regnet_y_400mf", "convnext_tiny", "swin_t",
    "googlenet", "lraspp_mobilenet", "ghostnet_100", "nfnet_l0", "poolformer_s12", "deit_tiny",
    "roberta", "albert", "deberta_v2", "gpt_neox", "opt", "llama", "gemma", "bloom", "t5", "bart",
    "whisper", "clip_vision", "wav2vec2", "segformer", "gru", "rnn", "diffusion_unet",
)  # fmt: skip


def _function(function: Callable[..., Any], *inputs: Callable[[Any], Any]) -> Maker:
    """A network of `torch` and inputs; what `inputs` draw."""

    def make() -> Made:
        import torch

        return wrapped(lambda *x: function(torch, *x), torch.nn.Identity()), tuple(
            draw(torch) for draw in inputs
        )

    return make


def _layers(build: Callable[[Any], Any], draw: Callable[[Any], Any]) -> Maker:
    """A network of what `build` makes of `torch.nn`."""

    def make() -> Made:
        import torch

        return build(torch.nn), (draw(torch),)

    return make


def _normal(*shape: int, scale: float = 1.0, mean: float = 0.0) -> Callable[[Any], Any]:
    return lambda torch: torch.randn(shape) * scale + mean


def _line(low: float, high: float, count: int = 4001) -> Callable[[Any], Any]:
    return lambda torch: torch.linspace(low, high, count).reshape(1, -1)


def _rms_norm(torch: Any, x: Any) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def _attention(torch: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, -1) @ v


def _steps(torch: Any, x: Any, y: Any) -> Any:
    """Many small additions to one number."""
    for k in range(48):
        x = x + torch.tanh(y[k]) * 0.01
    return x


def _spelled_norm(torch: Any, x: Any) -> Any:
    moved = x - x.mean(-1, keepdim=True)
    return moved / torch.sqrt((moved * moved).mean(-1, keepdim=True) + 1e-5)


def _spelled_gelu(torch: Any, x: Any) -> Any:
    cubic = x + 0.044715 * x * x * x
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * cubic))


def _chain(nn: Any) -> Any:
    """Products one after another, without a norm between them."""
    return nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(96, 96), nn.Tanh())))


def _loud(nn: Any) -> Any:
    """Activations of up to about 50,000, brought back by the norm at the end."""
    first = nn.Linear(64, 256)
    nn.init.normal_(first.weight, std=2.0)
    return nn.Sequential(first, nn.ReLU(), nn.Linear(256, 64), nn.LayerNorm(64))


HARD: dict[str, Maker] = {
    "loud activations": _layers(_loud, _normal(8, 64, scale=200)),
    "chain of products": _layers(_chain, _normal(8, 96)),
    "dense of 8192": _layers(lambda nn: nn.Linear(8192, 32), _normal(4, 8192)),
    "dense of 8192, positive": _function(
        lambda torch, x, w: x.abs() @ w.abs(), _normal(4, 8192), _normal(8192, 32, scale=0.1)
    ),
    "product beyond float16, scaled": _function(
        lambda torch, x, w: (x @ w) * 0.001, _normal(4, 512, scale=100), _normal(512, 32, scale=60)
    ),
    "difference of products": _function(
        lambda torch, x, v, w: x @ v - x @ w, _normal(8, 256), _normal(256, 16), _normal(256, 16)
    ),
    "conv of 4608": _layers(lambda nn: nn.Conv2d(512, 32, 3, padding=1), _normal(1, 512, 7, 7)),
    "conv, positive": _function(
        lambda torch, x, w: torch.nn.functional.conv2d(x.abs(), w.abs(), padding=1),
        _normal(1, 256, 9, 9), _normal(16, 256, 3, 3),
    ),
    "softmax of 16384": _function(lambda torch, x: x.softmax(-1), _normal(3, 16384)),
    "softmax of 16384, steep": _function(
        lambda torch, x: x.softmax(-1), _normal(3, 16384, scale=30)
    ),
    "softmax of 5000 equals": _function(
        lambda torch, x: (x * 0).softmax(-1).cumsum(-1), _normal(2, 5000)
    ),
    "log_softmax of 16384": _function(lambda torch, x: x.log_softmax(-1), _normal(3, 16384)),
    "logsumexp": _function(lambda torch, x: x.logsumexp(-1), _normal(5, 4097, scale=8)),
    "layer norm, large mean": _layers(
        lambda nn: nn.LayerNorm(768), _normal(16, 768, mean=1000)
    ),
    "layer norm, large": _layers(lambda nn: nn.LayerNorm(768), _normal(16, 768, scale=8000)),
    "layer norm, tiny": _layers(lambda nn: nn.LayerNorm(768), _normal(16, 768, scale=1e-4)),
    "layer norm spelled out": _function(_spelled_norm, _normal(16, 768, scale=400, mean=30)),
    "group norm, large mean": _layers(
        lambda nn: nn.GroupNorm(4, 16), _normal(2, 16, 20, 20, mean=300)
    ),
    "instance norm, large mean": _layers(
        lambda nn: nn.InstanceNorm2d(8), _normal(2, 8, 30, 30, mean=300)
    ),
    "rms norm, large": _function(_rms_norm, _normal(8, 512, scale=500)),
    "variance, large mean": _function(
        lambda torch, x: x.var(-1, unbiased=False), _normal(16, 4096, mean=100)
    ),
    "deviation, large mean": _function(lambda torch, x: x.std(-1), _normal(16, 4096, mean=100)),
    "mean of 65536": _function(lambda torch, x: x.mean(-1), _normal(4, 65536, mean=3)),
    "sum of 20000": _function(lambda torch, x: x.sum(-1), _normal(4, 20000, mean=2)),
    "norm of 40000": _function(lambda torch, x: x.norm(dim=-1), _normal(4, 40000, scale=100)),
    "global pool of 112x112": _layers(
        lambda nn: nn.AdaptiveAvgPool2d(1), _normal(1, 32, 112, 112, mean=5)
    ),
    "average pool of 31x31": _layers(
        lambda nn: nn.AvgPool2d(31, 3), _normal(1, 16, 64, 64, mean=50, scale=20)
    ),
    "cumsum of 4096": _function(lambda torch, x: x.cumsum(-1), _normal(4, 4096, mean=1)),
    "cumsum that cancels": _function(
        lambda torch, x: torch.cat([x, -x.flip(-1)], -1).cumsum(-1), _normal(4, 3000, scale=10)
    ),
    "steps of 0.01": _function(_steps, _normal(64, mean=20), _normal(48, 64)),
    "exp": _function(lambda torch, x: x.exp(), _line(-17, 11)),
    "exp, then log": _function(lambda torch, x: (x.exp() + 1).log(), _line(-12, 15)),
    "sigmoid": _function(lambda torch, x: x.sigmoid(), _line(-18, 18)),
    "tanh": _function(lambda torch, x: x.tanh(), _line(-12, 12)),
    "tanh of tiny": _function(lambda torch, x: x.tanh(), _line(-1e-3, 1e-3)),
    "gelu": _function(lambda torch, x: torch.nn.functional.gelu(x), _line(-12, 12)),
    "gelu, left": _function(lambda torch, x: torch.nn.functional.gelu(x), _line(-5, -2)),
    "gelu spelled out": _function(_spelled_gelu, _line(-60, 60)),
    "silu, left": _function(lambda torch, x: torch.nn.functional.silu(x), _line(-17, -4)),
    "softplus, mish": _function(
        lambda torch, x: torch.nn.functional.softplus(x) - torch.nn.functional.mish(x),
        _line(-15, 30),
    ),
    "erf, exp, log": _function(
        lambda torch, x: x.erf() + x.exp() - (x.abs() + 1).log(), _line(-4, 4)
    ),
    "squares beyond float16": _function(
        lambda torch, x: (x * x + 1).sqrt() / (x.abs() + 1), _line(-1000, 1000)
    ),
    "reciprocal of tiny": _function(lambda torch, x: 1 / (x * x + 1e-4), _line(-0.2, 0.2)),
    "sin of large": _function(lambda torch, x: x.sin() + x.cos(), _line(-3000, 3000)),
    "power": _function(lambda torch, x: x.pow(2.5) * x.pow(-1.5), _line(0.02, 60)),
    "attention of 2500 keys": _function(
        _attention, _normal(2, 40, 64, scale=3), _normal(2, 2500, 64, scale=3), _normal(2, 2500, 64)
    ),
    "attention, loud": _function(
        _attention, _normal(2, 33, 64, scale=40), _normal(2, 65, 64, scale=40), _normal(2, 65, 32)
    ),
}  # fmt: skip
"""Ranges at the ends of float16, long sums, sums that cancel, functions where they are flat."""


def models() -> dict[str, Maker]:
    """All of them, by name."""
    drawn = {name: architectures_models.MODELS[name] for name in ARCHITECTURES}
    others = {f"{name}, small" if name in NETWORKS else name: make for name, make in drawn.items()}
    return {**NETWORKS, **others, **HARD}


def settled(module: Any, inputs: tuple[Any, ...]) -> None:
    """Let batch norms have the statistics of the inputs: drawn weights alone make activations grow
    or vanish from layer to layer."""
    import torch

    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        module(*inputs)
    module.eval()
