"""What commands print; the one module that owns rich."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .units import time_text

Array = np.ndarray[Any, Any]


@contextmanager
def progress(title: str, noun: str = "kernels") -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on stderr (a line where that is no terminal); gives the function that moves
    it.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _lines(title, noun)
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


def _lines(title: str, noun: str) -> Callable[[int, int, str], None]:
    """A step function that writes a line at each quarter of the way."""

    def step(done: int, total: int, name: str) -> None:
        if done == total or done * 4 // total > (done - 1) * 4 // total:
            print(f"{title}: {done}/{total} {noun}", file=sys.stderr, flush=True)

    return step


def is_classifier(output: Array) -> bool:
    """Whether an output looks like scores of classes: one row of ten or more numbers."""
    return output.ndim == 2 and output.shape[0] == 1 and output.shape[1] >= 10


def top5(scores: Array) -> list[dict[str, Any]]:
    """The five best classes with their scores."""
    row = scores.reshape(-1)
    best = np.argsort(-row.astype(np.float64), kind="stable")[:5]
    return [{"class": int(k), "score": float(row[k])} for k in best]


def run_report(
    report: Mapping[str, Any],
    inputs: Mapping[str, Array],
    results: Mapping[str, Array],
    saved: bool = False,
) -> None:
    """The report of `tilewright run` as text; `saved`: the network was compiled before."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    for name in report.get("random_inputs", ()):
        drawn = f"is random data (seed {report['seed']})"
        console.print(f"note: input {name} ({_kind(inputs[name])}) {drawn}")
    for name, array in results.items():
        console.print(f"output {name}: {_kind(array)}")
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
        if not found["tuned"]:
            console.print(
                "note: nothing in it made this model faster: it is of another model, target or "
                "--dtype, or found no schedule better than the default; `tilewright records show "
                f"{found['file']}` says what it holds",
                soft_wrap=True,
            )
    made = "loaded, compiled before" if saved else f"compiled in {report['compile_s']:.2f} s"
    console.print(f"{made} for {report['target']}")
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
    if "trace" in report:
        console.print(f"trace in {report['trace']['file']}: open it at ui.perfetto.dev")
    if "profile" in report:
        console.print(_kernels(report["profile"]))


def _kind(array: Array) -> str:
    """The type and the shape of an array."""
    return f"{array.dtype} {'x'.join(map(str, array.shape))}"


def _latency(ms: Mapping[str, float]) -> str:
    names = ("median", "p90", "p99")
    return ", ".join(f"{time_text(ms[name] / 1e3)} {name}" for name in names)


def _verdict(check: Mapping[str, Any]) -> str:
    """Whether an output is as expected."""
    word = "ok" if check["ok"] else "WRONG"
    worst = check["worst_error"]
    error = "not finite" if worst is None else f"{worst:.3g} of the largest value"
    return f"{word}: worst error {error} (tolerance {check['rtol']:.3g})"


def narrow_table(**settings: Any) -> Any:
    """A table without a frame, whose columns lie close: seven of them fit into 60 characters."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), **settings)


def _kernels(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The table of --profile."""
    table = narrow_table(title="kernels, slowest first")
    columns = ["time", "share"]
    columns += ["GFLOP/s", "MB", "bound by", "of limit"] if rows and "limit" in rows[0] else []
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("nodes", overflow="fold")
    for row in sorted(rows, key=lambda r: -r["ms"]):
        cells = [time_text(row["ms"] / 1e3), f"{row['share']:.1%}"]
        if "limit" in row:
            cells += [f"{row['gflops']:.1f}", f"{row['mb']:.3f}"]
            cells += [row["limit"], f"{row['of_limit']:.0%}"]
        table.add_row(*cells, row["nodes"])
    return table


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
