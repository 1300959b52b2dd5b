"""Modules, launches and graphs of the stub; kernels run in simt."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.stub_cuda import images
from tests.stub_cuda.limits import Arch
from tests.stub_cuda.maps import MapCalls
from tests.stub_cuda.state import Block, Refused
from tilewright.interp.simt import SimtError, SimtMap, run_kernel
from tilewright.interp.simt_report import BOUNDS, MISALIGNED

_FORMATS = {
    "handle": "<Q", "bool": "<?", "int8": "<b", "uint8": "<B", "int16": "<h", "uint16": "<H",
    "int32": "<i", "uint32": "<I", "int64": "<q", "uint64": "<Q", "float16": "<e",
    "bfloat16": "<H", "float32": "<f", "float64": "<d",
}  # fmt: skip
_AXES = [f"{kind}.{d}" for kind in ("blockIdx", "threadIdx") for d in "xyz"]
_REGISTERS = 32  # of a thread: what a kernel takes is not known here


@dataclass
class Module:
    device: int
    kernels: Any


@dataclass
class Function:
    module: int
    device: int
    code: images.Code
    dynamic: int  # bytes of dynamic shared memory that a launch may ask for

    @property
    def max_threads(self) -> int:
        x, y, z = self.code.info.threads or (1024, 1, 1)
        return x * y * z


class CodeCalls(MapCalls):
    arch: Arch

    def _cuModuleLoadData(self, image: Any) -> int:
        self.unsafe()
        device = self.device
        if not isinstance(image, bytes):
            raise Refused("INVALID_IMAGE", f"an image is bytes, not {type(image).__name__}")
        found = images.read(image)
        if found is None:
            raise Refused("INVALID_IMAGE", f"no image: {image[:40]!r}")
        kind, arch, kernels = found
        if kind == "ptx" and not image.endswith(b"\0"):
            raise Refused("INVALID_IMAGE", "PTX is text that ends in a zero byte")
        if not self._fits(kind, arch):
            raise Refused("NO_BINARY_FOR_GPU", f"{kind} for {arch} on {self.arch.name}")
        return self.new("module", Module(device, kernels))

    def _fits(self, kind: str, arch: str) -> bool:
        mine, number = int(self.arch.name[3:]), int(arch[3:].rstrip("af"))
        if arch[-1] in "af":
            return number == mine
        return number <= mine and (kind == "ptx" or number // 10 == mine // 10)

    def _cuModuleUnload(self, module: Any) -> None:
        self.unsafe()
        self.of_context(self.get("module", module), "the module")
        self.take("module", module)
        functions = self.handles.get("function", {})
        for handle in [h for h, f in functions.items() if f.module == int(module)]:
            del functions[handle]

    def _cuModuleGetFunction(self, module: Any, name: Any) -> int:
        found = self.of_context(self.get("module", module), "the module")
        if not isinstance(name, bytes):
            raise Refused("INVALID_VALUE", f"a name is bytes, got {name!r}")
        code = found.kernels.get(name.decode())
        if code is None:
            raise Refused("NOT_FOUND", f"the module has no kernel {name.decode()}")
        most = max(self.arch.shared_block - code.static, 0)
        return self.new("function", Function(int(module), found.device, code, most))

    def _cuFuncGetAttribute(self, attribute: Any, function: Any) -> int:
        f: Function = self.get("function", function)
        found = {
            "MAX_THREADS_PER_BLOCK": f.max_threads,
            "SHARED_SIZE_BYTES": f.code.static,
            "LOCAL_SIZE_BYTES": 0,
            "NUM_REGS": _REGISTERS,
            "MAX_DYNAMIC_SHARED_SIZE_BYTES": f.dynamic,
        }
        return found[attribute.name.removeprefix("CU_FUNC_ATTRIBUTE_")]

    def _cuFuncSetAttribute(self, function: Any, attribute: Any, value: Any) -> None:
        f: Function = self.get("function", function)
        if not attribute.name.endswith("MAX_DYNAMIC_SHARED_SIZE_BYTES"):
            raise Refused("INVALID_VALUE", f"{attribute.name} cannot be set")
        if not 0 <= value <= self.arch.shared_optin - f.code.static:
            raise Refused(
                "INVALID_VALUE",
                f"{value} bytes of dynamic shared memory beside {f.code.static}, "
                f"but {self.arch.name} has {self.arch.shared_optin} a block",
            )
        f.dynamic = value

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, function: Any, threads: Any, shared: Any
    ) -> int:
        f: Function = self.get("function", function)
        if not 1 <= threads <= self.arch.max_threads or shared < 0:
            raise Refused("INVALID_VALUE", f"{threads} threads, {shared} bytes")
        taken = f.code.static + shared + self.arch.reserved
        by_shared = self.arch.shared_sm // taken if taken else self.arch.blocks_sm
        by_threads = self.arch.threads_sm // (-(-threads // 32) * 32)
        return min(by_shared, by_threads, self.arch.blocks_sm)

    # -- launches

    def _cuLaunchKernel(
        self, function: Any, gx: Any, gy: Any, gz: Any, bx: Any, by: Any, bz: Any, shared: Any,
        stream: Any, params: Any, extra: Any,
    ) -> None:  # fmt: skip
        f: Function = self.of_context(self.get("function", function), "the function")
        grid, block = (gx, gy, gz), (bx, by, bz)
        self._extents(f, grid, block)
        self._shared(f, self.number(shared, "shared memory"))
        if extra:
            raise Refused("INVALID_VALUE", "parameters come as `kernelParams`, not as `extra`")
        values = self._values(f, params)
        self.enqueue(stream, lambda: self._run(f, (*grid, *block), values))

    def _extents(self, f: Function, grid: Any, block: Any) -> None:
        for what, got, most in (
            ("blocks", grid, self.arch.grid),
            ("threads", block, self.arch.block),
        ):
            for n, top, d in zip(got, most, "xyz"):
                if not 1 <= n <= top:
                    raise Refused(
                        "INVALID_VALUE", f"{n} {what} along {d}, {self.arch.name} takes 1 to {top}"
                    )
        threads = block[0] * block[1] * block[2]
        if threads > min(self.arch.max_threads, f.max_threads):
            raise Refused(
                "INVALID_VALUE",
                f"{threads} threads a block, {f.code.info.name} takes at most "
                f"{min(self.arch.max_threads, f.max_threads)} on {self.arch.name}",
            )
        if threads * _REGISTERS > self.arch.registers:
            raise Refused("LAUNCH_OUT_OF_RESOURCES", f"{threads} threads of {_REGISTERS} registers")
        size = f.code.cluster
        if grid[0] % size or size > self.arch.cluster:
            raise Refused(
                "INVALID_CLUSTER_SIZE",
                f"clusters of {size} blocks in {grid[0]} along x, {self.arch.name} has them of "
                f"{self.arch.cluster}",
            )

    def _shared(self, f: Function, shared: int) -> None:
        if shared > f.dynamic:
            raise Refused(
                "INVALID_VALUE",
                f"{shared} bytes of dynamic shared memory, {f.dynamic} were allowed by "
                "cuFuncSetAttribute",
            )
        if shared < f.code.dynamic:
            raise Refused(
                "ILLEGAL_ADDRESS",
                f"{shared} bytes of dynamic shared memory, the kernel uses {f.code.dynamic}",
            )

    def _values(self, f: Function, params: Any) -> list[Any]:
        dtypes = f.code.params
        taken = sum(256 if d == "map" else 8 for d in dtypes)  # a map is aligned to 128
        if taken > self.arch.parameter_bytes:
            raise Refused("INVALID_VALUE", f"{len(dtypes)} parameters are too many")
        if not dtypes:
            return []
        start = self.number(params, "the array of parameters", 1)
        places = struct.unpack(f"<{len(dtypes)}Q", _peek(start, 8 * len(dtypes)))
        values = []
        for dtype, place in zip(dtypes, places):
            if dtype == "map":
                start, size, described = self.map_argument(place, _peek(place, 128))
                block = self.find(start, size, "the array of a tensor map")
                if block.device != self.device:
                    raise Refused("ILLEGAL_ADDRESS", "a tensor map is of another device's memory")
                values.append((block, start, described))
                continue
            size = struct.calcsize(_FORMATS[dtype])
            if place % size:
                raise Refused("INVALID_VALUE", f"the value of a {dtype} is at {place:#x}")
            (value,) = struct.unpack(_FORMATS[dtype], _peek(place, size))
            if dtype == "handle":
                block = self.find(value, 0, "a parameter")
                if block.device not in (-1, self.device):
                    raise Refused("ILLEGAL_ADDRESS", "a parameter is memory of another device")
                value = (block, value)
            elif dtype == "bfloat16":
                value = np.array(value, np.uint16).view(ml_dtypes.bfloat16)[()]
            values.append(value)
        return values

    def _run(self, f: Function, sizes: tuple[int, ...], values: list[Any]) -> None:
        if f.module not in self.handles.get("module", {}):
            raise Refused("ILLEGAL_ADDRESS", f"the module of {f.code.info.name} was unloaded")
        args = []
        for v in values:
            if isinstance(v, tuple):
                block: Block
                block, address, *seen = v
                if self.blocks.get(block.address) is not block:
                    raise Refused("ILLEGAL_ADDRESS", "a parameter is memory that was freed")
                v = block.part(address)
                if seen:
                    v = SimtMap(v, seen[0])
            args.append(v)
        grid = {a: n for a, n in zip(_AXES, sizes) if n != 1 or a in self._axes(f)}
        try:
            run_kernel(f.code.func, grid, args, align=f.code.info.align)
        except SimtError as error:
            kinds = {x.kind for x in error.findings}
            name = (
                "MISALIGNED_ADDRESS" if MISALIGNED in kinds
                else "ILLEGAL_ADDRESS" if BOUNDS in kinds else "LAUNCH_FAILED"
            )  # fmt: skip
            refused = Refused(name, str(error))
            self.fault = refused.status  # later calls fail, as on a device
            raise refused from None

    @staticmethod
    def _axes(f: Function) -> tuple[str, ...]:
        return tuple(f.code.func.attrs["tir.kernel_launch_params"])

    # -- graphs

    def _cuGraphInstantiate(self, graph: Any, flags: Any) -> int:
        if not 0 <= flags < 16:
            raise Refused("INVALID_VALUE", f"flags are {flags!r}")
        return self.new("exec", list(self.get("graph", graph)))

    def _cuGraphDestroy(self, graph: Any) -> None:
        self.take("graph", graph)

    def _cuGraphUpload(self, ready: Any, stream: Any) -> None:
        self.get("exec", ready)
        found = self.stream(stream)
        if found is not None and found.capture is not None:
            raise Refused("STREAM_CAPTURE_UNSUPPORTED", "a graph is uploaded in a captured stream")

    def _cuGraphLaunch(self, ready: Any, stream: Any) -> None:
        for work in self.get("exec", ready):
            self.enqueue(stream, work)

    def _cuGraphExecDestroy(self, ready: Any) -> None:
        self.take("exec", ready)


def _peek(address: int, size: int) -> bytes:
    """Bytes of this process, wherever the address may lead."""
    with open("/proc/self/mem", "rb", 0) as memory:
        try:
            found = os.pread(memory.fileno(), size, address)
        except (OSError, OverflowError):
            found = b""
    if len(found) < size:
        raise Refused("INVALID_VALUE", f"a parameter is at {address:#x}, which is no memory")
    return found
