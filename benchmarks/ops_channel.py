"""Competitors in processes of their own: requests and replies, checks, and timing loops.

A competitor's process runs `serve_cases`; the one that compares them holds a `Competitor` for each.
Only one is asked at a time, and the others sleep meanwhile. Messages are those of
tilewright.measure.protocol, on the descriptors that were standard input and output.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ops_reference import Array
from benchmarks.ops_suite import Case, cases_of
from tilewright.measure import protocol

REPETITION_S = 0.02
# In a turn: caches, clocks and threads come back before anything counts.
WARM_S = 0.03
CHOICE_S = 0.12
# Ways of a group that take part: so many of the fastest, within so much of the fastest.
KEPT, KEPT_WITHIN = 2, 1.25

Call = Callable[[], Any]
# A way to compute a case: its call, and its result in the case's own layout.
Way = tuple[Call, Callable[[], Array]]
# What makes ways; one that raises an exception is left out, with the reason in the reply.
Prepare = Callable[[Case, list[Array]], dict[str, Callable[[], Way]]]


class Failure(Exception):
    """A competitor cannot do what it was asked; the text says why."""


def repetitions(call: Call, seconds: float) -> list[float]:
    """Seconds of a call, each number the mean over at least REPETITION_S; at least three, or one
    of a call that takes that long by itself."""
    number, end = 1, time.perf_counter() + WARM_S
    while True:
        spent = _run(call, number)
        if spent >= REPETITION_S and time.perf_counter() >= end:
            break
        if spent < REPETITION_S:
            number = max(number + 1, min(8 * number, int(1.1 * number * REPETITION_S / spent)))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < (3 if number > 1 else 1) or time.perf_counter() < end:
        times.append(_run(call, number) / number)
    return times


def _run(call: Call, number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return time.perf_counter() - start


class _Server:
    """What a competitor's process holds: the case at hand and the ways that compute it."""

    def __init__(self, prepare: Prepare) -> None:
        self.prepare = prepare
        self.suites: dict[tuple[str, int], dict[str, Case]] = {}
        self.ways: dict[str, Way] = {}
        self.groups: dict[str, list[str]] = {}

    def case(self, request: protocol.Message) -> Case:
        key = (str(request["set"]), int(request["batch"]))
        if key not in self.suites:
            self.suites[key] = {c.name: c for c in cases_of(*key)}
        return self.suites[key][request["case"]]

    def load(self, request: protocol.Message) -> protocol.Message:
        """Prepare a case and check every way; of those of one group the fastest are kept.

        A group is the part of a way's name before a colon.
        """
        self.drop(request)
        case = self.case(request)
        wanted = np.load(request["reference"])
        failed: dict[str, str] = {}
        errors: dict[str, float] = {}
        makers = self.prepare(case, case.inputs())
        for name, make in makers.items():
            try:
                way = make()
                errors[name] = _check(case, way, wanted)
                self.ways[name] = way
            except Exception as error:
                failed[name] = _describe(error)
        if makers and not self.ways:
            raise Failure("\n".join(f"{name}: {why}" for name, why in failed.items()))
        for name in self.ways:
            self.groups.setdefault(_group(name), []).append(name)
        trials = self._try()
        for names in self.groups.values():
            names.sort(key=lambda name: trials.get(name, 0.0))
            least = KEPT_WITHIN * trials.get(names[0], 0.0)
            names[:] = [name for name in names[:KEPT] if trials.get(name, 0.0) <= least]
        self.ways = {name: self.ways[name] for names in self.groups.values() for name in names}
        return {"groups": self.groups, "errors": errors, "tried_s": trials, "failed": failed}

    def _try(self) -> dict[str, float]:
        """The smallest time of each way that has others beside it, in two short turns."""
        trials: dict[str, float] = {}
        for _ in range(2):
            for names in self.groups.values():
                for name in names if len(names) > 1 else ():
                    took = min(repetitions(self.ways[name][0], CHOICE_S))
                    trials[name] = min(took, trials.get(name, took))
        return trials

    def time(self, request: protocol.Message) -> protocol.Message:
        """Times of each way of a group, which share the seconds."""
        names = self.groups[request["group"]]
        seconds = request["seconds"] / len(names)
        return {"times": {name: repetitions(self.ways[name][0], seconds) for name in names}}

    def drop(self, _request: protocol.Message) -> protocol.Message:
        """Forget the case and its arrays."""
        self.ways, self.groups = {}, {}
        return {}


def serve(**actions: Callable[[protocol.Message], protocol.Message]) -> None:
    """Answer requests by name until the other side closes. What prints goes to standard error."""
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    while (request := protocol.read(incoming)) is not None:
        try:
            reply = actions[request["op"]](request)
        except Exception as error:
            reply = {"error": _describe(error)}
        protocol.write(outgoing, reply)


def serve_cases(prepare: Prepare) -> None:
    """Answer the requests load, time and drop."""
    server = _Server(prepare)
    serve(load=server.load, time=server.time, drop=server.drop)


def _group(name: str) -> str:
    return name.partition(":")[0]


def _check(case: Case, way: Way, wanted: Array) -> float:
    call, result = way
    call()
    error = case.error(result(), wanted)
    if not error <= case.tolerance:
        raise Failure(f"the result is off by {error:.1e} of the largest")
    return error


def _describe(error: Exception) -> str:
    if isinstance(error, Failure):
        return str(error)
    return "".join(traceback.format_exception(error)[-3:]).strip()


class Competitor:
    """One competitor's process, as the comparison sees it. `name`: what the table calls it.

    It is started when first asked, and again when it has died.
    """

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self._command = [sys.executable, *command]
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, op: str, **more: Any) -> protocol.Message:
        """The reply to a request; Failure with the other side's reason where there is none."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        reply = None
        with contextlib.suppress(BrokenPipeError):
            protocol.write(self._process.stdin.fileno(), {"op": op, **more})
            reply = protocol.read(self._process.stdout.fileno())
        if reply is None:
            raise Failure(f"{self.name}: its process ended with status {self.close()}")
        if "error" in reply:
            raise Failure(f"{self.name}: {reply['error']}")
        return reply

    def close(self) -> int:
        """Let the process end; its status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        return process.wait()
