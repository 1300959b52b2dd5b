"""Candidates built into files: what builders of both tuners share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from ..base.errors import UsageError
from ..rt.load import load_to_link
from .protocol import Message
from .result import MeasureErrorNo, Measurement
from .runner import Measurer, Measures, Timing, cores

CORES = cores()


class FileBuilder:
    """Builds candidates in worker processes, `n_parallel` at a time (None: one for each core), each
    within `timeout` seconds, into files that `load_module` reads.

    `build_func`: "default", "ndk" (`contrib.ndk.create_shared`), or a function as
    `Module.export_library` takes it for `fcompile`, with an attribute "output_format". The files
    are removed by the next build, or when the process ends.
    """

    def __init__(
        self, timeout: float, n_parallel: int | None, build_func: str | Callable[..., Any]
    ) -> None:
        if build_func == "ndk":
            from ..contrib.ndk import create_shared as build_func
        if build_func != "default" and not callable(build_func):
            raise UsageError(
                f'build_func is "default", "ndk" or a function that links, got {build_func!r}'
            )
        self.fcompile: Any = build_func if callable(build_func) else None
        if self.fcompile and not hasattr(build_func, "output_format"):
            raise AttributeError("Expect build_func to have the attribute output_format.")
        self.timeout = float(timeout)
        self.n_parallel = int(n_parallel or CORES)
        self.tmp_dir = ""
        self._numbers = count()

    def measurer(self, timing: Timing) -> Measures:
        """What builds candidates: workers of this machine."""
        return Measurer(timing)

    def clear(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.tmp_dir, ignore_errors=True)
        self.tmp_dir = ""

    def files(self, programs: Sequence[Message]) -> list[tuple[str, Measurement]]:
        """For each candidate (see `program.describe`) its file, beside those that are there, and a
        measurement without costs, which has an error where there is no file."""
        if not self.tmp_dir:
            self.tmp_dir = tempfile.mkdtemp()
            atexit.register(shutil.rmtree, self.tmp_dir, True)
        paths = [os.path.join(self.tmp_dir, f"tmp_func_{next(self._numbers)}") for _ in programs]
        timing = Timing(build_timeout=self.timeout, n_parallel=self.n_parallel)
        with self.measurer(timing) as measurer:
            made = measurer.build([{**p, "export": path} for p, path in zip(programs, paths)])
        return [self._linked(path, found) for path, found in zip(paths, made)]

    def _linked(self, path: str, found: Measurement) -> tuple[str, Measurement]:
        if found.error_no:
            return "", found
        if self.fcompile is None:
            return path, found
        linked = f"{path}.{self.fcompile.output_format}"
        try:
            return load_to_link(path).export_library(linked, self.fcompile), found
        except Exception as error:  # whatever a user's function does costs that candidate alone
            text = f"{type(error).__name__}: {error}"
            return "", Measurement((), MeasureErrorNo.COMPILE_HOST, text, found.seconds)
