"""Small kernels for tests of the simt executor, written with the IR builder."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.interp.simt import SimtError, SimtReport, run_kernel
from tilewright.loopir.calls import storage_sync
from tilewright.loopir.iter import IterVar
from tilewright.loopir.stmt import PrimFunc

Write = Callable[[Any, Any], None]


def make_kernel(
    write: Write,
    arrays: dict[str, tuple[str, int]],
    block: Sequence[int] = (32,),
    grid: Sequence[int] = (1,),
    scalars: dict[str, str] | None = None,
) -> PrimFunc:
    """A kernel whose body `write(ib, k)` makes; `k` has tx, ty, tz, bx, by, the arrays, scalars."""
    ib = tir.ir_builder.create()
    k = SimpleNamespace()
    params = []
    for name, dtype in (scalars or {}).items():
        v = tir.Var(name, dtype)
        setattr(k, name, v)
        params.append(v)
    for kind, short, extents in (("blockIdx", "b", grid), ("threadIdx", "t", block)):
        for axis, extent in zip("xyz", extents):
            thread = IterVar((0, extent), short + axis, IterVar.ThreadIndex, f"{kind}.{axis}")
            ib.scope_attr(thread, "thread_extent", extent)
            setattr(k, short + axis, thread.var)
    handles = []
    for name, (dtype, size) in arrays.items():
        buffer = tir.decl_buffer((size,), dtype, name=name)
        setattr(k, name, ib.buffer_ptr(buffer))
        setattr(k, f"{name}_buffer", buffer)
        handles.append(buffer.data)
    write(ib, k)
    return PrimFunc([*handles, *params], ib.get(), None, {}, {"global_symbol": "kernel"})


def sync(ib: Any, scope: str = "shared") -> None:
    ib.emit(storage_sync(scope))


def problems(kernel: PrimFunc, *args: Any, **options: Any) -> SimtError:
    """The error of a kernel that must have one."""
    try:
        run_kernel(kernel, None, args, **options)
    except SimtError as error:
        return error
    raise AssertionError(f"simt found nothing wrong with\n{kernel}")


def kinds(kernel: PrimFunc, *args: Any, **options: Any) -> list[str]:
    """The kinds of what is found in a kernel, none or more."""
    report: SimtReport = run_kernel(kernel, None, args, check=False, **options)
    return [f.kind for f in report.findings]


def zeros(n: int, dtype: str = "float32") -> Any:
    return np.zeros(n, dtype)


def numbers(n: int, dtype: str = "float32") -> Any:
    return np.arange(1, n + 1).astype(dtype)
