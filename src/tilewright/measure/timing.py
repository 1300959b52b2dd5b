"""One candidate run and timed, in the worker: arguments, the early stop, the check of results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..interp.te_bound import te_eval_bound
from ..rt.array import array
from ..rt.device import Device, device
from ..rt.function import Function
from ..rt.module import Module
from ..rt.signature import ArgInfo
from ..tensor import serial
from .protocol import Message

SLOW = 2.5
"""How many times slower than the best a first run has to be for the candidate to be given up."""

_NOISE = 1e-3  # seconds below which a first run says too little
_HOPELESS = 20.0  # not even a second run is needed


class Wrong(TilewrightError):
    """A candidate computed something else than its tensors say."""


class Bench:
    """Runs candidates on random data, which candidates of the same arguments share."""

    __slots__ = ("_arrays", "_references")

    def __init__(self) -> None:
        self._arrays: dict[Any, list[Any]] = {}
        self._references: dict[str, list[tuple[int, Any, Any]]] = {}

    def run(self, module: Module, program: Mapping[str, Any], how: Mapping[str, Any]) -> Message:
        """Costs (seconds a run, one for each repetition) and whether the timing was cut short."""
        function = module.entry_func
        dev = device(module.target.kind.name)
        args = self._arguments(function, dev)
        once = _first_runs(module, function, args, dev, how["best"])
        if how["check"]:
            self._check(function, args, program)
        if once is not None:
            return {"costs": [once], "early": True}
        timer = module.time_evaluator(
            function.name,
            dev,
            number=how["number"],
            repeat=how["repeat"],
            min_repeat_ms=how["min_repeat_ms"],
            cooldown_interval_ms=how["cooldown_ms"],
            cache_flush_bytes=how["flush_bytes"],
        )
        return {"costs": list(timer(*args).results), "early": False}

    def _arguments(self, function: Function, dev: Device) -> list[Any]:
        infos = function.info.args
        key = (str(dev), *((a.kind, a.dtype, a.shape) for a in infos))
        found = self._arrays.get(key)
        if found is None:
            self._arrays.clear()  # one set at a time: they may be large
            rng = np.random.default_rng(0)
            found = self._arrays[key] = [_argument(a, rng, dev) for a in infos]
        return found

    def _check(self, function: Function, args: list[Any], program: Mapping[str, Any]) -> None:
        for place, value, tolerance in self._reference(args, program):
            got = np.asarray(args[place].numpy(), dtype=np.float64)
            off = np.abs(got - value)
            with np.errstate(invalid="ignore"):
                bad = ~(off <= tolerance) & ~np.isinf(tolerance) & np.isfinite(value)
            if bad.any():
                at = tuple(int(i) for i in np.argwhere(bad)[0])
                name = function.info.args[place].name
                raise Wrong(
                    f"{name}{list(at)} is {got[at]:.9g}, its tensors say {value[at]:.9g} "
                    f"(tolerance {tolerance[at]:.3g}); {int(bad.sum())} of {bad.size} elements "
                    "are wrong"
                )

    def _reference(self, args: list[Any], program: Mapping[str, Any]) -> list[tuple[int, Any, Any]]:
        """Place, values and tolerances of each output, by the interpreter of tensors."""
        text = program.get("tensors")
        if text is None:
            raise TilewrightError(
                "check_correctness needs the computation as data, and a part of this one has no "
                "such form; measure without check_correctness"
            )
        found = self._references.get(text)
        if found is None:
            self._references.clear()
            tensors = serial.load_json(text)
            given = tensors[: int(program["args"])]
            inputs = [i for i, t in enumerate(given) if not t.op.input_tensors]
            outputs = [i for i in range(len(given)) if i not in inputs]
            feeds = {given[i]: args[i].numpy() for i in inputs}
            values = te_eval_bound([given[i] for i in outputs], feeds)
            found = [(i, np.float64(v), t) for i, (v, t) in zip(outputs, values)]
            self._references[text] = found
        return found


def _first_runs(
    module: Module, function: Function, args: list[Any], dev: Device, best: float | None
) -> float | None:
    """Run a candidate for the first time; seconds of a run where it is clearly slower than the
    best, else None."""
    first = _timed(function, args, dev)
    if best is None:
        return None
    if dev.kind == "cpu":
        if first <= max(SLOW * best, _NOISE):
            return None
        if first < _HOPELESS * best:  # the first run may have met cold memory
            first = min(first, _timed(function, args, dev))
    else:  # the first launch may have compiled the kernel, and the clock is the device's
        first = module.time_evaluator(function.name, dev, number=1)(*args).median
    return first if first > SLOW * best else None


def _timed(function: Function, args: list[Any], dev: Device) -> float:
    start = time.perf_counter()
    function(*args)
    dev.sync()
    return time.perf_counter() - start


def _argument(info: ArgInfo, rng: np.random.Generator, dev: Device) -> Any:
    if not info.is_array:
        return 1
    if not all(isinstance(d, int) for d in info.shape):
        raise TilewrightError(
            f"argument {info.name} has a shape that is not constant, {info.shape}: measuring needs "
            "constant shapes"
        )
    shape = tuple(int(d) for d in info.shape if isinstance(d, int))
    kind = parse(info.dtype)
    values: Any
    if kind.is_float:
        values = rng.uniform(-1.0, 1.0, shape)
    else:
        values = rng.integers(0, 2, shape)  # small: they may be used as indices
    return array(values.astype(kind.numpy), dev)
