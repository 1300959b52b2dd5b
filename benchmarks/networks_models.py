"""Networks of full size for benchmarks.networks, exported from PyTorch with seeded weights.

    python -m benchmarks.networks_models DIR [NAME ...]

writes DIR/NAME.onnx, and inputs to DIR/NAME.npz, unless they are there. Needs torch, and
torchvision, timm or transformers where the architecture is theirs.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks_quantize import WAYS, quantised

SEED = 7
OPSET = 17

Made = tuple[Any, tuple[Any, ...]]
"""A module and what it is called with."""


def _vision(name: str, **more: Any) -> Callable[[], Made]:
    def make() -> Made:
        import torch
        import torchvision

        return torchvision.models.get_model(name, weights=None, **more), (_image(torch),)

    return make


def _image(torch: Any) -> Any:
    return torch.randn(1, 3, 224, 224)


def _mobilenet_v1() -> Made:
    import timm
    import torch

    return timm.create_model("mobilenetv1_100"), (_image(torch),)


def _vit() -> Made:
    import torch
    import torchvision

    model = torchvision.models.vit_b_16(weights=None)
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)  # where it is 0, nothing shows
    return model, (_image(torch),)


def _resnet3d() -> Made:
    import torch
    import torchvision

    model = torchvision.models.video.r3d_18(weights=None)
    return model, (torch.randn(1, 3, 16, 112, 112),)


def bert(length: int, **config: Any) -> Callable[[], Made]:
    def make() -> Made:
        import torch
        import transformers

        settings = transformers.BertConfig(**config)
        settings._attn_implementation = "eager"
        ids = torch.randint(1, settings.vocab_size, (1, length))
        model = transformers.BertModel(settings)
        return wrapped(
            lambda ids, mask: model(input_ids=ids, attention_mask=mask).last_hidden_state, model
        ), (ids, torch.ones_like(ids))

    return make


def gpt2(length: int, past: int, **config: Any) -> Callable[[], Made]:
    """`length` tokens after `past` ones, whose keys and values go in, and come out grown."""

    def make() -> Made:
        import torch
        import transformers

        settings = transformers.GPT2Config(**config)
        settings._attn_implementation = "eager"
        model = transformers.GPT2LMHeadModel(settings)
        ids = torch.randint(1, settings.vocab_size, (1, length))
        if not past:

            def prefill(ids: Any) -> Any:
                return model(ids, attention_mask=torch.ones_like(ids), use_cache=False).logits

            return wrapped(prefill, model), (ids,)
        heads = settings.n_head
        shape = (1, heads, past, settings.n_embd // heads)
        known = [torch.randn(shape) for _ in range(2 * settings.n_layer)]

        def step(ids: Any, *known: Any) -> Any:
            cache = transformers.DynamicCache()
            for layer, (key, value) in enumerate(zip(known[::2], known[1::2])):
                cache.update(key, value, layer)
            places = torch.full((1, length), past, dtype=torch.long)
            mask = torch.ones((1, past + length), dtype=torch.long)
            out = model(
                ids, past_key_values=cache, position_ids=places, attention_mask=mask, use_cache=True
            )
            grown = [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]
            return (out.logits, *grown)

        return wrapped(step, model), (ids, *known)

    return make


def wrapped(function: Callable[..., Any], model: Any) -> Any:
    """A module that calls `function`, with the weights of `model`."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            return function(*args)

    return Wrapped()


def lstm(length: int, width: int) -> Callable[[], Made]:
    def make() -> Made:
        import torch

        layer = torch.nn.LSTM(width, width, 2, batch_first=True)
        return wrapped(lambda x: layer(x)[0], layer), (torch.randn(1, length, width),)

    return make


def dcgan(base: int) -> Callable[[], Made]:
    """The generator of Radford, Metz, Chintala (2015): 100 numbers to an image of 64x64."""

    def make() -> Made:
        import torch
        from torch import nn

        sizes = [100, 8 * base, 4 * base, 2 * base, base, 3]
        layers: list[Any] = []
        for k, (a, b) in enumerate(itertools.pairwise(sizes)):
            layers.append(nn.ConvTranspose2d(a, b, 4, 2 if k else 1, 1 if k else 0, bias=False))
            layers += [nn.BatchNorm2d(b), nn.ReLU()] if b > 3 else [nn.Tanh()]
        return nn.Sequential(*layers), (torch.randn(1, 100, 1, 1),)

    return make


def unet(base: int, size: int) -> Callable[[], Made]:
    """Ronneberger, Fischer, Brox (2015), with batch norm and padding, four levels deep."""

    def make() -> Made:
        import torch
        from torch import nn

        def block(a: int, b: int) -> Any:
            pairs = ((a, b), (b, b))
            parts = [(nn.Conv2d(*p, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for p in pairs]
            return nn.Sequential(*itertools.chain(*parts))

        class UNet(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                sizes = [3, *(base << k for k in range(5))]
                pairs = list(itertools.pairwise(sizes[1:]))
                self.down = nn.ModuleList(block(a, b) for a, b in itertools.pairwise(sizes))
                self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
                self.mix = nn.ModuleList(block(2 * a, a) for a, _ in pairs)
                self.end = nn.Conv2d(base, 2, 1)

            def forward(self, x: Any) -> Any:
                kept = []
                for k, part in enumerate(self.down):
                    x = part(x if k == 0 else nn.functional.max_pool2d(x, 2))
                    kept.append(x)
                for k in reversed(range(len(self.up))):
                    x = self.mix[k](torch.cat([kept[k], self.up[k](x)], 1))
                return self.end(x)

        return UNet(), (torch.randn(1, 3, size, size),)

    return make


MODELS: dict[str, Callable[[], Made]] = {
    "resnet18": _vision("resnet18"),
    "resnet50": _vision("resnet50"),
    "mobilenet_v1": _mobilenet_v1,
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3": _vision("mobilenet_v3_large"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "vgg16": _vision("vgg16"),
    "densenet121": _vision("densenet121"),
    "unet": unet(32, 256),
    "dcgan": dcgan(64),
    "resnet3d_18": _resnet3d,
    "vit_b_16": _vit,
    "bert_tiny": bert(
        128, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
    ),
    "bert_128": bert(128),
    "bert_384": bert(384),
    "gpt2_prefill": gpt2(128, 0),
    "gpt2_token": gpt2(1, 127),
    "lstm": lstm(128, 512),
}


QUANTIZED = {
    "resnet50_int8": ("resnet50", "uint8 x int8, per channel"),
    "mobilenet_v2_int8": ("mobilenet_v2", "uint8 x int8, per channel"),
    "bert_128_int8": ("bert_128", "uint8 x int8"),
    "bert_128_dynamic": ("bert_128", "dynamic, int8"),
}
"""Networks with a way of networks_quantize.WAYS; ranges are those of the network's own input."""


def paths(folder: Path, name: str) -> tuple[Path, Path]:
    """The files of a network: the model and its inputs, which are made unless they are there."""
    model, inputs = folder / f"{name}.onnx", folder / f"{name}.npz"
    if not (model.exists() and inputs.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        if name in QUANTIZED:
            _quantize(model, inputs, folder, *QUANTIZED[name])
        else:
            _export(model, inputs, MODELS[name])
    return model, inputs


def _quantize(model: Path, inputs: Path, folder: Path, source: str, way: str) -> None:
    floats, given = paths(folder, source)
    with np.load(given) as file:
        quantised(floats, model, WAYS[way], [dict(file)])
    shutil.copy(given, inputs)


def _let_norms_fit(model: Any, given: tuple[Any, ...]) -> None:
    """Statistics of batch norms as training would leave them: with those of a new network,
    activations shrink from layer to layer, to 3e-9 in MobileNet v2, which float16 does not have."""
    import torch

    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None  # what is met counts alone
        norm.train()
    with torch.no_grad():
        if norms:
            model(*given)
    model.eval()


def _export(path: Path, inputs: Path, make: Callable[[], Made]) -> None:
    import torch

    torch.manual_seed(SEED)
    model, given = make()
    model.eval()
    _let_norms_fit(model, given)
    torch.backends.mha.set_fastpath_enabled(False)  # which no operator of ONNX stands for
    names = [f"x{k}" for k in range(len(given))]
    np.savez(inputs, **{n: x.numpy() for n, x in zip(names, given)})
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, given, str(path), input_names=names, dynamo=False, opset_version=OPSET,
            verbose=False,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*MODELS, []])
    options = parser.parse_args()
    for name in options.names or MODELS:
        model, _ = paths(options.folder, name)
        print(f"{model}: {model.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
