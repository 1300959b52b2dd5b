"""Train the cost model that ships with the package, on measurements made here.

    python -m benchmarks.train_model measure DIR [--minutes 30] [--programs 96] [--seed 0] [--large]
        [--target "llvm -mcpu=haswell"]
    python -m benchmarks.train_model fit DIR [--out FILE]

`measure` searches random workloads for a while (operators of the suite in random shapes, half of
whose sizes are round and half any number; none is one of the suite's own) and writes the features
and seconds of every program to DIR, a file for each workload; `--large` those of 1 to 12 GFLOP,
which are measured for longer. `fit` trains on all files but some, prints how well the left-out ones
are ranked, then trains on all and writes the model. The measurements stay out of the repository;
the summary that `fit` prints is in benchmarks/results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ops_workloads as workloads
from benchmarks.ops_suite import cases
from tilewright import auto_scheduler
from tilewright.auto_scheduler.boosting import Boosting
from tilewright.auto_scheduler.cost_model import XGBModel, cost_of
from tilewright.auto_scheduler.pretrained import SHIPPED

CHANNELS = (3, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768)
SIZES = (5, 6, 7, 8, 10, 12, 13, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
MATRICES = (1, 10, 32, 64, 96, 128, 197, 256, 384, 512, 768, 1000)
IMAGES = (96, 128, 160, 192, 256)
FLOP = (2e5, 2e9)
LARGE_FLOP = (1e9, 12e9)
ROUNDS = 3
FEW, ANY = 9, 0.5  # longer lists than FEW are of sizes; how often one is any number
# Half of a search's programs are never so much slower than its best, but where others disturbed it.
DISTURBED = 10.0
Draw = tuple[Any, tuple[int, ...]]


def _one(rng: np.random.Generator, values: tuple[int, ...]) -> int:
    """One of some values; of sizes, as often any number between the least and the greatest, small
    ones as likely as large ones."""
    if len(values) > FEW and rng.random() < ANY:
        return int(np.exp(rng.uniform(np.log(min(values)), np.log(max(values) + 1))))
    return int(rng.choice(values))


def draws(rng: np.random.Generator) -> Iterator[Draw]:
    """Workloads without end: a function of the suite and random arguments."""
    one = partial(_one, rng)

    def window() -> tuple[int, int, int]:
        k = one((1, 3, 3, 3, 5, 7))
        return k, one((1, 1, 2)), k // 2

    while True:
        batch = one((1, 1, 1, 2, 4, 16))
        ci, co, h, w = one(CHANNELS), one(CHANNELS), one(SIZES), one(SIZES)
        kind = int(rng.integers(16))
        if kind == 0:
            yield workloads.conv1d, (batch, one(SIZES) * 4, ci, co, *window())
        elif kind in (1, 2):
            yield workloads.conv2d, (batch, h, w, ci, co, *window())
        elif kind == 3:
            yield workloads.conv3d, (batch, one((4, 8)), h // 2, w // 2, ci, co, 3, 1, 1)
        elif kind == 4:
            g = one((2, 4, 8))
            if ci % g == 0 and co % g == 0:
                yield workloads.conv2d, (batch, h, w, ci, co, 3, one((1, 2)), 1, 1, g)
        elif kind == 5:
            yield workloads.conv2d, (batch, h, w, ci, co, 3, 1, 2, 2)
        elif kind == 6:
            yield workloads.depthwise, (batch, h, w, co, *window())
        elif kind == 7:
            yield workloads.conv2d_transpose, (batch, h // 2, w // 2, ci, co, 4, 2, 1)
        elif kind == 8:
            yield workloads.capsule, (batch, h // 3, w // 3, one((4, 8, 16)), one((8, 16)), 3, 1, 1)
        elif kind in (9, 10, 11):
            n, m, k = (one(MATRICES) for _ in range(3))
            yield workloads.matmul, (one((1, 1, 1, 8)), n, m, k, one((0, 1)))
        elif kind == 12:
            yield workloads.norm, (batch, one(SIZES) * 8, one(SIZES) * 8)
        elif kind == 13:
            yield workloads.conv_layer, (batch, h, w, ci, co, *window())
        elif kind == 14:
            side, k = one(IMAGES), one((3, 5, 7))
            first = workloads.conv_layer if one((0, 1)) else workloads.conv2d
            yield first, (1, side, side, 3, co, k, 2, k // 2)
        else:
            yield workloads.scores, (1, one((32, 64, 96)), one((4, 8, 12)), one((32, 64, 128)))


def large_draws(rng: np.random.Generator) -> Iterator[Draw]:
    """Workloads whose data do not fit the caches."""
    one = partial(_one, rng)
    channels, sides = (32, 48, 96, 128, 192, 256), (14, 20, 28, 40, 56, 80, 112)
    while True:
        kind, k = one((0, 1, 2, 3)), one((1, 3, 3, 3, 5))
        if kind == 0:
            n, m, kk = (one((384, 512, 640, 768, 896, 1280, 1536)) for _ in range(3))
            yield workloads.matmul, (1, n, m, kk, one((0, 1)))
        elif kind == 1:
            shape = (1, one((8, 16)), one(sides), one(sides), one(channels), one(channels))
            yield workloads.conv3d, (*shape, k, one((1, 1, 2)), k // 2)
        elif kind == 2:
            k, side = one((3, 5, 7)), one((96, 128, 160, 192, 256))
            yield (
                workloads.conv3d,
                (1, one((8, 12)), side, side, 3, one((32, 48, 96)), k, 2, k // 2),
            )
        else:
            image = (one((4, 8, 16)), one(sides), one(sides), one(channels), one(channels))
            yield workloads.conv2d, (*image, k, one((1, 1, 2)), k // 2)


def known() -> set[str]:
    """Workload keys of the suite, of which none may be trained on."""
    return {key_of(c.func, c.args) for batch in (1, 16) for c in cases(batch)}


def key_of(func: Any, args: tuple[int, ...]) -> str:
    """The structure and shapes of a workload, whatever its name."""
    return auto_scheduler.ComputeDAG(func(*args)).workload_key()


def measure(
    folder: Path, minutes: float, programs: int, seed: int, large: bool, target: str
) -> None:
    """Measure random workloads until the time is over."""
    drawn, (least, most) = (large_draws, LARGE_FLOP) if large else (draws, FLOP)
    folder.mkdir(parents=True, exist_ok=True)
    forbidden = known()
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    runner = auto_scheduler.LocalRunner(min_repeat_ms=20, timeout=5, adaptive=True)
    with auto_scheduler.ProgramMeasurer("local", runner, [], 0) as measurer:
        for func, args in drawn(rng):
            if time.monotonic() > end:
                return
            try:
                tensors = func(*args)
                dag = auto_scheduler.ComputeDAG(tensors)
            except Exception as error:
                print(f"skipped {func.__name__}{args}: {error}")
                continue
            key = dag.workload_key()
            if key in forbidden:
                print(f"skipped {func.__name__}{args}: a workload of the suite")
                continue
            there = (
                "" if target == "llvm" else f"-{hashlib.sha256(target.encode()).hexdigest()[:6]}"
            )
            file = folder / (hashlib.sha256(key.encode()).hexdigest()[:16] + there + ".npz")
            if not least <= dag.flop_ct <= most or file.exists():
                continue
            _measure_one(dag, target, f"{func.__name__}{args}", file, programs, measurer)


def _measure_one(
    dag: Any, target: str, name: str, file: Path, programs: int, measurer: Any
) -> None:
    """The default schedule, some programs at random or by the last shipped model, the others as a
    search would."""
    option = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    task = auto_scheduler.SearchTask(
        compute_dag=dag, target=target, layout_rewrite_option=option, desc=name
    )
    model = XGBModel(0, num_warmup_sample=1, begin_with=_earlier())
    policy = auto_scheduler.SketchPolicy(task, model, verbose=0, params={"eps_greedy": 0.4})
    rows, counts, costs = [], [], []
    start = time.monotonic()
    for _ in range(ROUNDS):
        inputs, results = policy.continue_search_one_round(programs // ROUNDS, measurer)
        for item, result in zip(inputs, results):
            values = policy.features(item.state)
            if values is None:
                continue
            rows.append(values)
            counts.append(len(values))
            costs.append(cost_of(result))
    if not np.isfinite(costs).any():
        print(f"{name}: nothing ran")
        return
    np.savez_compressed(
        file, rows=np.concatenate(rows), counts=counts, costs=costs, name=name, flop=dag.flop_ct
    )
    rate = dag.flop_ct / np.min(costs) / 1e9
    print(
        f"{name}: {len(costs)} programs, best {rate:.0f} GFLOP/s, "
        f"{(time.monotonic() - start) / len(costs):.2f} s each",
        flush=True,
    )


def _earlier() -> Path | None:
    return SHIPPED if SHIPPED.exists() else None


def fit(folder: Path, out: Path, boosting: Boosting) -> None:
    """Train, say how well left-out workloads are ranked, and write the model of all."""
    files = sorted(folder.glob("*.npz"))
    data = [d for d in map(np.load, files) if undisturbed(d["costs"])]
    forbidden = {hashlib.sha256(key.encode()).hexdigest()[:16] for key in known()}
    assert not forbidden & {f.stem[:16] for f in files}, "a workload of the suite was trained on"
    left_out = set(range(0, len(data), 8))
    model = _trained([d for n, d in enumerate(data) if n not in left_out], boosting)
    summary: dict[str, Any] = {"workloads": len(data), "disturbed": len(files) - len(data)}
    summary |= {"programs": int(sum(len(d["costs"]) for d in data))}
    shares = {}
    for n in sorted(left_out):
        d = data[n]
        offsets = np.concatenate([[0], np.cumsum(d["counts"])])
        scores = model.predict_programs(d["rows"], offsets)
        order = np.argsort(-scores)
        best = float(d["costs"].min())
        shares[str(d["name"])] = [
            round(best / float(d["costs"][order[:k]].min()), 2) for k in (1, 5, 10)
        ]
    summary["best_of_top_1_5_10_against_best_of_all"] = {
        "median": [float(np.median([s[k] for s in shares.values()])) for k in range(3)],
        "each": shares,
    }
    final = _trained(data, boosting)
    out.parent.mkdir(parents=True, exist_ok=True)
    final.save(out)
    summary["bytes"] = out.stat().st_size
    print(json.dumps(summary, indent=1))


def undisturbed(costs: Any) -> bool:
    """Whether the seconds of a workload's programs are those of programs, not of a busy machine."""
    good = np.sort(costs[np.isfinite(costs)])
    return bool(good[len(good) // 2] < DISTURBED * good[0])


def _trained(data: list[Any], boosting: Boosting) -> XGBModel:
    model = XGBModel(0, num_warmup_sample=1, boosting=boosting)
    for n, d in enumerate(data):
        offsets = np.concatenate([[0], np.cumsum(d["counts"])])
        model.add(n, d["rows"], offsets, list(d["costs"]))
    model.retrain()
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("folder", type=Path)
    one.add_argument("--minutes", type=float, default=30.0)
    one.add_argument("--programs", type=int, default=96)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--large", action="store_true")
    one.add_argument("--target", default="llvm")
    two = commands.add_parser("fit")
    two.add_argument("folder", type=Path)
    two.add_argument("--out", type=Path, default=SHIPPED)
    two.add_argument("--trees", type=int, default=400)
    two.add_argument("--depth", type=int, default=6)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.folder, given.minutes, given.programs, given.seed, given.large, given.target)
    else:
        fit(given.folder, given.out, Boosting(rounds=given.trees, max_depth=given.depth))


if __name__ == "__main__":
    main()
