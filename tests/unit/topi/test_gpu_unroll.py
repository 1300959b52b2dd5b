"""Who unrolls the loops of default schedules: CUDA's compilers, or, for OpenCL, this one."""

from typing import Any

import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.rt.drivers import nvrtc
from tilewright.topi.nn.blocked import conv_nchwc

UNROLL = "#pragma unroll"


def product(rows: int = 128, columns: int = 64) -> list[Any]:
    a, b = te.placeholder((rows, 40), name="a"), te.placeholder((columns, 40), name="b")
    return [a, b, topi.nn.relu(topi.nn.dense(a, b))]


def with_edges() -> list[Any]:
    """A product whose last tiles are not whole."""
    return product(67, 96)


def convolution() -> list[Any]:
    x = te.placeholder((1, 3, 12, 12, 4), name="x")
    w = te.placeholder((2, 3, 3, 3, 4, 4), name="w")
    return [x, w, topi.nn.relu(conv_nchwc(x, w, (1, 1), (1, 1, 1, 1)))]


WHOLE = [product, convolution]


def source(args: list[Any], target: str) -> str:
    with tw.Target(target):
        built = tw.build(topi.default_schedule(args[-1], tw.Target(target)), args, target)
    text: str = built.imported_modules[0].get_source()
    return text


@pytest.mark.parametrize("case", WHOLE)
def test_cuda_source_is_short_and_opencl_source_has_no_such_loops(case: Any) -> None:
    cuda, opencl = source(case(), "cuda -arch=sm_80"), source(case(), "opencl")
    assert UNROLL in cuda and UNROLL not in opencl
    assert 2 * len(cuda) < len(opencl)


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing() or "NVRTC is here")
@pytest.mark.parametrize("case", [*WHOLE, with_edges])
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_sums_lie_in_registers(case: Any, arch: str) -> None:
    """Arrays whose indices the compiler does not come to know have a place on the stack."""
    image, log = nvrtc.compile_cuda(source(case(), f"cuda -arch={arch}"), arch, "cubin")
    assert "warning" not in log
    usage = nvrtc.resource_usage(image, log)
    assert all(use.stack == 0 for use in usage.values()), usage
