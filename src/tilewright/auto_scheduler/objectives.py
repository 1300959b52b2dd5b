"""What tuning several networks is to make small, by name: table 2 of Ansor (OSDI 2020).

The latency L_j of a network is the sum of its tasks' seconds, each as often as it appears in it.

    sum             L_1 + ... + L_m
    requirement     max(L_1, R_1) + ... + max(L_m, R_m): below R_j nothing is gained
    geomean         -((B_1 / L_1) * ... * (B_m / L_m)) ^ (1 / m), B_j the latency to compare with
    early-stopping  the sum, of the tasks that still get better
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import ClassVar

from ..base.errors import UsageError
from .slope import UNKNOWN_COST

# Seconds of every network, or of each by its name.
Seconds = float | Mapping[str, float]


class NetworkObjective(ABC):
    """An `objective_func` of `TaskScheduler` that knows its networks, its slopes and its end.

    `counts`: a row for each network, how often each task appears in it. `names`: of the networks.
    `stop_after`: a task gets nothing more after so many measurements without a better one.
    """

    name: ClassVar[str]
    stop_after: int | None = None

    def __init__(
        self, counts: Sequence[Sequence[float]], names: Sequence[str] | None = None
    ) -> None:
        self.counts = tuple(tuple(float(n) for n in row) for row in counts)
        if not self.counts or not self.counts[0]:
            raise UsageError(f"the objective {self.name!r} needs a network with a task at least")
        if len({len(row) for row in self.counts}) > 1:
            lengths = ", ".join(str(len(row)) for row in self.counts)
            raise UsageError(
                "counts have one number for each task in each network's row; the rows have "
                f"{lengths} numbers"
            )
        if not all(0 <= n < math.inf for row in self.counts for n in row):
            raise UsageError("counts say how often a task appears: they are finite and at least 0")
        self.names = tuple(names) if names is not None else _default_names(len(self.counts))
        if len(self.names) != len(self.counts):
            raise UsageError(f"{len(self.names)} names were given for {len(self.counts)} networks")

    def latencies(self, costs: Sequence[float]) -> list[float]:
        """L_j of each network, in seconds."""
        return [sum(n * c for n, c in zip(row, costs) if n) for row in self.counts]

    def known(self, costs: Sequence[float]) -> bool:
        """Whether every task that a network has was measured."""
        return all(_measured(row, costs) for row in self.counts)

    @abstractmethod
    def __call__(self, costs: Sequence[float]) -> float:
        """The objective, of the tasks' seconds."""

    @abstractmethod
    def pulls(self, costs: Sequence[float]) -> list[float]:
        """df/dL_j of each network, towards lower latencies: 0 where it gains nothing. `costs`: in
        seconds."""

    def slopes(self, costs: Sequence[float]) -> list[float]:
        """df/dg_i of each task, towards lower costs."""
        pulls = self.pulls(costs)
        return [
            sum(pull * row[i] for pull, row in zip(pulls, self.counts)) for i in range(len(costs))
        ]

    def satisfied(self, costs: Sequence[float]) -> str:
        """Why no search can lower the objective, "" where one may. `costs`: in seconds."""
        return ""

    def text(self, costs: Sequence[float]) -> str:
        """The objective for people, on one line. `costs`: in seconds."""
        return f"Estimated total latency: {_ms(sum(self.latencies(costs)), self.known(costs))}"


class LatencySum(NetworkObjective):
    """The sum of the networks' latencies. Raises UsageError where counts are missing, of several
    lengths, below 0 or infinite, or not as many as names."""

    name = "sum"

    def __call__(self, costs: Sequence[float]) -> float:
        return sum(self.latencies(costs))

    def pulls(self, costs: Sequence[float]) -> list[float]:
        return [1.0] * len(self.counts)


class EarlyStopping(LatencySum):
    """The sum of the networks' latencies; a task that did not get better in `stop_after`
    measurements keeps what it has. Once all have stopped, the search ends. Raises UsageError where
    stop_after is no whole number of 1 or more."""

    name = "early-stopping"

    def __init__(
        self,
        counts: Sequence[Sequence[float]],
        stop_after: int,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(counts, names)
        if isinstance(stop_after, bool) or not isinstance(stop_after, int) or stop_after < 1:
            raise UsageError(
                f"stop_after is a whole number of measurements, at least 1, got {stop_after!r}"
            )
        self.stop_after = stop_after


class _WithSeconds(NetworkObjective):
    """With seconds for each network, which are called `what`."""

    what: str

    def __init__(
        self,
        counts: Sequence[Sequence[float]],
        seconds: Sequence[float],
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(counts, names)
        self.seconds = _checked(self.what, seconds, self.names)


class LatencyRequirement(_WithSeconds):
    """The sum of latencies, where one below its requirement counts as the requirement.

    `seconds`: a requirement for each network. Once all are met, the search ends. Raises UsageError
    where the values are not one for each network, or not finite and above 0.
    """

    name = what = "requirement"

    def __call__(self, costs: Sequence[float]) -> float:
        return sum(map(max, self.latencies(costs), self.seconds))

    def pulls(self, costs: Sequence[float]) -> list[float]:
        found = zip(self.latencies(costs), self.seconds)
        return [1.0 if latency > wanted else 0.0 for latency, wanted in found]

    def satisfied(self, costs: Sequence[float]) -> str:
        if not self.known(costs) or any(self.pulls(costs)):
            return ""
        return "every network is as fast as required: " + "; ".join(self._lines(costs))

    def text(self, costs: Sequence[float]) -> str:
        return "Estimated latency: " + "; ".join(self._lines(costs))

    def _lines(self, costs: Sequence[float]) -> list[str]:
        rows = zip(self.names, self.counts, self.latencies(costs), self.seconds)
        return [
            f"{name} {_ms(found, _measured(row, costs))} of {_ms(wanted)} required"
            for name, row, found, wanted in rows
        ]


class GeomeanSpeedup(_WithSeconds):
    """Minus the geometric mean of speed-ups: a network counts by its share, not by its seconds.

    `seconds`: a latency for each network to compare with. Raises UsageError where the values are
    not one for each network, or not finite and above 0.
    """

    name = "geomean"
    what = "reference"

    def __call__(self, costs: Sequence[float]) -> float:
        return -self._mean(self.latencies(costs))

    def pulls(self, costs: Sequence[float]) -> list[float]:
        # Tasks that never ran are left out: with their 1e10 s no other one of their network counts.
        found = self.latencies([c if c < UNKNOWN_COST else 0.0 for c in costs])
        mean = self._mean(found)
        return [mean / (len(found) * latency) if latency > 0 else 1.0 for latency in found]

    def text(self, costs: Sequence[float]) -> str:
        mean = f"{-self(costs):.3f}" if self.known(costs) else "-"
        return f"Geometric mean of speed-ups: {mean}"

    def _mean(self, latencies: Sequence[float]) -> float:
        logs = [math.log(b / x) for b, x in zip(self.seconds, latencies) if x > 0]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0


OBJECTIVES = ("sum", "requirement", "geomean", "early-stopping")


def objective_of(
    name: str,
    counts: Mapping[str, Sequence[float]],
    *,
    requirement: Seconds | None = None,
    reference: Seconds | None = None,
    stop_after: int | None = None,
) -> NetworkObjective:
    """The objective of that name. `counts`: by network, how often each task appears in it.

    `requirement`, of "requirement", and `reference`, of "geomean": seconds of every network, or of
    each by its name. `stop_after`, of "early-stopping": measurements. UsageError where one lacks,
    or is given to an objective that does not have it.
    """
    if name not in OBJECTIVES:
        near = get_close_matches(str(name), OBJECTIVES)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UsageError(f"there is no objective {name!r}{hint}; there are {', '.join(OBJECTIVES)}")
    for key, value, owner in (
        ("requirement", requirement, "requirement"),
        ("reference", reference, "geomean"),
        ("stop_after", stop_after, "early-stopping"),
    ):
        if value is not None and name != owner:
            raise UsageError(
                f"the objective {name!r} has no {key}; that is of objective={owner!r}, or "
                f"--objective {owner}"
            )
    rows, names = list(counts.values()), list(counts)
    if name == "requirement":
        return LatencyRequirement(rows, _by_network("requirement", requirement, names), names)
    if name == "geomean":
        return GeomeanSpeedup(rows, _by_network("reference", reference, names), names)
    if name == "early-stopping":
        if stop_after is None:
            raise UsageError(
                "the objective 'early-stopping' needs to know after how many measurements without "
                "a better one a task is done: stop_after=128, or --stop-after 128"
            )
        return EarlyStopping(rows, stop_after, names)
    return LatencySum(rows, names)


def _by_network(key: str, given: Seconds | None, names: Sequence[str]) -> list[float]:
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        return [given] * len(names)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(f"{key}: there is no network {unknown[0]!r}; there are {', '.join(names)}")
    missing = [name for name in names if name not in given]
    if missing:
        owner = "requirement" if key == "requirement" else "geomean"
        some = missing[0]
        raise UsageError(
            f"the objective {owner!r} needs a {key} in seconds for each network, and {some} has "
            f"none: {key}={{{some!r}: 0.005}}, or --{key} {some}=0.005"
        )
    return [given[name] for name in names]


def _checked(key: str, seconds: Sequence[float], names: Sequence[str]) -> tuple[float, ...]:
    if len(seconds) != len(names):
        raise UsageError(f"a {key} for each network: got {len(seconds)} for {len(names)} networks")
    for name, value in zip(names, seconds):
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise UsageError(
                f"the {key} of {name} is in seconds, above 0 and finite, got {value!r}"
            )
    return tuple(float(s) for s in seconds)


def _default_names(count: int) -> tuple[str, ...]:
    return ("network",) if count == 1 else tuple(f"network {j}" for j in range(count))


def _measured(row: Sequence[float], costs: Sequence[float]) -> bool:
    return all(c < UNKNOWN_COST for n, c in zip(row, costs) if n)


def _ms(seconds: float, known: bool = True) -> str:
    return f"{1e3 * seconds:.3f} ms" if known else "-"
