"""What default schedules for CUDA decide between: any answer gives the same results, in simt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import auto_scheduler, te, topi
from tilewright.base.dtype import parse
from tilewright.topi.schedules.decisions import Decisions
from tilewright.topi.schedules.gpu.tile_plan import TilePlan

Make = Callable[..., Any]
CASES: dict[str, tuple[Make, str, list[tuple[int, ...]]]] = {
    "matmul float16": (
        lambda a, b: topi.nn.matmul(a, b, out_dtype="float32"), "float16", [(256, 48), (48, 72)],
    ),
    "dense float16": (lambda a, b: topi.nn.dense(a, b), "float16", [(67, 64), (131, 64)]),
    "long float16": (
        lambda a, b: topi.nn.dense(a, b, out_dtype="float32"), "float16", [(24, 264), (40, 264)],
    ),
    "hopper float16": (
        lambda a, b: topi.nn.dense(a, b, out_dtype="float32"), "float16", [(128, 64), (128, 64)],
    ),
    "dense int8": (
        lambda a, b: topi.nn.dense(a, b, out_dtype="int32"), "int8", [(64, 128), (96, 128)],
    ),
    "matmul float32": (lambda a, b: topi.nn.matmul(a, b), "float32", [(256, 40), (40, 70)]),
    "dense float32": (lambda a, b: topi.nn.dense(a, b), "float32", [(64, 33), (130, 33)]),
    "convolution float16": (
        lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1, 1, "float32"),
        "float16", [(1, 16, 9, 9), (40, 16, 3, 3)],
    ),
    "convolution float32": (
        lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, 1, 1), "float32", [(1, 9, 9, 16), (3, 3, 16, 40)],
    ),
}  # fmt: skip


class Case:
    """A computation, inputs, and what comes of them."""

    def __init__(self, name: str, target: str) -> None:
        make, dtype, shapes = CASES[name]
        self.target = tw.target.Target(target)
        self.ins = [te.placeholder(shape, dtype, f"in{n}") for n, shape in enumerate(shapes)]
        self.out = make(*self.ins)
        rng = np.random.default_rng(len(name))
        kind = parse(dtype).numpy
        self.arrays = [rng.integers(-3, 4, shape).astype(kind) for shape in shapes]
        self.want = self.run({})[0]

    def run(self, given: dict[str, tuple[int, ...]]) -> tuple[Any, Decisions]:
        decisions = Decisions(given)
        s = topi.schedules.default.default_schedule(self.out, self.target, decisions)
        f = tw.build(s, [*self.ins, self.out], self.target)
        result = np.zeros([int(d) for d in self.out.shape], parse(self.out.dtype).numpy)
        reports = f.run_simt(*self.arrays, result)
        assert not any(report.findings for report in reports.values())
        return result, decisions

    def asked(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        return self.run({})[1].asked


def some(options: Sequence[Any], count: int, seed: int) -> list[Any]:
    """The last, and some of the others behind the first."""
    chosen = np.random.default_rng(seed).permutation(len(options) - 1)[:count] + 1
    return [options[n] for n in sorted({len(options) - 1, *map(int, chosen)} - {0})]


@pytest.mark.parametrize("name", CASES)
def test_any_answer_gives_the_same_results(name: str) -> None:
    case = Case(name, "cuda -arch=sm_90a" if "hopper" in name else "cuda -arch=sm_80")
    a, b = (x.astype("float64") for x in case.arrays)
    if "convolution" not in name:
        exact = a @ (b if "matmul" in name else b.T)
        np.testing.assert_array_equal(case.want, exact.astype(case.want.dtype))
    asked = case.asked()
    questions = {question.rsplit(".", 1)[1] for question in asked}
    assert "tile" in questions, "nothing is left to decide"
    for n, (question, options) in enumerate(asked.items()):
        for answer in some(options, 1, n):
            np.testing.assert_array_equal(case.run({question: answer})[0], case.want)


@pytest.mark.parametrize("name", ["matmul float16", "matmul float32"])
def test_groups_of_rows_of_blocks(name: str) -> None:
    """Blocks of a column that follow each other, in one dimension of the grid."""
    case = Case(name, "cuda -arch=sm_80")
    ((question, options),) = ((q, o) for q, o in case.asked().items() if q.endswith(".group"))
    assert (1,) in options and (4,) in options
    decisions = Decisions({question: (4,)})
    s = topi.schedules.default.default_schedule(case.out, case.target, decisions)
    host: Any = tw.build(s, [*case.ins, case.out], case.target).entry_func
    launch = next(line for line in host.text.splitlines() if "launch('" in line)
    rows, columns = case.want.shape
    high, wide = decisions.taken[question.replace(".group", ".tile")][:2]
    assert f"({rows // high * -(-columns // wide)}, 1, 1)" in launch
    np.testing.assert_array_equal(case.run({question: (4,)})[0], case.want)


@pytest.mark.parametrize(
    ("shape", "parts"), [((33, 65, 1024), 8), ((33, 65, 512), 1), ((640, 640, 1024), 1)]
)
def test_long_reductions_of_few_tiles_are_cut(shape: tuple[int, int, int], parts: int) -> None:
    """Parts are a batch of products, which one more kernel adds up, with what follows."""
    m, n, k = shape
    a, b = te.placeholder((m, k), "float16", "a"), te.placeholder((n, k), "float16", "b")
    out = topi.nn.relu(topi.nn.dense(a, b, out_dtype="float32"))
    target, decisions = tw.target.Target("cuda -arch=sm_80"), Decisions()
    s = topi.schedules.default.default_schedule(out, target, decisions)
    ((_, taken),) = ((q, v) for q, v in decisions.taken.items() if q.endswith(".parts"))
    assert taken == (parts,)
    source = tw.build(s, [a, b, out], target).imported_modules[0].get_source()
    assert source.count("__global__") == 1 + (parts > 1) and "cp.async" in source


def test_plans_to_choose_from() -> None:
    plans = TilePlan.options(1000, 72, "float32", True, 1, 96)
    assert plans[0] == TilePlan.of(1000, 72, "float32", True, 1, 96) and len(set(plans)) == len(
        plans
    )
    assert all(p.block[1] % p.columns == 0 for p in plans)
    assert all(p.block[1] < 128 for p in plans), "a tile is not a third beyond the product"
    small = TilePlan.options(40, 40, "float32", False, 1, 96)
    assert all(max(p.block) <= 40 for p in small[1:]), "unless it may be filled up, none is larger"


@auto_scheduler.register_workload
def product_to_decide_on(n: int) -> list[Any]:
    a, b = (te.placeholder((n, n), "float16", name) for name in "ab")
    return [a, b, topi.nn.matmul(a, b, out_dtype="float32")]


def test_a_search_answers() -> None:
    """A round of a search for a GPU has relatives of the library's schedule, on tensor cores and
    with copies under way; before anything is measured, that schedule itself is the best."""
    task = auto_scheduler.SearchTask(
        func=product_to_decide_on, args=(256,), target="cuda -arch=sm_80"
    )
    policy = auto_scheduler.SketchPolicy(task, None, verbose=0, seed=1)
    best = policy.best_unmeasured()
    assert best is not None and best.is_default
    states = [item.state for item in policy.propose_round(12)]
    related = [s for s in states if s.is_default]
    answers = [s.decisions for s in related]
    assert {} in answers and len(related) >= 5
    assert len({tuple(sorted(x.items())) for x in answers}) == len(answers)
    assert {q.rsplit(".", 1)[1] for x in answers for q in x} >= {"tile", "stages"}
    sch, args = task.compute_dag.apply_steps_from_state(related[-1])
    source = tw.build(sch, args, task.target).imported_modules[0].get_source()
    assert "mma" in source and "cp.async" in source
