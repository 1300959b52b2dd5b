"""What a candidate's results have to be: its tensors evaluated by the interpreter on the same data.

A schedule may lay an argument out anew (layout rewriting): the data are those of the tensors, only
their places in the array that the candidate is given differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..interp.te_bound import te_eval_bound
from ..interp.te_eval import te_eval
from ..loopir.expr import const, const_int
from ..loopir.subst import substitute
from ..tensor import serial
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .program import load_schedule

Array = Any


class Wrong(TilewrightError):
    """A candidate computed something else than its tensors say."""


class Problem:
    """The arguments of a computation, data for them (random, or given in files), and the results
    on these.

    The interpreter works once for all candidates of the computation.
    """

    __slots__ = ("_expected", "args", "data", "inputs", "text")

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.text = text_of(program)
        tensors = serial.load_json(self.text)
        self.args: list[Tensor] = tensors[: int(program.get("reference", program)["args"])]
        rng = np.random.default_rng(0)
        self.data = [random_array(_shape(t), t.dtype, rng) for t in self.args]
        self.inputs: Mapping[str, str] = program.get("inputs", {})
        for place, path in self.inputs.items():
            self.data[int(place)] = np.load(path)
        self._expected: list[tuple[int, Array, Array]] | None = None

    def expected(self) -> list[tuple[int, Array, Array]]:
        """Place among the arguments, values and tolerances of each output."""
        if self._expected is None:
            inputs = [i for i, t in enumerate(self.args) if not t.op.input_tensors]
            outputs = [i for i in range(len(self.args)) if i not in inputs]
            feeds = {self.args[i]: self.data[i] for i in inputs}
            values = te_eval_bound([self.args[i] for i in outputs], feeds)
            self._expected = [(i, np.float64(v), t) for i, (v, t) in zip(outputs, values)]
        return self._expected


def given(program: Mapping[str, Any], problem: Problem) -> list[Array]:
    """The data of the arguments as the candidate takes them, but for their order: what it has
    computed ahead of calls takes the place of what it is computed from."""
    data = list(problem.data)
    for n, made in program.get("reference", {}).get("ahead", {}).items():
        source, end = serial.load_json(made["tensors"])
        data[int(n)] = te_eval(end, {source: data[int(n)]})[0]
    return data


def slack(program: Mapping[str, Any]) -> float:
    """What the candidate's algorithm may add to the error, over the largest output."""
    return float(program.get("reference", {}).get("error", 0.0))


def require_close(name: str, got: Array, expected: Array, tolerance: Array) -> None:
    """Wrong where an output is not within its tolerance."""
    got = np.asarray(got, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        off = np.abs(got - expected)
        bad = ~(off <= tolerance) & ~np.isinf(tolerance) & np.isfinite(expected)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise Wrong(
            f"{name}{list(at)} is {got[at]:.9g}, its tensors say {expected[at]:.9g} "
            f"(tolerance {tolerance[at]:.3g}); {int(bad.sum())} of {bad.size} elements "
            "are wrong"
        )


def text_of(program: Mapping[str, Any]) -> str:
    """The tensors that a candidate has to compute, as text; equal texts are the same
    computation."""
    text = program.get("reference", program).get("tensors")
    if text is None:
        raise TilewrightError(
            "check_correctness needs the computation as data, and a part of this one has no "
            "such form; measure without check_correctness"
        )
    return str(text)


def places(program: Mapping[str, Any]) -> list[Array | None]:
    """For each argument, where in its array each element lies; None where that is as ever."""
    if "reference" in program:
        layouts = program["reference"]["layouts"]
        given = [layouts.get(str(n)) for n in range(int(program["reference"]["args"]))]
        return [None if x is None else _places_in_order(*x) for x in given]
    if "transform_layout" not in program.get("trace", ""):
        return [None] * int(program["args"])
    args, sch = load_schedule(program)
    maps = [sch.find(t).layout for t in args]
    return [None if x is None else _places_by_map(t, x) for t, x in zip(args, maps)]


def _places_in_order(shape: Sequence[int], dims: Sequence[Sequence[int]]) -> Array:
    """Dimensions are split into digits, which make the new dimensions in the order of `dims`, each
    (dimension, extent); ~dimension for one that runs backwards."""
    elements = np.arange(math.prod(shape)).reshape(shape)
    elements = np.flip(elements, tuple({~d for d, _ in dims if d < 0}))
    by_dim = sorted(range(len(dims)), key=lambda n: max(dims[n][0], ~dims[n][0]))
    sizes = [1] * len(shape)
    for d, extent in dims:
        sizes[max(d, ~d)] *= extent
    # digits of a dimension that they do not divide hold more than its elements
    elements = np.pad(elements, [(0, a - b) for a, b in zip(sizes, shape)], constant_values=-1)
    split = elements.reshape([dims[n][1] for n in by_dim])
    order = split.transpose(np.argsort(by_dim)).reshape(-1)
    result = np.empty(math.prod(shape), order.dtype)
    result[order[order >= 0]] = np.flatnonzero(order >= 0)
    return result.reshape(shape)


def _places_by_map(t: Tensor, layout: Any) -> Array:
    def offset(*indices: Any) -> Any:
        table = dict(zip(layout.variables, indices))
        result: Any = const(0, "int32")
        for e, extent in zip(layout.forward, layout.extents):
            result = result * extent + substitute(e, table)
        return result

    return te_eval(compute(t.shape, offset, name="places"), {})


def random_array(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> Array:
    """Floats in [-1, 1); 0 and 1 of other types, since they may be used as indices."""
    kind = parse(dtype)
    values: Any = rng.uniform(-1.0, 1.0, shape) if kind.is_float else rng.integers(0, 2, shape)
    return values.astype(kind.numpy)


def _shape(t: Tensor) -> tuple[int, ...]:
    shape = [const_int(d) for d in t.shape]
    if None in shape:
        raise TilewrightError(
            f"argument {t.op.name} has a shape that is not constant, {t.shape}: measuring needs "
            "constant shapes"
        )
    return tuple(d for d in shape if d is not None)
