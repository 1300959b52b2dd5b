"""Run GPU kernels on NumPy, every thread a lane, and tell what is wrong with them.

`run_kernel` takes a kernel as the device passes leave it: thread axes, barriers, shuffles, no
intrinsic lowered for a target. Blocks run together as far as memory allows. Lock step hides races,
so every access is looked up in shadow memory (simt_shadow).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..base.deep import deep_call
from ..base.errors import TilewrightError
from ..loopir.stmt import PrimFunc
from .simt_extern import register_simt as register_simt
from .simt_kernel import Kernel
from .simt_launch import Launch
from .simt_launch import SimtArray as SimtArray
from .simt_report import Abandoned, mark_lines, raise_findings
from .simt_report import Finding as Finding
from .simt_report import SimtError as SimtError
from .simt_report import SimtReport as SimtReport
from .simt_report import Thread as Thread
from .simt_tma import SimtMap as SimtMap

_compiled: WeakKeyDictionary[PrimFunc, Kernel] = WeakKeyDictionary()


def run_kernel(
    kernel: PrimFunc,
    grid: Mapping[str, int] | None,
    args: Sequence[Any],
    *,
    check: bool = True,
    warp_size: int = 32,
    align: Sequence[int] = (),
    sample: bool = False,
) -> SimtReport:
    """Run a kernel; arrays among `args` are read and written in place.

    `grid` has the extent of each thread axis by tag ("blockIdx.x", "threadIdx.y"); tags left out,
    or None, take what the kernel says. `args` has a flat array (or one that can be seen as flat, or
    a `SimtArray`) for each parameter that is a pointer, a `SimtMap` for each that is a tensor map,
    a number for each other one. `align`: bytes that the code relies on for each pointer
    (`KernelInfo.align`), of which none are checked here where it is left out.

    Raises SimtError with all that was found: races, accesses out of bounds, barriers that not all
    threads of a block reach, async copies read before their wait, products of warp groups whose
    operands or sums are used before theirs, missing fences, waits that never end; undefined
    values (of unwritten memory, or shuffled from inactive lanes) that are stored to global memory
    or decide something;
    vectors that need an address of `align` and have another; divisions by zero and failed asserts.
    The kernel runs to its end first, or to the 4096th turn of a `while` loop once something was
    found, since it may have none; elements out of bounds are left out. `check=False` returns the
    report with the findings in it instead. `sample` runs one block in the middle of the grid, the
    first steps of each of its loops, for the figures of its accesses alone: nothing is checked.
    Raises ArgumentError for arguments that do not fit, TilewrightError for a function without a
    meaning (see `register_simt`).
    """
    made = _compiled.get(kernel)
    if made is None:
        made = _compiled[kernel] = deep_call(Kernel, kernel)
    report = SimtReport(kernel.name)
    try:
        with np.errstate(all="ignore"):
            launch = Launch(made, dict(grid or {}), args, warp_size, report, align)
            launch.sample() if sample else launch.run()
    except Abandoned:
        pass  # what was found is in the report
    except RecursionError:
        raise TilewrightError(
            f"simt: statements or expressions of {kernel.name} are nested too deeply"
        ) from None
    if sample:
        report.findings.clear()
    if report.findings and check:
        raise_findings(kernel, report)
    mark_lines(kernel, report.findings)
    return report
