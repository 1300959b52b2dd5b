"""What commands print; the one module that owns rich."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on stderr (a line where that is no terminal); gives the function that moves
    it.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _lines(title)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[item]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, item="")

        def step(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, item=name[:40])

        yield step


def _lines(title: str) -> Callable[[int, int, str], None]:
    """A step function that writes a line at each quarter of the way."""

    def step(done: int, total: int, name: str) -> None:
        if done == total or done * 4 // total > (done - 1) * 4 // total:
            print(f"{title}: {done}/{total} kernels", file=sys.stderr, flush=True)

    return step


def is_classifier(output: Array) -> bool:
    """Whether an output looks like scores of classes: one row of ten or more numbers."""
    return output.ndim == 2 and output.shape[0] == 1 and output.shape[1] >= 10


def top5(scores: Array) -> list[dict[str, Any]]:
    """The five best classes with their scores."""
    row = scores.reshape(-1)
    best = np.argsort(-row.astype(np.float64), kind="stable")[:5]
    return [{"class": int(k), "score": float(row[k])} for k in best]


def run_report(report: Mapping[str, Any], results: Mapping[str, Array]) -> None:
    """The report of `tilewright run` as text."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    for name in report.get("random_inputs", ()):
        console.print(f"note: input {name} is random data (seed {report['seed']})")
    for name, array in results.items():
        shape = "x".join(map(str, array.shape))
        console.print(f"output {name}: {array.dtype} {shape}")
    if "top5" in report:
        table = Table("class", "score", title="top 5")
        for row in report["top5"]:
            table.add_row(str(row["class"]), f"{row['score']:.5g}")
        console.print(table)
    if "records" in report:
        found = report["records"]
        console.print(
            f"{found['tuned']} of {found['kernels']} kernels have schedules from {found['file']}"
        )
    console.print(f"compiled in {report['compile_s']:.2f} s for {report['target']}")
    streams = "" if report["streams"] == 1 else f", {report['streams']} callers at once"
    console.print(
        f"latency {_latency(report['latency_ms'])}, {report['threads']} threads{streams}, "
        f"{report['runs_per_s']:.1f} runs/s"
    )
    if "busy" in report:
        console.print(f"note: {report['busy']}")
    if report["gflops"]:
        console.print(f"rate {report['gflops']:.1f} GFLOP/s{_share(report)}")
    if "check" in report:
        console.print(f"check {_verdict(report['check'])}")
    if "compare" in report:
        beside = report["compare"]
        for name, row in beside["outputs"].items():
            console.print(f"{beside['with']}: output {name} {_verdict(row)}")
        console.print(
            f"{beside['with']}: latency {_latency(beside['latency_ms'])}, "
            f"{beside['runs_per_s']:.1f} runs/s; ours is {beside['speedup']:.2f}x as fast"
        )
    if "profile" in report:
        console.print(_kernels(report["profile"]))


def _latency(ms: Mapping[str, float]) -> str:
    names = ("median", "p90", "p99")
    return ", ".join(f"{ms[name]:.3f} ms {name}" for name in names)


def _verdict(check: Mapping[str, Any]) -> str:
    """Whether an output is as expected."""
    word = "ok" if check["ok"] else "WRONG"
    worst = check["worst_error"]
    error = "not finite" if worst is None else f"{worst:.3g} of the largest value"
    return f"{word}: worst error {error} (tolerance {check['rtol']:.3g})"


def _kernels(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The table of --profile."""
    from rich.table import Table

    table = Table(title="kernels, slowest first")
    columns = ["ms", "share"]
    columns += ["GFLOP/s", "MB", "bound by", "of limit"] if rows and "limit" in rows[0] else []
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("nodes")
    for row in sorted(rows, key=lambda r: -r["ms"]):
        cells = [f"{row['ms']:.3f}", f"{row['share']:.1%}"]
        if "limit" in row:
            cells += [f"{row['gflops']:.1f}", f"{row['mb']:.3f}"]
            cells += [row["limit"], f"{row['of_limit']:.0%}"]
        table.add_row(*cells, row["nodes"])
    return table


def tuning(report: Mapping[str, Any], models: Sequence[str]) -> None:
    """The report of `tilewright tune` as text; `models`: the networks, none of an operator."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    right = {"justify": "right", "no_wrap": True}
    table = Table("task")
    columns = ("kernels", "default ms", "best ms", "faster", "GFLOP/s", "trials")
    for name in columns if models else columns[2::2]:
        table.add_column(name, **right)  # type: ignore[arg-type]
    for row in report["tasks"]:
        gain = _ratio(row["default_s"], row["best_s"])
        rate = "-" if row["gflops"] is None else f"{row['gflops']:.1f}"
        best, trials = _milliseconds(row["best_s"]), str(row["measurements"])
        if models:
            default = _milliseconds(row["default_s"])
            table.add_row(row["task"], str(row["weight"]), default, best, gain, rate, trials)
        else:
            table.add_row(row["task"], best, rate)
    console.print(table)
    known = f" and {report['known']} known before" if report["known"] else ""
    measured = f"{report['measured']} measurements in {report['seconds']:.0f} s{known}"
    console.print(f"{measured}, kept in {report['records']}", soft_wrap=True)
    if "busy" in report:
        console.print(f"note: {report['busy']}", soft_wrap=True)
    for line in _goals(report):
        console.print(line, soft_wrap=True)
    if models and report["default_s"] and report["best_s"]:
        gain = _ratio(report["default_s"], report["best_s"])
        sums = f"{_milliseconds(report['default_s'])} ms to {_milliseconds(report['best_s'])} ms"
        console.print(f"sum of these kernels: {sums}, {gain} as fast")
        for model in models:
            command = f"tilewright run {model} --records {report['records']}"
            console.print(f"to use it: {command}", soft_wrap=True)


def _goals(report: Mapping[str, Any]) -> Iterator[str]:
    """What became of the objective, a line for each network."""
    if report["stopped"]:
        yield f"ended early: {report['stopped']}"
    rows = report["networks"]
    for row in rows:
        best = _milliseconds(row["best_s"])
        if row["requirement_s"] is not None:
            word = "met" if row["met"] else "NOT met"
            yield f"{row['network']}: {best} ms of {_milliseconds(row['requirement_s'])} ms: {word}"
        elif row["reference_s"] is not None:
            gain = _ratio(row["reference_s"], row["best_s"])
            wanted = _milliseconds(row["reference_s"])
            yield f"{row['network']}: {best} ms, {gain} as fast as the reference of {wanted} ms"
        elif len(rows) > 1:
            gain = _ratio(row["default_s"], row["best_s"])
            before = _milliseconds(row["default_s"])
            yield f"{row['network']}: {before} ms to {best} ms, {gain} as fast"
    if report["objective"] == "geomean" and report["score"] is not None:
        yield f"geometric mean of speed-ups: {-report['score']:.3f}x"


def _ratio(before: float | None, after: float | None) -> str:
    return f"{before / after:.2f}x" if before and after else "-"


def facts(rows: Mapping[str, Any]) -> None:
    """Names and values, one a line."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    width = max(map(len, rows))
    for name, value in rows.items():
        console.print(f"{name.ljust(width)}  {value}")


def _share(report: Mapping[str, Any]) -> str:
    """What share of the peak the rate is; nothing where no peak was measured."""
    if not report["peak_gflops"]:
        return ""
    share, peak = report["share_of_peak"], report["peak_gflops"]
    return f", {share:.0%} of the measured peak of {peak:.0f}"


def inspection(units: Sequence[Mapping[str, Any]]) -> None:
    """The stages of functions, each under a heading."""
    for unit in units:
        for stage, text in unit["stages"].items():
            print(f"==== {unit['name']}: {stage}")
            print(text.rstrip())
        for name, figures in unit["figures"].items():
            facts = ", ".join(f"{value} {key.replace('_', ' ')}" for key, value in figures.items())
            print(f"==== {name}: {facts}")


def notes(lines: Iterable[str]) -> None:
    """Remarks, on stderr."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Shows warnings as a line each, once, on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes(dict.fromkeys(f"warning: {w.message}" for w in caught))


def record_summary(tasks: Sequence[Mapping[str, Any]]) -> None:
    """The tasks of files of records, one a row, and what failed."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not tasks:
        console.print("no records")
        return
    right = {"justify": "right", "no_wrap": True}
    table = Table()
    for name in ("workload", "target"):
        table.add_column(name, overflow="fold")
    for name in ("measured", "failed", "best ms", "noise"):
        table.add_column(name, **right)  # type: ignore[arg-type]
    for task in tasks:
        table.add_row(
            task["workload_key"],
            task["target"],
            str(task["measurements"]),
            str(sum(task["errors"].values())),
            _milliseconds(task["best_s"]),
            "-" if task["noise"] is None else f"{task['noise']:.1%}",
        )
    console.print(table)
    for task in tasks:
        for name, count in task["errors"].items():
            console.print(f"{task['workload_key']}: {count} times {name}")
        if task["last_error"]:
            console.print(f"    the last: {task['last_error'].splitlines()[0]}")


def best_records(found: Sequence[Mapping[str, Any]]) -> None:
    """The best record of each task, with its steps one a line."""
    for record in found:
        print(f"{record['workload_key']} on {record['target']}")
        time = _milliseconds(record["best_s"])
        print(f"  {time} ms (noise {record['noise']:.1%}), measured {record['measured']}")
        for step in record["steps"]:
            print("  " + " ".join(str(part) for part in step))
    if not found:
        print("no records")


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.4g}"
