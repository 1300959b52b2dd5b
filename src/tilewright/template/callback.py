"""What may happen after each measurement of a search: `callback(tuner, inputs, results)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..measure.progress import Progress
from ..measure.records import append_line, require_lines
from .record import MeasureInput, MeasureResult, cost_of, encode

Callback = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]

_SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def log_to_file(file_out: str | os.PathLike[str] | TextIO, protocol: str = "json") -> Callback:
    """Add each measurement to a file of records; in one that is given by its name it is there
    before the next is made. `protocol`: "json" or "pickle" (`record.encode`). TilewrightError where
    a file of that name holds something else than JSON does."""
    if protocol == "json" and isinstance(file_out, (str, os.PathLike)):
        require_lines(file_out)

    def add(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            line = encode(inp, result, protocol)
            if isinstance(file_out, (str, os.PathLike)):
                append_line(Path(file_out), line)
            else:
                file_out.write(line + "\n")

    return add


def log_to_database(db: Any) -> Callback:
    """Save each measurement in a database (`autotvm.database`)."""

    def add(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            db.save(inp, result)

    return add


class Monitor:
    """A callback that keeps rates (operations a second, 0 after an error) and times of all
    measurements: `trial_scores()`, `trial_timestamps()`."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(
        self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        for inp, result in zip(inputs, results):
            self.scores.append(rate_of(inp, result))
            self.timestamps.append(float(result.timestamp))

    def reset(self) -> None:
        """Forget what was kept."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> np.ndarray[Any, Any]:
        """The rates, float64, in the order of measurement."""
        return np.array(self.scores)

    def trial_timestamps(self) -> np.ndarray[Any, Any]:
        """When each ended, in seconds since 1970."""
        return np.array(self.timestamps)


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callback:
    """Show on standard error how far a search is, once it has taken longer than a second."""
    scale = si_scale(si_prefix)
    progress = Progress(total, prefix.strip() or "tuning")
    state = {"done": 0, "rate": 0.0, "best": 0.0}

    def show(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            rate = rate_of(inp, result)
            state.update(rate=rate, best=max(state["best"], rate))
        state["done"] += len(inputs)
        text = describe_rates(state["rate"] / scale, state["best"] / scale, si_prefix)
        if state["done"] >= total:
            progress.close(int(state["done"]), text)
        else:
            progress.update(int(state["done"]), text)

    show.shows_progress = True  # type: ignore[attr-defined]
    return show


def si_scale(prefix: str) -> float:
    """The factor of a prefix: "G" is 1e9."""
    return _SI.get(prefix, 1e9)


def describe_rates(now: float, best: float, si_prefix: str) -> str:
    return f"now {now:.2f}, best {best:.2f} {si_prefix}FLOP/s"


def rate_of(inp: MeasureInput, result: MeasureResult) -> float:
    """Operations a second, 0 after an error."""
    seconds = cost_of(result)
    return float(inp.task.flop) / seconds if seconds > 0 else 0.0
