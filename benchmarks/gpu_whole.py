"""Small networks at full size for the first device: are they right, and the same each time?

Sizes of simt's tests have few blocks, whose races and missing waits may never show. Here blocks
fill the device and more, and each network runs several times on the same inputs: bits that change
from run to run are a race. They are built of the compiler's own graphs, so that no package for
models is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.gpu_code_cases import Array, convolved, softmax_of
from tilewright.graph.ir import Graph, Value
from tilewright.graph.onnx.convert import Builder

RUNS = 20
_OPSET = 17


@dataclass(frozen=True)
class Whole:
    """One network. `precision`: as `tilewright.compile` has it; `shapes(*size)`: those of its
    inputs; `build(b, *inputs)`: its output; `reference`: the same in NumPy, of float64;
    `tolerance`: how far a result may be off, as a share of the largest."""

    name: str
    precision: str
    size: tuple[int, ...]
    small: tuple[int, ...]
    shapes: Callable[..., list[tuple[int, ...]]]
    build: Callable[..., Value]
    reference: Callable[..., Array]
    tolerance: float

    def graph(self, size: Sequence[int]) -> Graph:
        b = Builder(_OPSET)
        inputs = [Value(f"x{n}", s, "float32") for n, s in enumerate(self.shapes(*size))]
        out = self.build(b, *inputs)
        return Graph(self.name, inputs, [b.output(out, inputs, "out")], b.nodes)

    def inputs(self, size: Sequence[int]) -> list[Array]:
        """Numbers from -1 to 1."""
        rng = np.random.default_rng(0)
        return [rng.random(s, np.float32) * 2 - 1 for s in self.shapes(*size)]

    def check(self, target: tw.Target, small: bool) -> dict[str, Any]:
        """Build and run; ValueError where a result is wrong, or not that of the run before."""
        size = self.small if small else self.size
        net: Any = tw.compile(self.graph(size), target, precision=self.precision)
        given = self.inputs(size)
        named = {v.name: x for v, x in zip(net.inputs, given)}
        (first,) = net.run(named).values()
        want = self.reference(*(x.astype(np.float64) for x in given))
        off = float(np.max(np.abs(first.astype(np.float64) - want)))
        allowed = self.tolerance * float(np.max(np.abs(want)))
        if not off <= allowed:
            raise ValueError(f"{self.name}: off by {off}, {allowed} is allowed")
        for run in range(2, RUNS + 1):
            (again,) = net.run(named).values()
            unlike = np.count_nonzero(_bits(again) != _bits(first))
            if unlike:
                raise ValueError(
                    f"{self.name}: {unlike} of {first.size} elements of run {run} are not those of "
                    "the first run: threads race"
                )
        return {"kernel": self.name, "right": True, "runs": RUNS, "off": off, "allowed": allowed}


def _bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view(np.uint8)


def _attend(b: Builder, q: Value, k: Value, v: Value) -> Value:
    turned = b.add("transpose", [k], axes=(0, 2, 1))
    scores = b.add("batch_matmul", [q, turned])
    scale = b.constant(np.float32(q.shape[-1] ** -0.5))
    weights = b.add("softmax", [b.add("multiply", [scores, scale])], axis=2)
    return b.add("batch_matmul", [weights, v])


def _attended(q: Array, k: Array, v: Array) -> Array:
    return np.asarray(softmax_of(q @ k.swapaxes(1, 2) * q.shape[-1] ** -0.5) @ v)


def _conv(b: Builder, x: Value, w: Value) -> Value:
    pad = w.shape[-1] // 2
    how: dict[str, Any] = {"strides": (1, 1), "padding": (pad,) * 4, "dilation": (1, 1)}
    return b.add("conv2d", [x, w], groups=1, **how)


def _network(b: Builder, x: Value, first: Value, second: Value, last: Value) -> Value:
    hidden = b.add("relu", [_conv(b, x, first)])
    hidden = b.add("relu", [_conv(b, hidden, second)])
    mean = b.add("reduce", [hidden], type="mean", axes=[2, 3], keepdims=False)
    return b.add("softmax", [b.add("dense", [mean, last])], axis=1)


def _of_network(x: Array, first: Array, second: Array, last: Array) -> Array:
    hidden = np.maximum(_padded(x, first), 0)
    hidden = np.maximum(_padded(hidden, second), 0)
    return softmax_of(hidden.mean((2, 3)) @ last.T)


def _padded(x: Array, w: Array) -> Array:
    return convolved(x, w, w.shape[-1] // 2)


def _of_convolution(n: int, c: int, f: int, h: int) -> list[tuple[int, ...]]:
    return [(n, c, h, h), (f, c, 3, 3)]


def _of_layers(n: int, c: int, h: int) -> list[tuple[int, ...]]:
    return [(n, 3, h, h), (c, 3, 3, 3), (c, c, 3, 3), (100, c)]


def _cases(dtype: str, tolerance: float) -> tuple[Whole, ...]:
    return (
        Whole(
            f"attention_{dtype}", dtype, (16, 1024, 64), (1, 64, 32),
            lambda heads, n, d: [(heads, n, d)] * 3, _attend, _attended, tolerance,
        ),
        *(
            # rows of 16 KiB are copied by tensor maps; others, in halves, are cut in parts
            Whole(
                f"deep_dense_{k}_{dtype}", dtype, (64, 128, k), (16, 16, k // 15),
                lambda n, m, k: [(n, k), (m, k)], lambda b, x, w: b.add("dense", [x, w]),
                lambda x, w: x @ w.T, tolerance,
            )
            for k in (16384, 16380)
        ),
        Whole(
            f"convolution_{dtype}", dtype, (8, 64, 128, 56), (1, 8, 16, 9),
            _of_convolution, _conv, _padded, tolerance,
        ),
        Whole(
            f"network_{dtype}", dtype, (8, 64, 64), (1, 8, 8),
            _of_layers, _network, _of_network, tolerance,
        ),
    )  # fmt: skip


WHOLE = (*_cases("float16", 1e-2), *_cases("float32", 1e-4))
