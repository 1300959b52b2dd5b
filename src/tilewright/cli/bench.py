"""`tilewright bench`: operators and networks beside the other runtimes that are installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from ..base.errors import TilewrightError, UsageError
from ..graph.compile_model import compile as compile_model
from ..graph.onnx.load import load_onnx
from ..graph.onnx.single import single_node
from ..rt import threads
from ..rt.busy import Watch
from . import show
from .data import SEED, Array, Signature, compare, input_data, shapes_of
from .latency import turns
from .peers import PEERS, installed
from .run import set_threads
from .units import time_text

OURS = "tilewright"
_ROUNDS = 6
_RTOL = 1e-3


@dataclass(frozen=True)
class Operator:
    """An operator at sizes at which networks use it. known: the inputs that belong to the model, as
    weights do."""

    op: str
    shapes: Sequence[tuple[int, ...]]
    known: Sequence[int] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def model(self) -> tuple[bytes, dict[str, Array]]:
        """The file of a model of it alone, and data for its inputs."""
        rng = np.random.default_rng(SEED)
        arrays = {f"x{k}": rng.standard_normal(s, np.float32) for k, s in enumerate(self.shapes)}
        known = {name: a for k, (name, a) in enumerate(arrays.items()) if k in self.known}
        feeds = {name: a for name, a in arrays.items() if name not in known}
        return single_node(self.op, [*arrays], feeds, known, self.attributes), feeds


_CONV = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
OPERATORS: dict[str, Operator] = {
    "matmul-512": Operator("MatMul", [(512, 512), (512, 512)]),
    "matmul-tall": Operator("MatMul", [(128, 768), (768, 3072)], [1]),
    "matmul-row": Operator("MatMul", [(1, 1024), (1024, 1000)], [1]),
    "matmul-batch": Operator("MatMul", [(12, 128, 64), (12, 64, 128)]),
    "conv-3x3": Operator("Conv", [(1, 64, 56, 56), (64, 64, 3, 3), (64,)], [1, 2], _CONV),
    "conv-1x1": Operator("Conv", [(1, 256, 28, 28), (128, 256, 1, 1), (128,)], [1, 2]),
    "conv-depth": Operator(
        "Conv", [(1, 96, 56, 56), (96, 1, 3, 3), (96,)], [1, 2], {**_CONV, "group": 96}
    ),
    "max-pool": Operator(
        "MaxPool", [(1, 64, 112, 112)], (), {"kernel_shape": [3, 3], "strides": [2, 2]}
    ),
    "softmax": Operator("Softmax", [(512, 1000)]),
    "layer-norm": Operator("LayerNormalization", [(128, 768), (768,), (768,)], [1, 2]),
    "gelu": Operator("Gelu", [(128, 3072)]),
    "sum": Operator("ReduceSum", [(1024, 1024)]),
    "transpose": Operator("Transpose", [(1024, 1024)], (), {"perm": [1, 0]}),
}


@dataclass(frozen=True)
class Options:
    """The command's options, see main.py."""

    what: Sequence[str]
    peers: Sequence[str]
    seconds: float
    shapes: Sequence[str]
    records: str | None
    threads: int | None
    as_list: bool
    as_json: bool


def bench(options: Options) -> int:
    """Run the command; 1 where a result differs, or something of ours does not run."""
    if options.as_list:
        print("\n".join(OPERATORS))
        return 0
    if not 0 < options.seconds < 3600:
        raise UsageError(f"--seconds is above 0 and below 3600, got {options.seconds:g}")
    names = list(options.what) or [*OPERATORS]
    for name in names:
        _require(name)
    missing = [p for p in options.peers if p not in installed()]
    if missing:
        raise TilewrightError(f"--with: {missing[0]} is not installed: pip install {missing[0]}")
    set_threads(options.threads)
    peers, watch, rows = list(dict.fromkeys(options.peers)) or installed(), Watch(), []
    with show.progress("measuring", "rows") as step, show.warnings_as_notes():
        for k, name in enumerate(names):
            rows.append(_measure(name, peers, options))
            step(k + 1, len(names), name)
    report = {"threads": threads.num_threads(), "peers": peers, "rows": rows}
    busy = watch.note()
    if busy is not None:
        report["busy"] = busy
    if options.as_json:
        print(json.dumps(report))
    else:
        _print(report)
    return int(any(not row["ok"] for row in rows))


def _require(name: str) -> None:
    """UsageError for what is neither an operator nor a model."""
    if name in OPERATORS or Path(name).is_file():
        return
    near = get_close_matches(name, OPERATORS)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise UsageError(
        f"there is no model {name}, and no operator of that name{hint}; operators: "
        f"{', '.join(OPERATORS)}"
    )


def _measure(name: str, peers: Sequence[str], options: Options) -> dict[str, Any]:
    """One row: seconds of each, whether outputs agree, and what failed. What goes wrong in one row
    stands in it."""
    row: dict[str, Any] = {"what": name, "ok": False, "seconds": {}, "median_s": {}, "failed": {}}
    try:
        model, arrays = _case(name, options)
        net = compile_model(
            model, records=options.records, shapes=shapes_of(options.shapes) or None
        )
        results = net.run(arrays)
    except TilewrightError as error:
        row["failed"][OURS] = str(error)
        return row
    calls, row["ok"], worst = {OURS: net.prepare(arrays)}, True, 0.0
    for peer in peers:
        try:
            found = PEERS[peer](model, arrays)
        except Exception as error:  # each has errors of its own
            row["failed"][peer] = (str(error).strip().splitlines() or [type(error).__name__])[0]
            continue
        for mine, theirs in zip(results.values(), found.outputs.values()):
            judged = compare(np.asarray(mine), np.asarray(theirs), _RTOL)
            row["ok"] &= judged["ok"]
            worst = max(worst, np.inf if judged["worst_error"] is None else judged["worst_error"])
        calls[peer] = found.prepare()
    row["worst_error"] = worst if np.isfinite(worst) else None
    part = options.seconds / _ROUNDS
    for who, times in zip(calls, turns(list(calls.values()), _ROUNDS, part)):
        row["seconds"][who], row["median_s"][who] = min(times), median(times)
    others = [s for who, s in row["seconds"].items() if who != OURS]
    row["speedup"] = min(others) / row["seconds"][OURS] if others else None
    return row


def _case(name: str, options: Options) -> tuple[str | bytes, dict[str, Array]]:
    """A model, by its path or its bytes, and data for it."""
    if name in OPERATORS:
        return OPERATORS[name].model()
    graph = load_onnx(name, shapes_of(options.shapes))
    return name, input_data(Signature.of(graph), {})[0]


def _print(report: Mapping[str, Any]) -> None:
    """The table: the least time of each, and how many times as fast as the best of the others."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    table = show.narrow_table()
    table.add_column("what", overflow="fold")
    for name in (OURS, *report["peers"], "faster"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report["rows"]:
        times = [time_text(row["seconds"].get(who)) for who in (OURS, *report["peers"])]
        ratio = "-" if row.get("speedup") is None else f"{row['speedup']:.2f}x"
        table.add_row(Path(row["what"]).name, *times, ratio if row["ok"] else "WRONG")
    console.print(table)
    ratios = [row["speedup"] for row in report["rows"] if row.get("speedup")]
    if ratios:
        mean = f"{geometric_mean(ratios):.2f}x as fast as the best of the others"
        console.print(f"geometric mean: {mean}, {report['threads']} threads", soft_wrap=True)
    else:
        console.print("no other runtime ran: pip install onnxruntime openvino", soft_wrap=True)
    for row in report["rows"]:
        for who, text in row["failed"].items():
            console.print(f"{row['what']}: {who}: {text}", soft_wrap=True)
        if not row["ok"] and row["seconds"]:
            worst = row["worst_error"]
            how = "not finite" if worst is None else f"{worst:.3g} of the largest value"
            console.print(f"{row['what']}: outputs differ, worst error {how}", soft_wrap=True)
    if "busy" in report:
        console.print(f"note: {report['busy']}", soft_wrap=True)
