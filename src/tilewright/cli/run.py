"""`tilewright run`: compile a network, run it, report."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.config import MAX_THREADS
from ..base.dtype import parse
from ..base.errors import ImportModelError, TilewrightError
from ..base.files import open_file
from ..driver.peak import fma_peak
from ..graph.build import Network, flops
from ..graph.build import compile as compile_graph
from ..graph.ir import Graph
from ..graph.onnx.load import load_onnx, load_tensor
from ..rt import threads
from ..rt.busy import Watch
from ..rt.files import require_writable, write_atomically
from ..rt.network import Executable, load_network
from ..rt.network_file import is_network
from ..rt.plan import checked_inputs
from . import show

Array = np.ndarray[Any, Any]
SEED = 0


class _Saved:
    """What the command asks a graph for, of a saved network."""

    def __init__(self, net: Executable) -> None:
        self.name = net.name
        self.outputs = net.outputs
        self.signature = net.inputs, net.output_names
        self.nodes: list[Any] = []
        self.rest: Any = None


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
    rtol: float
    repeat: int
    threads: int | None
    profile: bool
    as_json: bool


def run(options: Options) -> int:
    """Run the command; the exit status."""
    if options.repeat < 1:
        raise TilewrightError(f"--repeat must be at least 1, got {options.repeat}")
    if options.threads is not None:
        if not 1 <= options.threads <= MAX_THREADS:
            raise TilewrightError(
                f"--threads must be at least 1, and at most {MAX_THREADS}, got {options.threads}"
            )
        threads.set_num_threads(options.threads)
    if not options.rtol >= 0:
        raise TilewrightError(f"--rtol must be 0 or more, got {options.rtol}")
    shapes = {name: shape_of(text) for name, text in pairs_of("--shape", options.shapes).items()}
    saved = _load_saved(options, shapes)
    graph: Any = load_onnx(options.model, shapes) if saved is None else _Saved(saved)
    arrays, random = _input_data(graph, pairs_of("--input", options.inputs))
    declared, names = graph.signature
    checked_inputs(graph.name, declared, arrays)
    targets = pairs_of("--output", options.outputs)
    unknown = sorted(set(targets) - {*names})
    if unknown:
        known = ", ".join(names)
        raise TilewrightError(f"--output: the model has no output {unknown[0]!r}; it has: {known}")
    for path in targets.values():
        require_writable(path)
    expected = None if options.check is None else _expected(options.check, graph)
    watch, start = Watch(), time.perf_counter()
    dtype, records = options.dtype, options.records
    net: Network
    if saved is not None:
        net = saved
    else:
        with show.progress("compiling") as step, show.warnings_as_notes():
            net = compile_graph(graph, options.target, dtype=dtype, records=records, progress=step)
    compile_s = time.perf_counter() - start
    results = net.run(arrays)
    for name, path in targets.items():
        _save(path, results[name])
    times = _time(net, arrays, options.repeat)
    busy = watch.note()
    report = _report(graph, net, results, times, compile_s, random, options.dtype)
    if busy is not None:
        report["busy"] = busy
    if options.records is not None:
        report["records"] = {"file": options.records, "tuned": net.tuned, "kernels": net.distinct}
    if expected is not None:
        check = compare(_first_array(results), expected, options.rtol)
        report["check"] = {**check, "file": options.check}
    if options.profile:
        report["profile"] = [
            {"nodes": nodes, "ms": seconds * 1e3} for nodes, seconds in net.profile(arrays)
        ]
    if options.as_json:
        print(json.dumps(report))
    else:
        show.run_report(report, results)
    return 0 if report.get("check", {"ok": True})["ok"] else 1


def _load_saved(options: Options, shapes: Mapping[str, Any]) -> Executable | None:
    """The network, where the file is a saved one."""
    if not is_network(options.model):
        return None
    if shapes or options.records is not None:
        raise TilewrightError(
            f"{options.model} is compiled already: --shape and --records are for models"
        )
    return load_network(options.model)


def pairs_of(option: str, texts: Sequence[str]) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, once for each name."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise TilewrightError(f"{option}: expected NAME=VALUE, got {text!r}")
        if name in found:
            raise TilewrightError(f"{option}: {name!r} is given twice")
        found[name] = value
    return found


def shape_of(text: str) -> tuple[int, ...]:
    """A shape, as 1,3,224,224."""
    try:
        return tuple(int(d) for d in text.split(","))
    except ValueError:
        raise TilewrightError(
            f"--shape: a shape is numbers with commas between, got {text!r}"
        ) from None


def _input_data(graph: Graph, files: Mapping[str, str]) -> tuple[dict[str, Array], list[str]]:
    """Arrays for all inputs, and the names of those that are random."""
    declared, _ = graph.signature
    if graph.rest is not None and graph.rest.objects:
        raise TilewrightError(
            f"inputs {', '.join(graph.rest.objects)} are text or sequences, which no file of this "
            "command holds: run the model from Python, graph.compile(graph.load_onnx(model))"
        )
    known = {v.name for v in declared}
    unknown = sorted(set(files) - known)
    if unknown:
        raise TilewrightError(
            f"--input: the model has no input {unknown[0]!r}; it has: {', '.join(sorted(known))}"
        )
    generator = np.random.default_rng(SEED)
    arrays: dict[str, Array] = {}
    random = []
    for v in declared:
        if v.name in files:
            arrays[v.name] = load_array(files[v.name])
            continue
        random.append(v.name)
        dtype = parse(v.dtype)
        if dtype.is_float:
            arrays[v.name] = generator.standard_normal(v.shape).astype(dtype.numpy)
        else:
            arrays[v.name] = generator.integers(0, 2, v.shape).astype(dtype.numpy)
    return arrays, random


def load_array(path: str) -> Array:
    """The array in a .npy file, or in an ONNX TensorProto (.pb)."""
    if Path(path).suffix == ".pb":
        return load_tensor(path)
    try:
        open_file(path).close()
        # mapped, so that no memory is taken for elements that the file does not have
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(array, np.ndarray):
            return np.array(array)
    except Exception as error:  # of a damaged header NumPy's parser raises whatever it meets
        raise ImportModelError(f"cannot read an array from {path}: {error}") from None
    array.close()
    raise ImportModelError(f"{path} holds several arrays; give a .npy file with one")


def _expected(path: str, graph: Graph) -> Array:
    """The array of --check, which must fit the first output."""
    array = load_array(path)
    if graph.rest is None and array.shape != graph.outputs[0].shape:
        shape = graph.outputs[0].shape
        raise TilewrightError(f"--check: {path} has shape {array.shape}, the output has {shape}")
    if array.dtype.kind not in "biuf":
        raise TilewrightError(f"--check: {path} holds {array.dtype}, which are no numbers")
    return array


def _first_array(results: Mapping[str, Any]) -> Array:
    first = next(iter(results.values()))
    if not isinstance(first, np.ndarray):
        raise TilewrightError("--check: the first output is no array")
    return first


def _save(path: str, array: Array) -> None:
    data = io.BytesIO()
    np.save(data, array)
    write_atomically(path, data.getvalue())


def _time(net: Network, arrays: Mapping[str, Array], repeat: int) -> list[float]:
    """Seconds of each timed run, after warming up."""
    call = net.prepare(arrays)
    for _ in range(min(3, repeat)):
        call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def _report(
    graph: Graph,
    net: Network,
    results: Mapping[str, Array],
    times: Sequence[float],
    compile_s: float,
    random: Sequence[str],
    dtype: str,
) -> dict[str, Any]:
    median = float(np.median(times))
    work = flops(graph)
    peak = fma_peak(net.target, threads.num_threads()) if isinstance(net, Executable) else 0.0
    rate = work / median if work else 0.0
    report: dict[str, Any] = {
        "model": graph.name,
        "target": str(net.target),
        "dtype": dtype,
        "device": str(getattr(net, "device", "cpu(0)")),
        "threads": threads.num_threads(),
        "compile_s": compile_s,
        "latency_ms": {"median": median * 1e3, "p90": float(np.quantile(times, 0.9)) * 1e3},
        "gflops": rate / 1e9,
        "peak_gflops": peak / 1e9 if peak else None,
        "share_of_peak": rate / peak if peak else None,
        "outputs": {name: _described(a) for name, a in results.items()},
    }
    if random:
        report["random_inputs"] = list(random)
        report["seed"] = SEED
    first = next(iter(results.values()))
    if isinstance(first, np.ndarray) and show.is_classifier(first):
        report["top5"] = show.top5(first)
    return report


def _described(value: Any) -> dict[str, Any]:
    """What an output is: most are arrays, some lists of them, or empty."""
    if isinstance(value, np.ndarray):
        return {"shape": value.shape, "dtype": str(value.dtype)}
    return {"shape": [len(value)] if isinstance(value, list) else [], "dtype": type(value).__name__}


def compare(actual: Array, expected: Array, rtol: float) -> dict[str, Any]:
    """How far the output is from what is expected, relative to the largest expected value.

    Infinities and NaNs must stand where they are expected; where they do not, the worst error is
    None.
    """
    wide, reference = actual.astype(np.float64), expected.astype(np.float64)
    same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
    with np.errstate(invalid="ignore"):
        differences = np.where(same, 0.0, np.abs(wide - reference))
    finite = np.abs(reference[np.isfinite(reference)])
    scale = float(finite.max()) if finite.size else 0.0
    error = float(differences.max()) if differences.size else 0.0
    worst = error / scale if scale else error
    known = worst if np.isfinite(worst) else None
    return {"ok": bool(worst <= rtol), "worst_error": known, "rtol": rtol}
