"""What may happen after each measurement of a search: `callback(tuner, inputs, results)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ..measure.progress import Progress
from .record import MeasureInput, MeasureResult, cost_of, write

Callback = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]

_SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def log_to_file(file_out: str | os.PathLike[str], protocol: str = "json") -> Callback:
    """Add each measurement to a file of records; it is there before the next is made."""
    del protocol

    def add(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            write(file_out, inp, result)

    return add


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
