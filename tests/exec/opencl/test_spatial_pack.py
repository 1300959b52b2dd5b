"""The spatially packed convolution on an OpenCL device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.test_spatial_pack import CASES, arrays, reference
from tilewright import autotvm, te
from tilewright.topi.nn.spatial_pack import conv2d_spatial_pack
from tilewright.topi.schedules.gpu.spatial_pack import schedule_spatial_pack

DEV = tw.opencl(0)
pytestmark = pytest.mark.skipif(not DEV.exist, reason=f"no OpenCL device: {DEV.why_missing()}")
OFF = {"float32": 1e-5, "float16": 2e-2}


def run(f: Any, arrays: list[Any], want: Any) -> float:
    """The largest error against the largest value."""
    out = tw.nd.array(np.full(want.shape, 7, arrays[0].dtype), DEV)
    f(*(tw.nd.array(a, DEV) for a in arrays), out)
    return float(np.abs(out.numpy() - want).max() / np.abs(want).max())


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("case", "steps"), [(CASES[1], 1), (CASES[2], 2), (CASES[3], 3)])
def test_the_schedules(case: Any, steps: int, dtype: str, fitted: bool) -> None:
    """Also where the source is for a device with half arithmetic, and this one may have none."""
    data, kernel = arrays(case, dtype)
    *_, tile, strides, padding = case
    target = tw.target.Target("opencl -device=mali")
    if fitted:
        target = target.fitted_to(DEV)
    a, b = (te.placeholder(x.shape, dtype, n) for n, x in (("a", data), ("b", kernel)))
    out = conv2d_spatial_pack(a, b, tile, strides, padding)
    s = te.create_schedule(out.op)
    schedule_spatial_pack(s, out, steps)
    want = reference(data, kernel, strides, padding)
    assert run(tw.build(s, [a, b, out], target), [data, kernel], want) <= OFF[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_search_finds_a_right_one(dtype: str) -> None:
    target = tw.target.Target("opencl -device=mali").fitted_to(DEV)
    data = np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype(dtype)
    kernel = (np.random.default_rng(2).standard_normal((16, 8, 3, 3)) / 8).astype(dtype)
    a, b = (te.placeholder(x.shape, dtype, n) for n, x in (("data", data), ("kernel", kernel)))
    args = (a, b, (1, 1), (1, 1, 1, 1))
    task = autotvm.task.create("conv2d_nchw_spatial_pack.mali", args=args, target=target)
    option = autotvm.measure_option(
        autotvm.LocalBuilder(timeout=60),
        autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=60),
    )
    tuner = autotvm.tuner.GATuner(task, seed=1)
    tuner.tune(n_trial=3, measure_option=option)
    assert tuner.best_config is not None, tuner.errors
    s, tensors = task.instantiate(tuner.best_config)
    want = reference(data, kernel, (1, 1), (1, 1, 1, 1))
    assert run(tw.build(s, tensors, target), [data, kernel], want) <= OFF[dtype]


def test_single_halves_survive_the_way_to_the_device() -> None:
    """Every float16 there is, added to zero where halves are only kept: the same bits."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits.view(np.float16)
    x = x[~np.isnan(x)]
    a = te.placeholder(x.shape, "float16", "a")
    c = te.compute(x.shape, lambda i: a[i] * tw.tir.const(1, "float16"), name="c")
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, te.thread_axis("threadIdx.x"))
    f = tw.build(s, [a, c], "opencl -fp16=0")
    got = tw.nd.array(np.zeros(x.shape, "float16"), DEV)
    f(tw.nd.array(x, DEV), got)
    assert np.array_equal(got.numpy().view(np.uint16), x.view(np.uint16))


def test_single_floats_round_to_the_nearest_half() -> None:
    values = np.concatenate([
        np.array([65519, 65520, 1e9, -1e9, 2**-25, 2**-24 * 1.5, 6e-8, np.inf, -0.0], "f4"),
        np.random.default_rng(4).standard_normal(2000).astype(np.float32) * 10,
    ]).astype(np.float32)  # fmt: skip
    a = te.placeholder(values.shape, "float32", "a")
    c = te.compute(values.shape, lambda i: a[i].astype("float16"), name="c")
    s = te.create_schedule(c.op)
    s[c].bind(s[c].split(c.op.axis[0], factor=49)[0], te.thread_axis("blockIdx.x"))
    got = tw.nd.array(np.zeros(values.shape, "float16"), DEV)
    tw.build(s, [a, c], "opencl -fp16=0")(tw.nd.array(values, DEV), got)
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    assert np.array_equal(got.numpy(), want)
