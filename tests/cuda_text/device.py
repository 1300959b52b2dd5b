"""The text of kernels run in the place of their loop IR, on the device simt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.cuda_text.program import Program
from tilewright.base.dtype import parse
from tilewright.driver.simt_device import SimtRuntime
from tilewright.rt.drivers import base


class TextKernel(base.Kernel):
    """A kernel of a program; `last` is simt's report, which there is none of."""

    last = None

    def __init__(self, info: base.KernelInfo, func: Any, program: Program, ran: Counter[str]):
        super().__init__(info)
        self.func, self.program, self.ran = func, program, ran

    def launch(
        self, grid: base.Extents, block: base.Extents, args: Sequence[Any], stream: base.Stream
    ) -> None:
        kept: list[np.ndarray[Any, Any]] = []
        for param, given in zip(self.func.params, args):
            if param.dtype == "handle":
                kept.append(np.array(given.data.ctypes.data, np.uint64))
            else:
                kept.append(np.array(given, parse(param.dtype).numpy))
        self.program.launch(self.info.name, grid, block, [a.ctypes.data for a in kept])
        self.ran[self.info.name] += 1
        for param, given in zip(self.func.params, args):
            if param.dtype == "handle":
                given.written[:] = True

    def bind(
        self, grid: base.Extents, block: base.Extents, args: Sequence[Any], stream: base.Stream
    ) -> Callable[[], None]:
        kept = list(args)
        return lambda: self.launch(grid, block, kept, stream)


@contextmanager
def kernels_as_text(arch: str) -> Iterator[Counter[str]]:
    """CUDA kernels that are loaded on simt in the body of the `with` run as text for an
    architecture such as "sm_80"; how often each was launched."""
    number = int(re.sub(r"\D", "", arch)) * 10
    ran: Counter[str] = Counter()

    def load(runtime: SimtRuntime, code: base.DeviceCode) -> dict[str, base.Kernel]:
        assert code.kind == "cuda" and code.payload is not None
        program = Program(code.source, number)
        return {k.name: TextKernel(k, code.payload[k.name], program, ran) for k in code.kernels}

    with patch.object(SimtRuntime, "load", load):
        yield ran
