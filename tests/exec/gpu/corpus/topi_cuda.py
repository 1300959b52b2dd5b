"""What the operator library makes for CUDA alone: sorts, scans, scattering, attention in one kernel
and products on tensor cores, as default schedules have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tilewright as tw
from tests.exec.gpu.corpus.tensor_cores import NO_MATRICES, eighths
from tests.exec.gpu.kit import Array, Case, answered
from tilewright import te, tir, topi
from tilewright.topi.nn.attention import PLAIN, Sizes, attention
from tilewright.topi.schedules.decisions import Value

MADE_FOR_CUDA = "OpenCL has a schedule of its own for it"
Build = Callable[[], tuple[Any, list[Any]]]


def of_library(
    make: Callable[..., Any],
    *shapes: tuple[int, ...],
    dtypes: tuple[str, ...] = ("float32",),
    arch: str = "sm_75",
    answers: Mapping[str, Value] | None = None,
) -> Build:
    """The default schedule of an operator for an architecture, some of whose questions may be
    answered; the last type is that of the inputs that follow too."""

    def build() -> tuple[Any, list[Any]]:
        kinds = [*dtypes, *[dtypes[-1]] * (len(shapes) - len(dtypes))]
        ins = [
            te.placeholder(shape, t, f"in{n}") for n, (shape, t) in enumerate(zip(shapes, kinds))
        ]
        target = tw.Target(f"cuda -arch={arch}")
        with target:
            out = make(*ins)
            s, _ = answered(out, target, answers or {})
        return s, [*ins, out]

    return build


def few(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Few numbers, many of which are equal, and whose sums are exact."""
    return rng.integers(-9, 10, shape)


# -- sorts, sums up to each, scattering


def argsort(x: Any) -> Any:
    return topi.argsort(x, axis=-1, dtype="int32")


def largest(x: Any) -> Any:
    return topi.topk(x, 5, -1, "indices", False, "int32")


def cumsum(x: Any) -> Any:
    return topi.cumsum(x, 1)


def scatter_add(data: Any, places: Any, updates: Any) -> Any:
    return topi.scatter_elements(data, places, updates, 1, "add")


def places(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 20, shape)


def sorted_places(x: Array) -> Array:
    return np.argsort(x, -1, kind="stable").astype(np.int32)


def largest_places(x: Array) -> Array:
    return np.argsort(-x, -1, kind="stable")[..., :5].astype(np.int32)


def sums(x: Array) -> Array:
    return x.cumsum(1)


def scattered(data: Array, at: Array, updates: Array) -> Array:
    out = data.copy()
    np.add.at(out, (np.arange(len(data))[:, None], at), updates)
    return out


# -- attention, products


def attend(
    name: str, shape: tuple[int, int, int], dtype: str, arch: str, causal: bool = False
) -> Case:
    """softmax(Q K^T / 8) V of rows, keys and numbers of each; `causal`: each row has the keys up to
    its own place."""
    n, keys, size = shape
    window = (1 - n, 1) if causal else None

    def make(q: Any, k: Any, v: Any) -> Any:
        return attention(
            Sizes((1,), (1, n), keys, size, size, window, causal),
            lambda outer, i, d: q(*outer, i, d),
            lambda outer, t, d: k(*outer, t, d),
            lambda outer, t, e: v(*outer, t, e),
            dtype,
            lambda x: topi.multiply(x, tir.const(1 / 8, "float32")),
            PLAIN,
            [0, 1, 2, 3],
        )

    def expected(q: Array, k: Array, v: Array) -> Array:
        wide = q.astype(np.float64)[0] @ k.astype(np.float64).transpose(0, 2, 1) / 8
        if causal:
            wide = np.where(np.tri(n, keys, dtype=bool), wide, -np.inf)
        powers = np.exp(wide - wide.max(-1, keepdims=True))
        out: Array = powers @ v.astype(np.float64) / powers.sum(-1, keepdims=True)
        return out[None]

    build = of_library(
        make, (1, 1, n, size), (1, keys, size), (1, keys, size), dtypes=(dtype,), arch=arch
    )
    within = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}[dtype]
    return Case(name, build, expected=expected, within=within, opencl=NO_MATRICES, arch=arch)


def wide_dense(a: Any, b: Any) -> Any:
    return topi.nn.dense(a, b, out_dtype="float32")


def wide_matmul(a: Any, b: Any) -> Any:
    return topi.nn.matmul(a, b, out_dtype="float32")


def wide_conv(x: Any, f: Any) -> Any:
    return topi.nn.conv2d_nhwc(x, f, 1, 1, 1, "float32")


def product(
    name: str,
    make: Any,
    *shapes: tuple[int, ...],
    arch: str,
    dtype: str = "float16",
    answers: Mapping[str, Value] | None = None,
    processors: int = 0,
) -> Case:
    """`processors`: so many multiprocessors, for the schedule alone."""
    planned = f"{arch} -multi_processor_count={processors}" if processors else arch
    build = of_library(make, *shapes, dtypes=(dtype,), arch=planned, answers=answers)
    draw = {"in0": eighths, "in1": eighths}
    return Case(name, build, draw=draw, opencl=NO_MATRICES, arch=arch)


def lines(name: str, make: Any, shape: tuple[int, int], expected: Callable[..., Any]) -> Case:
    return Case(
        name,
        of_library(make, shape),
        draw={"in0": few},
        expected=expected,
        opencl=MADE_FOR_CUDA,
    )


CASES = [
    lines("sort", argsort, (3, 70), sorted_places),
    lines("sort_long", argsort, (1, 2500), sorted_places),
    lines("largest", largest, (2, 2500), largest_places),
    lines("sums", cumsum, (2, 300), sums),
    lines("sums_long", cumsum, (1, 9001), sums),
    Case(
        "scatter",
        of_library(scatter_add, (3, 20), (3, 40), (3, 40), dtypes=("float32", "int32", "float32")),
        draw={"in0": few, "in1": places, "in2": few},
        expected=scattered,
        opencl=MADE_FOR_CUDA,
    ),
    Case(
        "layer_norm",
        of_library(lambda x, a, b: topi.nn.layer_norm(x, a, b, [-1]), (5, 1000), (1000,), (1000,)),
        opencl=MADE_FOR_CUDA,
    ),
    attend("attend_half", (33, 67, 40), "float16", "sm_80"),
    attend("attend_half_older", (33, 67, 40), "float16", "sm_75"),
    attend("attend_float", (17, 67, 24), "float32", "sm_80"),
    attend("attend_causal", (65, 65, 64), "bfloat16", "sm_80", True),
    attend("attend_parts", (1, 1000, 64), "float16", "sm_80"),
    attend("attend_hopper", (70, 450, 40), "float16", "sm_90a"),
    attend("attend_hopper_causal", (200, 200, 64), "bfloat16", "sm_90a", True),
    product("dense_pipeline", wide_dense, (40, 128), (72, 128), arch="sm_80"),
    product("matmul_odd_columns", wide_matmul, (40, 70), (70, 33), arch="sm_75"),
    product("matmul_parts", wide_matmul, (16, 1024), (1024, 24), arch="sm_80"),
    product("dense_hopper", wide_dense, (130, 128), (96, 128), arch="sm_90a"),
    product("matmul_hopper", wide_matmul, (128, 192), (192, 64), arch="sm_90a", dtype="bfloat16"),
    product(
        "dense_cluster_below",
        wide_dense,
        (72, 320),
        (72, 320),
        arch="sm_90a",
        answers={"tile": (64, 64), "cluster": (2, 1), "stages": (2,)},
    ),
    product(
        "matmul_cluster_beside",
        wide_matmul,
        (72, 264),
        (264, 72),
        arch="sm_90a",
        dtype="bfloat16",
        answers={"tile": (64, 64), "cluster": (1, 2), "stages": (2,)},
    ),
    product(
        "dense_cluster_joined",
        wide_dense,
        (72, 640),
        (120, 640),
        arch="sm_90a",
        answers={"tile": (64, 64), "parts": (1,), "cluster": (1, 1, 2), "stages": (2,)},
    ),
    product(
        "dense_stays",
        wide_dense,
        (200, 128),  # as many steps as stages: nobody waits for those that store
        (72, 128),
        arch="sm_90a",
        processors=3,
        answers={"tile": (64, 64), "cluster": (1, 1), "persistent": (1,), "stages": (2,)},
    ),
    product(
        "dense_stream",
        wide_dense,
        (136, 264),
        (72, 264),
        arch="sm_90a",
        processors=4,
        answers={"tile": (64, 64), "cluster": (1, 2), "persistent": (2,), "stages": (2,)},
    ),
    product("conv_hopper", wide_conv, (1, 8, 8, 16), (3, 3, 16, 32), arch="sm_90a"),
]
