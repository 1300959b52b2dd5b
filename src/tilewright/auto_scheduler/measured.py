"""What is measured, what came of it, and who is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..measure.result import NOWHERE, MeasureErrorNo, Measurement, Origin, spread

_MESSAGE = 2000


class Seconds(float):
    """Seconds of a run, which TVM's programs read as `cost.value`."""

    __slots__ = ()

    @property
    def value(self) -> float:
        return float(self)


@dataclass(frozen=True, eq=False)
class MeasureInput:
    """What is measured: a finished state of a task."""

    task: Any
    state: Any

    def serialize(self) -> list[Any]:
        """As data that can be pickled: a record without a result, and the task's workload."""
        from .records import dump_record_to_string
        from .workload import serialize_workload_registry_entry

        result = MeasureResult((0.0,), 0, "", 0.0, 0.0)
        entry = serialize_workload_registry_entry(self.task.workload_key)
        return [dump_record_to_string(self, result), entry]

    @staticmethod
    def deserialize(data: Sequence[Any]) -> MeasureInput:
        """What `serialize` gave, with its task."""
        from .records import load_record_from_string
        from .recover import recover_measure_input
        from .workload import deserialize_workload_registry_entry

        deserialize_workload_registry_entry(data[1])
        return recover_measure_input(load_record_from_string(data[0])[0])


@dataclass(frozen=True)
class MeasureResult:
    """What came of it. `costs`: seconds of a run, one a repetition; empty after an error.
    `error_no`: a MeasureErrorNo. `all_cost`: seconds that building and timing took. `timestamp`:
    when it ended, in seconds since 1970. `early`: it was clearly slower than the best, so fewer
    runs had to do. `origin`: who measured it, where that is known."""

    costs: Sequence[Any]
    error_no: int
    error_msg: str
    all_cost: float
    timestamp: float
    early: bool = False
    origin: Origin = NOWHERE

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", tuple(map(Seconds, self.costs)))
        object.__setattr__(self, "error_msg", str(self.error_msg or ""))
        object.__setattr__(self, "all_cost", float(self.all_cost))
        object.__setattr__(self, "timestamp", float(self.timestamp))

    def __str__(self) -> str:
        found = f"cost:{list(self.costs)}"
        if self.error_no:
            found = f"error_type:{MeasureErrorNo(self.error_no).name}, error_msg:{self.error_msg}"
        numbers = f"all_cost:{self.all_cost:.3g}, Tstamp:{self.timestamp:.2f}"
        return f"MeasureResult({found}, error_no:{int(self.error_no)}, {numbers})"

    @property
    def ok(self) -> bool:
        """Whether the candidate ran and was timed."""
        return not self.error_no and bool(self.costs)

    @property
    def cost(self) -> float:
        """Seconds of a run: the median of the repetitions; infinite after an error."""
        return self.measurement.cost

    @property
    def noise(self) -> float:
        """How far the repetitions lie apart, as a share of their median."""
        return spread(self.costs) if self.ok else 0.0

    @property
    def measurement(self) -> Measurement:
        """The same as the workers give it."""
        number = MeasureErrorNo(self.error_no)
        return Measurement(
            tuple(self.costs),
            number,
            self.error_msg,
            self.all_cost,
            self.timestamp,
            self.early,
            self.origin,
        )

    @classmethod
    def of(cls, found: Measurement) -> MeasureResult:
        """What the workers gave."""
        number, message = int(found.error_no), found.message[:_MESSAGE]
        more = found.seconds, found.timestamp, found.early, found.origin
        return cls(found.costs, number, message, *more)


class MeasureCallback:
    """Told of every measurement as soon as it is finished. Subclass and define `callback`."""

    def callback(
        self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """`inputs[i]` gave `results[i]`; `policy`: the search that asked (None: none did)."""
        raise NotImplementedError(f"{type(self).__name__} has to define callback")


PythonBasedMeasureCallback = MeasureCallback


@dataclass(frozen=True, eq=False)
class BuildResult:
    """What came of building a candidate. `args`: its arguments; `error_no`: a MeasureErrorNo;
    `time_cost`: seconds that it took. `filename`: what was built, for `runtime.load_module`; empty
    after an error."""

    filename: str
    args: Sequence[Any]
    error_no: int
    error_msg: str
    time_cost: float
