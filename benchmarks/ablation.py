"""What parts of the search add: the best after equal trials without crossover, layouts, packing.

    python -m benchmarks.ablation [--trials 128] [--seeds 3] [--cases SUBSTRING,...] [--json]

Each variant searches the same cases with the same seeds. A share below 1 says how much slower the
best program of the variant is than that of the whole search; medians over seeds, geometric means
over cases.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from typing import Any

from benchmarks.ops_suite import Case, cases
from tilewright import auto_scheduler

DEFAULT_CASES = "C2D 14,14;C2D 56,56;GMM 512,512,512;GMM 1024;T2D 8,8;ConvLayer 28,28"
OPTION = auto_scheduler.LayoutRewriteOption
VARIANTS: dict[str, tuple[dict[str, Any], Any]] = {
    "whole search": ({}, OPTION.REWRITE_FOR_PRE_TRANSFORMED),
    "no crossover": (
        {"evolutionary_search_mutation_prob": 1.0},
        OPTION.REWRITE_FOR_PRE_TRANSFORMED,
    ),
    "no evolution": (
        {"evolutionary_search_num_iters": 0},
        OPTION.REWRITE_FOR_PRE_TRANSFORMED,
    ),
    "no layout rewrite": ({}, OPTION.NO_REWRITE),
    "no packing": ({"pack_operands": 0}, OPTION.REWRITE_FOR_PRE_TRANSFORMED),
}


def best_of(case: Case, variant: str, trials: int, seed: int, measurer: Any) -> float:
    """Seconds of the best program that a variant of the search finds."""
    params, option = VARIANTS[variant]
    auto_scheduler.register_workload(case.func, override=True)
    task = auto_scheduler.SearchTask(
        func=case.func, args=case.args, target="llvm", layout_rewrite_option=option
    )
    policy = auto_scheduler.SketchPolicy(task, params=params, seed=seed, verbose=0)
    policy.search(trials, None, 32, measurer)
    return float(policy.best_cost)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", default=DEFAULT_CASES, help="parts of names, ; between them")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    parts = given.cases.split(";")
    chosen = [c for c in cases() if any(p in c.name for p in parts)]
    rows: list[dict[str, Any]] = []
    with auto_scheduler.ProgramMeasurer("local", "local", [], 0) as measurer:
        for case in chosen:
            seconds: dict[str, list[float]] = {v: [] for v in VARIANTS}
            for seed in range(given.seeds):
                for variant in VARIANTS:  # in turn, so that a slow phase of the machine meets all
                    found = best_of(case, variant, given.trials, seed, measurer)
                    seconds[variant].append(found)
                    print(
                        f"{case.name}: {variant}, seed {seed}: {found * 1e6:.1f} us",
                        file=sys.stderr,
                    )
            rows.append({"case": case.name, "seconds": seconds})
    whole = "whole search"
    means = {}
    for variant in VARIANTS:
        shares = [
            statistics.median(r["seconds"][whole]) / statistics.median(r["seconds"][variant])
            for r in rows
        ]
        means[variant] = math.exp(statistics.fmean(math.log(s) for s in shares))
    if given.json:
        print(json.dumps({"rows": rows, "geometric_means": means}, indent=1))
        return
    print(f"{'case':28}" + "".join(f"{v:>20}" for v in VARIANTS))
    for r in rows:
        medians = {v: statistics.median(r["seconds"][v]) for v in VARIANTS}
        cells = [f"{m * 1e6:9.1f} us ({medians[whole] / m:4.2f})" for m in medians.values()]
        print(f"{r['case']:28}" + "".join(f"{c:>20}" for c in cells))
    print(f"{'geometric mean':28}" + "".join(f"{m:>20.2f}" for m in means.values()))


if __name__ == "__main__":
    main()
