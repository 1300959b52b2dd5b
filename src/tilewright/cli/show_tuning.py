"""What `tilewright tune` and `tilewright records` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .show import narrow_table
from .units import time_text

_NAMED = 80
"""Columns from which on a task's name has room in its row."""


def tuning(report: Mapping[str, Any], commands: Sequence[str]) -> None:
    """The report of `tilewright tune` as text; `commands`: what runs the networks with what was
    found, nothing of an operator."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    right = {"justify": "right", "no_wrap": True}
    table = narrow_table()
    numbered = bool(commands) and console.width < _NAMED  # names of their own lines, below
    table.add_column("task", overflow="fold", **({"justify": "right"} if numbered else {}))
    columns = ("kernels", "default", "best", "faster", "GFLOP/s", "trials")
    for name in columns if commands else columns[2::2]:
        table.add_column(name, **right)
    for k, row in enumerate(report["tasks"]):
        gain = _ratio(row["default_s"], row["best_s"])
        rate = "-" if row["gflops"] is None else f"{row['gflops']:.1f}"
        best, trials = time_text(row["best_s"]), str(row["measurements"])
        if commands:
            default = time_text(row["default_s"])
            name = str(k) if numbered else row["task"]
            table.add_row(name, str(row["weight"]), default, best, gain, rate, trials)
        else:
            table.add_row(row["task"], best, rate)
    console.print(table)
    for k, row in enumerate(report["tasks"] if numbered else ()):
        console.print(f"task {k}: {row['task']}")
    known = f" and {report['known']} known before" if report["known"] else ""
    measured = f"{report['measured']} measurements in {report['seconds']:.0f} s{known}"
    console.print(f"{measured}, kept in {report['records']}", soft_wrap=True)
    if "busy" in report:
        console.print(f"note: {report['busy']}", soft_wrap=True)
    for line in _goals(report):
        console.print(line, soft_wrap=True)
    if commands and report["default_s"] and report["best_s"]:
        gain = _ratio(report["default_s"], report["best_s"])
        sums = f"{time_text(report['default_s'])} to {time_text(report['best_s'])}"
        console.print(f"sum of these kernels: {sums}, {gain} as fast")
        for command in commands:
            console.print(f"to use it: {command}", soft_wrap=True)


def _goals(report: Mapping[str, Any]) -> Iterator[str]:
    """What became of the objective, a line for each network."""
    if report["stopped"]:
        yield f"ended early: {report['stopped']}"
    rows = report["networks"]
    for row in rows:
        best = time_text(row["best_s"])
        if row["requirement_s"] is not None:
            word = "met" if row["met"] else "NOT met"
            yield f"{row['network']}: {best} of {time_text(row['requirement_s'])}: {word}"
        elif row["reference_s"] is not None:
            gain = _ratio(row["reference_s"], row["best_s"])
            wanted = time_text(row["reference_s"])
            yield f"{row['network']}: {best}, {gain} as fast as the reference of {wanted}"
        elif len(rows) > 1:
            gain = _ratio(row["default_s"], row["best_s"])
            before = time_text(row["default_s"])
            yield f"{row['network']}: {before} to {best}, {gain} as fast"
    if report["objective"] == "geomean" and report["score"] is not None:
        yield f"geometric mean of speed-ups: {-report['score']:.3f}x"


def _ratio(before: float | None, after: float | None) -> str:
    return f"{before / after:.2f}x" if before and after else "-"


def record_summary(tasks: Sequence[Mapping[str, Any]]) -> None:
    """The tasks of files of records, one a row, and what failed."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not tasks:
        console.print("no records")
        return
    right = {"justify": "right", "no_wrap": True}
    table = narrow_table()
    for name in ("workload", "target"):
        table.add_column(name, overflow="fold")
    for name in ("measured", "failed", "best", "noise"):
        table.add_column(name, **right)
    for task in tasks:
        table.add_row(
            task["workload_key"],
            task["target"],
            str(task["measurements"]),
            str(sum(task["errors"].values())),
            time_text(task["best_s"]),
            "-" if task["noise"] is None else f"{task['noise']:.1%}",
        )
    console.print(table)
    for task in tasks:
        for name, count in task["errors"].items():
            console.print(f"{task['workload_key']}: {count} times {name}")
        if task["last_error"]:
            console.print(f"    the last: {task['last_error'].splitlines()[0]}")
        for who, count in task["by"].items():
            console.print(f"{task['workload_key']}: {count} by {who}")


def best_records(found: Sequence[Mapping[str, Any]]) -> None:
    """The best record of each task, with its steps one a line."""
    for record in found:
        print(f"{record['workload_key']} on {record['target']}")
        took = time_text(record["best_s"])
        print(f"  {took} (noise {record['noise']:.1%}), measured {record['measured']}")
        for step in record["steps"]:
            print("  " + " ".join(str(part) for part in step))
    if not found:
        print("no records")
