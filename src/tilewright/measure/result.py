"""What a measurement gives: seconds, or which kind of error stopped it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum


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


def undisturbed(costs: Sequence[float]) -> Sequence[float]:
    """The faster half of the repetitions, sorted (of an odd number with the middle one).

    Other programs can only add time, and on few cores they often do: measured beside one that
    keeps a core busy, the median of a two-threaded kernel of 0.12 ms was 1.2 ms.
    """
    return sorted(costs)[: (len(costs) + 1) // 2]


def cost_of(costs: Sequence[float]) -> float:
    """Seconds of a run as repetitions tell it: the median of the faster half."""
    return statistics.median(undisturbed(costs)) if costs else float("inf")


def noise_of(costs: Sequence[float]) -> float:
    """How far the faster half of the repetitions lies apart, as a share of the cost."""
    half = undisturbed(costs)
    return (half[-1] - half[0]) / cost_of(costs) if half and half[0] > 0 else 0.0


@dataclass(frozen=True)
class Measurement:
    """One candidate measured.

    `costs`: seconds of a run, one for each repetition; empty after an error. `message`: what went
    wrong. `seconds`: what building and timing took. `timestamp`: when it ended, in seconds since
    1970. `early`: it was clearly slower than the best, so fewer runs had to do.
    """

    costs: tuple[float, ...]
    error_no: MeasureErrorNo = MeasureErrorNo.NO_ERROR
    message: str = ""
    seconds: float = 0.0
    timestamp: float = field(default_factory=time.time)
    early: bool = False

    @property
    def ok(self) -> bool:
        return self.error_no == MeasureErrorNo.NO_ERROR and bool(self.costs)

    @property
    def cost(self) -> float:
        """Seconds of a run, see `cost_of`; infinite after an error."""
        return cost_of(self.costs) if self.ok else float("inf")

    @property
    def noise(self) -> float:
        """See `noise_of`; 0 after an error."""
        return noise_of(self.costs) if self.ok else 0.0
