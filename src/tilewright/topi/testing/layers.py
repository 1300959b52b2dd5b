"""Layers of networks, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..nn.utils import named

Array = Any  # of NumPy, whose types say little of dtypes and shapes


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Softmax over one dimension."""
    e = np.exp(a_np - a_np.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Logarithm of softmax over one dimension."""
    shifted = a_np - a_np.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True)))


def dense(
    x: Array, y: Array, bias: Array, use_bias: bool = False, use_relu: bool = False,
    out_dtype: str | None = None,
) -> Array:  # fmt: skip
    """x times y transposed, plus a bias where `use_bias`."""
    dtype = x.dtype if out_dtype is None else out_dtype
    result = x.astype(dtype) @ y.T.astype(dtype)
    result = result + bias if use_bias else result
    return np.maximum(result, 0).astype(dtype) if use_relu else result


def batch_matmul(
    x: Array, y: Array, out_dtype: str | None = None, trans_x: bool = False, trans_y: bool = True
) -> Array:
    """x (batch, m, k) times y (batch, n, k), each transposed if said so; batches of 1 repeated."""
    a = x.transpose(0, 2, 1) if trans_x else x
    b = y.transpose(0, 2, 1) if trans_y else y
    dtype = x.dtype if out_dtype is None else out_dtype
    return np.matmul(a.astype(dtype), b.astype(dtype))


def lrn_python(a_np: Array, size: int, axis: int, bias: float, alpha: float, beta: float) -> Array:
    """Each element over a power of the squares around it along `axis`."""
    radius = size // 2
    sums = np.zeros(a_np.shape, "float64")
    n = a_np.shape[axis]
    for k in range(n):
        near = np.take(a_np, range(max(0, k - radius), min(n, k + radius + 1)), axis)
        place = [slice(None)] * a_np.ndim
        place[axis] = slice(k, k + 1)
        sums[tuple(place)] = np.square(near.astype("float64")).sum(axis, keepdims=True)
    return (a_np / np.power(bias + alpha * sums / size, beta)).astype(a_np.dtype)


def l2_normalize_python(a_np: Array, eps: float, axis: Any = None) -> Array:
    """Each element over the root of the sum of squares along `axis`."""
    axes = None if axis is None else tuple(np.atleast_1d(axis).tolist())
    total = np.square(a_np.astype("float64")).sum(axes, keepdims=True)
    return (a_np / np.sqrt(np.maximum(total, eps))).astype(a_np.dtype)


def _normalized(data: Array, axes: Any, epsilon: float) -> Array:
    x = data.astype("float64")
    mean, spread = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(spread + epsilon))


def _axes(axis: Any) -> tuple[int, ...]:
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _spread(values: Array, axes: Sequence[int], rank: int) -> Array:
    """Values of some dimensions, so that they broadcast."""
    shape = [1] * rank
    for d, n in zip(sorted(a % rank for a in axes), values.shape):
        shape[d] = n
    return values.reshape(shape)


def layer_norm_python(
    data: Array, gamma: Array, beta: Array | None, axis: Any, epsilon: float = 1e-5
) -> Array:
    """Normalised over dimensions, with a scale and a shift for each of their elements."""
    axes = _axes(axis)
    value = _normalized(data, axes, epsilon) * _spread(gamma, axes, data.ndim)
    value = value if beta is None else value + _spread(beta, axes, data.ndim)
    return value.astype(data.dtype)


def rms_norm_python(data: Array, weight: Array, axis: Any, epsilon: float = 1e-5) -> Array:
    """Over the root of the mean square of dimensions, times a weight for each of their elements."""
    axes = _axes(axis)
    x = data.astype("float64")
    root = np.sqrt(np.square(x).mean(axes, keepdims=True) + epsilon)
    return (x / root * _spread(weight, axes, data.ndim)).astype(data.dtype)


instance_norm_python = layer_norm_python


def group_norm_python(
    data: Array,
    gamma: Array | None,
    beta: Array | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Array:
    """Normalised over groups of channels and dimensions, a scale and a shift for each channel."""
    moved = np.moveaxis(data, channel_axis, 1)
    c = moved.shape[1]
    over = [d + (d < channel_axis) - (d > channel_axis) * 0 for d in (a % data.ndim for a in axes)]
    split = moved.reshape(moved.shape[0], num_groups, c // num_groups, *moved.shape[2:])
    result = _normalized(split, (2, *(max(d, 2) + 1 for d in over)), epsilon).reshape(moved.shape)
    if gamma is not None:
        result = result * _spread(gamma, [1], data.ndim)
    if beta is not None:
        result = result + _spread(beta, [1], data.ndim)
    return np.moveaxis(result, 1, channel_axis).astype(data.dtype)


def batch_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    moving_mean: Array,
    moving_var: Array,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    training: bool,
    momentum: float,
) -> list[Array]:
    """[normalised by moving, or own, mean and variance; both moved]."""
    others = tuple(d for d in range(x.ndim) if d != axis % x.ndim)
    mean, spread, moved = moving_mean, moving_var, [moving_mean, moving_var]
    if training:
        mean, spread = x.mean(others), x.var(others)
        pairs = zip(moved, (mean, spread))
        moved = [old * (1 - momentum) + new * momentum for old, new in pairs]
    one = [axis]
    value = x - _spread(mean, one, x.ndim)
    value = value / np.sqrt(_spread(spread, one, x.ndim) + epsilon)
    value = value * _spread(gamma, one, x.ndim) if scale else value
    value = value + _spread(beta, one, x.ndim) if center else value
    return [value.astype(x.dtype), *moved]


def poolnd_python(
    np_data: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str | None = None,
) -> Array:
    """Maximum or average over windows of the dimensions D, H, W (those there are). Padding counts
    as zeros, where `count_include_pad`, else not at all; the maximum of a window that has only
    padding is 0."""
    rank = np_data.ndim - 2
    plain = "NC" + "DHW"[3 - rank :]
    order = [(layout or plain).index(c) for c in plain]
    x = np_data.transpose(order)
    widths = list(zip(padding_before, padding_after))
    fill = np.finfo(dtype).min if dtype.startswith("float") else np.iinfo(dtype).min
    value = fill if pool_type == "max" and not count_include_pad else 0
    padded = np.pad(x.astype(dtype), [(0, 0), (0, 0), *widths], constant_values=value)
    inside = np.pad(np.ones(x.shape[2:]), widths)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    way = np.ceil if ceil_mode else np.floor
    size = [int(way((n - r) / s)) + 1 for n, r, s in zip(padded.shape[2:], reach, strides)]
    result: Any = np.zeros((*x.shape[:2], *size), dtype)
    for place in product(*map(range, size)):
        at = tuple(
            slice(p * s, p * s + r, d) for p, s, r, d in zip(place, strides, reach, dilation)
        )
        window = padded[(slice(None), slice(None), *at)]
        over = tuple(range(2, window.ndim))
        if pool_type == "max":
            largest = window.max(over) if inside[at].any() else 0
            result[(slice(None), slice(None), *place)] = largest
        else:
            count = np.prod(window.shape[2:]) if count_include_pad else inside[at].sum()
            result[(slice(None), slice(None), *place)] = window.sum(over) / max(count, 1)
    return result.transpose(np.argsort(order))


def _pool_of(rank: int, layout: str) -> Callable[..., Array]:
    def python(
        np_data: Array,
        kernel: Any,
        strides: Any,
        padding: Sequence[int],
        out_shape: Sequence[int],
        pool_type: str,
        count_include_pad: bool = True,
        ceil_mode: bool = False,
        dtype: str = "float32",
    ) -> Array:
        window, steps = np.atleast_1d(kernel).tolist(), np.atleast_1d(strides).tolist()
        how = (window, steps, [1] * rank, padding[:rank], padding[rank:])
        result = poolnd_python(np_data, *how, pool_type, count_include_pad, ceil_mode, dtype)
        return result.reshape(out_shape)

    text = f"Pooling of ({', '.join(layout)}) to `out_shape`."
    return named(python, f"pool{rank}d_{layout}_python", text)


pool1d_ncw_python = _pool_of(1, "ncw")
pool3d_ncdhw_python = _pool_of(3, "ncdhw")


def pool_grad_nchw(
    a_np: Array,
    out_grad_np: Array,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> Array:
    """The gradient of pooling (n, c, h, w) by its input."""
    _, _, h, w = a_np.shape
    (kh, kw), (sh, sw) = pool_size, strides
    top, left, bottom, right = padding
    more = (sh - 1, sw - 1) if ceil_mode else (0, 0)
    widths = [(0, 0), (0, 0), (top, bottom + more[0]), (left, right + more[1])]
    x = np.pad(a_np, widths, constant_values=-np.inf)
    grad = np.zeros(x.shape, a_np.dtype)
    for b, c, i, j in product(*map(range, out_grad_np.shape)):
        y, q = i * sh, j * sw
        g = out_grad_np[b, c, i, j]
        window = x[b, c, y : y + kh, q : q + kw]
        if pool_type == "max":
            k, m = np.unravel_index(np.argmax(window), window.shape)
            grad[b, c, y + k, q + m] += g
        else:
            count = window.size if count_include_pad else np.isfinite(window).sum()
            grad[b, c, y : y + kh, q : q + kw] += g / max(count, 1)
    return grad[:, :, top : top + h, left : left + w]


def adaptive_pool(np_data: Array, out_size: Any, pool_type: str, layout: str) -> Array:
    """Maximum or average of as many bins as `out_size` says, of the dimensions D, H, W of a layout
    (those there are)."""
    names = [c for c in layout if c in "DHW"]
    sizes = [out_size] * len(names) if isinstance(out_size, int) else list(out_size)
    result = np_data
    take: Callable[..., Any] = np.max if pool_type == "max" else np.mean
    for c, n in zip(names, sizes):
        d = layout.index(c)
        whole = result.shape[d]
        bins = [range(k * whole // n, -(-(k + 1) * whole // n)) for k in range(n)]
        result = np.stack([take(np.take(result, b, d), d) for b in bins], d)
    return result


def nll_loss(
    predictions: Array, targets: Array, weights: Array, reduction: str = "mean",
    ignore_index: int = -100,
) -> Array:  # fmt: skip
    """-predictions * weights at the targets, of (n, c, ...) and (n, ...)."""
    used = targets != ignore_index
    safe = np.where(used, targets, 0)
    picked = np.take_along_axis(predictions, safe[:, None], 1)[:, 0]
    share = np.where(used, weights[safe], 0)
    each = -picked * share
    if reduction == "none":
        return np.asarray(each)
    return np.asarray(each.sum() / share.sum() if reduction == "mean" else each.sum())


def lstm_python(
    Xs: Array,
    Wi: Array,
    Wh: Array,
    Bi: Array | None = None,
    Bh: Array | None = None,
    h_init: Array | None = None,
    c_init: Array | None = None,
    proj: Array | None = None,
    p_i: Array | None = None,
    p_f: Array | None = None,
    p_o: Array | None = None,
    f_act: str = "sigmoid",
    g_act: str = "tanh",
    h_act: str = "tanh",
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Array, Array]:
    """Long short-term memory over (steps, batch, inputs): states and cells of all steps."""
    functions: dict[str, Callable[[Any], Any]] = {
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "identity": lambda x: x,
    }
    f, g, last = functions[f_act], functions[g_act], functions[h_act]
    steps, batch, _ = Xs.shape
    hidden = Wi.shape[0] // 4
    width = hidden if proj is None else proj.shape[0]
    h = np.zeros((batch, width), Xs.dtype) if h_init is None else h_init
    c = np.zeros((batch, hidden), Xs.dtype) if c_init is None else c_init
    states, cells = [], []
    for t in reversed(range(steps)) if reverse else range(steps):
        total = Xs[t] @ Wi.T + h @ Wh.T
        total = total + (0 if Bi is None else Bi) + (0 if Bh is None else Bh)
        gates = np.split(total, 4, 1)
        i, fg, gg, o = (gates[weight_layout.index(k)] for k in "IFGO")
        i = f(i + (0 if p_i is None else p_i * c))
        fg = f(fg + (0 if p_f is None else p_f * c))
        c = fg * c + i * g(gg)
        h = f(o + (0 if p_o is None else p_o * c)) * last(c)
        h = h if proj is None else h @ proj.T
        states.append(h)
        cells.append(c)
    return np.stack(states), np.stack(cells)
