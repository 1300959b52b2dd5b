"""Quantised networks for benchmarks.precision: ours and ONNX Runtime's, in steps of each result.

Networks of precision_models.py and some with bytes at their ends are quantised by ONNX Runtime's
own tools in several ways. Every quantised result is then an output of the file, and compared:

- `whole`: from the network's inputs to each result. A sum that lies on the edge between two steps
  falls to either side, and what follows goes on from there, so that steps add up.
- `alone`: each result from the quantised ones before it, which are ONNX Runtime's for both.

ONNX Runtime runs the file as it is written (conversions, products of floats); `fused` says how far
its fused kernels are from that: sums of bytes saturate at 16 bits on processors without VNNI, and
so does what it has for dynamic quantisation. ONNX's evaluator gives the results in float64.
Bar: within one step of ONNX Runtime; where it is farther, no farther from float64 than ONNX
Runtime, in the largest number of steps and in the share of results that differ.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.architectures import export
from benchmarks.networks_models import Made
from benchmarks.networks_quantize import WAYS, quantised
from benchmarks.precision_models import models, settled

SEED = 7
CALIBRATIONS = 3
Row = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]
Figures = Sequence[Any]
"""Steps, the share of results that differ, where."""


def _ends(nn: Any) -> Any:
    """Sums of thousands of products at the ends of bytes, where pairs saturate 16 bits."""
    import torch

    model = nn.Sequential(nn.Linear(4096, 64), nn.ReLU(), nn.Linear(64, 16))
    with torch.no_grad():
        model[0].weight.copy_(torch.sign(model[0].weight) * 0.01)
        model[0].weight[:, ::3] = 0.01
    return model


def _ends_of_bytes() -> Made:
    import torch

    return _ends(torch.nn), (torch.rand(8, 4096).round() * 4 - 1,)


def _ends_of_pixels() -> Made:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Conv2d(256, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 1))
    with torch.no_grad():
        model[0].weight.copy_(torch.sign(model[0].weight - 0.005) * 0.01)
    return model, (torch.rand(1, 256, 9, 9).round() * 4 - 1,)


_STATIC = tuple(w for w in WAYS if "dynamic" not in w)
_DYNAMIC = tuple(w for w in WAYS if "dynamic" in w)
_DRAWN: dict[str, Callable[[], Made]] = {
    "dense at the ends of bytes": _ends_of_bytes,
    "conv at the ends of bytes": _ends_of_pixels,
}
_ASKED = (
    (("dense at the ends of bytes", "bert_128", "gpt2_prefill", "vit_b_16"), tuple(WAYS)),
    (("conv at the ends of bytes", "resnet18", "mobilenet_v2", "densenet121", "unet"), _STATIC),
    (("squeezenet1_1",), _STATIC),
    (("convnext_tiny", "efficientnet_b0", "mobilenet_v3"), _STATIC[1:2]),
    (("lstm", "albert"), _DYNAMIC),
)
NETWORKS = {
    f"{name}, {way}": (name, way) for names, ways in _ASKED for name in names for way in ways
}


def results_of(model: Any) -> dict[str, int]:
    """The quantised results of a file that are no constants, with their types."""
    from onnx import TensorProto

    known = {w.name: w.data_type for w in model.graph.initializer}
    found: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            found[node.output[0]] = TensorProto.UINT8
        elif node.op_type == "QuantizeLinear" and node.input[0] not in known:
            zero = known.get(node.input[2]) if len(node.input) > 2 else TensorProto.UINT8
            found[node.output[0]] = zero or TensorProto.UINT8
    return found


def exposed(model: Any) -> Any:
    """A file whose quantised results are outputs too."""
    import onnx
    from onnx import helper

    made = onnx.ModelProto()
    made.CopyFrom(model)
    own = {v.name for v in made.graph.output}
    for name, kind in results_of(model).items():
        if name not in own:
            made.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    for node in model.graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            made.graph.output.append(helper.make_tensor_value_info(node.output[1], 1, None))
            made.graph.output.append(helper.make_tensor_value_info(node.output[2], 2, None))
    return made


GIVEN = ".given"


def apart(model: Any, values: Arrays) -> Any:
    """A file of which each quantised result is made of those before as they are in `values`, which
    are inputs `NAME.given`."""
    import onnx
    from onnx import helper

    made = onnx.ModelProto()
    made.CopyFrom(model)
    names = {v.name for v in model.graph.output} & values.keys()
    results = results_of(model)
    for node in model.graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            results |= {node.output[1]: 1, node.output[2]: 2}
    names &= results.keys()
    for name in sorted(names):
        info = helper.make_tensor_value_info(name + GIVEN, results[name], values[name].shape)
        made.graph.input.append(info)
    for node in made.graph.node:
        for k, name in enumerate(node.input):
            if name in names:
                node.input[k] = name + GIVEN
    return made


def run_onnxruntime(model: Any, data: Arrays, fused: bool) -> Arrays:
    """All outputs by name: as written, or with all of its optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not fused:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    raw = model.SerializeToString()
    session = ort.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    wanted = {v.name for v in session.get_inputs()}
    outputs = session.run(None, {n: x for n, x in data.items() if n in wanted})
    return dict(zip([v.name for v in session.get_outputs()], map(np.asarray, outputs)))


def run_tilewright(model: Any, data: Arrays, target: str) -> Arrays:
    """All outputs by name."""
    import tilewright

    net = tilewright.compile(model.SerializeToString(), target)
    wanted = {v.name for v in model.graph.input}
    return dict(net.run({n: x for n, x in data.items() if n in wanted}))


def steps(found: Arrays, wanted: Arrays, names: Sequence[str]) -> Figures:
    """The largest difference of quantised results, the share that differs, and where it is."""
    most, where, off, count = 0, "", 0, 0
    for name in names:
        away = np.abs(found[name].astype(np.int64) - wanted[name].astype(np.int64))
        off, count = off + int(np.count_nonzero(away)), count + away.size
        if away.size and away.max() > most:
            most, where = int(away.max()), name
    return most, off / max(count, 1), where


def floats(found: Arrays, wanted: Arrays) -> float:
    """The largest difference of the floats among the outputs, over the largest of each."""
    worst = 0.0
    for name, want in wanted.items():
        if want.dtype == np.float32 and want.size and np.abs(want).max():
            far = np.abs(found[name].astype(np.float64) - want).max() / np.abs(want).max()
            worst = max(worst, float(far))
    return worst


def measure(name: str, _precision: str, target: str) -> list[Row]:
    """The row of a quantised network."""
    import onnx
    import torch

    drawn, way = NETWORKS[name]
    torch.manual_seed(SEED)
    torch.backends.mha.set_fastpath_enabled(False)  # which no operator of ONNX stands for
    module, inputs = {**models(), **_DRAWN}[drawn]()
    settled(module.eval(), inputs)
    data = {f"x{k}": x.numpy() for k, x in enumerate(inputs)}
    floating = [k for k, x in data.items() if x.dtype == np.float32]
    draws = [
        data | {k: data[k] * np.float32(0.8 + 0.1 * n) for k in floating}
        for n in range(CALIBRATIONS)
    ]
    row: Row = {"network": name, "precision": "int8"}
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder, "float.onnx"), Path(folder, "bytes.onnx")
        export(module, inputs, source, "old", [])
        quantised(source, path, WAYS[way], draws)
        model = exposed(onnx.load(path))
    figures, made = _peers(model, data)
    row |= figures
    try:
        _ours(made, row, target)
    except Exception as error:  # a fault, which belongs into the table
        row["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"[:300]
    return [row]


@dataclass(frozen=True)
class _Made:
    """A network in both forms, what goes in, and what ONNX Runtime and float64 give: of the whole,
    and of each result alone."""

    files: Sequence[Any]
    given: Sequence[Arrays]
    names: Sequence[str]
    peer: Sequence[Arrays]
    exact: Sequence[Arrays | None]


def _peers(model: Any, data: Arrays) -> tuple[Row, _Made]:
    """What there is to compare with, and how far ONNX Runtime is from float64."""
    from benchmarks.precision_exact import run_exact

    names = list(results_of(model))
    whole = run_onnxruntime(model, data, False)
    files = (model, apart(model, whole))
    given = (data, data | {n + GIVEN: x for n, x in whole.items()})
    peer = (whole, run_onnxruntime(files[1], given[1], False))
    exact = [run_exact(f, g, names) for f, g in zip(files, given)]
    row: Row = {"results": len(names)}
    row["peer_fused"] = steps(run_onnxruntime(files[1], given[1], True), peer[1], names)
    for key, p, e in zip(("peer_whole_exact", "peer_exact"), peer, exact):
        row[key] = None if e is None else steps(p, e, names)
    return row, _Made(files, given, names, peer, exact)


def _ours(made: _Made, row: Row, target: str) -> None:
    """How far ours is from both."""
    for k, (key, exact) in enumerate((("whole", "whole_exact"), ("alone", "exact"))):
        mine = run_tilewright(made.files[k], made.given[k], target)
        wanted, reference = made.peer[k], made.exact[k]
        row[key] = steps(mine, wanted, made.names)
        row[f"{key}_floats"] = floats(mine, wanted)
        row[exact] = None if reference is None else steps(mine, reference, made.names)


def good(row: Row) -> bool:
    """Whether a row keeps to the bar: each result alone, and all together."""
    return _near(row["alone"], row["exact"], row["peer_exact"]) and _near(
        row["whole"], row["whole_exact"], row["peer_whole_exact"]
    )


def _near(far: Figures, mine: Figures | None, theirs: Figures | None) -> bool:
    """Within a step of ONNX Runtime; or nearer to float64 than that, in steps and in number."""
    if far[0] <= 1:
        return True
    if mine is None or theirs is None:
        return False
    return all(a <= b for a, b in zip(mine[:2], theirs[:2]))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as Markdown, the worst first."""
    yield "Largest difference in steps, and the share of results that differ.\n"
    yield "| network | results | alone | whole | float64: ours; theirs | whole: the same | fused |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for r in sorted(rows, key=lambda r: (0, 0) if "failed" in r else (1, -r["whole"][0])):
        if "failed" in r:
            yield f"| {r['network']} | {r['results']} | {r['failed']} | | | | |"
            continue
        pairs = (("exact", "peer_exact"), ("whole_exact", "peer_whole_exact"))
        both = ["; ".join(_cell(r[k]) for k in pair) for pair in pairs]
        cells = [_cell(r["alone"]), _cell(r["whole"]), *both, _cell(r["peer_fused"])]
        yield f"| {r['network']} | {r['results']} | {' | '.join(cells)} |"
    yield ""


def _cell(figures: Figures | None) -> str:
    return "none" if figures is None else f"{figures[0]} ({figures[1]:.1e})"
