"""Two functions that tests of the stub CUDA driver launch: by vectors, with much shared memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import tilewright as tw
from tests.exec.gpu.kit import bind_flat
from tests.narrow import as_a, some
from tests.stub_cuda import images
from tilewright import te
from tilewright.rt.device_module import DeviceFunction, KernelCode
from tilewright.rt.drivers.base import DeviceCode

N = 1024


def kernels() -> dict[str, tuple[Any, str, DeviceCode]]:
    """Functions of the scenario: their signatures, host code and kernels, which the stub that is
    installed knows."""
    for _, _, code in _built().values():
        images.remember(**code.__dict__)
    return _built()


@cache
def _built() -> dict[str, tuple[Any, str, DeviceCode]]:
    a = te.placeholder((N,), "float32", "A")
    n = te.var("n")
    b = te.compute((N,), lambda i: a[i] * 2.0 + n.astype("float32"), name="B")
    s = te.create_schedule(b.op)
    bind_flat(s, b, 64, 4)
    x = te.placeholder((64, 240), "float32", "X")
    y = te.compute((64, 240), lambda i, j: x[63 - i, j] + 1.0, name="Y")
    t = te.create_schedule(y.op)
    tile = t.cache_read(x, "shared", [y])
    t[y].bind(y.op.axis[1], te.thread_axis("threadIdx.x"))
    outer, rest = t[y].split(y.op.axis[0], nparts=1)
    t[y].bind(outer, te.thread_axis("blockIdx.x"))
    t[y].reorder(outer, y.op.axis[1], rest)
    t[tile].compute_at(t[y], outer)
    t[tile].bind(tile.op.axis[1], te.thread_axis("threadIdx.x"))
    target = "cuda -arch=sm_80 -max_shared_memory_per_block=65536"
    found = {}
    wanted: list[tuple[str, Any, list[Any]]] = [("line", s, [a, n, b]), ("much", t, [x, y])]
    for name, schedule, args in wanted:
        module = tw.build(schedule, args, target, name=name)
        code = some(module.imported_modules[0].device_code)
        found[name] = (module[name].info, as_a(DeviceFunction, module[name]).text, code)
    return found


def function(name: str, **how: Any) -> DeviceFunction:
    info, text, code = kernels()[name]
    given = DeviceCode(**{**code.__dict__, **how})
    return DeviceFunction(info, text, KernelCode(given), "cuda")
