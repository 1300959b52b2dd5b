"""Attention in one kernel by warp groups (nn/attention_groups), on sm_90a."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.test_gpu_attention import KINDS, Made, close, seen_in
from tilewright import topi
from tilewright.rt.drivers import nvrtc
from tilewright.topi.nn.attention import MASKED, NUMBERS, PLAIN, Sizes
from tilewright.topi.nn.attention_group_plan import GroupPlan
from tilewright.topi.nn.attention_in_one import plan_of
from tilewright.topi.nn.attention_plan import Plan, parts_of
from tilewright.topi.schedules.gpu.machine import GpuMachine

TARGET = tw.Target("cuda -arch=sm_90a")
WHY = nvrtc.why_missing()
HALVES = ("float16", "bfloat16")


def few(count: int) -> tw.Target:
    return tw.Target(f"cuda -arch=sm_90a -multi_processor_count={count}")


def planned(shape: tuple[int, int, int, int], size: int, last: int, target: tw.Target) -> Plan:
    b, group, n, keys = shape
    plan = plan_of(Sizes((b,), (group, n), keys, size, last), "float16", target)
    assert plan is not None
    return plan


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("shape", "size", "last"),
    [
        ((2, 1, 64, 64), 64, 64),
        ((1, 3, 50, 130), 40, 24),
        ((2, 1, 70, 67), 72, 31),  # values are copied one by one
        ((1, 2, 33, 1), 20, 1),
        ((1, 1, 40, 700), 192, 128),  # an even number of tiles, in parts
        ((1, 1, 70, 267), 256, 250),
    ],
)
def test_rows_of_any_number(
    dtype: str, shape: tuple[int, int, int, int], size: int, last: int
) -> None:
    made = Made(dtype, shape, size, last, target=TARGET)
    source, report, result = made.run(arch="sm_90a")
    close(result, made.weighed(made.scores()), dtype)
    assert not report.findings and report.bank_conflicts <= 1.1
    assert "tw_wgmma_m64" in source and "tw_mma" not in source
    assert size % 8 or report.async_copies > 0


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("keys", [64, 190, 320, 448])
def test_blocks_of_several_groups(keys: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of tiles that are 1, even and odd."""
    monkeypatch.setattr("tilewright.topi.nn.attention_group_plan._ROWS", (128,))
    plan = planned((1, 1, 200, keys), size, size, TARGET)
    assert isinstance(plan, GroupPlan) and plan.groups == 2
    made = Made("float16", (1, 1, 200, keys), size, size, target=TARGET)
    source, report, result = made.run(arch="sm_90a")
    close(result, made.weighed(made.scores()), "float16")
    assert not report.findings and report.bank_conflicts <= 1.1
    assert "__launch_bounds__(256" in source


def test_one_barrier_a_tile() -> None:
    """That says that its keys and values are there, and that those of the tile before are free."""
    made = Made("float16", (2, 1, 64, 1024), 64, 64, target=few(1))
    source, report, _ = made.run(arch="sm_90a")
    plan = planned((2, 1, 64, 1024), 64, 64, few(1))
    parts = parts_of(plan)
    loop = re.search(r"\n  for \(int turn.*?\n  }\n", source, re.S)
    assert loop is not None and parts == 1
    assert loop[0].count("__syncthreads") == loop[0].count("tw_fence_proxy_async") == 2
    assert not report.findings and report.barriers == 2 * (plan.tiles + 1)
    # the first product of a tile begins before the second one of the tile before
    order = re.findall(r"tw_wgmma_(m64n\d+k16\w*?)\(|tw_wgmma_(wait_\d)|tw_(exp2)\(", loop[0])
    told = [a.rpartition("_")[2] or b or c for a, b, c in order]
    half = [x for n, x in enumerate(told) if n == 0 or told[n - 1] != x]
    assert half[:5] == ["00", "rs", "wait_1", "exp2", "wait_0"]


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 1, 64, 700), (-63, 637)),
        ((1, 3, 65, 600), (-20, 300)),  # runs of rows of their own
        ((2, 1, 130, 640), (-129, 511)),
        ((1, 1, 200, 650), (100, 330)),
        ((1, 1, 320, 448), (-319, 129)),  # the first rows see nothing of some parts
        ((1, 1, 200, 200), (-40, 1)),
        ((1, 1, 63, 385), (166, 506)),  # the last part would begin beyond the last tile
    ],
)
@pytest.mark.parametrize("processors", [1, 96])
def test_windows(
    shape: tuple[int, int, int, int], window: tuple[int, int], processors: int
) -> None:
    made = Made("float16", shape, 32, 24, window=window, cut=True, target=few(processors))
    f = made.built(few(processors))
    result = np.zeros([int(d) for d in made.out.shape], KINDS["float16"])
    reports = f.run_simt(*made.arrays, result).values()
    mask = np.where(seen_in(shape, window), 0, -np.inf)
    close(result.astype("float64"), made.weighed(made.scores() + mask), "float16")
    assert not any(r.findings for r in reports)
    assert "wgmma" in f.imported_modules[0].get_source()


@pytest.mark.parametrize("empty", [PLAIN, MASKED, NUMBERS])
@pytest.mark.parametrize("dtype", HALVES)
def test_masks_and_empty_rows(dtype: str, empty: str) -> None:
    rng = np.random.default_rng(1)
    mask = rng.random((2, 1, 70, 450)).astype("float32")
    mask[rng.random(mask.shape) < 0.4] = mask[0, 0, 0, :225] = mask[0, 0, 1] = -np.inf
    made = Made(dtype, (2, 1, 70, 450), 24, 24, topi.add, empty, beside=mask.shape, target=TARGET)
    source, report, result = made.run(mask, arch="sm_90a")
    want = made.weighed(made.scores() + mask)
    close(result, want if empty == PLAIN else np.nan_to_num(want), dtype)
    assert not report.findings and "wgmma" in source


def test_few_rows_are_of_warps() -> None:
    for n, groups in ((1, False), (16, False), (32, False), (33, True), (64, True)):
        assert isinstance(planned((1, 1, n, 300), 64, 64, TARGET), GroupPlan) == groups
    plan = plan_of(Sizes((1,), (1, 300), 300, 64, 64), "float32", TARGET)
    assert plan is not None and not isinstance(plan, GroupPlan)
    for arch in ("sm_90", "sm_100"):
        assert not isinstance(
            planned((1, 1, 64, 300), 64, 64, tw.Target(f"cuda -arch={arch}")), GroupPlan
        )


@pytest.mark.parametrize("size", [8, 39, 64, 70, 101, 136, 163, 192, 225, 256])
@pytest.mark.parametrize("processors", [1, 132])
def test_blocks_have_room(size: int, processors: int) -> None:
    target = few(processors)
    machine = GpuMachine.of(target)
    for rows, keys in ((64, 64), (200, 197), (1000, 1000), (4096, 4096)):
        for last in (size, 256 - size // 16 * 8):
            plan = planned((3, 1, rows, keys), size, last, target)
            if not isinstance(plan, GroupPlan):  # of copies that take most registers
                assert size % 8 and max(size, last) > 160
                continue
            assert plan.blocks >= 1
            assert plan.shared_bytes <= machine.room(plan.blocks)
            assert plan.blocks * plan.threads * plan.registers <= machine.registers
    small = tw.Target("cuda -arch=sm_90a -max_shared_memory_per_block=49152")
    found = plan_of(Sizes((3,), (1, 200), 197, size, size), "float16", small)
    assert found is not None and found.shared_bytes <= 49152


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes((64,), (32, 16384), 16384, 128, 128, (-16383, 1), True),
        Sizes((16,), (1, 4096), 4096, 40, 40),
    ],
)
def test_tiles_of_few_keys_take_longer(sizes: Sizes) -> None:
    """Queries are read from shared memory for each tile, and sums are scaled."""
    plan = plan_of(sizes, "float16", TARGET)
    assert isinstance(plan, GroupPlan) and plan.keys == 128


@pytest.mark.skipif(bool(WHY), reason=WHY or "nvrtc is here")
@pytest.mark.parametrize(
    ("dtype", "n", "size", "causal"),
    [
        ("float16", 384, 64, False),
        ("bfloat16", 1000, 64, True),
        ("float16", 1000, 128, False),
        ("bfloat16", 4096, 128, True),
        ("float16", 1000, 192, True),
        ("bfloat16", 1000, 256, False),
        ("float16", 1024, 250, False),  # copies of two elements
        ("float16", 4096, 250, True),  # and through registers
    ],
)
def test_sums_stay_in_registers(dtype: str, n: int, size: int, causal: bool) -> None:
    window = (1 - n, 1) if causal else None
    shape, last = (32, 1, n, n), 31 if size == 250 and causal else size
    made = Made(dtype, shape, size, last, window=window, cut=causal, target=TARGET)
    text = str(made.built(TARGET).imported_modules[0].get_source())
    assert "wgmma" in text
    image, log = nvrtc.compile_cuda(text, "sm_90a", "cubin")
    assert "serialized" not in log
    for used in nvrtc.resource_usage(image, log).values():
        assert used.stack == 0 and used.spill_stores == 0
