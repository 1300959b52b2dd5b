"""The core's budgets in one table: import, compile, call, and a matrix product beside the FMA peak.

    python -m benchmarks.core [--json] [--only PART] [--seconds S]

Every part runs in a process of its own: imports are measured cold, and the thread pools of other
libraries, which spin, are not beside what is measured. Rates are shares of the FMA peak measured
in turns with them (benchmarks/matmul.py). The compile cache is off.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

Row = dict[str, Any]
PEERS = {"NumPy": "numpy", "PyTorch": "torch", "ONNX Runtime": "onnxruntime"}
_IMPORT = "import time; t = time.perf_counter(); import tilewright; print(time.perf_counter() - t)"


def row(what: str, value: float, unit: str, budget: float | None = None, **more: Any) -> Row:
    """A line of the table. A share has to reach its budget, all else to stay within it."""
    met = None if budget is None else (value >= budget if unit == "%" else value <= budget)
    return {"what": what, "value": value, "unit": unit, "budget": budget, "met": met, **more}


def imports(_options: Any) -> list[Row]:
    times = []
    for _ in range(9):
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True
        )
        times.append(float(done.stdout))
    return [row("import tilewright", median(times), "s", 0.25, best=min(times))]


def elementwise() -> tuple[Any, list[Any]]:
    """C = A + B over 2^20 float32 numbers, in parallel vectors."""
    from tilewright import te

    a, b = (te.placeholder((1 << 20,), name=name) for name in "AB")
    c = te.compute((1 << 20,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[c].parallel(outer)
    s[c].vectorize(inner)
    return s, [a, b, c]


def builds(_options: Any) -> list[Row]:
    """Milliseconds from a schedule to a function that can be called; `first`: in a fresh process,
    with imports and LLVM's start."""
    from benchmarks.matmul import schedule
    from tilewright import build
    from tilewright.target.target import Target

    target = Target("llvm")
    cases: list[tuple[str, float, Callable[[], tuple[Any, list[Any]]]]] = [
        ("lower + build, elementwise", 30.0, elementwise),
        ("lower + build, matmul 1024^3", 150.0, lambda: schedule(target, packed=False)),
    ]
    rows = []
    for what, budget, make in cases:
        times = []
        for _ in range(12):
            s, args = make()
            start = time.perf_counter()
            build(s, args, target, name="kernel").entry_func  # noqa: B018 (links the code)
            times.append((time.perf_counter() - start) * 1e3)
        rest = times[1:]
        rows.append(row(what, median(rest), "ms", budget, best=min(rest), first=times[0]))
    return rows


def calls(_options: Any) -> list[Row]:
    from benchmarks.call import BUDGETS_US, build_add, measure

    return [
        row(f"call, {name}", value, "us", BUDGETS_US.get(name))
        for name, value in measure(build_add()).items()
    ]


def products(options: Any) -> list[Row]:
    from benchmarks.matmul import product, rates
    from tilewright.driver.peak import clock, fma_peak
    from tilewright.rt.threads import set_num_threads
    from tilewright.target.target import Target

    target = Target("llvm")
    peak, cycles = fma_peak(target), clock(target)
    pipes = max(1, round(peak / (target.vector_bytes // 2 * cycles)))
    trust = peak / (target.vector_bytes // 2 * cycles * pipes)
    note = f"{pipes} pipes of {target.vector_bytes} bytes at {cycles / 1e9:.2f} GHz"
    rows = [row("FMA peak against the clock", trust * 100, "%", 95.0, note=note)]
    kinds = {"B packed beforehand": True, "packing included": False}
    for threads in (1, 2):
        set_num_threads(threads)
        named = {name: product(target, packed) for name, packed in kinds.items()}
        for name, found in rates(named, target, threads, limit=options.seconds).items():
            budget = 90.0 if kinds[name] else 85.0
            rows.append(_share(f"matmul, {threads} threads, {name}", budget, found))
    return rows


def _share(what: str, budget: float | None, found: dict[str, float]) -> Row:
    return row(what.replace("1 threads", "1 thread"), found["share"] * 100, "%", budget, **found)


def peer(options: Any) -> list[Row]:
    """One library's product, named by options.peer, on options.threads threads."""
    from benchmarks.matmul import inputs, rates
    from tilewright.target.target import Target

    a, b = inputs()
    call = {"NumPy": _numpy, "PyTorch": _torch, "ONNX Runtime": _onnxruntime}[options.peer]
    named = {options.peer: call(a, b, options.threads)}
    found = rates(named, Target("llvm"), options.threads, limit=options.seconds, pause=0.03)
    what = f"matmul, {options.threads} threads, {options.peer}"
    return [_share(what, None, found[options.peer])]


def _numpy(a: Any, b: Any, _threads: int) -> Callable[[], Any]:
    import numpy as np

    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out)


def _torch(a: Any, b: Any, threads: int) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty_like(x)
    return lambda: torch.mm(x, y, out=out)


def _onnxruntime(a: Any, b: Any, threads: int) -> Callable[[], Any]:
    """B as an initializer, so that the session packs it beforehand."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    shape = list(a.shape)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["A", "B"], ["C"])],
        "product",
        [helper.make_tensor_value_info("A", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("C", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(b, "B")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"A": a})


PARTS: dict[str, Callable[[Any], list[Row]]] = {
    "import": imports,
    "build": builds,
    "call": calls,
    "matmul": products,
    "peer": peer,
}


def in_process(part: str, seconds: float, name: str = "", threads: int = 0) -> list[Row]:
    """The rows of a part, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.core", "--json", "--part", part]
    command += ["--seconds", str(seconds)]
    environment = {**os.environ, "TILEWRIGHT_CACHE": "0"}
    if name:
        command += ["--peer", name, "--threads", str(threads)]
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = str(threads)
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["rows"]


def collect(options: Any) -> list[Row]:
    rows: list[Row] = []
    for part in ("import", "build", "call", "matmul"):
        if options.only in (None, part):
            rows += in_process(part, options.seconds)
    if options.only in (None, "peer"):
        for threads in (1, 2):
            for name, module in PEERS.items():
                if importlib.util.find_spec(module):
                    rows += in_process("peer", options.seconds, name, threads)
    return rows


def table(rows: list[Row]) -> str:
    """Rows as text."""
    lines = [f"{'':44} {'measured':>10}    {'budget':>6}"]
    for r in rows:
        budget = "" if r["budget"] is None else f"{r['budget']:6g}"
        verdict = {None: "", True: "met", False: "MISSED"}[r["met"]]
        more = r.get("note", "")
        if "gflops" in r:
            more = (
                f"{r['gflops']:.0f} of {r['peak_gflops']:.0f} GFLOP/s; median "
                f"{r['median_share']:.1%} of {r['quiet']:.0f} quiet rounds of {r['rounds']:.0f}"
            )
        elif "first" in r:
            more = f"best {r['best']:.1f}, first in a process {r['first']:.0f}"
        line = f"{r['what']:44} {r['value']:10.3g} {r['unit']:2} {budget:>6}  {verdict:6} {more}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", choices=list(PARTS), help="one part of the table")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time for a rate")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--peer", choices=list(PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        rows = PARTS[options.part](options)
    else:
        from tilewright.rt.busy import watched  # not in parts, which time the import

        with watched():
            rows = collect(options)
    print(json.dumps({"rows": rows}) if options.json else table(rows))


if __name__ == "__main__":
    main()
