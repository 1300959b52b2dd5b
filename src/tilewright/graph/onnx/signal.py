"""Transforms of signals, windows, mel filters.

A transform is a product with a matrix of cosines and sines; long ones are divided into two shorter
ones (Cooley, Tukey 1965), for which the matrices are small, and those of a large prime length are a
convolution (Bluestein 1970), by transforms of a length that can be divided often.
"""

from __future__ import annotations

from math import isqrt, prod

import numpy as np

from ..ir import Value
from .compose import Compose
from .convert import Array, Builder, Converter, OnnxNode
from .math import type_of

_DIRECT = 512
"""The longest transform that is done by one matrix."""


def _number(node: OnnxNode, index: int) -> float:
    value = np.asarray(node.array(index)).reshape(-1)
    if value.size != 1:
        raise node.error(f"input {index} must be one number, got {value.size}")
    return float(value[0])


def _whole(node: OnnxNode, index: int) -> int | None:
    return None if node.optional(index) is None else int(_number(node, index))


def _rotations(ks: Array, ns: Array, length: int, sign: float) -> Array:
    """Of each k and n the matrix that turns a pair (real, imaginary): (k, 2, n, 2)."""
    turns = np.multiply.outer(ks, ns) % length * (2 * np.pi / length)
    cosine, sine = np.cos(turns), sign * np.sin(turns)
    rows = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)
    return rows


def _direct(c: Compose, x: Value, length: int, outs: int, sign: float) -> Value:
    """x (rows, elements, 1 or 2), of which as many count as the transform is long."""
    rows, size, parts = x.shape
    x = c.part(x, 1, 0, min(size, length))
    size = x.shape[1]
    table = _rotations(np.arange(outs), np.arange(size), length, sign)[..., :parts]
    weights = c.constant(table.reshape(outs * 2, size * parts), x.dtype)
    out = c("dense", c.reshape(x, (rows, size * parts)), weights)
    return c.reshape(out, (rows, outs, 2))


def _divisor(length: int) -> int:
    """The largest divisor up to the root."""
    return next(n for n in range(isqrt(length), 0, -1) if length % n == 0)


def _of_length(c: Compose, x: Value, length: int) -> Value:
    """x (rows, elements, parts) of so many elements: without the last ones, or with zeros."""
    x = c.part(x, 1, 0, min(x.shape[1], length))
    missing = length - x.shape[1]
    return c("pad", x, before=[0] * 3, after=[0, missing, 0], value=0) if missing else x


def _times(c: Compose, x: Value, factors: Array) -> Value:
    """x (.., 1 or 2) times complex numbers, as pairs."""
    pairs = c.constant(np.stack([factors.real, factors.imag], -1), x.dtype)
    if x.shape[-1] == 1:
        return c("multiply", x, pairs)
    axis = len(x.shape) - 1
    swapped = c("take", x, c.constant(np.array([1, 0])), axis=axis)
    stay = c.constant(np.stack([factors.real] * 2, -1), x.dtype)
    cross = c.constant(np.stack([-factors.imag, factors.imag], -1), x.dtype)
    return c("add", c("multiply", x, stay), c("multiply", swapped, cross))


def _smooth(least: int) -> int:
    """The smallest number from `least` on that has no prime factors but 2, 3 and 5."""
    found = 1 << (least - 1).bit_length()
    for five in range(least.bit_length()):
        for three in range(least.bit_length()):
            odd = 5**five * 3**three
            if odd < found:
                found = min(found, odd << max(0, -(-least // odd) - 1).bit_length())
    return found


def _convolved(c: Compose, x: Value, length: int, outs: int, sign: float) -> Value:
    """`transform` of any length, with 2 n k = n^2 + k^2 - (k - n)^2: what is turned by half of
    -n^2 is convolved with what turns by half of the squares of distances, and turned again."""
    x = _of_length(c, x, min(x.shape[1], length))
    whole = _smooth(x.shape[1] + outs - 1)
    squares = np.arange(max(x.shape[1], outs), dtype=np.int64) ** 2 % (2 * length)
    chirp = np.exp(1j * sign * np.pi / length * squares)
    filters = np.zeros(whole, complex)
    filters[:outs] = chirp[:outs].conj()
    filters[whole - x.shape[1] + 1 :] = chirp[1 : x.shape[1]][::-1].conj()
    y = _of_length(c, _times(c, x, chirp[: x.shape[1]]), whole)
    y = transform(c, y, whole, whole, -1.0)
    y = transform(c, _times(c, y, np.fft.fft(filters) / whole), whole, outs, 1.0)
    return _times(c, y, chirp[:outs])


def transform(c: Compose, x: Value, length: int, outs: int, sign: float) -> Value:
    """The first `outs` numbers of the transform of x (rows, elements, 1 or 2): (rows, outs, 2)."""
    if length <= _DIRECT:
        return _direct(c, x, length, outs, sign)
    first = _divisor(length)
    if first == 1:
        return _convolved(c, x, length, outs, sign)
    rows, _, parts = x.shape
    x = _of_length(c, x, length)
    second = length // first
    x = c.transpose(c.reshape(x, (rows, first, second, parts)), (0, 2, 1, 3))
    y = transform(c, c.reshape(x, (rows * second, first, parts)), first, first, sign)
    y = c.reshape(y, (rows, second, first, 2))
    turns = np.outer(np.arange(second), np.arange(first)) * (2 * np.pi / length)
    y = _times(c, y, np.exp(1j * sign * turns))
    y = c.reshape(c.transpose(y, (0, 2, 1, 3)), (rows * first, second, 2))
    z = c.reshape(transform(c, y, second, second, sign), (rows, first, second, 2))
    z = c.reshape(c.transpose(z, (0, 2, 1, 3)), (rows, length, 2))
    return c.part(z, 1, 0, outs)


def real_inverse(c: Compose, x: Value, length: int) -> Value:
    """Real numbers (rows, length, 1) of the first half of their transform."""
    half = length // 2 + 1
    x = c.part(x, 1, 0, min(x.shape[1], half))
    rows, size, parts = x.shape
    # the other half are conjugates, of which the real parts add the same
    twice = np.where((np.arange(size) == 0) | (2 * np.arange(size) == length), 1.0, 2.0) / length
    if length > _DIRECT:
        pairs = _times(c, x, twice.astype(complex))
        return c.part(transform(c, pairs, length, length, 1.0), 2, 0, 1)
    table = _rotations(np.arange(length), np.arange(size), length, 1.0)[:, 0, :, :parts]
    weights = c.constant((table * twice[None, :, None]).reshape(length, size * parts), x.dtype)
    out = c("dense", c.reshape(x, (rows, size * parts)), weights)
    return c.reshape(out, (rows, length, 1))


def dft(b: Builder, node: OnnxNode) -> Value:
    given = node.input(0)
    c = Compose(b, node)
    rank = len(given.shape)
    axis = node.get("axis", 1) if b.opset < 20 else _whole(node, 2)
    axis = node.axis(-2 if axis is None else axis, rank)
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    if axis == rank - 1 or given.shape[-1] not in (1, 2):
        raise node.error(f"{given!r} is not of real or complex numbers with an axis {axis}")
    length = _whole(node, 1)
    if length is None:
        size = given.shape[axis]
        length = 2 * (size - 1) if inverse and onesided else size
    if length < 1:
        raise node.error(f"a transform of length {length}")
    order = [k for k in range(rank) if k not in (axis, rank - 1)] + [axis, rank - 1]
    x = c.transpose(c.wide(given), order)
    outer = x.shape[:-2]
    flat = c.reshape(x, (prod(outer), *x.shape[-2:]))
    if inverse and onesided:
        y = real_inverse(c, flat, length)
    elif inverse:
        y = c("multiply", transform(c, flat, length, length, 1.0), 1 / length)
    else:
        y = transform(c, flat, length, length // 2 + 1 if onesided else length, -1.0)
    y = c.reshape(y, (*outer, *y.shape[1:]))
    back = [order.index(k) for k in range(rank)]
    return c.cast(c.transpose(y, back), given.dtype)


def stft(b: Builder, node: OnnxNode) -> Value:
    signal, window = node.input(0), node.optional(2)
    step, length = _whole(node, 1), _whole(node, 3)
    c = Compose(b, node)
    if len(signal.shape) == 2:
        signal = c.reshape(signal, (*signal.shape, 1))
    if len(signal.shape) != 3 or signal.shape[2] not in (1, 2):
        raise node.error(f"the signal {signal!r} is not (batch, elements, 1 or 2)")
    if length is None:
        length = signal.shape[1] if window is None else window.shape[0]
    if step is None or step < 1 or not 1 <= length <= signal.shape[1]:
        raise node.error(f"frames of {length} elements every {step} of {signal!r}")
    if window is not None and window.shape != (length,):
        raise node.error(f"the window {window!r} does not fit frames of {length} elements")
    frames = 1 + (signal.shape[1] - length) // step
    places = np.arange(frames)[:, None] * step + np.arange(length)
    batch, _, parts = signal.shape
    x = c("take", c.wide(signal), c.constant(places), axis=1)
    if window is not None:
        x = c("multiply", x, c.reshape(c.cast(window, x.dtype), (length, 1)))
    outs = length // 2 + 1 if node.get("onesided", 1) else length
    y = transform(c, c.reshape(x, (batch * frames, length, parts)), length, outs, -1.0)
    return c.cast(c.reshape(y, (batch, frames, outs, 2)), signal.dtype)


def _window(*terms: float) -> Converter:
    """A sum of cosines."""

    def convert(b: Builder, node: OnnxNode) -> Value:
        size = _whole(node, 0)
        if size is None or size < 0:
            raise node.error(f"a window of {size} elements")
        whole = size if node.get("periodic", 1) else size - 1
        turns = np.arange(size) * (2 * np.pi / max(whole, 1))
        data = np.sum([a * np.cos(k * turns) for k, a in enumerate(terms)], axis=0)
        return Compose(b, node).constant(data.reshape(size), _type_of(node))

    return convert


def _type_of(node: OnnxNode) -> str:
    dtype = type_of(node, node.get("output_datatype", 1))
    if dtype == "bool":
        raise node.error("output_datatype bool is no type of numbers")
    return dtype


def mel_weights(b: Builder, node: OnnxNode) -> Value:
    """Triangles between frequencies that are equally far apart in mel."""
    bins, length, rate = (int(_number(node, k)) for k in range(3))
    low, high = _number(node, 3), _number(node, 4)
    mel = 2595 * np.log10(1 + np.array([low, high]) / 700)
    places = np.arange(bins + 2) * ((mel[1] - mel[0]) / (bins + 2)) + mel[0]
    hertz = 700 * (10 ** (places / 2595) - 1)
    edges = ((length + 1) * hertz // rate).astype(int)
    out = np.zeros((length // 2 + 1, bins))
    if edges.min(initial=0) < 0 or edges.max(initial=0) >= len(out) + 1:
        raise node.error(f"frequencies up to {high} at a rate of {rate} are beyond the spectrum")
    for k, (left, middle, right) in enumerate(zip(edges, edges[1:], edges[2:])):
        if middle == left:
            out[middle, k] = 1
        else:
            out[left : middle + 1, k] = np.arange(middle - left + 1) / (middle - left)
        if right > middle:
            out[middle:right, k] = np.arange(right - middle, 0, -1) / (right - middle)
    return Compose(b, node).constant(out, _type_of(node))


CONVERTERS: dict[str, Converter] = {
    "DFT": dft,
    "STFT": stft,
    "HannWindow": _window(0.5, -0.5),
    "HammingWindow": _window(25 / 46, -21 / 46),
    "BlackmanWindow": _window(0.42, -0.5, 0.08),
    "MelWeightMatrix": mel_weights,
}
