"""The experiments of Zheng et al., Ansor, OSDI 2020, section 7, on this machine.

    python -m benchmarks.paper run --out FILE [--figure 6 7 8 9 10] [--quick] [--resume]
        [--trials N] [--seeds N] [--rounds 5] [--batch 1 16] [--cases TEXT] [--arms A,B]
        [--networks A,B] [--records FILE] [--no-libraries]
    python -m benchmarks.paper draw FILE --out DIR

6: single operators; 7: ways to search the last conv2d of ResNet-50 at batch 16; 8: subgraphs; 9:
networks beside ONNX Runtime; 10: ways to search whole networks, the task scheduler on and off.
FILE is whole after each search or case, and `--resume` goes on with it. docs/benchmarks-paper.md
says what is compared, and how that differs from the published setting. Progress goes to standard
error. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Any

from benchmarks import networks, ops, ops_suite
from benchmarks.ops_ours import task_of
from benchmarks.search_arms import ARMS, WHOLE, Arm, Found, Kept, again, arms_of, search
from tilewright import auto_scheduler as A
from tilewright.auto_scheduler.objectives import LatencySum
from tilewright.auto_scheduler.pretrained import default_model
from tilewright.auto_scheduler.scheduler_callbacks import TaskSchedulerCallback
from tilewright.auto_scheduler.slope import UNKNOWN_COST
from tilewright.base.errors import TilewrightError
from tilewright.rt.busy import watched
from tools import paper_networks

Row = dict[str, Any]
Item = tuple[str, Callable[[], Row]]
SUBGRAPHS = ("ConvLayer", "TBS")
LAST_CONV = "C2D 7,7,512,512,3,1,1 x16"
# By figure: measurements, and in --quick.
TRIALS = {6: (100, 16), 7: (400, 48), 8: (100, 16), 9: (500, 100), 10: (500, 100)}
FIGURE_ARMS = {
    6: "whole,sketches,beam,limited",
    7: "whole,sketches,beam,limited,samples,blind",
    8: "whole,sketches,beam,limited",
    10: "whole,sketches,limited,samples",
}
DEFAULT, ROUND_ROBIN = "default", "no task scheduler"
CURVES = ("mobilenet_v2", "mobilenet_v2+resnet50")
THREADS = 2


def searches(task: Any, arms: dict[str, Arm], trials: int, seed: int) -> dict[str, Found]:
    """What each arm finds, and the default schedule."""
    found: dict[str, Found] = {}
    with A.ProgramMeasurer(verbose=0) as measurer:
        for name, arm in arms.items():
            one = found[name] = search(task, arm, trials, seed, measurer)
            best = min(one.costs, default=inf) * 1e6
            print(f"    {name}: {best:.1f} us, {one.seconds:.0f} s", file=sys.stderr, flush=True)
    try:
        found[DEFAULT] = Found(task, A.State.default(task), [], {}, 0.0)
    except TilewrightError as problem:
        found[DEFAULT] = Found(task, None, [], {}, 0.0, str(problem))
    return found


def ways(task: Any, given: Namespace, figure: int, seed: int) -> tuple[Row, dict[str, Found]]:
    """Searches of one task by the figure's arms, and their winners' seconds, measured in turns."""
    found = searches(task, figure_arms(given, figure), trials_of(given, figure), seed)
    seconds = again(found, given.rounds)
    finite = {n: s if isfinite(s) else None for n, s in seconds.items()}
    runs = {n: f.report() for n, f in found.items()}
    return {"figure": figure, "seed": seed, "seconds": finite, "runs": runs}, found


def operator(case: Any, batch: int, given: Namespace, figure: int) -> Row:
    """Figures 6 and 8: a case by some arms, and by libraries. Those take turns with the whole
    search's winner alone, by which seconds of the other arms are set in relation."""
    row, found = ways(task_of(case), given, figure, 0)
    row |= {"case": case.name, "op": case.op, "batch": batch}
    best = found.get(WHOLE)
    if given.no_libraries or best is None or best.state is None:
        return row
    with tempfile.TemporaryDirectory(prefix="tilewright-paper-") as folder:
        records = Path(folder) / "winner.json"
        result = A.MeasureResult((row["seconds"][WHOLE],), 0, "", 0.0, 0.0)
        A.save_records(records, [A.MeasureInput(best.task, best.state)], [result])
        comparison = ops.Comparison(beside_libraries(records, batch, given.rounds), Path(folder))
        try:
            beside = comparison.row(case)
        finally:
            comparison.close()
    scale = (beside["tuned_s"] or row["seconds"][WHOLE]) / row["seconds"][WHOLE]
    ours = {n: s * scale if s else s for n, s in row["seconds"].items()}
    return {**row, "seconds": {**ours, **beside["peers_s"]}, "libraries_failed": beside["failed"]}


def beside_libraries(records: Path, batch: int, rounds: int) -> Namespace:
    """Options of benchmarks.ops: a winner that is known, beside the libraries."""
    fixed = ["--trials=0", "--algorithm-error=0", f"--threads={THREADS}"]
    own = [f"--records={records}", f"--batch={batch}", f"--rounds={rounds}"]
    return ops.arguments().parse_args([*fixed, *own])


def networks_beside(records: Path, trials: int, rounds: int) -> Namespace:
    """Options of benchmarks.networks: so many measurements first."""
    own = [f"--records={records}", f"--trials={trials}", f"--rounds={rounds}"]
    return networks.arguments().parse_args([f"--threads={THREADS}", *own])


def operators(given: Namespace, figure: int) -> Iterator[Item]:
    """The items of figures 6 and 8; in --quick the first shape of each operator at batch 1."""
    for batch in given.batch:
        met: set[str] = set()
        for case in ops.select(ops_suite.cases(batch), given.cases):
            wanted = (case.op in SUBGRAPHS) == (figure == 8) and "const" not in case.name
            if wanted and not (given.quick and (case.op in met or batch > 1)):
                met.add(case.op)
                yield f"{figure} {case.name}", partial(operator, case, batch, given, figure)


def last_conv(given: Namespace) -> Iterator[Item]:
    """The items of figure 7: one for each seed."""
    case = next(c for c in ops_suite.cases(16) if c.name == LAST_CONV)

    def one(seed: int) -> Row:
        return {**ways(task_of(case), given, 7, seed)[0], "case": case.name}

    for seed in range(given.seeds):
        yield f"7 seed {seed}", partial(one, seed)


def made(name: str, folder: Path) -> Path:
    """The file of a network."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        command = [sys.executable, "-m", "tools.paper_networks", name, str(path)]
        subprocess.run(command, check=True)
    return path


def network(name: str, given: Namespace, folder: Path) -> Row:
    """Figure 9: a network tuned and by default, beside ONNX Runtime; or why it cannot be."""
    row: Row = {"figure": 9, "network": name, "trials": trials_of(given, 9)}
    try:
        tasks, weights = A.extract_tasks(str(made(name, folder)), "llvm")
        row |= {"tasks": len(tasks), "kernels": sum(weights)}
        records = given.records or folder / "networks.db"
        row |= networks.measure(name, folder, networks_beside(records, row["trials"], given.rounds))
    except (TilewrightError, subprocess.CalledProcessError) as problem:
        row["failed"] = str(problem)
    return row


class Trace(TaskSchedulerCallback):
    """Measurements and the objective after each round; None until all tasks are known."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float | None]] = []

    def post_tune(self, task_scheduler: A.TaskScheduler, task_id: int) -> None:
        """Note the round."""
        known = max(task_scheduler.best_costs) < UNKNOWN_COST
        self.points.append((task_scheduler.ct, task_scheduler.cur_score if known else None))


def curve(
    nets: dict[str, tuple[Any, Any]], name: str, seed: int, trials: int, measurer: Any = None
) -> Row:
    """Figure 10: the sum of the latencies of networks (by name: tasks and how often each appears)
    over measurements, for an arm, or for the whole search with tasks in turn."""
    arm = ARMS[WHOLE if name == ROUND_ROBIN else name]
    tasks, counts = A.join_networks(nets)
    model, trace = default_model(seed), Trace()
    policies = [arm.policy(task, seed, model) for task in tasks]
    options = A.TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=max(4, min(64, trials // 2 // len(tasks))),
        verbose=0,
        runner=A.LocalRunner(in_network=True),
    )
    scheduler = A.TaskScheduler(
        [policy.task for policy in policies],
        objective_func=LatencySum(list(counts.values()), list(counts)),
        strategy="round-robin" if name == ROUND_ROBIN else "gradient",
        callbacks=[trace],
        seed=seed,
    )
    scheduler.tune(options, policies, measurer=measurer)
    found = scheduler.cur_score if max(scheduler.best_costs) < UNKNOWN_COST else None
    row: Row = {"figure": 10, "network": "+".join(nets), "arm": name, "seed": seed}
    return {**row, "trace": trace.points, "seconds": found, "units": scheduler.task_cts}


def curves(given: Namespace, folder: Path) -> Iterator[Item]:
    """The items of figure 10: one for each network, seed and arm; in --quick the first network."""
    names = [*figure_arms(given, 10), ROUND_ROBIN]

    def one(nets: str, name: str, seed: int) -> Row:
        tasks = {n: A.extract_tasks(str(made(n, folder)), "llvm") for n in nets.split("+")}
        return curve(tasks, name, seed, trials_of(given, 10))

    for nets in CURVES[:1] if given.quick else CURVES:
        for seed in range(given.seeds):
            for name in names:
                yield f"10 {nets} {name} {seed}", partial(one, nets, name, seed)


def figure_arms(given: Namespace, figure: int) -> dict[str, Arm]:
    """The arms of a figure, by default those of the paper and what stands for its rivals."""
    return arms_of(given.arms or FIGURE_ARMS[figure])


def trials_of(given: Namespace, figure: int) -> int:
    """Measurements of a search."""
    return given.trials or TRIALS[figure][int(given.quick)]


def items(given: Namespace, folder: Path) -> Iterator[Item]:
    """All that is asked for, in its order."""
    for figure in given.figure:
        if figure in (6, 8):
            yield from operators(given, figure)
        elif figure == 7:
            yield from last_conv(given)
        elif figure == 9:
            for name in given.networks.split(","):
                yield f"9 {name}", partial(network, name, given, folder)
        else:
            yield from curves(given, folder)


def run(given: Namespace, kept: Kept) -> None:
    """Do what is not done yet."""
    with watched(), tempfile.TemporaryDirectory(prefix="tilewright-paper-") as folder:
        for key, make in items(given, Path(folder)):
            if key not in kept.rows:
                print(key, file=sys.stderr, flush=True)
                kept.add(key, make())


def parsed() -> tuple[argparse.ArgumentParser, Namespace]:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="measure")
    one.add_argument("--figure", type=int, nargs="+", choices=sorted(TRIALS), default=list(TRIALS))
    one.add_argument("--out", type=Path, required=True, help="JSON, written as it goes")
    one.add_argument("--resume", action="store_true", help="go on with what FILE has")
    one.add_argument("--quick", action="store_true", help="few trials, few cases, one seed")
    one.add_argument("--trials", type=int, help="measurements of a search; default: by figure")
    one.add_argument("--seeds", type=int, help="of figures 7 and 10 (5; --quick: 1)")
    one.add_argument("--rounds", type=int, default=5, help="in which winners take turns")
    one.add_argument("--batch", type=int, nargs="+", default=[1, 16], help="of figures 6 and 8")
    one.add_argument("--cases", default="", help="parts of names, of figures 6 and 8")
    one.add_argument("--arms", help="names of benchmarks/search_arms.py; default: by figure")
    one.add_argument("--networks", default=",".join(paper_networks.NETWORKS), help="of figure 9")
    one.add_argument("--records", type=Path, help="of figure 9: go on with these measurements")
    one.add_argument("--no-libraries", action="store_true", help="figures 6 and 8: ours alone")
    two = commands.add_parser("draw", help="figures (SVG) and tables of what was measured")
    two.add_argument("file", type=Path)
    two.add_argument("--out", type=Path, required=True, metavar="DIR")
    return parser, parser.parse_args()


def main() -> int:
    """Run or draw."""
    parser, given = parsed()
    if given.command == "draw":
        from benchmarks.paper_figures import draw

        print("\n".join(str(path) for path in draw(given.file, given.out)))
        return 0
    given.seeds = given.seeds or (1 if given.quick else 5)
    try:
        if given.arms:
            arms_of(given.arms)
        how = {k: getattr(given, k) for k in ("quick", "trials", "rounds", "arms", "no_libraries")}
        run(given, Kept(given.out, how, given.resume))
    except (ValueError, FileExistsError) as problem:
        parser.error(str(problem))
    return 0


if __name__ == "__main__":
    sys.exit(main())
