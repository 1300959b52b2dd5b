"""Architectures that nobody chose: drawn by a seed from all that timm and transformers have.

Names are "timm/NAME" and "transformers/TYPE". One of each of timm's families is drawn, whatever its
size, as long as it has at most LARGEST parameters; a model type of transformers is made small by
whichever of the usual fields its configuration has. What cannot be made so, or does not run in
PyTorch on plain inputs (text, an image), is not drawn.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
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
    "v_head_dim": 8, "state_size": 8, "use_cache": False,
}  # fmt: skip

Made = tuple[Any, tuple[Any, ...]]


def drawn(count: int, seed: int) -> list[str]:
    """Names of so many networks, half of them timm's."""
    rng = random.Random(seed)
    found: list[str] = []
    for source, share in ((_timm_names, count - count // 2), (_transformers_names, count // 2)):
        found += itertools.islice(filter(_runs, source(rng)), share)
    return found


def make(name: str) -> Made:
    """The network of that name, with random weights, and inputs for it; errors are PyTorch's."""
    where, _, which = name.partition("/")
    return _timm(which) if where == "timm" else _transformers(which)


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


def _transformers(which: str) -> Made:
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    plain = CONFIG_MAPPING[which]()
    settings = CONFIG_MAPPING[which](**{k: v for k, v in SMALL.items() if hasattr(plain, k)})
    with torch.device("meta"):
        many = sum(p.numel() for p in transformers.AutoModel.from_config(settings).parameters())
    if many > LARGEST:
        raise ValueError(f"{which} has {many} parameters when it is made small")
    model = transformers.AutoModel.from_config(settings).eval()
    main = model.main_input_name
    if main == "pixel_values":
        size = getattr(settings, "image_size", 64)
        given = torch.randn(1, getattr(settings, "num_channels", 3), size, size)
    elif main == "input_ids":
        given = torch.randint(1, 90, (2, 12))
    else:
        raise ValueError(f"{which} takes {main}")
    more = {"decoder_input_ids": given} if getattr(settings, "is_encoder_decoder", False) else {}
    return _First(model, main, more), (given,)


def _First(model: Any, main: str, more: dict[str, Any]) -> Any:
    """A network of one input and one output, the first tensor that the model returns."""
    import torch
    from torch.utils._pytree import tree_leaves

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            given = {main: x, **dict.fromkeys(more, x)}
            results = tree_leaves(self.model(**given, return_dict=False))
            return next(t for t in results if isinstance(t, torch.Tensor))

    return First()
