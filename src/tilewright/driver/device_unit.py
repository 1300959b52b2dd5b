"""Functions with their kernels, built for a device, as text: what modules of devices are joined of.

A unit goes through a pipe or lies in the compile cache: the kernels of a network are made one unit
each, by several processes, and lowered once for all runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..base import config
from ..base.deep import deep_call
from ..codegen.c_family import Alignments
from ..codegen.cuda_shared import dynamic_shared
from ..codegen.host_python import HostCode, generate_host
from ..codegen.source import Written, prepare_kernel, together, write
from ..loopir.expr import Call, Var, const, const_int
from ..loopir.hopper_calls import CLUSTER, TENSOR_MAP, map_parts
from ..loopir.module import IRModule
from ..loopir.said import said
from ..loopir.stmt import PrimFunc
from ..loopir.visit import nodes
from ..lowering.device_pipeline import run_device_pipeline
from ..lowering.split_host_device import CALL_KERNEL, DeviceProgram, launch_extents, launch_of
from ..lowering.verify_gpu_code import require_limits
from ..rt.drivers.base import MAP, KernelInfo
from ..rt.signature import FunctionInfo
from ..target.target import Target
from .signature import function_info

MAP_ALIGN = 16  # bytes of an array's address that a tensor map is of

Kernels = Mapping[str, PrimFunc]


@dataclass(frozen=True)
class DeviceUnit:
    """`functions`: signatures, each with the text of its host code; `forms`: what is written of
    the kernels, twice for OpenCL in half precision, the second for devices without half arithmetic;
    `lowered`: the functions as they came, which are lowered anew where that was elsewhere."""

    functions: tuple[tuple[FunctionInfo, str], ...]
    kernels: tuple[KernelInfo, ...]
    forms: tuple[Written, ...]
    target: Target
    lowered: Callable[[], IRModule]

    @cached_property
    def programs(self) -> Kernels:
        """The kernels' loop IR, by name: what simt runs."""
        with self.target:
            programs = [p for _, _, p in _programs(self.lowered(), self.target)]
        return {name: k for p in programs for name, k in p.kernels.items()}

    def to_bytes(self) -> bytes:
        """All but what `lowered` gives."""
        data = {
            "functions": [[info.to_json(), text] for info, text in self.functions],
            "kernels": [k.to_json() for k in self.kernels],
            "forms": [[w.needs, w.texts] for w in self.forms],
        }
        return json.dumps(data).encode()

    @staticmethod
    def from_bytes(data: bytes, target: Target, lowered: Callable[[], IRModule]) -> DeviceUnit:
        """What `to_bytes` gave, read back."""
        given = json.loads(data)
        return DeviceUnit(
            tuple((FunctionInfo.from_json(info), str(text)) for info, text in given["functions"]),
            tuple(map(KernelInfo.from_json, given["kernels"])),
            tuple(Written(tuple(needs), tuple(texts)) for needs, texts in given["forms"]),
            target,
            lowered,
        )


class Programs(Mapping[str, PrimFunc]):
    """The loop IR of the kernels of several units, by name; made for those that are asked for."""

    def __init__(self, units: list[DeviceUnit]) -> None:
        self._units = {k.name: unit for unit in units for k in unit.kernels}

    def __getitem__(self, name: str) -> PrimFunc:
        return self._units[name].programs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)


def build_unit(module: IRModule, target: Target) -> DeviceUnit:
    """Lowered functions built for a target with kernels. Errors are those of `build_device`."""
    built = list(_programs(module, target))
    hosts = [deep_call(generate_host, p.host, p.kernels) for _, _, p in built]
    plain = {name: k for _, _, p in built for name, k in p.kernels.items()}
    align: Alignments = {}
    forms = _forms(plain, target, align)
    unit = DeviceUnit(
        tuple(
            (_info(func, name, host, program, target, align), host.text)
            for (func, name, program), host in zip(built, hosts)
        ),
        tuple(kernel_info(k, target.kind.name, align[k.name]) for k in plain.values()),
        forms,
        target,
        lambda: module,
    )
    unit.__dict__["programs"] = plain  # as if it had been asked for: they are here
    return unit


def _programs(module: IRModule, target: Target) -> Iterator[tuple[PrimFunc, str, DeviceProgram]]:
    """Each function with its name, and its host part and kernels."""
    for name, func in module.functions.items():
        same = func.attrs.get("global_symbol") == name
        named = func if same else func.with_attr("global_symbol", name)
        program = run_device_pipeline(named, target, bool(config.get("verify")))
        require_limits(program.kernels, target)
        yield named, name, program


def _forms(kernels: Kernels, target: Target, align: Alignments) -> tuple[Written, ...]:
    """The kernels' text. OpenCL kernels in half precision get a second form for devices without
    half arithmetic, which keep float16 and compute in float32: the device's compiler chooses."""
    ready = {name: prepare_kernel(kernel, target) for name, kernel in kernels.items()}
    made: Written = deep_call(write, ready, target, align)
    if target.kind.name != "opencl" or not target.has_fp16:
        return (made,)
    if "half" not in together([made], target):
        return (made,)
    without = Target({**target.export(), "fp16": False})
    return (made, *_forms(kernels, without, {}))  # of halves as of floats, elements are the same


def _info(
    func: PrimFunc,
    name: str,
    host: HostCode,
    program: DeviceProgram,
    target: Target,
    align: Alignments,
) -> FunctionInfo:
    """The signature of a function, whose arguments are aligned as its kernels need them."""
    info = function_info(func, name, host.symbols, (), str(target), wide=False)
    needs = _needs(program, align)
    args = []
    for arg, param in zip(info.args, func.params):
        need = needs.get(func.buffer_map[param].data, 0) if arg.is_array else 0
        args.append(replace(arg, align=need) if need > arg.itemsize else arg)
    attrs = {**info.attrs, "device_type": target.kind.device_type}
    return replace(info, args=tuple(args), attrs=attrs)


def _needs(program: DeviceProgram, align: Alignments) -> dict[Var, int]:
    """What the kernels that are given an address need of it, the most of all of them."""
    found: dict[Var, int] = {}
    for call in nodes(program.host.body):
        if not isinstance(call, Call) or call.op.name != CALL_KERNEL:
            continue
        name = str(getattr(call.args[0], "value", ""))
        args, _ = launch_of(call, program.kernels[name])
        for value, need in zip(args, align[name]):
            if isinstance(value, Call) and value.op.name == TENSOR_MAP:
                value, need = map_parts(value).pointer.args[1], MAP_ALIGN
            if need and isinstance(value, Var):
                found[value] = max(found.get(value, 1), need)
    return found


def kernel_info(kernel: PrimFunc, kind: str, align: tuple[int, ...] = ()) -> KernelInfo:
    """What the runtime must know of a kernel for a kind of device."""
    threads: list[int] | None = []
    extents = launch_extents(kernel.body)
    for d in "xyz":
        extent = const_int(extents.get(f"threadIdx.{d}", const(1)))
        threads = None if threads is None or extent is None else [*threads, extent]
    access = tuple(kernel.attrs["tir.kernel_params_access"])
    return KernelInfo(
        name=kernel.name,
        params=tuple(MAP if a == MAP else p.dtype for p, a in zip(kernel.params, access)),
        access=access,
        threads=None if threads is None else (threads[0], threads[1], threads[2]),
        shared_bytes=dynamic_shared(kernel).nbytes if kind == "cuda" else 0,
        align=align,
        cluster=max(said(kernel.body, CLUSTER), 1),
    )
