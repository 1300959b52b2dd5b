"""Putting the stub in the place of the driver and the compiler."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.forget import collect
from tests.stub_cuda import images
from tests.stub_cuda.binding import StubCuda
from tilewright.driver import build_device
from tilewright.rt.drivers import base, nvrtc
from tilewright.rt.drivers.cuda import CudaDriver

ROOT = Path(__file__).resolve().parents[2]


def _patches() -> list[tuple[Any, str, Any]]:
    return [
        (build_device, "DeviceCode", images.remember),
        (nvrtc, "compile_cuda", images.compile_cuda),
        (nvrtc, "why_missing", lambda: ""),
        (nvrtc, "why_unfit", lambda driver: ""),
        (nvrtc, "compiler_name", lambda: "stub"),
    ]


def install(arch: str) -> StubCuda:
    """For the life of this process."""
    for module, name, value in _patches():
        setattr(module, name, value)
    stub = StubCuda(arch)
    base.register("cuda", CudaDriver(stub))
    return stub


@contextmanager
def installed(arch: str = "sm_80", devices: int = 1) -> Iterator[StubCuda]:
    """`cuda(0)` is a stub of that architecture within the body of the `with`, here and in the
    processes that are started. All that the driver made has to be given back, and nothing may have
    been violated."""
    before = base.find("cuda")
    stub = StubCuda(arch, devices)
    with pytest.MonkeyPatch.context() as patch, images.kept():
        for module, name, value in _patches():
            patch.setattr(module, name, value)
        patch.setenv("TILEWRIGHT_TEST_STUB", arch)
        patch.setenv("TILEWRIGHT_CACHE", "0")
        given = os.environ.get("PYTHONPATH", "")
        places = [str(Path(__file__).parent / "children"), str(ROOT), *filter(None, [given])]
        patch.setenv("PYTHONPATH", os.pathsep.join(places))
        base.register("cuda", CudaDriver(stub))
        try:
            yield stub
        finally:
            collect()
            if before is not None:
                base.register("cuda", before)
