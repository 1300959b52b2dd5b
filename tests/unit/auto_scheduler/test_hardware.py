"""Limits of devices, by target."""

import dataclasses
from typing import Any

import pytest

from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.base.errors import TilewrightError
from tilewright.rt.threads import num_threads, set_num_threads
from tilewright.target.target import Target

ANY = 2**31 - 1


def test_cpus():
    before = num_threads()
    try:
        set_num_threads(3)
        vector = Target("llvm").vector_bytes
        assert dataclasses.astuple(HardwareParams.of("llvm")) == (3, vector, 64, 0, 0, 0, 0, 0)
        assert HardwareParams() == HardwareParams.of(Target("llvm")) == HardwareParams.of("c")
    finally:
        set_num_threads(before)
    assert HardwareParams.of("llvm -num-cores=36").num_cores == 36


@pytest.mark.parametrize(
    ("cpu", "size"), [("skylake-avx512", 64), ("haswell", 32), ("nehalem", 16)]
)
def test_vectors_are_those_of_the_target(cpu, size):
    assert (
        HardwareParams.of(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}").vector_unit_bytes == size
    )


def test_devices():
    cuda = HardwareParams.of("cuda -arch=sm_80 -max_shared_memory_per_block=65536")
    assert dataclasses.astuple(cuda) == (-1, 16, 64, 65536, ANY, 1024, 8, 32)
    mali = HardwareParams.of("opencl -device=mali")
    assert dataclasses.astuple(mali) == (-1, 16, 64, 32768, ANY, 256, 1, 1)
    opencl = HardwareParams.of("opencl -thread_warp_size=16 -max_num_threads=512")
    assert dataclasses.astuple(opencl)[5:] == (512, 4, 16)


def test_what_is_given_counts():
    params = HardwareParams(4, 32, 128)
    assert dataclasses.astuple(params) == (4, 32, 128, 0, 0, 0, 0, 0)
    params = HardwareParams(warp_size=64, target="cuda")
    assert (params.warp_size, params.max_threads_per_block) == (64, 1024)
    assert dataclasses.astuple(HardwareParams(-1, 16, 64, 1, 2, 3, 4, 5))[3:] == (1, 2, 3, 4, 5)


def test_values():
    params = HardwareParams(4, 32, 64)
    assert params == HardwareParams(4, 32, 64) and hash(params) == hash(HardwareParams(4, 32, 64))
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.num_cores = 2  # type: ignore[misc]
    assert "num_cores: 4" in str(params)
    junk: list[Any] = [-2, 1.5, "4", True]
    for wrong in junk:
        with pytest.raises(TilewrightError, match="num_cores is a whole number"):
            HardwareParams(num_cores=wrong)
    with pytest.raises(TilewrightError, match="warp_size is a whole number"):
        HardwareParams(warp_size=-1)
