"""Functions that fill arrays with random numbers, under the names by which TVM's programs and
compiled code call them (`tvm.contrib.random.uniform`, ...). The generator is NumPy's PCG64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_generators: list[np.random.Generator] = []


def _generator() -> np.random.Generator:
    if not _generators:
        _generators.append(np.random.default_rng())
    return _generators[0]


def _write(out: Any, values: Any) -> None:
    out.copyfrom(np.asarray(values).astype(out.numpy().dtype))


def seed(value: int) -> None:
    """Begin the sequence of numbers anew from a seed."""
    _generators[:] = [np.random.default_rng(int(value))]


def randint(low: int, high: int, out: Any) -> None:
    """Fill an array with integers of [low, high)."""
    _write(out, _generator().integers(low, high, out.shape))


def uniform(low: float, high: float, out: Any) -> None:
    """Fill an array with numbers uniform in [low, high)."""
    _write(out, _generator().uniform(low, high, out.shape))


def normal(loc: float, scale: float, out: Any) -> None:
    """Fill an array with numbers of a normal distribution."""
    _write(out, _generator().normal(loc, scale, out.shape))


def random_fill(out: Any) -> None:
    """Fill an array of any type: floats in [1, 10), integers of small magnitude, bits."""
    kind = out.numpy().dtype
    if kind == np.bool_:
        _write(out, _generator().integers(0, 2, out.shape))
    elif kind.kind in "iu":
        _write(out, _generator().integers(0, 100, out.shape))
    else:
        _write(out, _generator().uniform(1.0, 10.0, out.shape))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tvm.contrib.random.seed": seed,
    "tvm.contrib.random.randint": randint,
    "tvm.contrib.random.uniform": uniform,
    "tvm.contrib.random.normal": normal,
    "tvm.contrib.random.random_fill": random_fill,
    "tvm.contrib.random.random_fill_for_measure": random_fill,
}
