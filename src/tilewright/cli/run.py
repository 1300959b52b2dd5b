"""`tilewright run`: compile a network, run it, report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.config import MAX_THREADS
from ..base.errors import TilewrightError
from ..driver.peak import fma_peak
from ..graph.build import Network, flops
from ..graph.build import compile as compile_graph
from ..graph.ir import Graph
from ..graph.onnx.load import load_onnx, overridable_names
from ..measure.places import shown
from ..rt import threads
from ..rt.busy import Watch
from ..rt.device import Device
from ..rt.files import require_writable
from ..rt.network import Executable, load_network
from ..rt.network_file import is_network
from ..target.target import Target
from . import show
from .data import (
    SEED,
    Array,
    Signature,
    compare,
    expected_array,
    input_data,
    output_files,
    pairs_of,
    save_array,
    shapes_of,
)
from .latency import Plan, Timed, measure
from .layers import profile
from .peers import Peer, load_peer
from .trace import write_trace

_TURNS = 5
"""In which two runtimes are timed, one after the other."""


@dataclass(frozen=True)
class Options:
    """The command's options, see main.py."""

    model: str
    target: str
    dtype: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    shapes: Sequence[str]
    records: str | None
    check: str | None
    compare: str | None
    rtol: float
    repeat: int
    warm_up: int
    duration: float | None
    streams: int
    threads: int | None
    profile: bool
    trace: str | None
    as_json: bool


def run(options: Options) -> int:
    """Run the command; the exit status."""
    plan = Plan(options.repeat, options.warm_up, options.duration, options.streams)
    set_threads(options.threads)
    if not options.rtol >= 0:
        raise TilewrightError(f"--rtol must be 0 or more, got {options.rtol}")
    if options.trace is not None:
        require_writable(options.trace)
    saved = _load_saved(options)
    target = Target(options.target) if saved is None else saved.target
    if "gpu" in target.keys:
        Device(target.kind.device_type).require()  # before anything is compiled for it
    files = pairs_of("--input", options.inputs)
    graph = None if saved is not None else _loaded(options, files)
    signature = Signature.of(saved or graph)
    arrays, random = input_data(signature, files)
    saves = output_files(signature, options.outputs)
    expected = None if options.check is None else expected_array(options.check, signature)
    name = options.compare
    peer = None if name is None else load_peer(name, options.model, graph, arrays)
    watch, start = Watch(), time.perf_counter()
    net = _compiled(graph, options) if saved is None else saved
    compile_s = time.perf_counter() - start
    results = net.run(arrays)
    for output, path in saves.items():
        save_array(path, results[output])
    timed, theirs = _time(net, peer, arrays, plan)
    busy = watch.note()
    report = _facts(signature.name, net, options, compile_s)
    report |= _rates(graph, net, timed)
    report |= _outputs(results)
    if random:
        report |= {"random_inputs": random, "seed": SEED}
    if busy is not None:
        report["busy"] = busy
    if options.records is not None:
        report["records"] = {
            "file": shown(options.records),
            "tuned": net.tuned,
            "kernels": net.distinct,
        }
    if expected is not None:
        found = compare(_first_array(results), expected, options.rtol)
        report["check"] = {**found, "file": options.check}
    if peer is not None and theirs is not None:
        report["compare"] = _beside(str(name), peer, results, timed, theirs, options.rtol)
    if options.profile:
        report["profile"] = profile(net, arrays)
    if options.trace is not None:
        report["trace"] = {"file": options.trace, "events": write_trace(options.trace, net, arrays)}
    if options.as_json:
        print(json.dumps(report))
    else:
        show.run_report(report, arrays, results, saved is not None)
    return 0 if all(report[key]["ok"] for key in ("check", "compare") if key in report) else 1


def set_threads(count: int | None) -> None:
    """Use as many threads as --threads says."""
    if count is None:
        return
    if not 1 <= count <= MAX_THREADS:
        raise TilewrightError(
            f"--threads must be at least 1, and at most {MAX_THREADS}, got {count}"
        )
    threads.set_num_threads(count)


def _load_saved(options: Options) -> Executable | None:
    """The network, where the file is a saved one."""
    if not is_network(options.model):
        return None
    if options.shapes or options.records is not None:
        raise TilewrightError(
            f"{options.model} is compiled already: --shape and --records are for models"
        )
    return load_network(options.model)


def _loaded(options: Options, files: Mapping[str, str]) -> Graph:
    """The model; initialisers that --input gives are inputs, where the model declares them so."""
    overridable = [n for n in overridable_names(options.model) if n in files] if files else []
    return load_onnx(options.model, shapes_of(options.shapes), overridable=overridable)


def _compiled(graph: Any, options: Options) -> Network:
    with show.progress("compiling") as step, show.warnings_as_notes():
        return compile_graph(
            graph, options.target, dtype=options.dtype, records=options.records, progress=step
        )


def _first_array(results: Mapping[str, Any]) -> Array:
    first = next(iter(results.values()))
    if not isinstance(first, np.ndarray):
        raise TilewrightError("--check: the first output is no array")
    return first


def _time(
    net: Network, peer: Peer | None, arrays: Mapping[str, Array], plan: Plan
) -> tuple[Timed, Timed | None]:
    """Ours, and where there is a peer, both in turns: each has its share of the runs in each."""
    ours = [net.prepare(arrays) for _ in range(plan.streams)]
    if peer is None:
        return measure(ours, plan), None
    theirs = [peer.prepare() for _ in range(plan.streams)]
    part = plan.split(_TURNS)
    turns = [(measure(ours, part), measure(theirs, part)) for _ in range(_TURNS)]
    return Timed.sum([mine for mine, _ in turns]), Timed.sum([other for _, other in turns])


def _facts(name: str, net: Network, options: Options, compile_s: float) -> dict[str, Any]:
    """What ran, and how."""
    return {
        "model": name,
        "target": str(net.target),
        "dtype": options.dtype,
        "device": str(getattr(net, "device", "cpu(0)")),
        "threads": threads.num_threads(),
        "streams": options.streams,
        "compile_s": compile_s,
    }


def _rates(graph: Graph | None, net: Network, timed: Timed) -> dict[str, Any]:
    """Latencies, and the rate of operations: the model's, or of a saved one its kernels'."""
    work, peak = 0 if graph is None else flops(graph), 0.0
    if isinstance(net, Executable):
        work = work or sum(w.flops for w in net.work)
        peak = fma_peak(net.target, threads.num_threads())
    rate = work * timed.rate
    return {
        "latency_ms": timed.report(),
        "runs_per_s": timed.rate,
        "gflops": rate / 1e9,
        "peak_gflops": peak / 1e9 if peak else None,
        "share_of_peak": rate / peak if peak else None,
    }


def _outputs(results: Mapping[str, Any]) -> dict[str, Any]:
    """What outputs are, and the best classes where the first one looks like scores."""
    report: dict[str, Any] = {"outputs": {name: _described(a) for name, a in results.items()}}
    first = next(iter(results.values()))
    if isinstance(first, np.ndarray) and show.is_classifier(first):
        report["top5"] = show.top5(first)
    return report


def _described(value: Any) -> dict[str, Any]:
    """What an output is: most are arrays, some lists of them, or empty."""
    if isinstance(value, np.ndarray):
        return {"shape": value.shape, "dtype": str(value.dtype)}
    return {"shape": [len(value)] if isinstance(value, list) else [], "dtype": type(value).__name__}


def _beside(
    name: str, peer: Peer, results: Mapping[str, Any], ours: Timed, theirs: Timed, rtol: float
) -> dict[str, Any]:
    """Outputs and latency of another runtime beside ours. Outputs that are no numbers have to be
    equal."""
    rows: dict[str, dict[str, Any]] = {}
    for key, value in results.items():
        other: Any = peer.outputs.get(key)
        if other is None and len(results) == len(peer.outputs) == 1:
            other = next(iter(peer.outputs.values()))  # a runtime may name outputs its own way
        if _are_numbers(value) and _are_numbers(other):
            rows[key] = compare(value, other, rtol)
        else:
            same = bool(np.array_equal(np.asarray(value), np.asarray(other)))
            rows[key] = {"ok": same, "worst_error": 0.0 if same else None, "rtol": rtol}
    return {
        "with": name,
        "ok": all(row["ok"] for row in rows.values()),
        "outputs": rows,
        "latency_ms": theirs.report(),
        "runs_per_s": theirs.rate,
        "speedup": theirs.median / ours.median,
    }


def _are_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
