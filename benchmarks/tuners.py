"""Do the tuners find more than random search, at equal trials?

    python -m benchmarks.tuners [--trials 64] [--seeds 5] [--space synthetic|conv|both] [--json F]

Two spaces. "synthetic" is a formula with the habits of real ones: tiles that fit a cache or spill,
vector lengths, tails, interactions, and failures. "conv" is a convolution on this machine's CPU;
each configuration is built and timed once, when a tuner first asks for it, and kept in a store, so
that all tuners see the same measurements and a run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tilewright as tvm
from tilewright import autotvm, te
from tilewright.measure.progress import Progress
from tilewright.measure.result import MeasureErrorNo, Measurement
from tilewright.measure.store import Store
from tilewright.rt.busy import watched
from tilewright.template.measure import Batches, as_result
from tilewright.template.task import Task
from tilewright.template.tuner import Tuner

TUNERS: dict[str, Callable[[Task, int], Tuner]] = {
    "random": lambda task, seed: autotvm.tuner.RandomTuner(task, seed=seed),
    "ga": lambda task, seed: autotvm.tuner.GATuner(task, seed=seed),
    "xgb": lambda task, seed: autotvm.tuner.XGBTuner(task, seed=seed),
}
Measure = Callable[[Sequence[Any]], list[Measurement]]
BATCH = 8


@autotvm.template("benchmarks/synthetic")
def synthetic(n: int) -> tuple[Any, list[Any]]:
    """Knobs only: `synthetic_seconds` says how long a configuration takes."""
    A = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    cfg = autotvm.get_config()
    cfg.define_split("y", cfg.axis(n), num_outputs=3)
    cfg.define_split("x", cfg.axis(n), num_outputs=3)
    cfg.define_split("k", cfg.axis(n), num_outputs=2)
    cfg.define_knob("unroll", [0, 16, 64, 512])
    cfg.define_reorder("order", [0, 1, 2], policy="all")
    return te.create_schedule(C.op), [A, C]


def synthetic_seconds(config: Any, n: int) -> float | None:
    """Seconds of a configuration; None where it fails."""
    (_, ym, yi), (_, xm, xi) = config["y"].size, config["x"].size
    ki = config["k"].size[-1]
    unroll, order = config["unroll"].val, config["order"].perm
    registers = yi * max(1, xi / 16)
    if registers * max(ki, 1) > 4096 and unroll == 512:
        return None  # too much code
    vector = 1.0 if xi % 16 == 0 else 0.55 if xi % 8 == 0 else 0.3 if xi % 4 == 0 else 0.12
    reuse = 1.0 / (1.0 + 3.0 / yi + 12.0 / max(xi, 1))
    spill = 1.0 if registers <= 28 else 28.0 / registers
    tile = 4.0 * (yi * ym * ki + xi * xm * ki + yi * ym * xi * xm)
    cache = 1.0 / (1.0 + (tile / 32768.0) ** 0.7) * 1.4 if tile > 32768 else 1.0
    overhead = 1.0 - 0.5 / (1.0 + math.log2(1 + ki * (1 if unroll == 0 else 4)))
    bonus = (1.0, 1.1, 1.25, 1.15)[(0, 16, 64, 512).index(unroll)] if registers < 16 else 1.0
    turn = (1.0, 0.8, 0.95, 0.6, 0.7, 0.5)[order[0] * 2 + (order[1] > order[2])]
    speed = 100e9 * vector * reuse * spill * min(cache, 1.0) * overhead * bonus * turn
    noise = 1.0 + 0.03 * math.sin(12.9898 * (config.index % 100003))
    return 2.0 * n**3 / speed * noise


@autotvm.template("benchmarks/conv")
def conv(ci: int, size: int, co: int) -> tuple[Any, list[Any]]:
    """A 3x3 convolution, NCHW, whose output channels are packed into vectors."""
    cfg = autotvm.get_config()
    data = te.placeholder((ci, size + 2, size + 2), name="data")
    kernel = te.placeholder((co, ci, 3, 3), name="kernel")
    cfg.define_knob("vc", [4, 8, 16, 32])
    vc = cfg["vc"].val
    packed = te.compute(
        (co // vc, ci, 3, 3, vc), lambda o, c, y, x, v: kernel[o * vc + v, c, y, x], name="packed"
    )
    c, dy, dx = (te.reduce_axis((0, e), n) for e, n in ((ci, "c"), (3, "dy"), (3, "dx")))
    out = te.compute(
        (co // vc, size, size, vc),
        lambda o, y, x, v: te.sum(
            data[c, y + dy, x + dx] * packed[o, c, dy, dx, v], axis=[c, dy, dx]
        ),
        name="out",
    )
    s = te.create_schedule(out.op)
    o, y, x, v = s[out].op.axis
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=8)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=28)
    cfg.define_split("tile_c", c, num_outputs=2, max_factor=32)
    cfg.define_reorder("order", [0, 1, 2], policy="all")
    cfg.define_annotate("unroll", [dy, dx], policy="try_unroll")
    cfg.define_knob("local", [False, True])
    tile = s.cache_write(out, "local") if cfg["local"].val else None
    yo, yi = cfg["tile_y"].apply(s, out, y)
    xo, xi = cfg["tile_x"].apply(s, out, x)
    s[out].reorder(o, yo, xo, yi, xi, v)
    s[out].vectorize(v)
    body: Any = out
    if tile is not None:
        s[tile].compute_at(s[out], xo)
        body = tile
        _, yi, xi, v = s[tile].op.axis
        s[tile].vectorize(v)
    c, dy, dx = s[body].op.reduce_axis
    co_, ci_ = cfg["tile_c"].apply(s, body, c)
    inner = [[ci_], [dy, dx], [yi, xi]]
    loops = [a for place in cfg["order"].perm for a in inner[place]]
    s[body].reorder(co_, *loops, v)
    cfg["unroll"].apply(s, body, [dy, dx])
    return s, [data, kernel, out]


def synthetic_measure(task: Task, n: int) -> Measure:
    def measure(configs: Sequence[Any]) -> list[Measurement]:
        found = [synthetic_seconds(c, n) for c in configs]
        return [
            Measurement((), MeasureErrorNo(2), "fails") if s is None else Measurement((s,))
            for s in found
        ]

    return measure


def stored_measure(task: Task, store: Store, batches: Batches) -> Measure:
    """Measurements of a task on this machine, each made once."""
    key = (json.dumps(task.workload), str(task.target))
    known = dict(store.find(*key))

    def measure(configs: Sequence[Any]) -> list[Measurement]:
        names = [json.dumps(c.to_json_dict()["entity"]) for c in configs]
        new = [(n, c) for n, c in zip(names, configs) if n not in known]
        for place, result in batches.measure([c for _, c in new]):
            if result.ok:  # the least is what other programs have disturbed the least
                result = replace(result, costs=(min(result.costs),))
            store.add(*key, new[place][0], result)
            known[new[place][0]] = result
        return [known[n] for n in names]

    return measure


def search(task: Task, tuner: Tuner, measure: Measure, trials: int, step: Any) -> list[float]:
    """Best GFLOP/s after each trial."""
    target = task.target
    assert target is not None
    tuner.prepare(trials)
    best: list[float] = []
    while len(best) < trials and tuner.has_next():
        configs = tuner.next_batch(min(BATCH, trials - len(best)))
        tuner.visited.update(c.index for c in configs if c.index is not None)
        found = measure(configs)
        for result in found:
            rate = task.flop / result.cost / 1e9
            best.append(max(rate, best[-1] if best else 0.0))
        inputs = [autotvm.MeasureInput(target, task, c) for c in configs]
        tuner.update(inputs, [as_result(r) for r in found])
        step(len(configs), best[-1])
    return best


def compare(name: str, task: Task, measure: Measure, trials: int, seeds: int) -> dict[str, Any]:
    """Each tuner's best of each seed, and the medians."""
    progress = Progress(trials * seeds * len(TUNERS), name)
    done = 0

    def step(count: int, best: float) -> None:
        nonlocal done
        done += count
        progress.update(done, f"best {best:.1f} GFLOP/s")

    table: dict[str, Any] = {"space": name, "size": len(task.config_space), "trials": trials}
    for tuner, make in TUNERS.items():
        curves = [search(task, make(task, s), measure, trials, step) for s in range(seeds)]
        table[tuner] = {
            "best": [c[-1] for c in curves],
            "median": statistics.median(c[-1] for c in curves),
            "median_at_half": statistics.median(c[len(c) // 2 - 1] for c in curves),
        }
    progress.close(done, "done")
    return table


def show(table: dict[str, Any]) -> None:
    print(f"{table['space']}: {table['size']} configurations, {table['trials']} trials, GFLOP/s")
    base = table["random"]["median"]
    for tuner in TUNERS:
        row = table[tuner]
        seeds = " ".join(f"{b:7.1f}" for b in row["best"])
        print(f"  {tuner:<8}median {row['median']:7.1f} ({row['median'] / base:4.2f}x)  of {seeds}")


@watched()
def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 1 where a tuner's median is below that of random search."""
    parser = argparse.ArgumentParser(description="Compare the tuners with random search.")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--space", choices=("synthetic", "conv", "both"), default="both")
    parser.add_argument("--store", type=Path, help="keep the convolution's measurements here")
    parser.add_argument("--json", type=Path, help="write the results here")
    args = parser.parse_args(argv)
    tables = []
    if args.space != "conv":
        n = 1024
        task = autotvm.task.create("benchmarks/synthetic", args=(n,), target="llvm")
        measure = synthetic_measure(task, n)
        tables.append(compare("synthetic", task, measure, args.trials, args.seeds))
        show(tables[-1])
    if args.space != "synthetic":
        task = autotvm.task.create("benchmarks/conv", args=(64, 28, 64), target="llvm")
        runner = autotvm.LocalRunner(
            number=1, repeat=7, min_repeat_ms=3, cooldown_interval=0, stop_early=False
        )
        option = autotvm.measure_option(autotvm.LocalBuilder(timeout=60), runner)
        with tempfile.TemporaryDirectory() as folder:
            path = args.store or Path(folder) / "conv.db"
            with Store(path) as store, Batches(task, option) as batches:
                measure = stored_measure(task, store, batches)
                tables.append(compare("conv", task, measure, args.trials, args.seeds))
        show(tables[-1])
    if args.json:
        args.json.write_text(json.dumps(tables, indent=1) + "\n")
    better = all(t[k]["median"] >= t["random"]["median"] for t in tables for k in TUNERS)
    return 0 if better else 1


if __name__ == "__main__":
    assert tvm.__version__
    sys.exit(main())
