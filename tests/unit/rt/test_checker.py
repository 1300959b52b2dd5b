"""The generated check and the explanation of errors agree on which arguments are right."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.unit.rt.kernels import array, info_of, scalar
from tilewright.base.errors import ArgumentError, InternalError
from tilewright.rt.array import NDArray, from_dlpack
from tilewright.rt.checker import make_checker
from tilewright.rt.diagnose import explain
from tilewright.rt.signature import FunctionInfo, dim_value

NAMES = ("n", "m", "k")


def random_dim(rng: random.Random) -> Any:
    choice = rng.random()
    if choice < 0.35:
        return rng.choice((0, 1, 2, 3))
    if choice < 0.85:
        return rng.choice(NAMES)
    return [rng.choice(("add", "mul", "max", "min", "sub")), rng.choice(NAMES), rng.choice((1, 2))]


def random_info(rng: random.Random) -> FunctionInfo:
    args = []
    for i in range(rng.randint(1, 3)):
        shape = [random_dim(rng) for _ in range(rng.randint(0, 3))]
        strides = None
        if rng.random() < 0.4:
            strides = [rng.choice((1, 2, f"s{i}", f"s{i}{j}")) for j in range(len(shape))]
        kind = rng.choice(("float32", "int8"))
        args.append(
            array(
                f"A{i}",
                kind,
                shape,
                strides=strides,
                is_output=rng.random() < 0.4,
                align=rng.choice((0, 16)),
            )
        )
    # every symbol that an expression uses stands alone somewhere, as the driver sees to
    args.append(array("last", "float32", list(NAMES)))
    if rng.random() < 0.3:
        args.append(scalar("x", "int8"))
    return info_of("f", args)


def random_array(rng: random.Random, shape: tuple[int, ...], dtype: str, memory: np.ndarray) -> Any:
    """An array over a part of `memory`, sometimes strided, shifted, read-only or of other type."""
    kind = np.dtype(dtype if rng.random() < 0.95 else "uint16")
    start = rng.choice((0, 0, 1024, 2048, 3072, 4096)) + rng.choice((0, 0, 0, 4, 16, 1))
    steps = []
    step = kind.itemsize
    for extent in reversed(shape):
        gap = rng.choice((1, 1, 1, 1, 2))
        steps.append(step * gap * rng.choice((1, 1, 1, 1, 1, 1, -1)))
        step *= max(extent, 1) * gap
    start += sum(-s * (n - 1) for s, n in zip(reversed(steps), shape) if s < 0 and n)
    out = np.ndarray(shape, kind, memory.data, start, tuple(reversed(steps)))
    if rng.random() < 0.05:
        out.flags.writeable = False
    if rng.random() < 0.5:
        return out
    return from_dlpack(out) if rng.random() < 0.5 and out.flags.writeable else NDArray(out)


def random_args(rng: random.Random, info: FunctionInfo, memory: np.ndarray) -> list[Any]:
    symbols = {name: rng.choice((0, 1, 2, 3)) for name in NAMES}
    args: list[Any] = []
    for want in info.args:
        if not want.is_array:
            args.append(rng.choice((3, 3, 300)))
            continue
        shape = [max(dim_value(d, symbols), 0) for d in want.shape]
        if shape and rng.random() < 0.1:
            shape[rng.randrange(len(shape))] += 1
        if rng.random() < 0.03:
            shape.append(1)
        args.append(random_array(rng, tuple(shape), want.dtype, memory))
    return args


@pytest.mark.parametrize("seed", range(8))
def test_check_and_explanation_agree(seed):
    rng = random.Random(seed)
    memory = np.zeros(64 << 10, np.uint8)
    memory = memory[-memory.__array_interface__["data"][0] % 64 :]
    accepted = refused = 0
    for _ in range(150):
        info = random_info(rng)
        check = make_checker(info)
        for _ in range(4):
            args = random_args(rng, info, memory)
            error = explain(info, args)
            try:
                check(*args)
            except ArgumentError as raised:
                assert str(raised) == str(error)
                refused += 1
            else:
                assert isinstance(error, InternalError), f"{info}\n{args}\n{error}"
                accepted += 1
    assert accepted > 50
    assert refused > 50
