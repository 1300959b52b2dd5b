"""Architectures from torchvision, timm and transformers, small where they can be, with random
weights: what benchmarks/architectures.py exports and compiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any


def _vision(name: str, size: int = 64, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        import torch
        import torchvision

        model = torchvision.models.get_model(name, weights=None, **more)
        return model, (torch.randn(1, 3, size, size),)

    return make


def _segmentation(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import torch
        import torchvision

        model = torchvision.models.get_model(name, weights=None, weights_backbone=None)
        return _First(model, "out"), (torch.randn(1, 3, 64, 64),)

    return make


def _First(model: Any, key: str) -> Any:
    import torch

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            return self.model(*args)[key]

    return First()


def _timm(name: str, size: int = 64, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        import timm
        import torch

        return timm.create_model(name, **more), (torch.randn(1, 3, size, size),)

    return make


def _text(
    name: str, key: str, length: int = 12, inputs: str = "ids", **config: Any
) -> Callable[[], Any]:
    """A model of transformers, in a small configuration; `inputs`: what it is given."""

    def make() -> Any:
        import torch
        import transformers

        made = getattr(transformers, name)
        settings = made.config_class(**config)
        if hasattr(settings, "use_cache"):
            settings.use_cache = False
        settings.return_dict = True
        model = made(settings)
        ids = torch.randint(1, 90, (2, length))
        given = {
            "ids": (ids,),
            "ids+mask": (ids, torch.ones_like(ids)),
            "image": (torch.randn(1, 3, 32, 32),),
            "mel": (torch.randn(1, 80, 60), torch.randint(1, 90, (1, 6))),
            "wave": (torch.randn(1, 800),),
            "pair": (ids, torch.ones_like(ids), torch.randint(1, 90, (2, 5))),
        }[inputs]
        names = {
            "ids": ("input_ids",), "ids+mask": ("input_ids", "attention_mask"),
            "image": ("pixel_values",), "mel": ("input_features", "decoder_input_ids"),
            "wave": ("input_values",),
            "pair": ("input_ids", "attention_mask", "decoder_input_ids"),
        }[inputs]  # fmt: skip
        return _Named(model, names, key), given

    return make


def _Named(model: Any, names: Any, key: str) -> Any:
    import torch

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            return getattr(self.model(**dict(zip(names, args))), key)

    return Named()


def _recurrent(kind: str, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        import torch

        layer = getattr(torch.nn, kind)(24, 32, 2, batch_first=True, **more)
        return layer, (torch.randn(2, 9, 24),)

    return make


def _dcgan() -> Any:
    import torch
    from torch import nn

    layers: list[Any] = []
    for k, (a, b) in enumerate(((100, 128), (128, 64), (64, 32), (32, 3))):
        layers += [nn.ConvTranspose2d(a, b, 4, 1 if k == 0 else 2, 0 if k == 0 else 1, bias=False)]
        layers += [nn.BatchNorm2d(b), nn.ReLU()] if b > 3 else [nn.Tanh()]
    return nn.Sequential(*layers), (torch.randn(1, 100, 1, 1),)


def _unet() -> Any:
    import torch
    from torch import nn

    class Block(nn.Sequential):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(
                nn.Conv2d(a, b, 3, padding=1),
                nn.BatchNorm2d(b),
                nn.ReLU(),
                nn.Conv2d(b, b, 3, padding=1),
                nn.BatchNorm2d(b),
                nn.ReLU(),
            )

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [3, 16, 32, 64]
            self.down = nn.ModuleList(Block(a, b) for a, b in itertools.pairwise(sizes))
            self.up = nn.ModuleList(
                nn.ConvTranspose2d(b, a, 2, 2) for a, b in itertools.pairwise(sizes[1:])
            )
            self.mix = nn.ModuleList(Block(2 * a, a) for a in sizes[1:-1])
            self.end = nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for k, block in enumerate(self.down):
                x = block(x if k == 0 else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            for k in reversed(range(len(self.up))):
                x = self.mix[k](torch.cat([kept[k], self.up[k](x)], 1))
            return self.end(x)

    return UNet(), (torch.randn(1, 3, 48, 48),)


def _diffusion() -> Any:
    """A U-Net that removes noise: time embedding, group norm, attention in the middle, resizing."""
    import math

    import torch
    from torch import nn

    class Res(nn.Module):
        def __init__(self, a: int, b: int, t: int) -> None:
            super().__init__()
            self.n1, self.c1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1)
            self.t = nn.Linear(t, b)
            self.n2, self.c2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
            self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x: Any, t: Any) -> Any:
            h = self.c1(nn.functional.silu(self.n1(x))) + self.t(t)[:, :, None, None]
            return self.skip(x) + self.c2(nn.functional.silu(self.n2(h)))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
            self.head = nn.Conv2d(3, 16, 3, padding=1)
            self.a, self.b = Res(16, 32, 64), Res(32, 32, 64)
            self.attend = nn.MultiheadAttention(32, 4, batch_first=True)
            self.c, self.end = Res(48, 16, 64), nn.Conv2d(16, 3, 3, padding=1)

        def forward(self, x: Any, t: Any) -> Any:
            f = torch.exp(torch.arange(16, device=x.device) * (-math.log(1e4) / 16))
            a = t[:, None].float() * f[None]
            t = self.time(torch.cat([a.sin(), a.cos()], 1))
            kept = self.head(x)
            h = self.b(self.a(nn.functional.avg_pool2d(kept, 2), t), t)
            n, c, y, w = h.shape
            s = h.flatten(2).transpose(1, 2)
            h = h + self.attend(s, s, s)[0].transpose(1, 2).reshape(n, c, y, w)
            h = nn.functional.interpolate(h, scale_factor=2.0, mode="nearest")
            return self.end(self.c(torch.cat([h, kept], 1), t))

    return Net(), (torch.randn(1, 3, 16, 16), torch.tensor([17]))


def _detection() -> Any:
    """A head with non-maximum suppression: the number of boxes depends on data."""
    import torch
    import torchvision
    from torch import nn

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1))
            self.box, self.score = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 1, 1)

        def forward(self, x: Any) -> Any:
            h = self.body(x)
            box = self.box(h).flatten(2).transpose(1, 2)[0]
            score = self.score(h).flatten().sigmoid()
            corner = box[:, :2]
            boxes = torch.cat([corner, corner + box[:, 2:].abs() + 0.1], 1)
            keep = torchvision.ops.nms(boxes, score, 0.5)
            return boxes[keep], score[keep]

    return Head(), (torch.randn(1, 3, 32, 32),)


_SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 99,
}
_FEED: dict[str, Any] = {**_SMALL, "intermediate_size": 64}

MODELS: dict[str, Callable[[], Any]] = {
    **{
        name: _vision(name)
        for name in (
            "alexnet", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "vgg11",
            "vgg16_bn", "squeezenet1_0", "squeezenet1_1", "densenet121", "mobilenet_v2",
            "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0",
            "efficientnet_b0", "efficientnet_v2_s", "regnet_y_400mf", "regnet_x_400mf",
            "convnext_tiny", "swin_t",
        )
    },
    "googlenet": _vision("googlenet", 64, init_weights=False, aux_logits=False),
    "inception_v3": _vision("inception_v3", 96, init_weights=False, aux_logits=False),
    "vit_b_16": _vision("vit_b_16", 32, image_size=32),
    "maxvit_t": _vision("maxvit_t", 224),
    "fcn_resnet50": _segmentation("fcn_resnet50"),
    "deeplabv3_mobilenet": _segmentation("deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet": _segmentation("lraspp_mobilenet_v3_large"),
    **{
        name: _timm(name)
        for name in (
            "efficientnet_lite0", "mixer_s32_224", "ghostnet_100", "hrnet_w18_small",
            "res2net50_26w_4s", "resnest14d", "dpn68", "nfnet_l0", "repvgg_a0",
            "tf_mobilenetv3_small_minimal_100", "xception41", "sknet34", "cspresnet50",
            "vovnet39a", "dla34", "lcnet_050", "skresnet18", "mobileone_s0",
            "edgenext_xx_small", "inception_next_atto",
        )
        if name not in ("mixer_s32_224", "sknet34")
    },
    "mixer_s32_224": _timm("mixer_s32_224", 224),
    "deit_tiny": _timm("deit_tiny_patch16_224", 32, img_size=32),
    "pit_ti_224": _timm("pit_ti_224", 224),
    "levit_128s": _timm("levit_128s", 224),
    "poolformer_s12": _timm("poolformer_s12"),
    "mobilevit_xxs": _timm("mobilevit_xxs"),
    "coat_lite_tiny": _timm("coat_lite_tiny", 32, img_size=32),
    "bert": _text("BertModel", "last_hidden_state", inputs="ids+mask", **_FEED),
    "roberta": _text("RobertaModel", "last_hidden_state", inputs="ids+mask", **_FEED),
    "distilbert": _text("DistilBertModel", "last_hidden_state", inputs="ids+mask", dim=32,
                        n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99),
    "albert": _text("AlbertModel", "last_hidden_state", **_FEED, embedding_size=16),
    "electra": _text("ElectraModel", "last_hidden_state", **_FEED, embedding_size=16),
    "mpnet": _text("MPNetModel", "last_hidden_state", **_FEED),
    "deberta_v2": _text("DebertaV2Model", "last_hidden_state", **_FEED, relative_attention=True,
                        pos_att_type=["p2c", "c2p"]),
    "gpt2": _text("GPT2LMHeadModel", "logits", n_embd=32, n_layer=2, n_head=4, vocab_size=99),
    "gpt_neox": _text("GPTNeoXModel", "last_hidden_state", **_FEED),
    "opt": _text("OPTModel", "last_hidden_state", hidden_size=32, num_hidden_layers=2,
                 num_attention_heads=4, vocab_size=99, ffn_dim=64, word_embed_proj_dim=32),
    "llama": _text("LlamaForCausalLM", "logits", **_FEED, num_key_value_heads=2),
    "mistral": _text("MistralModel", "last_hidden_state", **_FEED, num_key_value_heads=2),
    "qwen2": _text("Qwen2Model", "last_hidden_state", **_FEED, num_key_value_heads=2),
    "gemma": _text("GemmaModel", "last_hidden_state", **_FEED, num_key_value_heads=2, head_dim=8),
    "phi": _text("PhiModel", "last_hidden_state", **_FEED),
    "bloom": _text("BloomModel", "last_hidden_state", hidden_size=32, n_layer=2, n_head=4,
                   vocab_size=99),
    "t5": _text("T5Model", "last_hidden_state", inputs="pair", d_model=32, d_kv=8, d_ff=64,
                num_layers=2, num_heads=4, vocab_size=99),
    "bart": _text("BartModel", "last_hidden_state", inputs="pair", d_model=32, encoder_layers=2,
                  decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                  encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=99),
    "whisper": _text("WhisperModel", "last_hidden_state", inputs="mel", d_model=32,
                     encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                     decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                     vocab_size=99, max_source_positions=30, num_mel_bins=80,
                     pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
    "clip_vision": _text("CLIPVisionModel", "pooler_output", inputs="image", hidden_size=32,
                         intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         image_size=32, patch_size=8),
    "clip_text": _text("CLIPTextModel", "last_hidden_state", hidden_size=32, intermediate_size=64,
                       num_hidden_layers=2, num_attention_heads=4, vocab_size=99),
    "wav2vec2": _text("Wav2Vec2Model", "last_hidden_state", inputs="wave", hidden_size=32,
                      num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                      conv_dim=[16] * 7, num_conv_pos_embeddings=16,
                      num_conv_pos_embedding_groups=4),
    "segformer": _text("SegformerModel", "last_hidden_state", inputs="image"),
    "lstm": _recurrent("LSTM", bidirectional=True),
    "gru": _recurrent("GRU"),
    "rnn": _recurrent("RNN"),
    "dcgan": _dcgan,
    "unet": _unet,
    "diffusion_unet": _diffusion,
    "detection_nms": _detection,
}  # fmt: skip

ANY_IMAGE = (
    "resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "densenet121",
    "regnet_y_400mf", "convnext_tiny", "squeezenet1_1", "shufflenet_v2_x1_0", "fcn_resnet50",
    "lraspp_mobilenet", "unet",
)  # fmt: skip
"""Those that take images of any height and width."""
