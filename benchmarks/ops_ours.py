"""Our side of the operator benchmark: functions from the auto-scheduler, in a process of their own.

    python -m benchmarks.ops_ours --records FILE [--threads 2] [--target llvm]
    python -m benchmarks.ops_ours --records FILE --tune CASE --trials N [--batch B] [--set SET]

The first form serves benchmarks.ops with three groups of each case: `default`, the operator
library's schedule, `untuned`, what the shipped model chooses without any measurement, and `tuned`,
the best schedule in the records, if there is one.
The second searches; measurements of the case that are in the file already count as trials done.
Constant weights are laid out beforehand as a schedule wants them. `--algorithm-error`: what another
algorithm than the one written (Winograd's) may add to the error, over the largest output.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ops_channel import Way, serve_cases
from benchmarks.ops_reference import Array
from benchmarks.ops_suite import Case, cases_of

TARGET = "llvm"


def task_of(case: Case, target: str = TARGET) -> Any:
    """The search task of a case, with constants laid out ahead of time."""
    from tilewright import auto_scheduler

    auto_scheduler.register_workload(case.func, override=True)
    option = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    return auto_scheduler.SearchTask(
        func=case.func, args=case.args, target=target, layout_rewrite_option=option
    )


def _way(case: Case, task: Any, inputs: list[Array], state: Any) -> Way:
    """The function of a closed state, on arrays that are laid out as it wants them."""
    import tilewright
    from tilewright import auto_scheduler

    sch, args, rearranged = auto_scheduler.apply_state(state, int(task.layout_rewrite_option))
    arrays = [*inputs, np.zeros(case.shapes()[-1], np.float32)]
    for one in rearranged:
        if one.index not in case.constants:
            raise ValueError(f"argument {one.index} of {case.name} is no constant")
        arrays[one.index] = one.apply(arrays[one.index])
    own = [tilewright.nd.array(x) for x in arrays]
    call = tilewright.build(sch, args, task.target, name="kernel").prepare(*own)
    return call, own[-1].numpy


def _default(case: Case, inputs: list[Array], target: str) -> Way:
    from tilewright import auto_scheduler

    task = task_of(case, target)
    return _way(case, task, inputs, auto_scheduler.State.default(task))


def _untuned(case: Case, inputs: list[Array], target: str, error: float) -> Way:
    from tilewright import auto_scheduler

    task = task_of(case, target)
    policy = auto_scheduler.SketchPolicy(task, None, params={"algorithm_error": error}, verbose=0)
    return _way(case, task, inputs, policy.best_unmeasured())


def _tuned(case: Case, inputs: list[Array], target: str, records: str) -> Way:
    task = task_of(case, target)
    return _way(case, task, inputs, task.best_state(records))


def measured(task: Any, records: str) -> int:
    """How many measurements of a task the records hold."""
    from tilewright import auto_scheduler

    if not Path(records).exists():
        return 0
    key = task.workload_key
    found = auto_scheduler.load_records(records)
    return sum(given.task.workload_key == key for given, _ in found)


def search(case: Case, trials: int, records: str, error: float, target: str) -> None:
    """Measure up to `trials` candidates of a case, with those already recorded."""
    from tilewright import auto_scheduler

    task = task_of(case, target)
    done = measured(task, records)
    if done >= trials:
        return
    given = auto_scheduler.PreloadMeasuredStates(records) if done else None
    policy = auto_scheduler.SketchPolicy(
        task,
        None,
        params={"algorithm_error": error},
        init_search_callbacks=[given] if given else None,
        verbose=0,
    )
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials - done,
        num_measures_per_round=max(16, min(64, trials // 8)),
        measure_callbacks=[auto_scheduler.RecordToFile(records)],
        verbose=0,
    )
    task.tune(options, search_policy=policy)


Ways = dict[str, Callable[[], Way]]


def prepare(records: str, error: float, target: str) -> Callable[[Case, list[Array]], Ways]:
    """The ways of a case; `tuned` only where the records have its task."""

    def ways(case: Case, inputs: list[Array]) -> Ways:
        made: Ways = {
            "default": partial(_default, case, inputs, target),
            "untuned": partial(_untuned, case, inputs, target, error),
        }
        if measured(task_of(case, target), records):
            made["tuned"] = partial(_tuned, case, inputs, target, records)
        return made

    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tune", help="the name of a case")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--algorithm-error", type=float, default=0.0)
    parser.add_argument("--set", default="suite", help="suite, layers, small or odd:SEED")
    parser.add_argument("--target", default=TARGET)
    options = parser.parse_args()
    from tilewright.rt.threads import set_num_threads

    set_num_threads(options.threads)
    if not options.tune:
        serve_cases(prepare(options.records, options.algorithm_error, options.target))
        return
    case = next(c for c in cases_of(options.set, options.batch) if c.name == options.tune)
    search(case, options.trials, options.records, options.algorithm_error, options.target)


if __name__ == "__main__":
    main()
