"""What the operators of the benchmark compute, in NumPy, and how other systems see them.

Every convolution of the suite, grouped, depthwise, transposed or of capsules, is one plain
convolution, or transposed one, of a channels-last tensor with weights (kernel..., channels in of a
group, channels out). `Conv.canonical` brings a case's arrays into that form, `Conv.restore` takes
its result back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Canonical(NamedTuple):
    """x (batch, space..., channels), weight, bias per output channel, and whether relu follows."""

    x: Array
    weight: Array
    bias: Array | None
    relu: bool


@dataclass(frozen=True)
class Conv:
    """How a convolution steps; `kind`: plain, depthwise, capsule, or layer (scale, shift, relu)."""

    rank: int
    stride: int
    padding: int
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    kind: str = "plain"

    def canonical(self, inputs: list[Array]) -> Canonical:
        """A case's inputs as those of a plain convolution."""
        x, weight = inputs[:2]
        if self.kind == "depthwise":
            return Canonical(x, weight[..., None, :], None, False)
        if self.kind == "layer":
            return Canonical(x, weight * inputs[2], inputs[3], True)
        if self.transposed:
            weight = self._by_position(weight)
        if self.kind == "capsule":
            n, h, w, rows, columns, ci = x.shape
            x = x.transpose(0, 3, 1, 2, 4, 5).reshape(n * rows, h, w, columns * ci)
            k, _, inner, outer, _, co = weight.shape
            weight = weight.transpose(0, 1, 2, 4, 3, 5).reshape(k, k, inner * ci, outer * co)
        return Canonical(np.ascontiguousarray(x), np.ascontiguousarray(weight), None, False)

    def plain_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the plain convolution's result, for a case's output of `shape`."""
        if self.transposed:
            n, h, a, w, b, co = shape
            return (n, h * a, w * b, co)
        if self.kind != "capsule":
            return shape
        n, h, w, rows, columns, co = shape
        return (n * rows, h, w, columns * co)

    def restore(self, y: Array, shape: tuple[int, ...]) -> Array:
        """The plain convolution's result as the case's output of `shape`."""
        if self.kind != "capsule":
            return y.reshape(shape)
        n, h, w, rows, columns, co = shape
        return y.reshape(n, rows, h, w, columns, co).transpose(0, 2, 3, 1, 4, 5)

    def reference(self, *inputs: Array) -> Array:
        """The case's output, float32."""
        x, weight, bias, relu = self.canonical(list(inputs))
        y = self._transposed(x, weight) if self.transposed else self._forward(x, weight)
        y = y if bias is None else y + bias
        y = np.maximum(y, 0) if relu else y
        shape: tuple[int, ...] = y.shape
        if self.transposed:
            n, h, w, co = shape
            s = self.stride
            shape = (n, h // s, s, w // s, s, co)
        if self.kind == "capsule":
            n, _, _, rows = inputs[0].shape[:4]
            shape = (n, *y.shape[1:3], rows, inputs[1].shape[3], inputs[1].shape[5])
        return np.ascontiguousarray(self.restore(y, shape))

    def _by_position(self, weight: Array) -> Array:
        """(step, step, tap, tap, in, out), or (in, their product), as (kernel, kernel, in, out)."""
        s = self.stride
        taps = (s + 2 * self.padding) // s
        if weight.ndim == 2:
            columns = weight.reshape(len(weight), s, s, taps, taps, -1)
            weight = np.moveaxis(columns, 0, 4)
        position = np.arange(s * taps)
        step, tap = (position - self.padding) % s, position // s
        rows, columns = np.ix_(position, position)
        return np.asarray(weight[step[rows], step[columns], tap[rows], tap[columns]])

    def _forward(self, x: Array, weight: Array) -> Array:
        """One product for each image and row of the kernel, of windows with weights."""
        kernel, (ci, co), groups = weight.shape[: self.rank], weight.shape[-2:], self.groups
        around = [(0, 0), *[(self.padding, self.padding)] * self.rank, (0, 0)]
        padded = np.pad(x, around)
        reach = [self.dilation * (k - 1) + 1 for k in kernel]
        axes = tuple(range(self.rank))
        out = [(d - r) // self.stride + 1 for d, r in zip(padded.shape[1:], reach)]
        steps = (slice(None, None, self.stride),) * self.rank
        y = np.zeros((len(x), *out, co), np.float32)
        for image, result in zip(padded, y):
            windows: Any = np.lib.stride_tricks.sliding_window_view(image, reach, axis=axes)[steps]
            taps: Any = windows[(..., *(slice(None, None, self.dilation),) * self.rank)]
            for row in range(kernel[0]):
                columns = np.moveaxis(taps[(..., row, *(slice(None),) * (self.rank - 1))],
                                      self.rank, -1)  # fmt: skip
                columns = columns.reshape(int(np.prod(out)), -1, groups, ci)
                columns = np.moveaxis(columns, 2, 0).reshape(groups, int(np.prod(out)), -1)
                part = weight[row].reshape(-1, groups, co // groups)
                product = columns @ np.moveaxis(part, 1, 0)
                result += np.moveaxis(product, 0, 1).reshape(result.shape)
        return y

    def _transposed(self, x: Array, weight: Array) -> Array:
        """Each element of x spreads its products with the kernel over the output."""
        kernel, s = weight.shape[: self.rank], self.stride
        full = [(d - 1) * s + k for d, k in zip(x.shape[1:], kernel)]
        y = np.zeros((len(x), *full, weight.shape[-1]), np.float32)
        for tap in np.ndindex(*kernel):
            rows = (slice(t, t + (d - 1) * s + 1, s) for t, d in zip(tap, x.shape[1:]))
            y[(slice(None), *rows)] += x @ weight[tap]
        inside = (slice(self.padding, d - self.padding) for d in full)
        return y[(slice(None), *inside)]


def matmul(a: Array, b: Array) -> Array:
    return a @ b


def norm(x: Array) -> Array:
    """The 2-norm of each matrix."""
    total = np.square(x, dtype=np.float64).sum(axis=(1, 2))
    return np.sqrt(total).astype(np.float32)


def scores(q: Array, k: Array) -> Array:
    """Softmax of q k^T for each head; q and k (batch, length, heads, dim)."""
    product = q.transpose(0, 2, 1, 3) @ k.transpose(0, 2, 3, 1)
    power = np.exp(product - product.max(axis=-1, keepdims=True))
    return np.asarray(power / power.sum(axis=-1, keepdims=True), np.float32)
