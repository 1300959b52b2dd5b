"""The sketches of the auto-scheduler, lengths open: which rules derive them, and their loops.

`sketches_paper_*` are those that the rules of the paper derive (Zheng et al., Ansor, OSDI 2020,
section 4.1); `sketches_ours_*` those that our own rules add: packed operands, reductions cut twice.
DERIVATIONS is worked out by hand from the paper's table of rules: which rule takes each stage, from
the output up. A stage that no other rule takes is skipped, which is not noted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.ops_workloads import scores
from tests.golden.goldens import check
from tests.unit.auto_scheduler import computations as C
from tilewright import auto_scheduler
from tilewright.auto_scheduler.sketch.generate import CPU_RULES, generate_sketches
from tilewright.auto_scheduler.sketch.rule import Condition, SketchRule

CORES = 4
WORKLOADS: dict[str, Callable[[], list[Any]]] = {
    "matmul": lambda: C.matmul(128, 128, 128),
    "matmul_relu": lambda: C.matmul_relu(128, 128, 128),
    "conv2d_bn_relu": lambda: C.conv2d_bn_relu(14),
    "conv2d_pad": lambda: C.conv2d(14, 32, 64),
    "norm": lambda: C.norm(1, 64),
    "softmax": lambda: C.softmax(8, 32),
    "depthwise": lambda: C.depthwise(14, 32),
    "tbs": lambda: scores(1, 128, 12, 64),
}
TILE = "tiling"
FUSE_1, FUSE_2 = "tiling, reader fused at level 1", "tiling, reader fused at level 2"
CACHE = "cache write"
ROWS, COLUMNS = "rfactor, outer part", "rfactor, inner part"


def tilings(stage: str, fusible: bool) -> list[tuple[str, ...]]:
    """What becomes of a stage with data reuse: with a reader to fuse with, or a copy as one."""
    if fusible:
        return [(f"{stage}: {FUSE_1}",), (f"{stage}: {FUSE_2}",), (f"{stage}: {TILE}",)]
    cached = f"{stage}: {CACHE}"
    copy = f"{stage}.local"
    return [(f"{stage}: {TILE}",), (cached, f"{copy}: {FUSE_1}"), (cached, f"{copy}: {FUSE_2}")]


def reductions(stage: str) -> list[tuple[str, ...]]:
    """What becomes of a long reduction without data reuse."""
    return [(f"{stage}: {ROWS}",), (f"{stage}: {COLUMNS}",), ()]


def inlined(*stages: str) -> list[tuple[str, ...]]:
    return [tuple(f"{s}: inline" for s in stages)]


def each(*choices: list[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """One of each, from the output up."""
    found: list[tuple[str, ...]] = [()]
    for choice in choices:
        found = [(*done, *more) for done in found for more in choice]
    return set(found)


DERIVATIONS: dict[str, set[tuple[str, ...]]] = {
    # an output with reuse and no reader: tiled, or written through a copy (rules 3, 5, 4)
    "matmul": each(tilings("C", False)),
    # the reader is an output, so it stays; it is element-wise, so it is fused (rules 3, 4)
    "matmul_relu": each(tilings("C", True)),
    # scaling and shifting are inlined into relu, with which conv is fused; padding has a branch
    "conv2d_bn_relu": each(inlined("add", "mul"), tilings("conv", True)),
    "conv2d_pad": each(tilings("conv", False)),
    # the sum reads each element once: no reuse, but 4096 steps for one result (rule 6)
    "norm": each(reductions("S")),
    # exp is too dear to be inlined, and has two readers
    "softmax": each(reductions("total"), reductions("most")),
    # the filter is used at every pixel
    "depthwise": each(tilings("depthwise", False)),
    # the product has two readers; transposing copies change the order of axes: not inlined
    "tbs": each(
        reductions("T_softmax_exp_red"), reductions("product_red"), tilings("product", False)
    ),
}


class Noted(SketchRule):
    """A rule that notes how states came about."""

    def __init__(self, rule: SketchRule, notes: dict[int, tuple[Any, tuple[str, ...]]]) -> None:
        self.rule, self.notes, self.name = rule, notes, rule.name

    def meet(self, policy: Any, state: Any, stage_id: int) -> Condition:
        return self.rule.meet(policy, state, stage_id)

    def apply(self, policy: Any, state: Any, stage_id: int) -> Any:
        before = self.notes[id(state)][1] if id(state) in self.notes else ()
        found = self.rule.apply(policy, state, stage_id)
        for n, (new, _) in enumerate(found):
            text = self.text(state.stage_at(stage_id).op.name, n, len(found))
            self.notes[id(new)] = (new, (*before, *text))
        return found

    def text(self, stage: str, n: int, count: int) -> tuple[str, ...]:
        names = {
            "SkipStage": [],
            "AlwaysInline": ["inline"],
            "AddCacheWrite": [CACHE],
            "MultiLevelTiling": [TILE],
            "MultiLevelTilingWithFusion": [FUSE_1, FUSE_2],
            "AddRfactor": [ROWS, COLUMNS],
            "SplitReduction": ["cut twice (ours)"],
            "PackOperands": [f"packed operands {k} (ours)" for k in range(count)],
        }[self.name]
        return (f"{stage}: {names[n]}",) if names else ()


def derived(name: str, **params: int) -> list[tuple[tuple[str, ...], Any]]:
    """(derivation, sketch) of each sketch."""
    hardware = auto_scheduler.HardwareParams(CORES, 64, 64)
    task = auto_scheduler.SearchTask(
        compute_dag=WORKLOADS[name](), target="llvm", hardware_params=hardware
    )
    model = auto_scheduler.RandomModel()
    policy = auto_scheduler.SketchPolicy(task, model, params, verbose=0)
    notes: dict[int, tuple[Any, tuple[str, ...]]] = {}
    sketches = generate_sketches(policy, tuple(Noted(r, notes) for r in CPU_RULES))
    assert [s.rows for s in sketches] == [s.rows for s in policy.all_sketches()]
    return [(notes[id(s)][1], s) for s in sketches]


def text_of(found: list[tuple[tuple[str, ...], Any]]) -> str:
    parts = []
    for n, (steps, sketch) in enumerate(found):
        parts.append(f"---- sketch {n} ({'; '.join(steps) or 'every stage skipped'})\n{sketch}")
    return "\n".join(parts).rstrip("\n")


@pytest.mark.parametrize("name", WORKLOADS)
def test_sketches_are_those_of_the_papers_rules(name: str) -> None:
    found = derived(name, pack_operands=0, split_reduction=0)
    assert {steps for steps, _ in found} == DERIVATIONS[name]
    assert len({s.rows for _, s in found}) == len(found)
    check(f"sketches_paper_{name}", text_of(found))


@pytest.mark.parametrize("name", WORKLOADS)
def test_our_own_rules_only_add_sketches(name: str) -> None:
    everything = derived(name)
    paper = [s.rows for _, s in derived(name, pack_operands=0, split_reduction=0)]
    assert set(paper) <= {s.rows for _, s in everything}
    ours = [(steps, s) for steps, s in everything if s.rows not in set(paper)]
    assert all("(ours)" in " ".join(steps) for steps, _ in ours)
    # TBS reads no input plainly, and softmax's rows are too short
    assert len(ours) == {"tbs": 0, "softmax": 0, "norm": 1}.get(name, 3)
    if ours:
        check(f"sketches_ours_{name}", text_of(ours))
