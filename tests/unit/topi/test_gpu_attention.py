"""Attention on CUDA in one kernel (nn/attention_cores): softmax(q k^T) v, scores in registers."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir, topi
from tilewright.rt.drivers import nvrtc
from tilewright.topi.nn.attention import MASKED, NUMBERS, PLAIN, Sizes, attention
from tilewright.topi.nn.attention_plan import parts_of, shared_bytes, takes

TARGET = tw.Target("cuda -arch=sm_80")
WHY = nvrtc.why_missing()
KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
OFF = {"float16": 4e-3, "bfloat16": 3e-2}


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
        """The source, simt's report and the result, in the order of the axes."""
        f = self.built(tw.Target(f"cuda -arch={arch}"))
        result = np.zeros([int(d) for d in self.out.shape], KINDS[self.dtype])
        (report,) = f.run_simt(*self.arrays, *more, result).values()
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
    ],
)
def test_rows_of_any_number(
    dtype: str, shape: tuple[int, int, int, int], size: int, last: int
) -> None:
    made = Made(dtype, shape, size, last)
    source, report, result = made.run()
    close(result, made.weighed(made.scores()), dtype)
    assert source.count("__global__") == 1 and "tw_mma" in source and not report.findings
    assert report.bank_conflicts <= 1.1
    assert size % 8 or report.async_copies > 0


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


def test_blocks_of_rows_of_two_heads_take_all_keys() -> None:
    mask = np.where(np.tri(90, 200, dtype=bool), 0, -np.inf).astype("float32")[None, None]
    how = (topi.add, PLAIN, False, mask.shape, (-89, 1))
    made = Made("float16", (1, 2, 90, 200), 32, 40, *how)
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
    assert takes(sizes, "float16", TARGET) and takes(sizes, "bfloat16", TARGET)
    assert not takes(sizes, "float32", TARGET)
    assert not takes(sizes, "float16", tw.Target("cuda -arch=sm_75"))
    assert not takes(sizes, "float16", tw.Target("llvm"))
    assert takes(Sizes((12,), (1,), 197, 64, 64), "float16", TARGET)
    assert not takes(Sizes((12,), (197,), 197, 256, 64), "float16", TARGET)


@pytest.mark.parametrize(
    ("dtype", "shape", "size", "last", "empty"),
    [
        ("float16", (1, 1, 1, 1000), 40, 40, ""),
        ("bfloat16", (1, 4, 1, 700), 64, 31, ""),
        ("float16", (2, 3, 30, 450), 24, 24, MASKED),
        ("float16", (1, 1, 3, 500), 128, 128, NUMBERS),
        ("bfloat16", (1, 2, 5, 500), 16, 16, PLAIN),
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


@pytest.mark.parametrize(
    ("batch", "rows", "keys", "window", "parts"),
    [
        (32, 1, 4096, None, 6),  # two blocks for each of 96 processors
        (1, 32, 4096, None, 32),  # not below two tiles
        (1, 1, 384, None, 3),
        (1, 1, 320, None, 1),  # a second kernel takes longer than two tiles fewer
        (1, 1, 128, None, 1),
        (1, 1, 1, None, 1),
        (96, 64, 1 << 20, None, 2),
        (192, 64, 1 << 20, None, 1),
        (1, 64, 4096, (0, 4000), 1),
        (1, 1, 700, None, 4),  # of three tiles, the last of two
    ],
)
def test_parts(
    batch: int, rows: int, keys: int, window: tuple[int, int] | None, parts: int
) -> None:
    target = tw.Target("cuda -arch=sm_80 -multi_processor_count=96")
    assert parts_of(Sizes((batch,), (rows,), keys, 64, 64, window), target) == parts


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100"])
def test_heads_that_shared_memory_has_room_for(arch: str) -> None:
    target = tw.Target(f"cuda -arch={arch}")
    small = tw.Target(f"cuda -arch={arch} -max_shared_memory_per_block=49152")
    for dtype in KINDS:
        for size in range(1, 257):
            sizes = Sizes((12,), (197,), 197, size, size)
            taken = takes(sizes, dtype, target)
            assert taken == (size <= 128)
            assert takes(sizes, dtype, small) == (size <= 80)
            assert not takes(sizes, "float32", target)
            assert not taken or shared_bytes(sizes, dtype) <= target.max_shared_memory_per_block


@pytest.mark.parametrize(
    ("size", "last", "keys"), [(64, 64, 64), (64, 64, 130), (128, 128, 130), (17, 128, 130)]
)
def test_the_bytes_of_a_block_are_those_of_its_kernel(size: int, last: int, keys: int) -> None:
    made = Made("float16", (1, 1, 70, keys), size, last)
    (module,) = made.built(TARGET).imported_modules
    arrays = re.findall(r"__shared__ .* half \w+\[(\d+)\]", module.get_source())
    used = module.device_code.kernels[0].shared_bytes + sum(2 * int(n) for n in arrays)
    assert used == shared_bytes(Sizes((1,), (1, 70), keys, size, last), "float16")


@pytest.mark.skipif(bool(WHY), reason=WHY or "nvrtc is here")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("dtype", "n", "size", "causal"),
    [
        ("float16", 384, 64, False),
        ("bfloat16", 384, 64, True),
        ("float16", 1000, 128, False),
        ("bfloat16", 1024, 128, True),
    ],
)
def test_fragments_stay_in_registers(
    dtype: str, arch: str, n: int, size: int, causal: bool
) -> None:
    """With sizes that divide, and with those of which ptxas spilled conditions of copies."""
    window = (1 - n, 1) if causal else None
    made = Made(dtype, (12, 1, n, n), size, size, window=window, cut=causal)
    f = made.built(tw.Target(f"cuda -arch={arch}"))
    text = str(f.imported_modules[0].get_source())
    image, log = nvrtc.compile_cuda(text, arch, "cubin")
    (used,) = nvrtc.resource_usage(image, log).values()
    assert used.stack == 0 and used.spill_stores == 0
