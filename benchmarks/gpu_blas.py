"""cuBLAS for comparison: the library itself by ctypes, or by PyTorch where only that is there."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.gpu_clock import Launch, Runs, repeated

_NORMAL, _HALF, _SINGLE, _COMPUTE_SINGLE, _DEFAULT = 0, 2, 0, 68, -1


def find(stream: Any) -> Any:
    """Something whose `product(kind, a, b, c)` gives runs; None where there is no cuBLAS."""
    for library in _libraries():
        try:
            return Cublas(library, stream)
        except RuntimeError:  # of another CUDA than the driver's
            continue
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return TorchBlas(torch, stream) if torch.cuda.is_available() else None


def _libraries() -> Iterator[Any]:
    names = [f"libcublas.so.{v}" for v in (13, 12, 11)] + ["libcublas.so"]
    found = ctypes.util.find_library("cublas")
    places = [*([found] if found else []), *names]
    for folder in map(Path, sys.path):
        for below in ("cublas/lib", "cu13/lib", "cu12/lib"):
            places += [str(folder / "nvidia" / below / n) for n in names]
    for folder in (Path("/usr/local/cuda/lib64"), Path("/usr/local/cuda/lib")):
        places += [str(folder / n) for n in names]
    for place in places:
        with suppress(OSError):
            yield ctypes.CDLL(place)


class Cublas:
    """cuBLAS on a stream of the CUDA context that is current."""

    name = "cuBLAS"

    def __init__(self, library: Any, stream: Any) -> None:
        self.library = library
        self.runtime = stream.runtime
        self.stream = stream
        self.handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self.handle))
        self._go_to(stream)
        number = ctypes.c_int()
        self._call("cublasGetVersion_v2", self.handle, ctypes.byref(number))
        self.name = f"cuBLAS {number.value}"

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self.library, name)(*args)
        if status:
            raise RuntimeError(f"{name} failed with status {status}")

    def _go_to(self, stream: Any) -> None:
        self._call("cublasSetStream_v2", self.handle, ctypes.c_void_p(int(stream.handle)))
        self.stream = stream

    def product(self, kind: str, a: Any, b: Any, c: Any) -> Runs:
        """C = A B for row-major arrays: by columns, as cuBLAS has it, C^T = B^T A^T. `kind` is
        the type of A and B; sums and C are float32, without tf32."""
        (n, depth), m = a.shape, b.shape[1]
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        x = _HALF if kind == "float16" else _SINGLE
        address = [ctypes.c_void_p(_address(array)) for array in (a, b, c)]
        sizes = (self.handle, _NORMAL, _NORMAL, m, n, depth)
        operands = (ctypes.byref(one), address[1], x, m, address[0], x, depth)
        result = (ctypes.byref(zero), address[2], _SINGLE, m, _COMPUTE_SINGLE, _DEFAULT)

        def work(stream: Any) -> None:
            if stream is not self.stream:
                self._go_to(stream)
            self._call("cublasGemmEx", *sizes, *operands, *result)

        return repeated(self.runtime, work)


class TorchBlas:
    """cuBLAS as PyTorch calls it; float16 products have float16 results there."""

    def __init__(self, torch: Any, stream: Any) -> None:
        self.torch = torch
        self.stream = torch.cuda.ExternalStream(int(stream.handle))
        self.name = f"cuBLAS by PyTorch {torch.__version__}"
        torch.backends.cuda.matmul.allow_tf32 = False

    def product(self, kind: str, a: Any, b: Any, c: Any) -> Runs:
        torch = self.torch
        x, y, z = (torch.from_dlpack(array) for array in (a, b, c))
        if kind == "float16":
            z = torch.empty(tuple(c.shape), dtype=torch.float16, device=x.device)

        def launch() -> None:
            with torch.cuda.stream(self.stream):
                torch.mm(x, y, out=z)

        def runs(number: int) -> Launch:
            if number == 1:
                return launch
            launch()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(number):
                    torch.mm(x, y, out=z)

            def replay() -> None:
                with torch.cuda.stream(self.stream):
                    graph.replay()

            return replay

        return runs


def _address(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0])
