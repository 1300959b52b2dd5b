"""The kernels that default schedules for CUDA come to: how they are launched, what they compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te, topi
from tilewright.base.dtype import parse

SM80 = "cuda -arch=sm_80"
LAUNCH = re.compile(r"launch\('\w+', \((\d+), (\d+), (\d+)\), \((\d+), (\d+), (\d+)\)")


def built(make: Callable[..., Any], dtype: str, *shapes: tuple[int, ...]) -> tuple[Any, Any]:
    """The function, and its output."""
    ins = [te.placeholder(shape, dtype, f"in{n}") for n, shape in enumerate(shapes)]
    out = make(*ins)
    return tw.build(topi.default_schedule(out, SM80), [*ins, out], SM80), out


def launches(make: Callable[..., Any], dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    """Blocks, and threads of each, of the kernels of a function, and the function."""
    f, out = built(make, dtype, *shapes)
    return [*counted(f), (f, out)]


def counted(f: Any) -> list[tuple[int, int]]:
    """Blocks, and threads of each, of the kernels of a function."""
    host: Any = f.entry_func
    sizes = [tuple(map(int, found)) for found in LAUNCH.findall(host.text)]
    return [(prod(s[:3]), prod(s[3:])) for s in sizes]


def computed(make: Callable[..., Any], dtype: str, arrays: Sequence[Any]) -> tuple[Any, Any]:
    """The result in simt, where nothing is wrong with how threads use memory, and the function."""
    f, out = built(make, dtype, *(a.shape for a in arrays))
    result = np.full([int(d) for d in out.shape], 77, parse(out.dtype).numpy)
    reports = f.run_simt(*arrays, result)
    assert not any(report.findings for report in reports.values())
    return result, f
