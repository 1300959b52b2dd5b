"""What a measurement gives: seconds, or which kind of error stopped it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ..base.errors import TilewrightError


class MeasureErrorNo(IntEnum):
    """How a measurement ended; numbers as in TVM's records."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1  # the schedule does not fit the computation
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4  # it ran and failed, or its process died
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8

    def __repr__(self) -> str:
        """The number: results print as TVM's, whose numbers have no names."""
        return str(self.value)


class Origin(NamedTuple):
    """Who measured: the user and the host of the search, the device that ran the candidate (its
    name in a fleet, else the CPU's or the driver's), the version of tilewright. Empty where it is
    not known."""

    user: str = ""
    host: str = ""
    device: str = ""
    version: str = ""

    def __str__(self) -> str:
        who = f"{self.user}@{self.host}" if self.user else self.host
        return f"{who} on {self.device}" if self.device else who


NOWHERE = Origin()


@dataclass(frozen=True)
class Measurement:
    """One candidate measured.

    `costs`: seconds of a run, one for each repetition; empty after an error. `message`: what went
    wrong. `seconds`: what building and timing took. `timestamp`: when it ended, in seconds since
    1970. `early`: it was clearly slower than the best, so fewer runs had to do. `origin`: who
    measured it.
    """

    costs: tuple[float, ...]
    error_no: MeasureErrorNo = MeasureErrorNo.NO_ERROR
    message: str = ""
    seconds: float = 0.0
    timestamp: float = field(default_factory=time.time)
    early: bool = False
    origin: Origin = NOWHERE

    @property
    def ok(self) -> bool:
        """Whether the candidate ran and was timed."""
        return self.error_no == MeasureErrorNo.NO_ERROR and bool(self.costs)

    @property
    def cost(self) -> float:
        """Seconds of a run: the median of the repetitions, which one that other programs disturbed
        does not shift; infinite after an error."""
        return statistics.median(self.costs) if self.ok else float("inf")

    @property
    def noise(self) -> float:
        """How far the repetitions lie apart, as a share of the cost; 0 after an error."""
        return spread(self.costs) if self.ok else 0.0


def spread(costs: Sequence[float]) -> float:
    """How far repetitions lie apart, as a share of their median."""
    middle = statistics.median(costs) if costs else 0.0
    return (max(costs) - min(costs)) / middle if middle > 0 else 0.0


def not_described(error: Exception, seconds: float) -> Measurement:
    """A candidate of which there is no program: a template or a state raised `error`."""
    text = str(error) if isinstance(error, TilewrightError) else f"{type(error).__name__}: {error}"
    return Measurement((), MeasureErrorNo.INSTANTIATION_ERROR, text, seconds)
