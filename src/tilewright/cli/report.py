"""`tilewright report`: one HTML page about a network, a program or a file of records."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.collect import collecting_rarely
from ..base.errors import TilewrightError, UsageError
from ..graph.onnx.load import load_onnx
from ..measure.places import Url, place_of, shown
from ..rt.files import require_writable, write_atomically
from ..rt.network_file import is_network
from . import show
from .data import shapes_of
from .run import set_threads


@dataclass(frozen=True)
class Options:
    """The command's options, see main.py."""

    what: str
    args: Sequence[str]
    output: str
    target: str | None
    dtype: str | None
    shapes: Sequence[str]
    records: str | None
    threads: int | None
    as_json: bool


def report(options: Options) -> None:
    """Run the command."""
    path = place_of(options.what)
    if not isinstance(path, Url) and not path.is_file():
        raise TilewrightError(
            f"there is no file {path}; give a model, a Python program or a file of records"
        )
    require_writable(options.output)
    start = time.perf_counter()
    with collecting_rarely():
        text = _html(path, options).encode()
    write_atomically(options.output, text)
    seconds = time.perf_counter() - start
    if options.as_json:
        print(json.dumps({"file": options.output, "bytes": len(text), "seconds": seconds}))
    else:
        size = len(text) / 1e6
        print(f"report written to {options.output} ({size:.1f} MB) in {seconds:.1f} s")


def _html(path: Path | Url, options: Options) -> str:
    # other commands load nothing of this
    from ..report.program import program_page
    from ..report.search import records_page

    if isinstance(path, Path) and path.suffix == ".onnx":
        return _of_model(path, options)
    if isinstance(path, Path) and is_network(path):
        raise TilewrightError(
            f"{path} is a saved network, which holds machine code alone; report on the model that "
            "it was compiled from"
        )
    own = (options.target, options.dtype, options.records, options.threads, *options.shapes)
    if any(value is not None for value in own):
        raise UsageError(
            "--target, --dtype, --shape, --records and --threads are of models; a program says "
            "itself what it builds for"
        )
    if isinstance(path, Path) and path.suffix == ".py":
        show.notes([f"running {path}, to see what it builds"])
        return program_page(path, options.args).html()
    if options.args:
        raise UsageError(f"arguments are of programs; {shown(path)} has records")
    with show.warnings_as_notes():
        return records_page(path).html()


def _of_model(path: Path, options: Options) -> str:
    from ..report.network import network_page

    if options.args:
        raise UsageError(f"arguments are of programs; {path} is a model")
    set_threads(options.threads)
    graph = load_onnx(path, shapes_of(options.shapes))
    with show.warnings_as_notes(), show.progress("drawing") as step:
        page = network_page(
            graph,
            options.target or "llvm",
            dtype=options.dtype or "float32",
            records=options.records,
            progress=step,
        )
    page.title = path.name
    return page.html()
