"""What the OpenCL driver says of machines that this one is not; messages of compilers."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.rt.drivers.build_log import with_source
from tilewright.rt.drivers.opencl import OpenCLDriver
from tilewright.rt.drivers.opencl_limits import device_limits

SOURCE = "__kernel void k(__global float* a) {\n  int i = 0;\n  a[i] = x;\n}\n"


class Error(Exception):
    pass


def module(*platforms):
    def get_platforms():
        if not platforms:
            raise Error("PLATFORM_NOT_FOUND_KHR")
        return list(platforms)

    kinds = SimpleNamespace(CPU=2, GPU=4, ACCELERATOR=8)
    return SimpleNamespace(Error=Error, get_platforms=get_platforms, device_type=kinds)


def platform(name: str, *devices):
    def get_devices():
        if not devices:
            raise Error("DEVICE_NOT_FOUND")
        return list(devices)

    found = SimpleNamespace(name=name, version="OpenCL 3.0", get_devices=get_devices)
    for device in devices:
        device.platform = found
    return found


class FakeDevice:
    """A device; properties that are not given raise the driver's error."""

    def __init__(self, name: str, kind: int, extensions: str = "", **facts) -> None:
        self.name, self.type, self.extensions = name, kind, extensions
        self.version, self.driver_version = "OpenCL 2.1 x", "1.2"
        self.max_work_group_size, self.max_work_item_sizes = 256, [256, 128]
        self.local_mem_size, self.global_mem_size, self.max_mem_alloc_size = 32768, 1 << 30, 1 << 28
        self.max_compute_units = 4
        self.__dict__.update(facts)

    def __getattr__(self, name: str):
        raise Error(f"{name} is not known")


def driver(monkeypatch, found) -> OpenCLDriver:
    monkeypatch.setitem(sys.modules, "pyopencl", found)
    return OpenCLDriver()


def test_what_is_missing_is_said(monkeypatch):
    d = driver(monkeypatch, None)
    assert d.count() == 0
    assert "pyopencl cannot be imported" in d.why_missing()
    assert "pip install 'tilewright[opencl]'" in d.why_missing()
    with pytest.raises(TilewrightError, match=r"\(0\) does not exist here: the Python package"):
        d.open(0)
    assert "no OpenCL platform is installed" in driver(monkeypatch, module()).why_missing()
    d = driver(monkeypatch, module(platform("Clover")))
    assert d.why_missing() == "the OpenCL platforms (Clover) have no device"


def test_gpus_come_before_cpus(monkeypatch):
    cpu, gpu, other = FakeDevice("C", 2), FakeDevice("G", 4), FakeDevice("A", 8)
    d = driver(monkeypatch, module(platform("P", cpu), platform("Q"), platform("R", gpu, other)))
    assert [d.limits(i).device_name for i in range(d.count())] == ["G", "A", "C"]
    assert d.why_missing(2) == ""
    assert d.why_missing(3) == "there are 3 OpenCL devices: opencl(0) G, opencl(1) A, opencl(2) C"


def test_limits(monkeypatch):
    cl = module()
    plain = FakeDevice("Mali-T860", 4, "cl_khr_fp16", native_vector_width_float=4)
    platform("ARM", plain)
    found = device_limits(cl, plain)
    assert (found.warp_size, found.has_fp16, found.has_subgroups, found.has_fp64) == (
        1,
        True,
        False,
        False,
    )
    assert (found.max_thread_dimensions, found.compute_version) == ((256, 128, 1), "2.1")
    assert (found.max_clock_rate, found.vector_bytes, found.platform) == (0, 16, "ARM OpenCL 3.0")
    nvidia = FakeDevice("A100", 4, "cl_nv_device_attribute_query cl_khr_fp64", warp_size_nv=32)
    amd = FakeDevice("MI", 4, "cl_amd_device_attribute_query cl_khr_subgroups")
    amd.wavefront_width_amd = 64  # type: ignore[attr-defined]
    platform("V", nvidia, amd)
    assert device_limits(cl, nvidia).warp_size == 32 and device_limits(cl, nvidia).has_fp64
    assert device_limits(cl, amd).warp_size == 64 and device_limits(cl, amd).has_subgroups


@pytest.mark.parametrize(
    "message",
    [
        "<kernel>:3:10: error: use of undeclared identifier 'x'",
        "1:3:10: error: use of undeclared identifier 'x'",
        "/tmp/comgr-12/input/CompileSource:3:10: fatal error: use of undeclared identifier",
        "error: /root/.cache/pocl/tempfile_1.cl:3:10: use of undeclared identifier 'x'",
        "x.cl(3,10): error: undeclared",
    ],
)
def test_the_line_of_an_error_is_shown(message):
    log = with_source(f"1 warning\n{message}\n{message}\n", SOURCE)
    assert log.splitlines()[3:] == ["The source has:", "     3 |   a[i] = x;", " " * 18 + "^"]


def test_a_log_without_places_stays_as_it_is():
    assert with_source("out of registers\n", SOURCE) == "out of registers"
    assert with_source("x.cl:99:1: error: beyond the end", SOURCE).count("\n") == 0
    assert with_source("x.cl(3): error: no column", SOURCE).endswith("     3 |   a[i] = x;")
