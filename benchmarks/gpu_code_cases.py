"""The kernels that benchmarks/gpu_code.py compiles: operators with their default schedules at sizes
that divide and at odd ones, and the products that are scheduled by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks import gpu_kernels as hand
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.default import default_schedule

Array = np.ndarray[Any, Any]
Program = tuple[Any, list[Any]]

SUMS = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "int8": "int32"}
_TOLERANCE = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1, "int8": 0.0, "int32": 0.0}


@dataclass(frozen=True)
class CodeCase:
    """One kernel, or the kernels of one operator.

    `program(target, *size)` gives the schedule and its arguments, the output last; it is compiled
    at `size` and run in simt at `small`, which has the same tiles, against `reference` (None: not
    compared). `product`: whether the arithmetic of its loops is multiplying and adding.
    """

    name: str
    program: Callable[..., Program]
    size: tuple[int, ...]
    small: tuple[int, ...]
    dtype: str
    reference: Callable[..., Array] | None
    product: bool = False

    @property
    def tensor_cores(self) -> bool:
        """Whether tensor cores have products of the type."""
        return self.product and self.dtype != "float32" and "depthwise" not in self.name

    def inputs(self, args: list[Any]) -> list[Array]:
        """Numbers from -1 to 1, small integers for integers."""
        rng = np.random.default_rng(0)
        found = []
        for a in args[:-1]:
            shape = tuple(int(d) for d in a.shape)
            if "int" in a.dtype:
                found.append(rng.integers(-8, 8, shape).astype(a.dtype))
            else:
                found.append((rng.random(shape, np.float32) * 2 - 1).astype(parse(a.dtype).numpy))
        return found

    def check(self, got: Array, inputs: list[Array]) -> None:
        """ValueError where the result is wrong."""
        if self.reference is None:
            return
        wide = [x.astype("int64" if "int" in x.dtype.name else "float64") for x in inputs]
        want = self.reference(*wide)
        off = float(np.max(np.abs(got.astype(np.float64) - want)))
        allowed = _TOLERANCE[self.dtype] * max(1.0, float(np.max(np.abs(want))))
        if not off <= allowed:
            raise ValueError(f"{self.name}: off by {off}, {allowed} is allowed")


def by_default(
    make: Callable[..., Any], dtype: str, *shapes: Callable[..., tuple[int, ...]]
) -> Any:
    """A program: the default schedule of `make` on placeholders of shapes made of the size."""

    def program(target: tw.Target, *size: int) -> Program:
        ins = [te.placeholder(f(*size), dtype, f"in{n}") for n, f in enumerate(shapes)]
        out = make(*ins)
        return default_schedule(out, target), [*ins, out]

    return program


def plain_product(a: Any, b: Any, sums: str) -> Any:
    """The product of two matrices, neither of them turned."""
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute(
        (a.shape[0], b.shape[1]),
        lambda i, j: te.sum(a[i, k].astype(sums) * b[k, j].astype(sums), axis=k),
        name="product",
    )


_Sizes = tuple[tuple[int, ...], tuple[int, ...]]  # of the table, and what simt runs


def _by_hand(make: Callable[..., Program]) -> Any:
    return lambda target, *size: make(*size)


def _products() -> list[CodeCase]:
    found = []
    sizes: list[_Sizes] = [
        ((1024,) * 3, (128, 128, 64)),
        ((1000,) * 3, (136, 128, 40)),
        ((1009, 197, 509), (130, 129, 37)),
    ]
    batches: list[_Sizes] = [
        ((8, 512, 512, 64), (1, 128, 128, 32)),
        ((12, 197, 197, 64), (1, 130, 129, 40)),
    ]
    for dtype, sums in SUMS.items():
        for size, small in sizes:
            label = "x".join(map(str, size))

            def dense(a: Any, b: Any, sums: str = sums) -> Any:
                return topi.nn.dense(a, b, out_dtype=sums)

            program = by_default(dense, dtype, lambda n, m, k: (n, k), lambda n, m, k: (m, k))
            name = f"dense_{label}_{dtype}"
            found.append(
                CodeCase(name, program, size, small, dtype, lambda a, b: a @ b.T, product=True)
            )
        for size, small in batches:
            label = "x".join(map(str, size))

            def batched(a: Any, b: Any, sums: str = sums) -> Any:
                return topi.nn.batch_matmul(a, b, out_dtype=sums)

            program = by_default(
                batched, dtype, lambda b, n, m, k: (b, n, k), lambda b, n, m, k: (b, m, k)
            )
            found.append(
                CodeCase(
                    f"batch_matmul_{label}_{dtype}", program, size, small, dtype,
                    lambda a, b: a @ b.transpose(0, 2, 1), product=True,
                )
            )  # fmt: skip

        def plain(a: Any, b: Any, sums: str = sums) -> Any:
            return plain_product(a, b, sums)

        for size, small in sizes[:2]:
            label = "x".join(map(str, size))
            program = by_default(plain, dtype, lambda n, m, k: (n, k), lambda n, m, k: (k, m))
            name = f"matmul_{label}_{dtype}"
            found.append(CodeCase(name, program, size, small, dtype, lambda a, b: a @ b, True))
    return found


def _convolutions() -> list[CodeCase]:
    found = []
    for dtype, sums in SUMS.items():
        for taps, stride in ((1, 1), (3, 1)):
            for c, f, h in ((64, 128, 56), (67, 131, 29)):
                pad = taps // 2

                def conv(
                    x: Any, w: Any, pad: int = pad, stride: int = stride, sums: str = sums
                ) -> Any:
                    return topi.nn.conv2d_nchw(x, w, stride, pad, 1, sums)

                program = by_default(
                    conv, dtype, lambda c, f, h: (1, c, h, h),
                    lambda c, f, h, taps=taps: (f, c, taps, taps),
                )  # fmt: skip
                name = f"conv{taps}x{taps}_{c}x{f}x{h}_{dtype}"
                small = (8, 64, 14) if h == 56 else (5, 67, 13)
                found.append(
                    CodeCase(
                        name, program, (c, f, h), small, dtype,
                        lambda x, w, pad=pad: convolved(x, w, pad), product=True,
                    )
                )  # fmt: skip
    for dtype in ("float32", "float16"):
        for c, h in ((64, 56), (67, 29)):

            def depthwise(x: Any, w: Any, sums: str = dtype) -> Any:
                return topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1, sums)

            program = by_default(
                depthwise, dtype, lambda c, h: (1, c, h, h), lambda c, h: (c, 1, 3, 3)
            )
            found.append(
                CodeCase(
                    f"depthwise3x3_{c}x{h}_{dtype}", program, (c, h), (c // 16, h),
                    dtype, _depthwise, product=True,
                )
            )  # fmt: skip
    return found


def convolved(x: Array, w: Array, pad: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwyx,fcyx->nfhw", windows, w, optimize=True)


def _depthwise(x: Array, w: Array) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwyx,cyx->nchw", windows, w[:, 0])


def softmax_of(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def layer_norm_of(x: Array, g: Array, b: Array) -> Array:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(var + 1e-5) * g + b)


def _pooled(x: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))[:, :, ::2, ::2]
    return np.asarray(windows.max((-1, -2)))


def _rows(n: int, m: int) -> tuple[int, int]:
    return n, m


def _memory() -> list[CodeCase]:
    """Operators that are bound by memory."""
    operators: list[tuple[str, Callable[..., Any], Callable[..., Array], int]] = [
        ("sum_rows", lambda x: topi.sum(x, 1), lambda x: x.sum(1), 1),
        ("sum_columns", lambda x: topi.sum(x, 0), lambda x: x.sum(0), 1),
        ("max_rows", lambda x: topi.max(x, 1), lambda x: x.max(1), 1),
        ("softmax", lambda x: topi.nn.softmax(x), softmax_of, 1),
        (
            "add_relu",
            lambda x, y: topi.nn.relu(topi.add(x, y)),
            lambda x, y: np.maximum(x + y, 0),
            2,
        ),
        ("transpose", lambda x: topi.transpose(x), lambda x: x.T, 1),
    ]
    found = []
    for dtype in ("float32", "float16"):
        for name, make, reference, count in operators:
            for size, small in (
                ((4096, 1024), (40, 256)),
                ((1009, 1000), (37, 200)),
                ((1009, 197), (37, 197)),
            ):
                program = by_default(make, dtype, *[_rows] * count)
                label = f"{name}_{size[0]}x{size[1]}_{dtype}"
                found.append(CodeCase(label, program, size, small, dtype, reference))
        for size, small in (((4096, 1024), (40, 256)), ((1009, 197), (37, 197))):

            def norm(x: Any, g: Any, b: Any) -> Any:
                return topi.nn.layer_norm(x, g, b, axis=(1,))

            program = by_default(norm, dtype, _rows, lambda n, m: (m,), lambda n, m: (m,))
            label = f"layer_norm_{size[0]}x{size[1]}_{dtype}"
            found.append(CodeCase(label, program, size, small, dtype, layer_norm_of))
        for size, small in (((64, 112), (4, 32)), ((67, 58), (3, 14))):

            def pool(x: Any) -> Any:
                return topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")

            program = by_default(pool, dtype, lambda c, h: (1, c, h, h))
            label = f"max_pool_{size[0]}x{size[1]}_{dtype}"
            found.append(CodeCase(label, program, size, small, dtype, _pooled))
    return found


def _hand() -> list[CodeCase]:
    found = []
    for n in (1024, 1000):
        small = (128, 128, 64) if n == 1024 else (136, 136, 40)
        found.append(
            CodeCase(
                f"hand_matmul_{n}_float32", _by_hand(hand.matmul), (n, n, n), small, "float32",
                lambda a, b: a @ b, product=True,
            )
        )  # fmt: skip
    for dtype, sums in (("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32")):
        for unit in ("wmma", "mma") if dtype != "int8" else ("mma",):

            def make(
                n: int, m: int, k: int, dtype: str = dtype, sums: str = sums, unit: str = unit
            ) -> Program:
                tiles = hand.TensorTiles(
                    (128, 128), (128, 32), 64 if dtype == "int8" else 32,
                    fragment=(16, 16, 32 if dtype == "int8" else 16), unit=unit,
                    packed=dtype == "int8", staged=True,
                )  # fmt: skip
                return hand.tensor_matmul(n, m, k, dtype, sums, tiles)

            found.append(
                CodeCase(
                    f"hand_{unit}_1024_{dtype}", _by_hand(make), (1024,) * 3, (128, 128, 128),
                    dtype, lambda a, b: a @ b, product=True,
                )
            )  # fmt: skip
    tf32 = hand.TensorTiles(
        (128, 128), (128, 32), fragment=(16, 16, 8), unit="mma", packed=True, staged=True
    )

    def in_tf32(n: int, m: int, k: int) -> Program:
        return hand.tensor_matmul(n, m, k, "float32", "float32", tf32)

    found.append(
        CodeCase(
            "hand_mma_1024_tf32", _by_hand(in_tf32), (1024,) * 3, (128, 128, 128), "float16",
            lambda a, b: a @ b, product=True,
        )
    )  # fmt: skip
    return found


CODE_CASES = (*_products(), *_convolutions(), *_memory(), *_hand())
