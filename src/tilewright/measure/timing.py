"""One candidate run and timed, in the worker: arguments, the early stop, the check of results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..rt.array import array
from ..rt.device import Device, device
from ..rt.function import Function
from ..rt.module import Module
from ..rt.signature import ArgInfo
from ..rt.timing import PIECE, SHORT, stopwatch
from .cold import ColdConstants, network_clock
from .protocol import Message
from .reference import (
    Problem,
    Wrong,
    given,
    places,
    random_array,
    require_close,
    slack,
    text_of,
)
from .repeats import Best, repetitions

SLOW = 2.5
"""How many times slower than the best a first run has to be for the candidate to be given up."""

_NOISE = 1e-3  # seconds below which a first run says too little
_HOPELESS = 20.0  # so many times slower, a candidate is given up without further runs
_TRIES = 2
_CHEAP = 5e-3  # seconds within which runs are repeated all the same


class Bench:
    """Runs candidates on random data, which candidates of the same arguments share."""

    __slots__ = ("_arrays", "_cold", "_problem")

    def __init__(self) -> None:
        self._cold = ColdConstants()
        self._arrays: dict[Any, list[Any]] = {}
        self._problem: Problem | None = None

    def run(self, module: Module, program: Mapping[str, Any], how: Mapping[str, Any]) -> Message:
        """Costs (seconds a run, one for each repetition) and whether the timing was cut short."""
        function = module.entry_func
        dev = device(module.target.kind.name, int(how.get("device", 0)))
        best = None if how["best"] is None else Best(*how["best"])
        where: list[Any] = []
        if how["check"]:
            problem, where = self._problem_of(program), places(program)
            args = _placed(given(program, problem), function, where, dev)
        else:
            args = self._arguments(function, dev, program.get("inputs", {}))
        once = _first_runs(module, function, args, dev, best)
        if how["check"]:
            _check(self._problem_of(program), function, where, args, slack(program))
        if once is not None:
            return {"costs": [once], "early": True}
        if not how.get("adaptive"):
            return {"costs": _fixed(module, function, args, dev, how), "early": False}
        budget = how["repeat"] * how["min_repeat_ms"] * 1e-3
        flush, rest = how["flush_bytes"], how["cooldown_ms"] * 1e-3
        constants = program.get("constants") if dev.kind == "cpu" and not flush else None
        if constants is not None:
            written = [n for n, a in enumerate(function.info.args) if a.is_array]
            written = [n for n in reversed(written) if n not in constants]
            clock = network_clock(function, self._cold.copies(args, constants), written)
            costs, slow = repetitions(clock, budget, best, False, rest)
        else:
            with stopwatch(function, args, flush) as seconds:
                costs, slow = repetitions(seconds, budget, best, flush > 0, rest)
        return {"costs": costs, "early": slow}

    def _arguments(self, function: Function, dev: Device, given: Mapping[str, str]) -> list[Any]:
        """Random data, but for those `given`: files of NumPy by place."""
        infos = function.info.args
        key = (str(dev), *given.items(), *((a.kind, a.dtype, a.shape) for a in infos))
        found = self._arrays.get(key)
        if found is None:
            self._arrays.clear()  # one set at a time: they may be large
            rng = np.random.default_rng(0)
            found = [_argument(a, rng, dev) for a in infos]
            for place, path in given.items():
                found[int(place)] = array(np.load(path), dev)
            self._arrays[key] = found
        return found

    def _problem_of(self, program: Mapping[str, Any]) -> Problem:
        known = self._problem
        inputs = program.get("inputs", {})
        if known is None or known.inputs != inputs or known.text != text_of(program):
            known = self._problem = Problem(program)
        return known


def _fixed(
    module: Module, function: Function, args: list[Any], dev: Device, how: Mapping[str, Any]
) -> list[float]:
    """As many repetitions as were asked for, and a rest after them."""
    timer = module.time_evaluator(
        function.name,
        dev,
        number=how["number"],
        repeat=how["repeat"],
        min_repeat_ms=how["min_repeat_ms"],
        cache_flush_bytes=how["flush_bytes"],
    )
    results = list(timer(*args).results)
    time.sleep(how["cooldown_ms"] * 1e-3)
    return results


def _placed(arrays: list[Any], function: Function, where: list[Any], dev: Device) -> list[Any]:
    """The data of a computation in arrays such as the candidate expects."""
    args = []
    for info, data, place in zip(function.info.args, arrays, where):
        if place is not None:
            laid = np.zeros(_constant_shape(info), data.dtype)
            laid.reshape(-1)[place] = data
            data = laid
        args.append(array(data, dev))
    return args


def _check(
    problem: Problem, function: Function, where: list[Any], args: list[Any], error: float
) -> None:
    for place, value, tolerance in problem.expected():
        tolerance = tolerance + error * np.max(np.abs(value), initial=0.0)
        got = args[place].numpy()
        if where[place] is not None:
            got = got.reshape(-1)[where[place]]
        require_close(function.info.args[place].name, got, value, tolerance)


def _first_runs(
    module: Module, function: Function, args: list[Any], dev: Device, best: Best | None
) -> float | None:
    """Run a candidate for the first time; seconds of a run where it is clearly slower than the
    best, else None. What a first call has to load, which in a new process is the runtime and may
    take longer than thousands of runs, is loaded before."""
    run = function.prepare(*args)
    first = _timed(run, dev)
    if best is None:
        return None
    limit = SLOW * best.cost
    if dev.kind == "cpu":
        if first <= max(limit, _NOISE):
            return None
        # the first run may have met cold memory, others another program's time slice, which is far
        # longer than a short kernel
        spent, tries = first, 0
        while first > limit and (
            spent < _CHEAP or (tries < _TRIES and first < _HOPELESS * best.cost)
        ):
            again = _timed(run, dev)
            spent, tries, first = spent + again, tries + 1, min(first, again)
    else:  # the first launch may have compiled the kernel, and the clock is the device's
        for number in (1, PIECE):
            first = module.time_evaluator(function.name, dev, number=number)(*args).median
            if first <= limit or first > SHORT:
                break
    return first if first > limit else None


def _timed(run: Callable[[], None], dev: Device) -> float:
    start = time.perf_counter()
    run()
    dev.sync()
    return time.perf_counter() - start


def _constant_shape(info: ArgInfo) -> tuple[int, ...]:
    if not all(isinstance(d, int) for d in info.shape):
        raise TilewrightError(
            f"argument {info.name} has a shape that is not constant, {info.shape}: measuring needs "
            "constant shapes"
        )
    return tuple(int(d) for d in info.shape if isinstance(d, int))


def _argument(info: ArgInfo, rng: np.random.Generator, dev: Device) -> Any:
    if not info.is_array:
        return 1
    return array(random_array(_constant_shape(info), info.dtype, rng), dev)


__all__ = ["SLOW", "Bench", "Wrong"]
