"""Default schedules for AArch64: what their inner loops are made of, and that they are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import ops_workloads as workloads
from tests.exec.llvm.test_codegen_aarch64 import run
from tilewright import auto_scheduler as A
from tilewright import build, lower
from tilewright.auto_scheduler.transform import LayoutRewriteOption
from tilewright.loopir.stmt import PrimFunc

CPUS = ("cortex-a76", "neoverse-v1")
AHEAD = int(LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)
BACK = re.compile(r"\b(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#?\d+,)\s*(\.L\w+)")
CASES: dict[str, Any] = {
    "matmul": lambda: workloads.matmul(1, 197, 768, 768, 0),
    "matmul of a constant": lambda: workloads.matmul(1, 197, 768, 768, 1),
    "matmul of primes": lambda: workloads.matmul(1, 509, 509, 509, 0),
    "3x3": lambda: workloads.conv2d(1, 28, 28, 64, 96, 3, 1, 1),
    "3x3 of odd channels": lambda: workloads.conv2d(1, 35, 35, 23, 58, 3, 1, 1),
    "1x1": lambda: workloads.conv2d(1, 14, 14, 480, 208, 1, 1, 0),
}
SMALL: dict[str, Any] = {
    "matmul": lambda: workloads.matmul(1, 29, 53, 31, 0),
    "matmul of a constant": lambda: workloads.matmul(1, 29, 53, 31, 1),
    "3x3": lambda: workloads.conv2d(1, 7, 9, 5, 23, 3, 1, 1),
    "1x1": lambda: workloads.conv2d(1, 5, 7, 13, 29, 1, 1, 0),
    "depthwise": lambda: workloads.depthwise(1, 9, 7, 19, 5, 2, 2),
    "scores": lambda: workloads.scores(1, 23, 3, 10),
}


def default(tensors: Any, target: str) -> tuple[Any, list[Any], list[Any]]:
    """Schedule, arguments, and which of these are laid out ahead."""
    task = A.SearchTask(compute_dag=list(tensors), target=target, layout_rewrite_option=AHEAD)
    return A.apply_state(A.State.default(task), AHEAD)


def innermost_loops(assembly: str) -> list[list[str]]:
    """Instructions from a label to a branch back to it, no other loop within."""
    lines = assembly.splitlines()
    places = {line.split(":")[0]: n for n, line in enumerate(lines) if line.startswith(".L")}
    loops = []
    for n, line in enumerate(lines):
        found = BACK.search(line)
        if found and places.get(found[1], n) < n:
            body = lines[places[found[1]] + 1 : n]
            if not any(x.startswith(".L") for x in body):
                loops.append([x.strip() for x in body])
    return loops


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", CASES)
def test_inner_loops_are_multiplications_and_few_loads(name: str, cpu: str) -> None:
    target = f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu}"
    sch, args, _ = default(CASES[name](), target)
    loops = innermost_loops(build(sch, args, target).get_source("asm"))
    hot = max(loops, key=lambda loop: sum("fmla" in x for x in loop))
    vectors = [x for x in hot if re.search(r"\b[vqz]\d+", x)]
    products = [x for x in vectors if x.startswith("fmla")]
    assert len(products) >= 16
    assert len(products) >= 0.85 * len(vectors), hot
    assert not any("[sp" in x for x in hot), "a register was spilled"


@pytest.mark.parametrize("name", SMALL)
def test_default_schedules_are_right_on_aarch64(name: str, tmp_path: Path) -> None:
    tensors = SMALL[name]()
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-3, 4, [int(d) for d in t.shape]).astype("float32") for t in tensors]
    wanted = [a.copy() for a in arrays]
    plain, own, _ = default(tensors, "llvm")
    for one in default(tensors, "llvm")[2]:
        wanted[one.index] = one.apply(arrays[one.index])
    build(plain, own, "llvm")(*wanted)
    sch, args, moved = default(tensors, target)
    for one in moved:
        arrays[one.index] = one.apply(arrays[one.index])
    function: PrimFunc = lower(sch, args, name="f")["f"]
    assert run(function, target, arrays, tmp_path) == 0
    np.testing.assert_allclose(arrays[-1], wanted[-1], rtol=1e-5, atol=1e-6)
