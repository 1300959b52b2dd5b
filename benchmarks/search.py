"""How many candidates a second the evolutionary search goes through.

    python -m benchmarks.search [--model FILE] [--rounds 5] [--trials 128] [--json]

The whole search of one round is timed: sampling, mutation, crossover, removal of duplicates,
features and the scores of the cost model, for conv2d + bias + relu and for matmul. The model is the
one that the package ships, trained further on `--trials` measurements of the very task (made here,
not timed), or one given by `--model`. Rates are of the median round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from benchmarks import ops_workloads as workloads
from tilewright import auto_scheduler, te, tir
from tilewright.auto_scheduler.cost_model import XGBModel
from tilewright.auto_scheduler.population import Scorer
from tilewright.auto_scheduler.pretrained import default_model
from tilewright.rt.busy import watched


def conv2d_bias_relu() -> list[Any]:
    """relu(conv2d(x, weight) + bias): 14x14, 256 to 256 channels, 3x3."""
    x, weight, conv = workloads.conv2d(1, 14, 14, 256, 256, 3, 1, 1)
    bias = te.placeholder((256,), name="bias")
    out = te.compute(
        conv.shape,
        lambda n, h, w, c: tir.max(conv[n, h, w, c] + bias[c], tir.const(0.0, "float32")),
        name="relu",
    )
    return [x, weight, bias, out]


def matmul() -> list[Any]:
    """A matrix product of 1024x1024x1024."""
    return workloads.matmul(1, 1024, 1024, 1024)


CASES = {"conv2d+bias+relu": conv2d_bias_relu, "matmul": matmul}


def rate(name: str, rounds: int, trials: int, model_file: str | None) -> dict[str, Any]:
    """Candidates a second of one workload's search."""
    option = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    task = auto_scheduler.SearchTask(
        compute_dag=CASES[name](), target="llvm", layout_rewrite_option=option, desc=name
    )
    model = XGBModel(begin_with=model_file) if model_file else default_model()
    policy = auto_scheduler.SketchPolicy(task, model, seed=0, verbose=0)
    if trials:
        print(f"{name}: {trials} measurements to train on", file=sys.stderr, flush=True)
        with auto_scheduler.ProgramMeasurer("local", "local", [], 0) as measurer:
            policy.search(trials, None, 64, measurer)
    counted: list[tuple[int, float]] = []
    for _ in range(rounds + 1):
        before, start = Scorer.total, time.perf_counter()
        policy.propose(64)
        counted.append((Scorer.total - before, time.perf_counter() - start))
    rates = [n / s for n, s in counted[1:]]
    forest = getattr(policy.model, "_forest", None)
    return {
        "case": name,
        "candidates_per_s": statistics.median(rates),
        "slowest": min(rates),
        "candidates_per_round": counted[-1][0],
        "trees": forest.trees if forest is not None else 0,
        "sketches": len(policy.population.spaces),
    }


@watched()
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="a cost model instead of the shipped one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=128, help="measurements to train on first")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [rate(name, given.rounds, given.trials, given.model) for name in CASES]
    if given.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    for row in rows:
        print(
            f"{row['case']:18} {row['candidates_per_s']:9.0f} candidates/s (slowest round "
            f"{row['slowest']:.0f}; {row['sketches']} sketches, {row['trees']} trees)"
        )


if __name__ == "__main__":
    main()
