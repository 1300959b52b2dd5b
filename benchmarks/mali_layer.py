"""One layer of VGG-16 on a GPU with short vectors: three schedules, a grid search, tuners.

The layer is a 3x3 convolution of 256 channels of 56x56 pixels to 256. Method and figures of the
original: Zheng and Chen, "Optimizing mobile deep learning on ARM GPU with TVM", 2018.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tvm
from benchmarks import tuners
from tilewright import autotvm, te
from tilewright.measure.progress import Progress
from tilewright.measure.store import Store
from tilewright.template.measure import Batches
from tilewright.topi.nn.spatial_pack import conv2d_spatial_pack
from tilewright.topi.schedules.gpu.spatial_pack import schedule_spatial_pack

CHANNELS, SIZE, FILTERS = 256, 56, 256
FLOP = 2 * SIZE * SIZE * FILTERS * CHANNELS * 9
PADDING = (1, 1, 1, 1)
TARGET = "opencl -device=mali"
LANES = {"float32": 4, "float16": 8}
BARS = {"float32": 1e-3, "float16": 2e-2}
STEPS = ("threads bound", "+ unrolled", "+ vectorised")
# seconds on an RK3399's Mali-T860 in the article, float32
ARTICLE = (5.6154, 0.3707, 0.1304)
BATCH = 8
Array = np.ndarray[Any, Any]


def fitted(device: Any) -> Any:
    """Mali's target, without what the device at hand lacks."""
    return tvm.target.Target(TARGET).fitted_to(device)


def layer_data(dtype: str) -> tuple[Array, Array, Array]:
    """Data, kernel, and what they give, in float64 from the rounded inputs."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, CHANNELS, SIZE, SIZE)).astype(dtype)
    kernel = (rng.standard_normal((FILTERS, CHANNELS, 3, 3)) / 48).astype(dtype)
    wide = np.pad(data[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    expected = np.zeros((FILTERS, SIZE * SIZE))
    for y in range(3):
        for x in range(3):
            window = wide[:, y : y + SIZE, x : x + SIZE].reshape(CHANNELS, -1)
            expected += kernel[:, :, y, x].astype(np.float64) @ window
    return data, kernel, expected.reshape(1, FILTERS, SIZE, SIZE)


def packed(kernel: Array, vc: int) -> Array:
    """(CO, CI, KH, KW) to (CO / VC, CI, KH, KW, VC), ahead of time."""
    co, *rest = kernel.shape
    return np.ascontiguousarray(np.moveaxis(kernel.reshape(co // vc, vc, *rest), 1, -1))


def run_checked(f: Any, device: Any, arrays: list[Array], expected: Array) -> dict[str, float]:
    """Largest error against the largest expected value, and the least of three times."""
    out = np.full(expected.shape, np.nan, arrays[0].dtype)
    args = [tvm.nd.array(a, device) for a in (*arrays, out)]
    f(*args)
    error = np.abs(args[-1].numpy().astype(np.float64) - expected).max() / np.abs(expected).max()
    timed = f.time_evaluator(f.entry_name, device, number=1, repeat=3)(*args)
    seconds = min(timed.results)
    return {"error": float(error), "seconds": seconds, "gflops": FLOP / seconds / 1e9}


def three_schedules(dtype: str, device: Any) -> list[dict[str, Any]]:
    """A row for each of the steps, on a tile of 1 x 4 pixels and a register of filters."""
    vc = LANES[dtype]
    data, kernel, expected = layer_data(dtype)
    weights = packed(kernel, vc)
    target = fitted(device)
    rows = []
    for step, name in enumerate(STEPS, 1):
        a = te.placeholder(data.shape, dtype, "data")
        b = te.placeholder(weights.shape, dtype, "kernel_vec")
        accumulate = dtype if target.has_fp16 else "float32"
        out = conv2d_spatial_pack(a, b, (1, 4, vc), padding=PADDING, accumulate=accumulate)
        s = te.create_schedule(out.op)
        schedule_spatial_pack(s, out, step)
        found = run_checked(tvm.build(s, [a, b, out], target), device, [data, weights], expected)
        rows.append({"dtype": dtype, "schedule": name, **found})
    return rows


def layer_task(dtype: str, device: Any, whole: bool = False) -> Any:
    """The template's task for the layer, on the part of its space that a grid search covers, or on
    what of the whole needs no minute to compile or to run: no single threads or tiny tiles, no
    endless unrolling."""
    a = te.placeholder((1, CHANNELS, SIZE, SIZE), dtype, "data")
    b = te.placeholder((FILTERS, CHANNELS, 3, 3), dtype, "kernel")
    args = (a, b, (1, 1), PADDING, True)
    task = autotvm.task.create("conv2d_nchw_spatial_pack.mali", args, fitted(device))
    task.config_space.multi_filter(_is_sane if whole else _in_grid)
    return task


def _is_sane(config: Any) -> bool:
    (_, z, vc), (_, y, vh), (_, x, vw) = (config[n].size for n in ("tile_co", "tile_oh", "tile_ow"))
    results = vc * vh * vw
    unrolled = results * (9 if "unroll" in config["ann_reduce"].anns else 1)
    return bool(2 <= z * y * x <= 64 and 8 <= results <= 64 and unrolled <= 288)


def _in_grid(config: Any) -> bool:
    (_, z, _), (_, y, vh), (_, x, vw) = (config[n].size for n in ("tile_co", "tile_oh", "tile_ow"))
    reduce, spatial = config["ann_reduce"].anns, config["ann_spatial"].anns
    threads = z in (2, 8) and y == 1 and x == 1
    loops = reduce[0] == reduce[1] and spatial[0] == "unroll"
    return bool(threads and vh <= 2 and vw in (2, 4, 8) and loops)


def option(timeout: float = 60) -> Any:
    """How candidates are measured; the least of the times is what other programs disturb least."""
    runner = autotvm.LocalRunner(number=1, repeat=2, cooldown_interval=0, timeout=timeout)
    return autotvm.measure_option(autotvm.LocalBuilder(timeout=timeout), runner)


def grid_search(dtype: str, device: Any, store: Path, points: int | None) -> dict[str, Any]:
    """Measure the grid, or its first `points`, keep all in a store, check the best."""
    task = layer_task(dtype, device)
    # in random order, so that a fast one comes soon: what is far slower is run once
    indices = task.config_space.sample_ints(len(task.config_space), np.random.default_rng(0))
    indices = indices[:points]
    best: tuple[float, Any] = (0.0, None)
    progress = Progress(len(indices), f"grid {dtype}")
    reasons: Counter[str] = Counter()
    with Store(store) as kept, Batches(task, option()) as batches:
        measure = tuners.stored_measure(task, kept, batches)
        for at in range(0, len(indices), BATCH):
            configs = [task.config_space.get(i) for i in indices[at : at + BATCH]]
            for config, result in zip(configs, measure(configs)):
                if not result.ok:
                    reasons[result.message.strip().splitlines()[0][:120]] += 1
                if result.ok and FLOP / result.cost > best[0]:
                    best = (FLOP / result.cost, config)
            progress.update(min(at + BATCH, len(indices)), f"best {best[0] / 1e9:.1f} GFLOP/s")
    progress.close(len(indices), f"best {best[0] / 1e9:.1f} GFLOP/s")
    row: dict[str, Any] = {
        "dtype": dtype,
        "points": len(indices),
        "failed": reasons.total(),
        "reasons": dict(reasons),
        "searched": best[0] / 1e9,
    }
    if best[1] is None:
        return row
    config = best[1]
    s, args = task.instantiate(config)
    data, kernel, expected = layer_data(dtype)
    weights = packed(kernel, config["tile_co"].size[-1])
    found = run_checked(tvm.build(s, args, task.target), device, [data, weights], expected)
    names = ("tile_co", "tile_oh", "tile_ow", "ann_reduce", "ann_spatial")
    return {**row, **found, "config": {n: str(config[n]) for n in names}}


def compare_tuners(dtype: str, device: Any, store: Path, trials: int, seeds: int) -> dict[str, Any]:
    """Random, genetic and model-based search on the whole space; what one has measured the others
    find measured."""
    task = layer_task(dtype, device, whole=True)
    with Store(store) as kept, Batches(task, option(8)) as batches:
        measure = tuners.stored_measure(task, kept, batches)
        return tuners.compare(f"layer {dtype}", task, measure, trials, seeds)
