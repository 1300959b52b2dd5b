"""Attention on CUDA in one kernel (nn/attention_kernel): softmax(q k^T) v, scores in registers."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir, topi
from tilewright.rt.drivers import nvrtc
from tilewright.topi.nn import attention_kernel
from tilewright.topi.nn.attention import MASKED, NUMBERS, PLAIN, Sizes, attention
from tilewright.topi.nn.attention_in_one import plan_of, takes
from tilewright.topi.nn.attention_plan import BLOCKS, KEYS, parts_of
from tilewright.topi.schedules.gpu.machine import GpuMachine

TARGET = tw.Target("cuda -arch=sm_80")
WHY = nvrtc.why_missing()
KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
OFF = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5}


class Made:
    """Attention of batches of heads; of each group of heads one has keys and values."""

    def __init__(
        self,
        dtype: str,
        shape: tuple[int, int, int, int],
        size: int,
        last: int,
        score: Any = None,
        empty: str = PLAIN,
        turned: bool = False,
        beside: tuple[int, ...] | None = None,
        window: tuple[int, int] | None = None,
        cut: bool = False,
        target: tw.Target = TARGET,
    ) -> None:
        b, group, n, keys = shape
        self.dtype, self.scale = dtype, size**-0.5
        rng = np.random.default_rng(0)
        shapes = [(b, group, n, size), (b, keys, size), (b, keys, last)]
        self.arrays = [rng.uniform(-2, 2, s).astype(KINDS[dtype]) for s in shapes]
        q, k, v = (te.placeholder(s, dtype, x) for s, x in zip(shapes, "qkv"))
        self.inputs = [q, k, v]
        if beside is not None:
            mask = te.placeholder(beside, "float32", "mask")
            self.inputs.append(mask)
        given = self.inputs[3:]

        def scored(x: Any) -> Any:
            x = topi.multiply(x, tir.const(self.scale, "float32"))
            return score(x, *given) if score is not None else x

        self.order = [0, 2, 1, 3] if turned else [0, 1, 2, 3]
        with target:
            self.out = attention(
                Sizes((b,), (group, n), keys, size, last, window, cut),
                lambda outer, i, d: q(*outer, i, d),
                lambda outer, t, d: k(*outer, t, d),
                lambda outer, t, e: v(*outer, t, e),
                dtype,
                scored,
                empty,
                self.order,
            )

    def built(self, target: tw.Target) -> Any:
        with target:
            s = topi.default_schedule(self.out, target)
        return tw.build(s, [*self.inputs, self.out], target, name="f")

    def run(self, *more: Any, arch: str = "sm_80") -> tuple[str, Any, Any]:
        """The source, simt's report of the first kernel and the result, as axes were made."""
        f = self.built(tw.Target(f"cuda -arch={arch}"))
        result = np.zeros([int(d) for d in self.out.shape], KINDS[self.dtype])
        report, *joining = f.run_simt(*self.arrays, *more, result).values()
        assert len(joining) < 2 and not any(r.findings for r in joining)
        source = f.imported_modules[0].get_source()
        return source, report, result.transpose(self.order).astype("float64")

    def scores(self) -> Any:
        q, k, _ = (x.astype("float64") for x in self.arrays)
        return np.einsum("bgnd,btd->bgnt", q, k) * self.scale

    def weighed(self, scores: Any) -> Any:
        most = scores.max(-1, keepdims=True)
        powers = np.exp(scores - np.where(np.isinf(most), 0, most))
        v = self.arrays[2].astype("float64")
        with np.errstate(invalid="ignore"):
            return np.einsum("bgnt,bte->bgne", powers, v) / powers.sum(-1)[..., None]


def close(got: Any, want: Any, dtype: str) -> None:
    np.testing.assert_allclose(got, want, rtol=OFF[dtype], atol=OFF[dtype])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("shape", "size", "last"),
    [
        ((2, 1, 64, 64), 64, 64),
        ((1, 3, 50, 130), 40, 24),
        ((2, 1, 70, 67), 72, 31),
        ((1, 1, 16, 200), 16, 128),
        ((1, 2, 33, 1), 20, 1),
        ((1, 1, 20, 70), 192, 128),
        ((1, 1, 70, 67), 256, 250),
    ],
)
def test_rows_of_any_number(
    dtype: str, shape: tuple[int, int, int, int], size: int, last: int
) -> None:
    made = Made(dtype, shape, size, last)
    source, report, result = made.run()
    close(result, made.weighed(made.scores()), dtype)
    plan = plan_of(Sizes((shape[0],), shape[1:3], shape[3], size, last), dtype, TARGET)
    assert plan is not None and not report.findings
    assert source.count("__global__") == (1 if parts_of(plan) == 1 else 2)
    assert ("tw_mma" in source) == (dtype != "float32")
    assert report.bank_conflicts <= 1.1
    assert size % 8 or report.async_copies > 0


@pytest.mark.parametrize(
    ("dtype", "arch", "size", "last", "stages"),
    [
        ("float16", "sm_75", 40, 40, 1),
        ("float16", "sm_75", 31, 160, 1),
        ("float16", "sm_75", 256, 256, 1),
        ("float32", "sm_75", 64, 64, 1),
        ("float32", "sm_75", 160, 256, 1),
        ("float16", "sm_86", 80, 80, 2),
        ("bfloat16", "sm_86", 128, 128, 1),
        ("float16", "sm_86", 192, 128, 1),
        ("float32", "sm_86", 256, 40, 1),
    ],
)
def test_tiles_are_those_that_a_target_has_room_for(
    dtype: str, arch: str, size: int, last: int, stages: int
) -> None:
    """In place of keys and values that are computed with, one tile at a time, too."""
    target = tw.Target(f"cuda -arch={arch}")
    shape = (1, 2, 37, 150)
    plan = plan_of(Sizes((1,), shape[1:3], shape[3], size, last), dtype, target)
    assert plan is not None and plan.stages == stages
    made = Made(dtype, shape, size, last, target=target)
    _, report, result = made.run(arch=arch)
    close(result, made.weighed(made.scores()), dtype)
    assert not report.findings and report.bank_conflicts <= 1.1
    assert (report.async_copies == 0) == (arch == "sm_75")


def test_older_devices_load_tiles_before_they_are_computed_with() -> None:
    """Values while scores are made, keys while values are weighed."""
    target = tw.Target("cuda -arch=sm_75")
    made = Made("float16", (1, 1, 64, 256), 64, 64, target=target)
    (module,) = made.built(target).imported_modules
    source = module.get_source()
    loop = source[source.index("for (int turn") :]
    # values share the place of queries
    order = ["ahead, tw_load_float16x8(v", "float*)(s + 0)", "tw_exp2(", "x8(queries"]
    order += ["ahead, tw_load_float16x8(k", "float*)(o + 0)", "x8(keys_0"]
    places = [loop.index(text) for text in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("dtype", "last", "vectors"),
    [
        ("float16", 64, {"float16x8": 4}),
        ("bfloat16", 80, {"bfloat16x8": 4, "bfloat16x4": 2}),
        ("float16", 20, {"float16x4": 4}),
        ("float32", 64, {"float4": 8}),
        ("float32", 48, {"float4": 4, "float2": 4}),
    ],
)
def test_results_are_stored_in_vectors(dtype: str, last: int, vectors: dict[str, int]) -> None:
    """Those of neighbours, which four threads exchange parts for."""
    made = Made(dtype, (1, 1, 64, 64), 64, last)
    source, report, result = made.run()
    close(result, made.weighed(made.scores()), dtype)
    stores = re.findall(r"tw_store_(?:bits_)?(\w+)\(T_attention|\*\((\w+)\*\)\(T_attention", source)
    kinds = [a or b for a, b in stores]
    assert {kind: kinds.count(kind) for kind in kinds} == vectors and not report.findings


def test_more_heads_than_a_grid_has_along_its_second_dimension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention_kernel, "MOST_BLOCKS", 2)
    for shape, window in (((3, 1, 70, 80), None), ((4, 2, 70, 70), (-69, 1))):
        made = Made("float16", shape, 16, 16, window=window, cut=window is not None)
        _, report, result = made.run()
        mask = 0 if window is None else np.where(seen_in(shape, window), 0, -np.inf)
        close(result, made.weighed(made.scores() + mask), "float16")
        assert not report.findings


@pytest.mark.parametrize("batch", [40000, 70000])
def test_more_results_than_32_bits_count(batch: int) -> None:
    q = te.placeholder((batch, 1024, 64), "float16", "q")

    def read(outer: Any, i: Any, j: Any) -> Any:
        return q(*outer, i, j)

    sizes = Sizes((batch,), (1024,), 1024, 64, 64)
    with TARGET:
        out = attention(sizes, read, read, read, "float16")
        s = topi.default_schedule(out, TARGET)
    (module,) = tw.build(s, [q, out], TARGET, name="f").imported_modules
    stores = [x for x in module.get_source().splitlines() if "float16x8(T_attention" in x]
    assert stores and all("long long" in line for line in stores)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("turned", [False, True])
def test_later_keys_are_not_seen(dtype: str, turned: bool) -> None:
    n = 90

    def causal(x: Any) -> Any:
        least = tir.const(float("-inf"), "float32")
        return te.compute(
            x.shape,
            lambda *i: tir.if_then_else(i[-1] <= i[-2], x(*i), least),
            name="causal",
        )

    made = Made(dtype, (1, 2, n, n), 32, 32, causal, turned=turned)
    _, report, result = made.run()
    scores = np.where(np.tri(n, dtype=bool), made.scores(), -np.inf)
    close(result, made.weighed(scores), dtype)
    assert not report.findings


WINDOWS = [
    ((1, 1, 200, 200), (-199, 1)),
    ((1, 1, 77, 300), (-76, 224)),  # the last queries of a longer text
    ((1, 2, 128, 260), (-127, 31)),
    ((1, 1, 300, 300), (-40, 30)),
    ((2, 1, 150, 170), (-10, 170)),
    ((1, 1, 300, 40), (-299, 5)),
]


def seen_in(shape: tuple[int, int, int, int], window: tuple[int, int]) -> Any:
    away = np.arange(shape[3]) - np.arange(shape[2])[:, None]
    return (window[0] <= away) & (away < window[1])


@pytest.mark.parametrize(("shape", "window"), WINDOWS)
def test_tiles_that_no_row_sees_are_left_out(
    shape: tuple[int, int, int, int], window: tuple[int, int]
) -> None:
    b, group, n, keys = shape
    seen = seen_in(shape, window)
    assert seen.any(1).all()
    left_out = 0
    for first in range(0, n, 64):
        tiles = np.flatnonzero(seen[first : first + 64].any(0)) // 64
        left_out += b * group * (-(-keys // 64) - len(set(tiles)))
    mask = np.where(seen, 0, -np.inf).astype("float32")[None, None]
    how = (topi.add, PLAIN, False, mask.shape)
    made = Made("float16", shape, 32, 40, *how, window=window)
    _, report, result = made.run(mask)
    close(result, made.weighed(made.scores() + mask), "float16")
    _, whole, _ = Made("float16", shape, 32, 40, *how).run(mask)
    assert not report.findings
    assert whole.shuffles - report.shuffles == 4 * 128 * left_out, "four a thread and tile"


@pytest.mark.parametrize(("shape", "window"), [*WINDOWS, ((1, 2, 90, 200), (-89, 1))])
def test_a_window_needs_no_mask(shape: tuple[int, int, int, int], window: tuple[int, int]) -> None:
    made = Made("float16", shape, 32, 40, window=window, cut=True)
    _, report, result = made.run()
    mask = np.where(seen_in(shape, window), 0, -np.inf)
    close(result, made.weighed(made.scores() + mask), "float16")
    assert not report.findings


@pytest.mark.parametrize(
    ("keys", "window", "edge"), [(256, (-255, 1), "blockIdx"), (250, None, "turn"), (256, None, "")]
)
def test_only_tiles_at_an_edge_are_compared(
    keys: int, window: tuple[int, int] | None, edge: str
) -> None:
    """Of 256 keys those of tiles that a window cuts, and none of the others; of 250 the last."""
    made = Made("float16", (1, 1, 256, keys), 32, 32, window=window, cut=window is not None)
    (module,) = made.built(TARGET).imported_modules
    lines = [line.strip() for line in module.get_source().splitlines()]
    compared = [n for n, line in enumerate(lines) if line.startswith("s[") and " ? s[" in line]
    assert len(compared) <= 2 * 32 and bool(compared) == bool(edge)
    for n in compared:
        before = next(k for k in range(n, 0, -1) if not lines[k].startswith("s["))
        assert lines[before].startswith("if (") and edge in lines[before]


def test_a_window_without_tensor_cores() -> None:
    window = (-10, 4)
    target = tw.Target("llvm")
    made = Made("float16", (1, 2, 30, 50), 16, 8, window=window, cut=True, target=target)
    found = np.zeros((1, 2, 30, 8), np.float16)
    made.built(target)(*made.arrays, found)
    mask = np.where(seen_in((1, 2, 30, 50), window), 0, -np.inf)
    close(found, made.weighed(made.scores() + mask), "float16")


def test_heads_that_share_keys_leave_tiles_out_as_others_do() -> None:
    """Of any number of rows: a block has those of one head."""
    window, counts = (-89, 1), []
    for shape in ((1, 2, 90, 200), (2, 1, 90, 200)):
        made = Made("float16", shape, 32, 40, window=window, cut=True)
        _, report, result = made.run()
        mask = np.where(seen_in(shape, window), 0, -np.inf)
        close(result, made.weighed(made.scores() + mask), "float16")
        counts.append(report.shuffles)
    assert counts[0] == counts[1]


def test_blocks_of_rows_of_two_heads_take_all_keys() -> None:
    mask = np.where(np.tri(20, 200, dtype=bool), 0, -np.inf).astype("float32")[None, None]
    how = (topi.add, PLAIN, False, mask.shape, (-19, 1))
    made = Made("float16", (1, 6, 20, 200), 32, 40, *how)
    _, report, result = made.run(mask)
    close(result, made.weighed(made.scores() + mask), "float16")
    assert not report.findings


def test_a_factor_of_the_scores_is_one_of_the_exponent() -> None:
    source, _, _ = Made("float16", (1, 1, 64, 64), 64, 64).run()
    factor = f"{float(np.float32(64**-0.5 / np.log(2))):.4f}"[:6]
    assert source.count("tw_exp2(") == 1 + 2 + 32 and "__expf(" not in source
    assert source.count(factor) == 2 * (2 + 32), "once for a score, once for the largest"


def test_scores_that_a_mask_makes_the_least_numbers_are_weighed_alike() -> None:
    mask = np.zeros((1, 1, 20, 70), np.float32)
    mask[..., :5, :] = mask[..., 60:] = np.finfo(np.float32).min
    made = Made("float16", (1, 1, 20, 70), 32, 32, topi.add, beside=mask.shape)
    _, report, result = made.run(mask)
    close(result, made.weighed((made.scores() + mask).astype("float32")), "float16")
    np.testing.assert_allclose(result[0, 0, 0], made.arrays[2][0].mean(0), atol=4e-3)
    assert not report.findings


@pytest.mark.parametrize("empty", [PLAIN, MASKED, NUMBERS])
def test_masks_are_added(empty: str) -> None:
    b, group, n, keys = 2, 2, 37, 100
    made = Made("float16", (b, group, n, keys), 32, 48, topi.add, empty, beside=(b, 1, n, keys))
    rng = np.random.default_rng(1)
    mask = np.where(rng.random((b, 1, n, keys)) < 0.4, -np.inf, rng.random((b, 1, n, keys)))
    mask[0, 0, 5] = -np.inf  # nothing is seen
    mask[1, 0, 7, :80] = -np.inf  # nothing of the first tile
    _, report, result = made.run(mask.astype("float32"))
    want = made.weighed(made.scores() + mask.astype("float32"))
    want = want if empty == PLAIN else np.nan_to_num(want)
    close(result, want, "float16")
    assert not report.findings


def test_what_one_kernel_takes() -> None:
    sizes = Sizes((12,), (197,), 197, 64, 64)
    older = tw.Target("cuda -arch=sm_75")
    assert all(takes(sizes, dtype, TARGET) for dtype in KINDS)
    assert takes(sizes, "float16", older) and takes(sizes, "float32", older)
    assert not takes(sizes, "bfloat16", older)
    assert not takes(sizes, "float64", TARGET)
    assert not any(takes(sizes, dtype, tw.Target("llvm")) for dtype in KINDS)
    assert takes(Sizes((12,), (1,), 197, 64, 64), "float16", TARGET)
    assert takes(Sizes((12,), (197,), 197, 256, 64), "float16", TARGET)
    assert not takes(Sizes((12,), (197,), 197, 257, 64), "float16", TARGET)


@pytest.mark.parametrize(
    ("dtype", "shape", "size", "last", "empty"),
    [
        ("float16", (1, 1, 1, 1000), 40, 40, ""),
        ("bfloat16", (1, 4, 1, 700), 64, 31, ""),
        ("float16", (2, 3, 30, 450), 24, 24, MASKED),
        ("float16", (1, 1, 3, 500), 128, 128, NUMBERS),
        ("bfloat16", (1, 2, 5, 500), 16, 16, PLAIN),
        ("float32", (2, 3, 30, 450), 24, 31, MASKED),
        ("float16", (1, 1, 3, 500), 256, 192, ""),
    ],
)
def test_few_blocks_have_parts_of_the_keys(
    dtype: str, shape: tuple[int, int, int, int], size: int, last: int, empty: str
) -> None:
    """The second kernel joins them: rows that see nothing of a part, and of all."""
    b, _, n, keys = shape
    if empty:
        rng = np.random.default_rng(1)
        mask = rng.random((b, 1, n, keys)).astype("float32")
        mask[rng.random(mask.shape) < 0.4] = mask[0, 0, 0, : keys // 2] = mask[0, 0, 1] = -np.inf
        made, more = Made(dtype, shape, size, last, topi.add, empty, beside=mask.shape), [mask]
    else:
        made, more, mask = Made(dtype, shape, size, last), [], np.zeros(1, np.float32)
    f = made.built(TARGET)
    result = np.zeros([int(d) for d in made.out.shape], KINDS[dtype])
    reports = f.run_simt(*made.arrays, *more, result).values()
    want = made.weighed(made.scores() + mask)
    want = want if empty in ("", PLAIN) else np.nan_to_num(want)
    close(result.astype("float64"), want, dtype)
    assert len(reports) == 2 and not any(r.findings for r in reports)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 1, 16, 700), (-15, 685)),
        ((1, 3, 65, 600), (-20, 300)),  # runs of rows of their own
        ((2, 1, 130, 640), (-129, 511)),  # a tile ends with the keys
        ((1, 1, 200, 650), (100, 330)),
        ((1, 1, 320, 448), (-319, 129)),  # the first rows see nothing of some parts
        ((1, 1, 63, 385), (166, 506)),  # the last part would begin beyond the last tile
    ],
)
def test_windows_have_parts_of_the_keys_that_they_see(
    shape: tuple[int, int, int, int], window: tuple[int, int], dtype: str
) -> None:
    made = Made(dtype, shape, 32, 24, window=window, cut=True)
    f = made.built(TARGET)
    result = np.zeros([int(d) for d in made.out.shape], KINDS[dtype])
    reports = f.run_simt(*made.arrays, result).values()
    mask = np.where(seen_in(shape, window), 0, -np.inf)
    close(result.astype("float64"), made.weighed(made.scores() + mask), dtype)
    assert len(reports) == 2 and not any(r.findings for r in reports)


@pytest.mark.parametrize(
    ("batch", "rows", "keys", "window", "parts", "of_float32"),
    [
        (32, 1, 4096, None, 6, 11),  # two blocks for each of 96 processors
        (1, 32, 4096, None, 32, 64),  # not below two tiles
        (1, 1, 384, None, 3, 6),
        (1, 1, 320, None, 1, 5),  # a second kernel takes longer than two tiles fewer
        (1, 1, 128, None, 1, 2),
        (1, 1, 1, None, 1, 1),
        (12, 512, 512, None, 2, 1),
        (12, 128, 128, None, 1, 2),
        (96, 64, 1 << 20, None, 2, 1),
        (192, 64, 1 << 20, None, 1, 1),
        (1, 64, 4096, (0, 4000), 32, 64),
        (32, 16, 4096, (-15, 4081), 6, 11),  # the last queries of a long text
        (1, 64, 4096, (-63, 64), 1, 4),  # of which few keys are seen
        (32, 4096, 4096, (-4095, 1), 1, 1),
        (1, 1, 700, None, 4, 11),  # of three tiles, the last of two
    ],
)
def test_parts(
    batch: int, rows: int, keys: int, window: tuple[int, int] | None, parts: int, of_float32: int
) -> None:
    for dtype, wanted in (("float16", parts), ("float32", of_float32)):
        target = tw.Target("cuda -arch=sm_80 -multi_processor_count=96")
        plan = plan_of(Sizes((batch,), (rows,), keys, 64, 64, window), dtype, target)
        assert plan is not None and parts_of(plan) == wanted


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", KINDS)
def test_heads_that_shared_memory_has_room_for(arch: str, dtype: str) -> None:
    target = tw.Target(f"cuda -arch={arch}")
    small = tw.Target(f"cuda -arch={arch} -max_shared_memory_per_block=49152")
    if dtype == "bfloat16" and arch == "sm_75":
        return
    for size in range(1, 257):
        sizes = Sizes((12,), (197,), 197, size, size)
        plan = plan_of(sizes, dtype, target)
        assert plan is not None and plan.shared_bytes <= target.max_shared_memory_per_block
        least = plan_of(sizes, dtype, small)
        assert least is None or least.shared_bytes <= 49152
        assert least is not None or (dtype == "float32" and size > 160)
        two = plan.shared_bytes <= GpuMachine.of(target).room(BLOCKS)
        assert two or size > (64 if dtype == "float32" else 224) or arch == "sm_75"


@pytest.mark.parametrize(
    ("size", "last", "keys"),
    [(64, 64, 64), (64, 64, 130), (128, 128, 130), (17, 128, 130), (256, 256, 70), (192, 128, 200)],
)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_bytes_of_a_block_are_those_of_its_kernel(
    dtype: str, arch: str, size: int, last: int, keys: int
) -> None:
    target = tw.Target(f"cuda -arch={arch}")
    made = Made(dtype, (1, 1, 70, keys), size, last, target=target)
    (module,) = made.built(target).imported_modules
    kind, nbytes = {"float16": ("half", 2), "float32": ("float", 4)}[dtype]
    arrays = re.findall(rf"__shared__ .* {kind} \w+\[(\d+)\]", module.get_source())
    used = module.device_code.kernels[0].shared_bytes + sum(nbytes * int(n) for n in arrays)
    plan = plan_of(Sizes((1,), (1, 70), keys, size, last), dtype, target)
    assert plan is not None
    # where a block has one tile, what waits for nothing may share the place of queries, too
    several = plan.tiles > parts_of(plan) * (KEYS // plan.keys)
    assert used == plan.shared_bytes if several else used <= plan.shared_bytes


@pytest.mark.skipif(bool(WHY), reason=WHY or "nvrtc is here")
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("dtype", "n", "size", "causal"),
    [
        ("float16", 384, 64, False),
        ("bfloat16", 384, 64, True),
        ("float16", 1000, 128, False),
        ("bfloat16", 1024, 128, True),
        ("float16", 1000, 192, True),
        ("bfloat16", 1000, 256, False),
        ("float32", 1000, 64, True),
    ],
)
def test_fragments_stay_in_registers(
    dtype: str, arch: str, n: int, size: int, causal: bool
) -> None:
    """With sizes that divide, and with those of which ptxas spilled conditions of copies."""
    target = tw.Target(f"cuda -arch={arch}")
    if dtype == "bfloat16" and arch == "sm_75":
        dtype = "float16"
    window = (1 - n, 1) if causal else None
    made = Made(dtype, (12, 1, n, n), size, size, window=window, cut=causal, target=target)
    f = made.built(target)
    text = str(f.imported_modules[0].get_source())
    image, log = nvrtc.compile_cuda(text, arch, "cubin")
    for used in nvrtc.resource_usage(image, log).values():  # several where keys are in parts
        assert used.stack == 0 and used.spill_stores == 0
