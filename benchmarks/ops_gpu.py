"""Operators of Ansor's suite tuned on an NVIDIA GPU, beside PyTorch with cuDNN and cuBLAS.

    python -m benchmarks.ops_gpu [--trials 200] [--only NAME ...] [--rounds 9] [--records FOLDER]
                                 [--out FOLDER]

Each case (GMM 1024^3, all C2D, DEP and NRM of benchmarks/ops_suite.py, batch 1) is tuned, checked
against NumPy, and timed in turns with PyTorch's ways to compute it: float32 throughout, TF32 off,
cuDNN free to try its algorithms; contiguous and channels last. Ours and theirs are launched one by
one and by twenties as a CUDA graph; the best way of each counts. Times are the device's, of a burst
of runs, a run's share of it; the median over rounds. Writes ops-gpu-<date>.json and .md to
benchmarks/results; cases of the same day that ran before stay in them. Needs no LLVM. Without
PyTorch for CUDA the peer's columns are empty.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import tilewright as tw
from benchmarks.gpu_clock import Clock, Runs, prepared
from benchmarks.ops_onnx import channels_first, outward_weight
from benchmarks.ops_reference import Array
from benchmarks.ops_suite import Case, cases
from tilewright import auto_scheduler
from tilewright.rt.timing import PIECE

RESULTS = Path(__file__).parent / "results"
GMM = "GMM 1024,1024,1024"
OPERATORS = ("C2D", "DEP", "NRM")
_BURST = 0.02
_ERROR = 1e-4  # share of the largest number by which results may be off

Work = Callable[[], Any]
Row = dict[str, Any]


def chosen() -> list[Case]:
    """The cases of this benchmark."""
    return [c for c in cases() if c.name == GMM or c.op in OPERATORS]


# -- ours


def tune(case: Case, target: Any, trials: int, file: Path, verbose: int = 1) -> Any:
    """The tuned function; the records of a search that was killed are taken up again."""
    task = task_of(case, target)
    seen = [auto_scheduler.PreloadMeasuredStates(str(file))] if file.exists() else []
    policy = auto_scheduler.SketchPolicy(task, None, verbose=verbose, init_search_callbacks=seen)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        measure_callbacks=[auto_scheduler.RecordToFile(str(file))],
        runner=auto_scheduler.LocalRunner(min_repeat_ms=30, adaptive=True),
        verbose=verbose,
    )
    task.tune(options, policy)
    return apply(task, file)


def task_of(case: Case, target: Any) -> Any:
    dag = auto_scheduler.ComputeDAG(case.func(*case.args))
    return auto_scheduler.SearchTask(compute_dag=dag, target=target, desc=case.name)


def apply(task: Any, file: Path) -> Any:
    """The best recorded program, built."""
    sch, args = task.apply_best(str(file))
    return tw.build(sch, args, task.target)


def checked(case: Case, built: Any, dev: Any, inputs: Sequence[Array]) -> tuple[Runs, float]:
    """Runs of a built function, and how far its result is off."""
    shape = case.shapes()[-1]
    out = tw.nd.empty(shape, "float32", dev)
    runs = prepared(built, [*(tw.nd.array(x, dev) for x in inputs), out])
    runs(1)()
    return runs, case.error(out.numpy(), case.reference(*inputs))


# -- PyTorch


class Torch:
    """PyTorch on the device, or nothing: `why` says why."""

    def __init__(self) -> None:
        self.why = ""
        self.torch: Any = None
        try:
            import torch
        except ImportError as error:
            self.why = f"no PyTorch: {error}"
            return
        if not torch.cuda.is_available():
            self.why = "this PyTorch has no CUDA device"
            return
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.torch = torch

    @property
    def version(self) -> str:
        if self.torch is None:
            return self.why
        return f"{self.torch.__version__}, cuDNN {self.torch.backends.cudnn.version()}"

    def ways(self, case: Case, inputs: Sequence[Array]) -> dict[str, tuple[Work, int]]:
        """Calls by name, with how many runs each is."""
        if self.torch is None:
            return {}
        if case.op == "GMM":
            eager = self._product(inputs)
        elif case.op == "NRM":
            eager = self._norm(inputs[0])
        else:
            eager = {**self._conv(case, inputs, False), **self._conv(case, inputs, True)}
        found: dict[str, tuple[Work, int]] = {name: (call, 1) for name, call in eager.items()}
        for name, call in eager.items():
            found[f"{name}, graph"] = (self._graph(call), PIECE)
        return found

    def _on(self, x: Array) -> Any:
        return self.torch.from_numpy(x).cuda()

    def _product(self, inputs: Sequence[Array]) -> dict[str, Work]:
        a, b = (self._on(x) for x in inputs[:2])
        out = self.torch.empty((a.shape[0], b.shape[1]), device="cuda")
        return {"mm": lambda: self.torch.mm(a, b, out=out)}

    def _norm(self, array: Array) -> dict[str, Work]:
        x = self._on(array)
        flat = x.reshape(len(array), -1)
        return {
            "vector_norm": lambda: self.torch.linalg.vector_norm(flat, dim=1),
            "matrix_norm": lambda: self.torch.linalg.matrix_norm(x),
            "dot": lambda: self.torch.dot(flat[0], flat[0]).sqrt(),
        }

    def _conv(self, case: Case, inputs: Sequence[Array], last: bool) -> dict[str, Work]:
        conv = case.conv
        assert conv is not None
        plain = conv.canonical(list(inputs))
        order = self.torch.channels_last if last else self.torch.contiguous_format
        x, weight = (
            self._on(v).contiguous(memory_format=order)
            for v in (channels_first(plain.x), outward_weight(plain.weight, False))
        )
        name = "channels last" if last else "contiguous"
        function = self.torch.nn.functional.conv2d

        def call() -> Any:
            return function(x, weight, None, conv.stride, conv.padding, conv.dilation, conv.groups)

        return {name: call}

    def _graph(self, call: Work) -> Work:
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(PIECE):
                call()
        return lambda: graph.replay()

    def seconds(self, work: Work, times: int) -> float:
        """Device time of one call, the mean of `times`."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / times


# -- both


def measure(case: Case, built: Any, dev: Any, torch: Torch, rounds: int) -> Row:
    """Times of our function and of PyTorch's ways, in turns."""
    inputs = case.inputs()
    runtime = dev.runtime
    before = runtime.set_stream(runtime.create_timing_stream())
    try:
        runs, error = checked(case, built, dev, inputs)
        if error > _ERROR:
            raise SystemExit(f"{case.name}: the result is {error:.1e} off")
        clock = Clock(runtime)
        timers = {
            "ours": (clock.seconds, runs(1), 1),
            "ours, graph": (clock.seconds, runs(PIECE), PIECE),
            **_timers(case, torch, inputs),
        }
        times: dict[str, list[float]] = {name: [] for name in timers}
        counts = {name: _count(*timer) for name, timer in timers.items()}
        for _ in range(rounds):
            for name, (seconds, work, runs) in timers.items():
                times[name].append(seconds(work, counts[name]) / runs)
                runtime.sync()
    finally:
        runtime.set_stream(before)
    return result(case, {name: median(values) for name, values in times.items()}, error)


def _timers(case: Case, torch: Torch, inputs: Sequence[Array]) -> dict[str, Any]:
    ways = torch.ways(case, inputs)
    return {name: (torch.seconds, work, runs) for name, (work, runs) in ways.items()}


def _count(seconds: Callable[[Work, int], float], work: Work, _runs: int) -> int:
    work()
    return max(1, round(_BURST / max(seconds(work, 3), 1e-7)))


def result(case: Case, times: dict[str, float], error: float) -> Row:
    """A row of the results. `times`: seconds by way, ours under names that begin with "ours"; the
    best of ours is beside the best of theirs."""
    peers = {k: v for k, v in times.items() if not k.startswith("ours")}
    best = min(peers, key=lambda k: peers[k]) if peers else None
    ours = min(v for k, v in times.items() if k not in peers)
    return {
        "case": case.name,
        "tuned_s": ours,
        "gflops": case.flop / ours / 1e9,
        "gbytes": case.bytes / ours / 1e9,
        "best_peer": best,
        "best_peer_s": peers[best] if best else None,
        "ratio": peers[best] / ours if best else None,
        "error": error,
        "peers": peers,
    }


def mean_ratio(rows: Sequence[Row]) -> float | None:
    """Geometric mean of the peer's time over ours, each clipped at 2."""
    ratios = [min(2.0, r["ratio"]) for r in rows if r["ratio"]]
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else None


def markdown(about: dict[str, str], rows: Sequence[Row]) -> str:
    """The results as a page."""
    lines = [f"# Operators tuned on {about['device']}, {about['date']}", ""]
    lines += [f"{k}: {v}  " for k, v in about.items()]
    heads = ("case", "tuned", "GFLOP/s", "GB/s", "trials", "best of PyTorch", "its time", "ratio")
    lines += ["", f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for r in rows:
        peer = "" if r["best_peer_s"] is None else f"{r['best_peer_s'] * 1e6:.1f} us"
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.2f}"
        cells = [
            r["case"], f"{r['tuned_s'] * 1e6:.1f} us", f"{r['gflops']:.0f}", f"{r['gbytes']:.0f}",
            str(r.get("trials", "")), r["best_peer"] or "", peer, ratio,
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    mean = mean_ratio(rows)
    if mean is not None:
        lines += ["", f"Geometric mean of the ratios, each clipped at 2: {mean:.2f}."]
    return "\n".join(lines) + "\n"


def write(about: dict[str, str], rows: Sequence[Row], out: Path) -> Path:
    """Add rows to today's results; returns the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    data = out / f"ops-gpu-{about['date']}.json"
    known: dict[str, Row] = {}
    if data.exists():
        before = json.loads(data.read_text(encoding="utf-8"))
        if before["about"]["device"] == about["device"]:
            known = {r["case"]: r for r in before["rows"]}
    known.update({r["case"]: r for r in rows})
    merged = list(known.values())
    text = json.dumps({"about": about, "rows": merged}, indent=2)
    data.write_text(f"{text}\n", encoding="utf-8")
    page = data.with_suffix(".md")
    page.write_text(markdown(about, merged), encoding="utf-8")
    return page


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--only", nargs="+", help="cases whose names begin so")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--records", type=Path, default=Path("ops-gpu-records"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(argv)
    dev = tw.cuda(0)
    if not dev.exist:
        print(f"no NVIDIA GPU to tune on: {dev.why_missing()}", file=sys.stderr)
        return 2
    wanted = [
        c for c in chosen() if not given.only or any(c.name.startswith(n) for n in given.only)
    ]
    torch, target = Torch(), tw.Target.from_device(dev)
    about = {
        "device": str(dev.device_name), "driver": str(dev.driver_version), "target": str(target),
        "date": f"{date.today()}", "python": platform.python_version(),
        "tilewright": tw.__version__, "torch": torch.version,
    }  # fmt: skip
    given.records.mkdir(parents=True, exist_ok=True)
    for case in wanted:
        begin = time.perf_counter()
        file = given.records / f"{case.name.replace(' ', '-').replace(',', '_')}.json"
        built = tune(case, target, given.trials, file)
        row = measure(case, built, dev, torch, given.rounds)
        row.update(trials=given.trials, search_s=time.perf_counter() - begin)
        page = write(about, [row], given.out)
        beside = f"{row['ratio']:.2f} of {row['best_peer']}" if row["ratio"] else torch.why
        print(f"{case.name:24} {row['tuned_s'] * 1e6:9.1f} us, {beside}", flush=True)
        print(f"written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
