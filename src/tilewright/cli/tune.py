"""`tilewright tune`: search for schedules of a network's kernels, or of one operator."""

from __future__ import annotations

import ast
import importlib.util
import json
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from symtable import symtable
from typing import Any

from ..auto_scheduler.fleet import DaskRunner
from ..auto_scheduler.local import LocalRunner
from ..auto_scheduler.objectives import objective_of
from ..auto_scheduler.records import RecordToFile
from ..auto_scheduler.task import SearchTask
from ..auto_scheduler.together import (
    NetworkOutcome,
    Outcome,
    TaskOutcome,
    tune_tasks,
)
from ..auto_scheduler.workload import WORKLOAD_FUNC_REGISTRY, register_workload
from ..base.config import MAX_THREADS
from ..base.errors import TilewrightError, UsageError
from ..measure.places import shown
from ..rt import threads
from ..rt.busy import Watch
from ..rt.device import Device
from ..target.target import Target
from . import show, show_tuning
from .group import INTERRUPTED
from .networks import models_of, seconds_of, tasks_of


@dataclass(frozen=True)
class Options:
    """The command's options, see main.py."""

    what: str
    args: Sequence[str]
    target: str
    trials: int
    records: str
    dtype: str
    shapes: Sequence[str]
    threads: int | None
    seed: int
    fleet: str | None
    device_key: str
    priority: float
    objective: str
    requirements: Sequence[str]
    references: Sequence[str]
    stop_after: int | None
    quiet: bool
    as_json: bool


def tune(options: Options) -> int:
    """Run the command; the exit status."""
    if options.trials < 1:
        raise UsageError(
            f"--trials is at least 1, got {options.trials}; without measurements networks are "
            "compiled with default schedules (tilewright run)"
        )
    if options.threads is not None:
        if not 1 <= options.threads <= MAX_THREADS:
            raise UsageError(f"--threads is from 1 to {MAX_THREADS}, got {options.threads}")
        threads.set_num_threads(options.threads)
    target = Target(options.target)
    if options.fleet is None:
        _require(target)
    RecordToFile(options.records)  # says now what cannot be written later
    file, colon, function = options.what.rpartition(":")
    is_operator = bool(colon) and file.endswith(".py")
    names = [options.what] if is_operator else models_of(options.what, options.args)
    goal: dict[str, Any] = {
        "requirement": seconds_of("--requirement", options.requirements, names),
        "reference": seconds_of("--reference", options.references, names),
        "stop_after": options.stop_after,
    }
    objective_of(options.objective, {name: [1] for name in names}, **goal)  # before networks load
    if is_operator:
        tasks, weights = _operator(file, function, target, options)
    else:
        tasks, weights = tasks_of(names, target, options.dtype, options.shapes)
    watch, start = Watch(), time.perf_counter()
    try:
        with show.warnings_as_notes(), _runner(options) as runner:
            outcome = tune_tasks(
                tasks,
                weights,
                options.trials,
                options.records,
                objective=options.objective,
                **goal,
                seed=options.seed,
                defaults=not is_operator,
                verbose=0 if options.quiet else 1,
                runner=runner,
            )
    except KeyboardInterrupt:
        place = shown(options.records)
        text = f"what was measured is in {place}, and the same command goes on from it"
        show.notes([f"stopped; {text}"])
        return INTERRUPTED
    busy = watch.note()
    report = _report(options, names, target, outcome, time.perf_counter() - start)
    if busy is not None:
        report["busy"] = busy
    if options.as_json:
        print(json.dumps(report))
    else:
        show_tuning.tuning(report, [] if is_operator else _uses(options, names))
    return 0 if all(t.best_s is not None for t in outcome.tasks) else 1


def _uses(options: Options, models: Sequence[str]) -> list[str]:
    """The commands that run the networks as they were tuned. Of several networks each has some of
    the inputs of --shape only, which its own command has to name."""
    how = [] if options.target == "llvm" else ["--target", options.target]
    how += [] if options.dtype == "float32" else ["--dtype", options.dtype]
    if len(models) == 1:
        how += [part for shape in options.shapes for part in ("--shape", shape)]
    how += ["--records", shown(options.records)]
    return [shlex.join(["tilewright", "run", model, *how]) for model in models]


@contextmanager
def _runner(options: Options) -> Iterator[LocalRunner | None]:
    """What times candidates: None for this machine as it is, else a fleet."""
    kind, _, count = (options.fleet or "").partition(":")
    if options.fleet is None:
        if options.device_key or options.priority != 1:
            raise UsageError("--device-key and --priority are of a fleet: name it with --fleet")
        yield None
    elif kind != "local":
        _say_where(options, options.fleet)
        yield DaskRunner(
            options.fleet, options.device_key, priority=options.priority, in_network=True
        )
    else:
        if not count.isdecimal() or not int(count):
            raise UsageError(f"--fleet local:N has a number of devices, got {options.fleet!r}")
        from ..fleet.local import LocalFleet

        with LocalFleet(int(count)) as fleet:
            _say_where(options, fleet.address)
            yield DaskRunner(fleet, in_network=True)


def _say_where(options: Options, address: str) -> None:
    if not options.quiet:
        show.notes([f"to watch the fleet: tilewright fleet status --watch --fleet {address}"])


def _require(target: Target) -> None:
    """TilewrightError where candidates for a target cannot be built and run here."""
    if target.kind.name == "llvm":
        reason = target.missing_on_host()
        if reason:
            raise TilewrightError(f"cannot measure code for {str(target)!r} here: {reason}")
    elif "gpu" in target.keys:
        Device(target.kind.device_type).require()
    else:
        raise TilewrightError(
            f"cannot measure code for {str(target)!r}: there is no compiler for it; tune for "
            "'llvm', 'cuda' or 'opencl'"
        )


def _operator(
    file: str, name: str, target: Target, options: Options
) -> tuple[list[SearchTask], Mapping[str, Sequence[float]]]:
    if options.shapes or options.dtype != "float32":
        raise UsageError("--shape and --dtype are for networks; an operator's function has numbers")
    function = load_function(Path(file), name, options.args)
    values = [_number(text, n) for n, text in enumerate(options.args)]
    # by itself: another file's function may have the name
    if all(known is not function for known in WORKLOAD_FUNC_REGISTRY.values()):
        register_workload(name, function, override=True)
    with _mistakes_of(Path(file)), redirect_stdout(sys.stderr):
        task = SearchTask(func=function, args=values, target=target, desc=options.what)
    return [task], {options.what: [1]}


def load_function(path: Path, name: str, args: Sequence[str] = ()) -> Callable[..., Any]:
    """A function of a Python file, which is run as a module; UsageError where there is none.

    The file sees a command line of its own: its name, and `args`. It is not run where nothing in it
    defines the name.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    with _mistakes_of(path):
        defined, own = top_level_names(importlib.util.decode_source(path.read_bytes()), path)
    if defined is not None and name not in defined:
        raise _no_function(path, name, own)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    outer, sys.argv = sys.argv, [str(path), *args]
    try:
        with _mistakes_of(path), redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
        sys.argv = outer
    found = getattr(module, name, None)
    if not callable(found):
        names = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
        own = [k for k in names if getattr(vars(module)[k], "__module__", "") == path.stem]
        raise _no_function(path, name, own)
    function: Callable[..., Any] = found
    return function


def top_level_names(source: str, path: Path) -> tuple[set[str] | None, list[str]]:
    """What a module binds by assignments, imports and definitions, and its public functions.

    None: any name may be there, by `from x import *` or __getattr__.
    """
    table = symtable(source, str(path), "exec")
    symbols = table.get_symbols()
    bound = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    own = [s.get_name() for s in symbols if s.is_namespace() and not s.get_name().startswith("_")]
    scopes = list(table.get_children())
    while scopes:  # what functions bind by `global`
        scope = scopes.pop()
        scopes += scope.get_children()
        bound |= {
            s.get_name()
            for s in scope.get_symbols()
            if s.is_declared_global() and (s.is_assigned() or s.is_imported())
        }
    nodes = ast.walk(ast.parse(source))
    stars = any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in nodes)
    return (None if stars or "__getattr__" in bound else bound), own


def _no_function(path: Path, name: str, own: Sequence[str]) -> UsageError:
    near = get_close_matches(name, own)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return UsageError(f"{path} has no function {name!r}{hint}; it has: {', '.join(own) or 'none'}")


@contextmanager
def _mistakes_of(path: Path) -> Iterator[None]:
    """Whatever goes wrong in a user's file, as a UsageError with the line of the file."""
    try:
        yield
    except TilewrightError:
        raise
    except (Exception, SystemExit) as error:
        names = (str(path), str(path.resolve()))
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in names]
        line = error.lineno if isinstance(error, SyntaxError) else frames and frames[-1].lineno
        where = f"{path}, line {line}" if line else str(path)
        raise UsageError(f"{where}: {type(error).__name__}: {error}") from None


def _number(text: str, place: int) -> Any:
    """A number, or several with commas between."""
    try:
        parts = [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"argument {place} of the function is {text!r}: expected a whole number, or several "
            "with commas between"
        ) from None
    return parts[0] if len(parts) == 1 else parts


def _report(
    options: Options, names: Sequence[str], target: Target, outcome: Outcome, seconds: float
) -> dict[str, Any]:
    return {
        "what": " ".join(names),
        "target": str(target),
        "records": shown(options.records),
        "trials": options.trials,
        "measured": outcome.measured,
        "known": outcome.known,
        "seconds": seconds,
        "default_s": outcome.default_s,
        "best_s": outcome.best_s,
        "objective": options.objective,
        "score": outcome.score,
        "stopped": outcome.stopped or None,
        "networks": [_network_row(n) for n in outcome.networks],
        "tasks": [_row(t) for t in outcome.tasks],
    }


def _network_row(row: NetworkOutcome) -> dict[str, Any]:
    return {
        "network": row.name,
        "tasks": row.tasks,
        "default_s": row.default_s,
        "best_s": row.best_s,
        "requirement_s": row.requirement_s,
        "met": row.met,
        "reference_s": row.reference_s,
        "speedup": row.speedup,
    }


def _row(row: TaskOutcome) -> dict[str, Any]:
    flop = row.task.compute_dag.flop_ct
    return {
        "task": row.task.desc,
        "workload_key": row.task.workload_key,
        "weight": row.weight,
        "default_s": row.default_s,
        "best_s": row.best_s,
        "gflops": flop / row.best_s / 1e9 if row.best_s else None,
        "measurements": row.measurements,
    }
