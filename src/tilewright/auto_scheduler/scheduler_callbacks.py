"""What a `TaskScheduler` tells about its tasks while it works."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import TilewrightError
from .objectives import NetworkObjective
from .slope import UNKNOWN_COST

if TYPE_CHECKING:
    from .task_scheduler import TaskScheduler

_COLUMNS = ("ID", "Task Description", "Latency (ms)", "Speed (GFLOPS)", "Trials")
_NAME_WIDTH = 56


class TaskSchedulerCallback:
    """Called around each round of a task scheduler."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Before a round of the task."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """After a round of the task."""

    def end_tune(self, task_scheduler: TaskScheduler) -> None:
        """After the last round, also where an error ends the search."""


class PrintTableInfo(TaskSchedulerCallback):
    """All tasks with their latencies, on standard error: a table that is kept up to date on a
    terminal; elsewhere a line after each round and the table at the end."""

    def __init__(self) -> None:
        self._live: Any = None

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Show which task is next."""
        if sys.stderr.isatty():
            self._show(task_scheduler, task_id)

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Show what the round gave."""
        if self._live is not None:
            self._show(task_scheduler, None)
            return
        row = task_row(task_scheduler, task_id)
        line = f"task {row[0]} {row[1]}: {row[2]} ms, {row[3]} GFLOPS; "
        print(line + summary(task_scheduler), file=sys.stderr, flush=True)

    def end_tune(self, task_scheduler: TaskScheduler) -> None:
        """Leave the last table on the screen."""
        if self._live is not None:
            self._show(task_scheduler, None)
            self._live.stop()
            self._live = None
        else:
            print(plain_table(task_scheduler), file=sys.stderr, flush=True)
        if task_scheduler.stopped:
            print(f"stopped: {task_scheduler.stopped}", file=sys.stderr, flush=True)

    def _show(self, task_scheduler: TaskScheduler, task_id: int | None) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table

        following = "" if task_id is None else f"  Next ID: {task_id}"
        table = Table(title="Task Scheduler", caption=summary(task_scheduler) + following)
        for name in _COLUMNS:
            table.add_column(name, justify="left" if name == _COLUMNS[1] else "right")
        for place in range(len(task_scheduler.tasks)):
            style = "bold" if place == task_id else None
            table.add_row(*task_row(task_scheduler, place), style=style)
        if self._live is None:
            console = Console(file=sys.stderr, markup=False)
            self._live = Live(console=console, auto_refresh=False)
            self._live.start()
        self._live.update(table, refresh=True)


class LogEstimatedLatency(TaskSchedulerCallback):
    """Appends a line to `log_file` after each round: seconds, estimated latency in ms ("N/A" until
    each task has a valid program), and trials. A file that is there is begun anew. Raises
    TilewrightError where the file cannot be written."""

    def __init__(self, log_file: str | Path) -> None:
        self._path = Path(log_file)
        self._write("w", "")

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Log the latency after this round; of a user's function, its value."""
        latency = "N/A"
        if max(task_scheduler.best_costs) < UNKNOWN_COST:
            latency = f"{1e3 * _seconds(task_scheduler):.3f}"
        used = time.time() - task_scheduler.tic
        self._write(
            "a",
            f"ElapsedTime(s)\t{used:.0f}\tEstimatedLatency(ms)\t{latency}"
            f"\tTrials\t{task_scheduler.ct}\n",
        )

    def _write(self, mode: str, text: str) -> None:
        try:
            with self._path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as err:
            raise TilewrightError(f"cannot write to {self._path}: {err.strerror}") from err


def task_row(scheduler: TaskScheduler, task: int) -> tuple[str, ...]:
    """ID, description, latency in ms, GFLOPS, trials; "-" while there is no valid program."""
    cost = scheduler.best_costs[task]
    known = cost < UNKNOWN_COST
    name = str(getattr(scheduler.tasks[task], "desc", "") or f"task {task}")
    if len(name) > _NAME_WIDTH:
        name = name[: _NAME_WIDTH - 3] + "..."
    return (
        str(task),
        name,
        f"{1e3 * cost:.3f}" if known else "-",
        f"{scheduler.flop_cts[task] / cost / 1e9:.2f}" if known else "-",
        str(scheduler.task_trials[task]),
    )


def summary(scheduler: TaskScheduler) -> str:
    """The objective, the trials and the time so far, on one line."""
    if isinstance(scheduler.objective_func, NetworkObjective):
        text = scheduler.objective_func.text(scheduler.best_costs)
    else:
        known = max(scheduler.best_costs) < UNKNOWN_COST
        total = f"{1e3 * scheduler.cur_score:.3f} ms" if known else "-"
        text = f"Estimated total latency: {total}"
    used = time.time() - scheduler.tic
    return f"{text}  Trials: {scheduler.ct}  Used time: {used:.0f} s"


def _seconds(scheduler: TaskScheduler) -> float:
    if isinstance(scheduler.objective_func, NetworkObjective):
        return sum(scheduler.objective_func.latencies(scheduler.best_costs))
    return scheduler.cur_score


def plain_table(scheduler: TaskScheduler) -> str:
    """The table of all tasks as text."""
    rows = [_COLUMNS, *(task_row(scheduler, i) for i in range(len(scheduler.tasks)))]
    widths = [max(len(r[k]) for r in rows) for k in range(len(_COLUMNS))]
    lines = [
        "  ".join(c.ljust(w) if k == 1 else c.rjust(w) for k, (c, w) in enumerate(zip(r, widths)))
        for r in rows
    ]
    return "\n".join([*lines, summary(scheduler)])
