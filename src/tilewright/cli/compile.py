"""`tilewright compile`: from a model to a file: a saved network, or a library of C."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import TilewrightError, UsageError
from ..driver.c_library import THREADS, function_name, write_library
from ..graph.build import target_for
from ..graph.compile_model import compile as compile_model
from ..graph.onnx.load import open_inputs
from ..rt.files import require_writable
from ..rt.network import Executable
from . import show
from .choices import FORMATS
from .data import shapes_of

_NO_LIBRARY = (
    "{} cannot become a library: libraries hold networks for CPUs, all of whose shapes are known "
    "(--shape gives what the model leaves open)"
)


@dataclass(frozen=True)
class Options:
    """The command's options, see main.py."""

    model: str
    target: str
    dtype: str
    shapes: Sequence[str]
    records: str | None
    output: str
    format: str | None
    name: str
    threads: str | None
    as_json: bool


def compile_to_file(options: Options) -> None:
    """Run the command."""
    require_writable(options.output)
    suffix = os.path.splitext(options.output)[1]
    kind = options.format or (suffix[1:] if suffix[1:] in FORMATS else "network")
    if kind != "network" and suffix != f".{kind}":
        raise TilewrightError(f"a file of --format {kind} ends in .{kind}")
    shapes = shapes_of(options.shapes)
    _check(options, kind, shapes)
    start = time.perf_counter()
    with show.progress("compiling") as step, show.warnings_as_notes():
        net = compile_model(
            options.model,
            options.target,
            dtype=options.dtype,
            records=options.records,
            shapes=shapes,
            progress=step,
        )
    report: dict[str, Any] = {"file": options.output, "format": kind}
    if kind == "network":
        net.save(options.output)
    else:
        if not isinstance(net, Executable):
            raise TilewrightError(_NO_LIBRARY.format(net.name))
        made = write_library(net, options.output, options.name, options.threads or THREADS[0])
        report["header"] = os.fspath(made[1])
    report["network"] = repr(net)
    report["bytes"] = os.path.getsize(options.output)
    report["compile_s"] = time.perf_counter() - start
    if options.as_json:
        print(json.dumps(report))
        return
    print(f"{report['network'][1:-1]}")
    for path in (options.output, report.get("header")):
        if path is not None:
            print(f"{path}: {os.path.getsize(path):,} bytes")


def _check(options: Options, kind: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """TilewrightError, before anything is compiled, where the file could not be written then."""
    if kind == "network" and (options.name or options.threads is not None):
        raise UsageError(
            f"--name and --threads are of libraries of C (.so, .o); {options.output} becomes a "
            "saved network"
        )
    target = target_for(options.target, options.dtype)
    if target.kind.name != "llvm":
        raise TilewrightError(
            f"{options.model} cannot be saved to {options.output}: files hold networks for CPUs, "
            f"and --target is {str(target)!r}; compile it for an llvm target"
        )
    if kind == "network":
        return
    function_name(options.output, options.name)
    opened = open_inputs(options.model, shapes)
    if opened is not None:
        raise TilewrightError(_NO_LIBRARY.format(opened[0]))
