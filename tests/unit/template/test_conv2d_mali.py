"""The template of the spatially packed convolution: its space, and what its choices compute."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.test_spatial_pack import reference
from tilewright import autotvm, te

NAME = "conv2d_nchw_spatial_pack.mali"
MALI = "opencl -device=mali"
PADDING = (1, 1, 1, 1)
RNG = np.random.default_rng(11)


def task_of(
    dtype: str = "float32", packed: bool = False, target: str = MALI, size: int = 14
) -> Any:
    a = te.placeholder((1, 8, size, size), dtype, "data")
    b = te.placeholder((32, 8, 3, 3), dtype, "kernel")
    return autotvm.task.create(NAME, args=(a, b, (1, 1), PADDING, packed), target=target)


def test_the_task_and_its_space() -> None:
    task = task_of()
    assert task.name == NAME and task.flop == 2 * 14 * 14 * 32 * 8 * 9
    names = ["tile_co", "tile_oh", "tile_ow", "ann_reduce", "ann_spatial"]
    assert list(task.config_space.space_map) == names
    assert len(task.config_space) > 500
    for index in task.config_space.sample_ints(50, RNG):
        sizes = [task.config_space.get(index)[n].size for n in names[:3]]
        assert math.prod(s[1] for s in sizes) <= 64  # threads
        assert math.prod(s[2] for s in sizes) <= 128  # sums of a thread


def test_small_images_have_a_space_too() -> None:
    task = task_of(size=1)
    assert len(task.config_space) > 0
    assert all(c.size == [-1, 1, 1] for c in task.config_space.space_map["tile_oh"].entities)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_configurations_compute(dtype: str, packed: bool) -> None:
    task = task_of(dtype, packed, size=6)
    data = RNG.standard_normal((1, 8, 6, 6)).astype(dtype)
    kernel = (RNG.standard_normal((32, 8, 3, 3)) / 8).astype(dtype)
    want = reference(data, kernel, (1, 1), PADDING)
    for index in task.config_space.sample_ints(3, np.random.default_rng(3)):
        config = task.config_space.get(index)
        vc = config["tile_co"].size[-1]
        weights = kernel
        if packed:
            weights = np.moveaxis(kernel.reshape(32 // vc, vc, 8, 3, 3), 1, -1).copy()
        s, args = task.instantiate(config)
        assert args[1].shape[-1] == (vc if packed else 3)
        f = tw.build(s, args, MALI)
        got = np.full(want.shape, 7, dtype)
        f.run_simt(data, weights, got)
        off = 1e-5 if dtype == "float32" else 2e-2
        assert np.abs(got - want).max() <= off * np.abs(want).max()


def test_half_is_summed_up_in_what_the_target_computes_in() -> None:
    for target, accumulator in ((MALI, "half"), (MALI + " -fp16=0", "float")):
        task = task_of("float16", target=target)
        s, args = task.instantiate(task.config_space.get(next(task.config_space.indices())))
        with tw.target.Target(target):
            source = tw.build(s, args, target).imported_modules[0].get_source()
        conv = source.split("#else")[0]
        assert f"__global {accumulator}* restrict conv" in conv


def test_vectors_in_the_source() -> None:
    for dtype, vc, name in (("float32", 4, "float4"), ("float16", 8, "half8")):
        task = task_of(dtype, packed=True)
        for index in task.config_space.indices():
            config = task.config_space.get(index)
            vectors = config["ann_spatial"].anns == ["unroll", "vec"]
            if config["tile_co"].size[-1] == vc and vectors and config["tile_ow"].size[-1] == 4:
                break
        s, args = task.instantiate(config)
        with tw.target.Target(MALI):
            source = tw.build(s, args, MALI).imported_modules[0].get_source()
        assert f"vload{vc}(0, kernel_vec" in source and f"vstore{vc}(" in source
        assert f"({name})(data_vec[" in source


def test_another_choice_of_a_record_is_used() -> None:
    """The template as a function takes the configuration of the context."""
    task = task_of()
    index = task.config_space.sample_ints(1, RNG)[0]
    config = task.config_space.get(index)
    a = te.placeholder((1, 8, 14, 14), "float32", "data")
    b = te.placeholder((32, 8, 3, 3), "float32", "kernel")
    from tilewright.template.context import ApplyConfig
    from tilewright.template.conv2d_mali import conv2d_nchw_spatial_pack

    with tw.target.Target(MALI), ApplyConfig(config):
        s, args = conv2d_nchw_spatial_pack(a, b, (1, 1), PADDING, False)
    wanted, _ = task.instantiate(config)
    assert s.as_python() == wanted.as_python() and len(args) == 3
