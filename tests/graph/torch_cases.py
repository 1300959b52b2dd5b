"""Small PyTorch programs, which tests/graph/test_torch.py compares with PyTorch itself.

Each case is a function or a module, and the arrays that it is called on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def _x(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def _i(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(sum(shape)))


IMAGE = _x(2, 6, 12, 10)
LINE = _x(2, 6, 16)
CUBE = _x(1, 4, 6, 6, 6)
ROWS = _x(3, 5, 8)
POSITIVE = _x(4, 9).abs() + 0.1
WHOLE = _i(50, 4, 9) - 25

TENTHS = (torch.arange(-50, 50) / 10)[:, None]
STEPS = torch.tensor([0.1, -0.1, 0.3, 1, 0, float("inf"), float("-inf"), -7.3])


def _put(x: Any, where: Any, values: Any) -> Any:
    y = x.clone()
    y[where] = values
    return y


def _scattered(reduce: str, whole: bool, x: Any) -> Any:
    return x.scatter_reduce(0, PLACES, x * 2, reduce, include_self=whole)


def _regular(x: Any) -> Any:
    """Matrices (2, 4, 4) that are not singular."""
    return torch.stack([x[:, :4], x[:, 5:]]) + 4 * torch.eye(4)


PLACES = _i(4, 4, 9)
ODD = torch.tensor([0.0, -0.0, float("inf"), -2.0, float("nan"), 0.5, float("-inf"), 3e38, 1e-40])

ELEMENTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "exponentials": (
        torch.exp, torch.log, torch.log2, torch.log10, torch.log1p, torch.sqrt, torch.rsqrt,
        torch.exp2, torch.expm1, torch.reciprocal, torch.square, torch.erfc,
    ),
    "angles": (
        torch.sin, torch.cos, torch.tan, torch.tanh, torch.atan, torch.sinh, torch.cosh,
        torch.asinh, torch.erf, lambda x: torch.atan2(x, x - 1), lambda x: torch.hypot(x, x + 2),
    ),
    "rounding": (
        torch.floor, torch.ceil, torch.round, torch.trunc, torch.frac, torch.sign, torch.abs,
        torch.neg, lambda x: torch.round(x, decimals=2), lambda x: torch.copysign(x, -x),
    ),
    "activations": (
        F.relu, F.relu6, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.elu, F.celu,
        F.selu, F.softplus, lambda x: F.softplus(x, 2.0, 1.0), F.mish, F.hardswish, F.hardsigmoid,
        F.hardtanh, F.leaky_relu, F.logsigmoid, F.softsign, F.tanhshrink, F.hardshrink,
        F.softshrink, F.rrelu,
        lambda x: F.threshold(x, 0.2, -3.0), F.sigmoid, lambda x: F.glu(x[:, :8]),
    ),
    "arithmetic": (
        lambda x: x + 2, lambda x: 3 - x, lambda x: x * x / (x + 7), lambda x: x**3,
        lambda x: x.abs() ** 0.7, lambda x: x % 0.3, lambda x: torch.fmod(x, 0.3),
        lambda x: x // 0.3, lambda x: torch.add(x, x, alpha=0.5), lambda x: 2.0**x,
        lambda x: torch.addcmul(x, x, x, value=0.5), lambda x: torch.lerp(x, x * 2, 0.3),
        lambda x: torch.addcdiv(x, x, x + 9, value=2), lambda x: x.clamp(-0.5, 0.7),
        lambda x: torch.maximum(x, -x), lambda x: x.clamp(min=x.mean()), torch.nan_to_num,
        lambda x: torch.max(x, -x), lambda x: torch.min(x, x[0]),
    ),
    "quotients": (
        lambda x: TENTHS // STEPS, lambda x: TENTHS.half() // STEPS.half(), lambda x: x // 0.1,
        lambda x: TENTHS % STEPS, lambda x: torch.div(TENTHS, STEPS, rounding_mode="trunc"),
        lambda x: torch.fmod(TENTHS, STEPS),
    ),
    "comparisons": (
        lambda x: (x > 0) & (x < 1), lambda x: (x >= 0.5) | (x <= -0.5), lambda x: ~(x == x),
        lambda x: torch.where(x > 0, x, 0.5), lambda x: x.masked_fill(x < 0, -1e4),
        lambda x: torch.isnan(x / 0 * 0), lambda x: torch.isinf(x / 0), torch.logical_not,
        lambda x: torch.logical_xor(x > 0, x > 1), lambda x: x.to(torch.bool), torch.isfinite,
    ),
    "conversions": (
        lambda x: x.int(), lambda x: x.long() + 1, lambda x: x.double() * 2, lambda x: x.half() + 1,
        lambda x: x.bfloat16() * 2, lambda x: (x > 0).float(), lambda x: (x > 0).sum(),
        lambda x: x.to(torch.uint8) if False else x.to(torch.int16),
    ),
    "reductions": (
        torch.sum, lambda x: x.sum(1), lambda x: x.mean((0, 1), keepdim=True), lambda x: x.amax(1),
        lambda x: x.amin(0, keepdim=True), lambda x: x.max(1)[0], lambda x: x.max(1)[1],
        lambda x: x.min(0), lambda x: x.prod(1), lambda x: x.argmax(), lambda x: x.argmin(1),
        lambda x: x.std(), lambda x: x.var(1, unbiased=False), lambda x: torch.var_mean(x, 1),
        lambda x: x.logsumexp(1), lambda x: (x > 0).any(1), lambda x: (x > -9).all(),
        lambda x: x.norm(), lambda x: x.norm(1, 1), lambda x: torch.linalg.vector_norm(x, 3, 1),
        lambda x: F.normalize(x, dim=1), lambda x: x.cumsum(1), lambda x: x.cumprod(0),
        lambda x: torch.count_nonzero(x > 0), lambda x: F.softmax(x, 0), lambda x: x.max(),
        lambda x: F.log_softmax(x, 1), lambda x: F.cosine_similarity(x, x + 1, dim=1),
        lambda x: torch.linalg.vector_norm(x, float("inf")),
    ),
    "sorting": (
        lambda x: x.topk(3), lambda x: x.sort(), lambda x: x.sort(0, descending=True),
        lambda x: x.argsort(1), lambda x: x.topk(2, 0, largest=False), lambda x: x.msort(),
        lambda x: x.kthvalue(3, 1), lambda x: x.median(0, keepdim=True), torch.median,
    ),
    "odd_numbers": (
        lambda x: torch.sign(ODD), lambda x: torch.sgn(ODD), lambda x: torch.signbit(ODD),
        lambda x: torch.fmax(ODD, ODD.flip(0)), lambda x: torch.fmin(ODD, x[0, 0]),
        lambda x: torch.lerp(ODD, x[0, 0], 0.7), lambda x: torch.lerp(ODD, x[0, 0], ODD.sigmoid()),
        lambda x: torch.bucketize(ODD, torch.tensor([-0.5, 0.5]), right=True),
        lambda x: torch.searchsorted(torch.tensor([-0.5, 0.5]), ODD), lambda x: ODD.median(),
        lambda x: ODD.sort(), lambda x: ODD.clamp(-1, 1), lambda x: ODD.amax(), lambda x: ODD * 0,
        lambda x: F.relu(ODD), lambda x: F.softmax(ODD, 0), lambda x: ODD.logsumexp(0),
        lambda x: torch.maximum(ODD, x[0, 0]), lambda x: ODD.argmax(), lambda x: ODD.to(torch.bool),
    ),
    "views": (
        lambda x: x.t(), lambda x: x.reshape(-1), lambda x: x.view(2, -1), lambda x: x[:, None],
        lambda x: x[1], lambda x: x[:, 1:7:2], lambda x: x.flip(1), lambda x: x.roll(2, 1),
        lambda x: x.roll((1, -1), (0, 1)), lambda x: x.expand(2, 4, 9), lambda x: x.repeat(2, 3),
        lambda x: torch.cat([x, x * 2], 1), lambda x: torch.stack([x, -x], 1), lambda x: x.tril(),
        lambda x: x.triu(1), lambda x: x.chunk(2, 0), lambda x: x.split([2, 7], 1),
        lambda x: x.unbind(0)[2], lambda x: x.diagonal(), lambda x: x.diagonal(1), torch.ravel,
        lambda x: x.unfold(1, 3, 2), lambda x: x.as_strided((3, 3), (2, 9), 1) * 1,
        lambda x: F.pad(x, (1, 2, 0, 1), value=3.0), lambda x: x.movedim(0, 1), torch.flatten,
        lambda x: x.repeat_interleave(2, 1), lambda x: x.squeeze(), lambda x: x[..., -1],
        lambda x: torch.rot90(x), lambda x: x.narrow(1, 2, 4), lambda x: x.swapaxes(0, 1),
    ),
    "places": (
        lambda x: x[:, [0, 2, 1]], lambda x: x[torch.tensor([0, -1])], lambda x: x[[0, 1], [2, 3]],
        lambda x: x.index_select(1, torch.tensor([3, 1])),
        lambda x: x.gather(1, torch.tensor([[0, 1], [2, 3]])),
        lambda x: x.scatter(1, torch.tensor([[0], [1], [2], [3]]), 5.0),
        lambda x: x.scatter_add(0, torch.zeros(2, 9, dtype=torch.long), x),
        lambda x: x.scatter_reduce(0, torch.zeros(2, 9, dtype=torch.long), x, "amax"),
        lambda x: torch.zeros(6, 9).index_add(0, torch.tensor([0, 2, 2, 5]), x),
        lambda x: x.index_put((torch.tensor([0, 2]),), torch.tensor(1.0)),
        lambda x: x.clone().index_fill_(0, torch.tensor([1]), 2.0), lambda x: x.take(WHOLE.abs()),
        lambda x: torch.slice_scatter(x, x[:, :2], 1, 3, 5),
        lambda x: torch.select_scatter(x, x[0], 0, 2), lambda x: torch.searchsorted(
            torch.tensor([0.0, 1.0]), x),
        lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.5])),
    ),
    "conditions": (
        lambda x: x.masked_scatter(x > 0, x.flip(0)), lambda x: _put(x, x[:, 0] > 0, 7.0),
        lambda x: torch.ops.aten.index_put(x, [None, x[0] > 0], x[:, :1] * 2),
        lambda x: x.index_put((x > 0.5,), torch.tensor(1.0), accumulate=True),
        lambda x: _put(x, x[:, 0] > 0, x[0]), lambda x: x.diagonal_scatter(x[:, 0], 2),
        lambda x: x.t().diagonal_scatter(x[0, :3], -1, 1, 0),
    ),
    "scattered": tuple(
        partial(_scattered, reduce, whole)
        for reduce in ("sum", "prod", "mean", "amax", "amin") for whole in (True, False)
    ),
    "so_far": (
        lambda x: torch.cummax(x, 1), lambda x: torch.cummin(x.round().int(), 0),
        lambda x: torch.cummax(ODD.flip(0), 0), lambda x: torch.cummin(ODD, 0),
        lambda x: torch.cummax(x > 0, 1), lambda x: torch.logcumsumexp(x, 1),
        lambda x: torch.logcumsumexp(x.half() * 9, 0), lambda x: torch.logcumsumexp(ODD[:4], 0),
        lambda x: torch.cummax(x[0, 0], 0), lambda x: torch.ldexp(x, torch.arange(9) - 4),
    ),
    "counts": (
        lambda x: torch.histc(x, 5, -1, 1), lambda x: torch.histc(x.round(), 4, -1, 2),
        lambda x: torch.histc((x * 10).round() / 10, 7, -0.7, 0.7),
    ),
    "systems": (
        lambda x: torch.linalg.inv(_regular(x)), lambda x: torch.linalg.det(_regular(x)),
        lambda x: torch.linalg.inv_ex(_regular(x) * (x[0] > 9)[:4])[1],
        lambda x: torch.linalg.solve(_regular(x), x[:, :3]),
        lambda x: torch.linalg.solve(_regular(x), x[:2, :4]),
        lambda x: torch.linalg.solve(_regular(x), _regular(x)[:, :2], left=False),
        lambda x: torch.linalg.solve_triangular(_regular(x), x[:, :3], upper=False),
        lambda x: torch.linalg.solve_triangular(
            _regular(x), x[:3, :4], upper=True, left=False, unitriangular=True
        ),
        lambda x: torch.linalg.cholesky(_regular(x) @ _regular(x).mT),
        lambda x: torch.linalg.cholesky_ex(_regular(x) @ _regular(x).mT, upper=True)[0],
        lambda x: torch.linalg.cholesky_ex(_regular(x) - 4 * torch.eye(4))[1],
    ),
    "memory": (
        lambda x: x.t().as_strided((3, 3), (1, 4)), lambda x: x[1:].as_strided((3, 3), (1, 4)) + 0,
        lambda x: (x * 2).t().as_strided((3, 3), (2, 9), 1),
        lambda x: x[None].as_strided((9,), (3,)),
    ),
    "made": (
        lambda x: torch.arange(5) + x.shape[0], lambda x: torch.full((2, 2), 3.0) + x.mean(),
        lambda x: torch.zeros_like(x) + 1, lambda x: torch.ones(3) * 2, lambda x: torch.eye(4) @ x,
        lambda x: x.new_full((2,), 4.0), lambda x: torch.linspace(0, 1, 5) + x[0, 0],
        lambda x: x[torch.tril_indices(4, 9, 1).unbind()],
        lambda x: torch.ones_like(x, dtype=torch.long), lambda x: torch.zeros(2, dtype=torch.bool),
        lambda x: torch.tensor([1.0, 2.0]) * x[0, 1], lambda x: torch.empty_like(x).fill_(2.0),
    ),
    "products": (
        lambda x: x @ x.t(), lambda x: torch.mv(x, x[0]), lambda x: torch.dot(x[0], x[1]),
        lambda x: torch.einsum("ij,kj->ik", x, x), lambda x: torch.outer(x[0], x[1]),
        lambda x: torch.addmm(x @ x.t(), x, x.t(), beta=0.5, alpha=2.0),
        lambda x: torch.baddbmm(x[None] @ x.t()[None], x[None], x.t()[None]),
        lambda x: torch.cdist(x, x + 1), lambda x: F.linear(x, x, x[:, 0]),
        lambda x: torch.tensordot(x, x, ([1], [1])), lambda x: torch.bmm(x[None], x.t()[None]),
    ),
}  # fmt: skip
"""Functions of one matrix (4, 9)."""

IMAGES: dict[str, tuple[Callable[..., Any], ...]] = {
    "pooling": (
        lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 2, count_include_pad=False), lambda x: F.lp_pool2d(x, 2, 2),
        lambda x: F.max_pool2d(x, 2, return_indices=True), lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.adaptive_avg_pool2d(x, 5), lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
        lambda x: F.adaptive_max_pool2d(x, 2), lambda x: F.adaptive_max_pool2d(x, 5),
        lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=2), lambda x: x.mean((2, 3)),
    ),
    "resizing": (
        lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, (5, 7)),
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda x: F.interpolate(x, (7, 5), mode="bilinear", align_corners=True),
        lambda x: F.interpolate(x, (9, 15), mode="bicubic"), lambda x: F.pixel_shuffle(x[:, :4], 2),
        lambda x: F.interpolate(x, (5, 7), mode="nearest-exact"), lambda x: F.pixel_unshuffle(x, 2),
        lambda x: F.interpolate(x, (6, 5), mode="bilinear", antialias=True),
        lambda x: F.pad(x, (1, 1, 2, 1), mode="reflect"), lambda x: F.unfold(x, 3, padding=1),
        lambda x: F.pad(x, (1, 1, 2, 1), mode="replicate"), lambda x: F.channel_shuffle(x, 2),
        lambda x: F.pad(x, (1, 2, 1, 0), mode="circular"),
        lambda x: F.fold(F.unfold(x, 2, stride=2), (12, 10), 2, stride=2),
        lambda x: F.grid_sample(x, torch.tanh(x[:, :2].permute(0, 2, 3, 1)), align_corners=False),
        lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), "nearest", "border", False),
        lambda x: F.local_response_norm(x, 3), lambda x: F.instance_norm(x),
    ),
}  # fmt: skip
"""Functions of images (2, 6, 12, 10)."""


class Several(nn.Module):
    """Functions of the same tensors, one after the other."""

    def __init__(self, functions: tuple[Callable[..., Any], ...]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *x: Any) -> Any:
        return [f(*x) for f in self.functions]


class Attend(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    def forward(self, q: Any, mask: Any = None) -> Any:
        return F.scaled_dot_product_attention(q, q * 2, q + 1, attn_mask=mask, **self.how)


def _seeded(make: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    module = make().eval()
    for b in module.buffers():
        if b.dtype == torch.float32:
            b.data.uniform_(0.5, 1.5)
    return module


PADDED = torch.arange(5) >= torch.tensor([[3], [5], [4]])


def _causal(steps: int) -> Any:
    return nn.Transformer.generate_square_subsequent_mask(steps)


LAYERS: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
    "conv1d": (lambda: nn.Conv1d(6, 4, 3, 2, 1), (LINE,)),
    "conv2d": (lambda: nn.Conv2d(6, 8, 3, padding=1), (IMAGE,)),
    "conv2d_dilated": (lambda: nn.Conv2d(6, 8, 3, 1, 2, 2, bias=False), (IMAGE,)),
    "conv2d_grouped": (lambda: nn.Conv2d(6, 9, (3, 1), groups=3), (IMAGE,)),
    "conv2d_depthwise": (lambda: nn.Conv2d(6, 6, 3, 2, 1, groups=6), (IMAGE,)),
    "conv2d_same": (lambda: nn.Conv2d(6, 4, 5, padding="same"), (IMAGE,)),
    "conv2d_single": (lambda: nn.Conv2d(6, 4, 3), (IMAGE[0],)),
    "conv2d_reflect": (lambda: nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"), (IMAGE,)),
    "conv3d": (lambda: nn.Conv3d(4, 4, 3, padding=1), (CUBE,)),
    "deconv1d": (lambda: nn.ConvTranspose1d(6, 4, 4, 2, 1), (LINE,)),
    "deconv2d": (lambda: nn.ConvTranspose2d(6, 4, 3, 2, 1, 1), (IMAGE,)),
    "deconv2d_grouped": (lambda: nn.ConvTranspose2d(6, 4, 4, 2, 1, groups=2), (IMAGE,)),
    "deconv3d": (lambda: nn.ConvTranspose3d(4, 2, 2, 2), (CUBE,)),
    "batch_norm1d": (lambda: nn.BatchNorm1d(6), (LINE,)),
    "batch_norm2d": (lambda: nn.BatchNorm2d(6), (IMAGE,)),
    "batch_norm3d": (lambda: nn.BatchNorm3d(4), (CUBE,)),
    "batch_norm_batch": (lambda: nn.BatchNorm2d(6, track_running_stats=False), (IMAGE,)),
    "layer_norm": (lambda: nn.LayerNorm(8), (ROWS,)),
    "layer_norm_two": (lambda: nn.LayerNorm((5, 8), elementwise_affine=False), (ROWS,)),
    "rms_norm": (lambda: nn.RMSNorm(8), (ROWS,)),
    "group_norm": (lambda: nn.GroupNorm(3, 6), (IMAGE,)),
    "instance_norm": (lambda: nn.InstanceNorm2d(6, affine=True), (IMAGE,)),
    "linear": (lambda: nn.Linear(8, 4), (ROWS,)),
    "linear_vector": (lambda: nn.Linear(8, 4), (ROWS[0, 0],)),
    "bilinear": (lambda: nn.Bilinear(8, 8, 3), (ROWS, ROWS)),
    "embedding": (lambda: nn.Embedding(20, 6), (_i(20, 3, 4),)),
    **{
        f"embedding_bag_{mode}_{k}": (
            partial(nn.EmbeddingBag, 20, 6, mode=mode, padding_idx=3), args
        )
        for mode in ("sum", "mean", "max")
        for k, args in enumerate([(_i(20, 3, 4),), (_i(20, 12), torch.tensor([0, 3, 3, 9]))])
    },
    "embedding_bag_last": (
        lambda: nn.EmbeddingBag(20, 6, mode="sum", include_last_offset=True),
        (_i(20, 12), torch.tensor([0, 3, 9]), torch.linspace(0, 1, 12)),
    ),
    "prelu": (lambda: nn.PReLU(6), (IMAGE,)),
    "max_pool1d": (lambda: nn.MaxPool1d(3, 2), (LINE,)),
    "avg_pool1d": (lambda: nn.AvgPool1d(4), (LINE,)),
    "max_pool3d": (lambda: nn.MaxPool3d(2), (CUBE,)),
    "avg_pool3d": (lambda: nn.AvgPool3d(2), (CUBE,)),
    "adaptive1d": (lambda: nn.AdaptiveAvgPool1d(4), (LINE,)),
    "adaptive3d": (lambda: nn.AdaptiveAvgPool3d(2), (CUBE,)),
    "trilinear": (lambda: nn.Upsample(scale_factor=2, mode="trilinear"), (CUBE,)),
    "lstm": (lambda: nn.LSTM(8, 6, batch_first=True), (ROWS,)),
    "lstm_two": (lambda: nn.LSTM(8, 6, 2, bidirectional=True), (ROWS,)),
    "gru": (lambda: nn.GRU(8, 6, batch_first=True), (ROWS,)),
    "gru_two": (lambda: nn.GRU(8, 6, 2, bias=False, bidirectional=True), (ROWS,)),
    "rnn": (lambda: nn.RNN(8, 6), (ROWS,)),
    "rnn_relu": (lambda: nn.RNN(8, 6, 2, "relu", batch_first=True), (ROWS,)),
    "lstm_projected": (
        lambda: nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, proj_size=3), (ROWS,)
    ),
    "lstm_cell": (lambda: nn.LSTMCell(8, 6), (ROWS[0],)),
    "gru_cell": (lambda: nn.GRUCell(8, 6), (ROWS[0],)),
    "multihead": (lambda: Heads(), (ROWS,)),
    "transformer_layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True), (ROWS,)
    ),
    "transformer_layer_gelu": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"), (ROWS,)
    ),
    "transformer_causal": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (ROWS, _causal(5))
    ),
    "transformer_padded": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (ROWS, None, PADDED)
    ),
    "decoder_layer": (lambda: nn.TransformerDecoderLayer(8, 2, 16), (ROWS, ROWS)),
    "attention": (lambda: Attend(), (_x(2, 3, 5, 8),)),
    "attention_causal": (lambda: Attend(is_causal=True), (_x(2, 3, 5, 8),)),
    "attention_scaled": (lambda: Attend(scale=0.3), (_x(3, 5, 8),)),
    "attention_bias": (lambda: Attend(), (_x(2, 3, 5, 8), _x(5, 5))),
    "attention_mask": (lambda: Attend(), (_x(2, 3, 5, 8), torch.ones(5, 5).tril().bool())),
}  # fmt: skip


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.inner(x, x, x)


WHOLES: tuple[Callable[..., Any], ...] = (
    lambda x: x + x * 3, lambda x: x // 3, lambda x: x % 7, lambda x: x / 4, lambda x: x & 6,
    lambda x: x | 1, lambda x: x ^ 5, lambda x: ~x, lambda x: x << 2, lambda x: x >> 1,
    lambda x: x.sum(), lambda x: x.float().mean(), lambda x: x.abs().max(1), lambda x: x == 3,
    lambda x: x.clamp(-3, 4), lambda x: x**2, lambda x: F.one_hot(x.abs(), 30),
    lambda x: x.to(torch.int32).cumsum(0), lambda x: torch.div(x, 3, rounding_mode="trunc"),
    lambda x: x.sqrt() if False else x.float().exp().log(), lambda x: x > 2.5, lambda x: x.prod(),
)  # fmt: skip
"""Functions of whole numbers (4, 9)."""


def cases() -> dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """A module and its arguments by name."""
    found: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}
    for name, functions in ELEMENTS.items():
        x = POSITIVE if name == "exponentials" else _x(4, 9)
        found[name] = partial(_several, functions, x)
    for name, functions in IMAGES.items():
        found[name] = partial(_several, functions, IMAGE)
    found["whole_numbers"] = partial(_several, WHOLES, WHOLE)
    for name, (make, args) in LAYERS.items():
        found[name] = partial(_layer, make, args)
    return found


def _several(functions: Any, x: Any) -> tuple[Any, tuple[Any, ...]]:
    return Several(functions), (x,)


def _layer(make: Callable[[], Any], args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    return _seeded(make), args


def single() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Every function and layer as a case of its own."""
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    for group, x in ((ELEMENTS, None), (IMAGES, IMAGE), ({"whole_numbers": WHOLES}, WHOLE)):
        for name, functions in group.items():
            data = x if x is not None else POSITIVE if name == "exponentials" else _x(4, 9)
            for k, function in enumerate(functions):
                found[f"{name}_{k}"] = (Several((function,)), (data,))
    for name, (make, args) in LAYERS.items():
        found[name] = (_seeded(make), args)
    return found
