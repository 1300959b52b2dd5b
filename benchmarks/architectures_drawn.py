"""Architectures that nobody chose: drawn by a seed from timm, transformers and torchvision.

Names are "timm/NAME", "transformers/TYPE" and "torchvision/NAME". One of each family of timm and
torchvision is drawn, whatever its size, as long as it has at most LARGEST parameters; a model type
of transformers is made small by whichever of the usual fields its configuration, and those inside
it, have. What cannot be made so, or does not run in PyTorch on plain inputs (text, an image, a
sound, text and an image), is not drawn.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

LARGEST = 40_000_000
SIZES = (64, 96, 128, 224)
"""Of images, for networks that take any; else the one that a network was made for."""
SMALL = {
    "vocab_size": 99, "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "emb_dim": 32,
    "embedding_size": 32, "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4,
    "n_head": 4, "n_heads": 4, "num_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "intermediate_size": 64,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_ff": 64, "d_kv": 8, "n_inner": 64,
    "hidden_dim": 64, "ffn_dim": 64, "max_position_embeddings": 64, "n_positions": 64,
    "image_size": 32, "patch_size": 8, "moe_intermediate_size": 32, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "pad_token_id": 0,
    "kv_lora_rank": 8, "q_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
    "v_head_dim": 8, "state_size": 8, "use_cache": False, "depth": 2, "embed_dim": 32,
    "projection_dim": 16, "conv_dim": [16] * 7, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "num_mel_bins": 80, "max_source_positions": 30,
    "mamba_d_state": 8, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "layer_types": None, "ffn_hidden_size": 64,
}  # fmt: skip

Made = tuple[Any, tuple[Any, ...]]


def drawn(count: int, seed: int, without: Collection[str] = ()) -> list[str]:
    """Names of so many networks, two of five timm's and a fifth torchvision's, none `without`."""
    rng = random.Random(seed)
    found: list[str] = []
    for source, share in (
        (_torchvision_names, count // 5),
        (_timm_names, 2 * count // 5),
        (_transformers_names, count - count // 5 - 2 * count // 5),
    ):
        new = (name for name in source(rng) if name not in without and _short(name) not in without)
        found += itertools.islice(filter(_runs, new), share)
    return found


def make(name: str) -> Made:
    """The network of that name, with random weights, and inputs for it; errors are PyTorch's."""
    where, _, which = name.partition("/")
    return {"timm": _timm, "transformers": _transformers, "torchvision": _torchvision}[where](which)


def _short(name: str) -> str:
    """What architectures_models.py, or a table of an earlier day, calls it."""
    where, _, which = name.partition("/")
    return f"hf/{which}" if where == "transformers" else which


def _torchvision_names(rng: random.Random) -> Iterator[str]:
    import torchvision

    families: dict[str, list[str]] = {}
    for name in torchvision.models.list_models():
        module = torchvision.models.get_model_builder(name).__module__
        if "quantization" not in module:
            families.setdefault(module, []).append(name)
    order = sorted(families)
    rng.shuffle(order)
    yield from (f"torchvision/{rng.choice(families[family])}" for family in order)


def _timm_names(rng: random.Random) -> Iterator[str]:
    import timm

    families = list(timm.list_modules())
    rng.shuffle(families)
    for family in families:
        members = timm.list_models(module=family)
        yield from (f"timm/{name}" for name in rng.sample(members, min(1, len(members))))


def _transformers_names(rng: random.Random) -> Iterator[str]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kinds = sorted(CONFIG_MAPPING.keys())
    rng.shuffle(kinds)
    yield from (f"transformers/{kind}" for kind in kinds)


def _runs(name: str) -> bool:
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            model, inputs = make(name)
            model.eval()(*inputs)
        except Exception:  # whatever a configuration that was never meant raises
            return False
    return True


def _timm(which: str) -> Made:
    import timm
    import torch

    with torch.device("meta"):
        many = sum(p.numel() for p in timm.create_model(which).parameters())
    if many > LARGEST:
        raise ValueError(f"{which} has {many} parameters")
    model = timm.create_model(which).eval()
    settings = model.pretrained_cfg
    sizes = () if settings.get("fixed_input_size") else SIZES
    for size in (*sizes, settings["input_size"][-1]):
        x = torch.randn(1, settings["input_size"][0], size, size)
        try:
            with torch.no_grad():
                model(x)
        except Exception:  # too small for its last layers, or not a multiple of its windows
            continue
        return model, (x,)
    raise ValueError(f"{which} runs at no size of {sizes}")


def _torchvision(which: str) -> Made:
    import torch
    import torchvision

    builder = torchvision.models.get_model_builder(which)
    plain = {"weights": None}
    if "segmentation" in builder.__module__ or "detection" in builder.__module__:
        plain["weights_backbone"] = None
    with torch.device("meta"):
        many = sum(p.numel() for p in builder(**plain).parameters())
    if many > LARGEST:
        raise ValueError(f"{which} has {many} parameters")
    model = builder(**plain).eval()
    if "detection" in builder.__module__:
        return _First(lambda x: model([x[0]])[0], model), (torch.rand(1, 3, 96, 128),)
    if "optical_flow" in builder.__module__:
        pair = torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)
        return _First(lambda x, y: model(x, y, num_flow_updates=2)[-1], model), pair
    for shape in ((1, 3, 64, 64), (1, 3, 224, 224), (1, 3, 8, 64, 64), (1, 3, 16, 224, 224)):
        x = torch.randn(shape)
        try:
            with torch.no_grad():
                model(x)
        except Exception:  # too small for its last layers, or of other dimensions
            continue
        return _First(model, model), (x,)
    raise ValueError(f"{which} runs on no image or film that is tried")


def _settings(made: Any) -> dict[str, Any]:
    """Small values for the fields that such a configuration has, and those inside it."""
    plain = made()
    small = {k: v for k, v in SMALL.items() if hasattr(plain, k)}
    if small.get("layer_types", 0) is None and plain.layer_types is None:
        del small["layer_types"]
    for name, inner in getattr(made, "sub_configs", {}).items():
        inner = type(getattr(plain, name, None)) if inner.__name__ == "AutoConfig" else inner
        if hasattr(inner, "model_type"):
            small[name] = _settings(inner)
    return small


def _transformers(which: str) -> Made:
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    settings = CONFIG_MAPPING[which](**_settings(CONFIG_MAPPING[which]))
    with torch.device("meta"):
        many = sum(p.numel() for p in transformers.AutoModel.from_config(settings).parameters())
    if many > LARGEST:
        raise ValueError(f"{which} has {many} parameters when it is made small")
    model = transformers.AutoModel.from_config(settings).eval()
    for given in _inputs(model, settings):
        net = _First(lambda *xs, names=tuple(given): _called(model, names, xs), model)
        try:
            with torch.no_grad():
                net(*given.values())
        except Exception:  # of other inputs
            continue
        return net, tuple(given.values())
    raise ValueError(f"{which} takes {model.main_input_name}")


def _called(model: Any, names: tuple[str, ...], xs: tuple[Any, ...]) -> Any:
    return model(**dict(zip(names, xs)), return_dict=False)


def _inputs(model: Any, settings: Any) -> Iterator[dict[str, Any]]:
    """Inputs by name that a model of transformers may take."""
    import torch

    inner = getattr(settings, "vision_config", settings)
    size = getattr(inner, "image_size", 64)
    image = torch.randn(1, getattr(inner, "num_channels", 3), *_pair(size))
    ids = torch.randint(1, 90, (2, 12))
    main = model.main_input_name
    if main == "pixel_values":
        yield {main: image}
        yield {main: torch.randn(1, 8, *image.shape[1:])}
        yield {main: image, "input_ids": ids[:1]}
        yield {main: image, "decoder_input_ids": ids[:1]}
    elif main == "input_ids":
        yield {main: ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": ids[:, :5]}
        yield {main: ids, "attention_mask": torch.ones_like(ids)}
        yield {main: ids, "pixel_values": image.expand(2, -1, -1, -1).contiguous()}
        yield {main: ids}
    elif main == "input_values":
        yield {main: torch.randn(1, 1600)}
        yield {main: torch.randn(1, 1, 1600)}
        yield {main: torch.randn(1, 1024, 128)}
    elif main == "input_features":
        for shape in ((1, 80, 60), (1, 60, 80), (1, 60, 160)):
            yield {main: torch.randn(shape), "decoder_input_ids": ids[:1, :5]}
            yield {main: torch.randn(shape)}


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


def _First(call: Callable[..., Any], model: Any) -> Any:
    """A network of one output: the first tensor of what `call`, which runs `model`, returns."""
    import torch
    from torch.utils._pytree import tree_leaves

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *xs: Any) -> Any:
            return next(t for t in tree_leaves(call(*xs)) if isinstance(t, torch.Tensor))

    return First()
