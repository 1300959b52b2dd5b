"""Building for devices: host code as Python text, kernels as CUDA or OpenCL source.

Stages: device pipeline (host and kernels) -> limits of the target -> per kernel: rules of
intrinsics, types, division -> source text -> rt.Module of the host part, which imports the module
of the kernels. Nothing here needs LLVM, a driver or a device.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..base import config
from ..base.deep import deep_call
from ..codegen.c_family import Alignments
from ..codegen.cuda_shared import dynamic_shared
from ..codegen.host_python import HostCode, generate_host
from ..codegen.source import generate, prepare_kernel
from ..loopir.expr import Call, Var, const, const_int
from ..loopir.hopper_calls import TENSOR_MAP, map_parts
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..loopir.visit import nodes
from ..lowering.device_pipeline import run_device_pipeline
from ..lowering.split_host_device import CALL_KERNEL, DeviceProgram, launch_extents, launch_of
from ..lowering.verify_gpu_code import require_limits
from ..rt.device_module import DeviceFunction
from ..rt.drivers import nvrtc
from ..rt.drivers.base import MAP, DeviceCode, KernelInfo
from ..rt.module import Module
from ..rt.signature import FunctionInfo
from ..target.target import Target
from .callbacks import compiled, postprocess
from .dump import dump
from .signature import function_info

MAP_ALIGN = 16  # bytes of an array's address that a tensor map is of
_OLDEST = "sm_75"  # what text is shown for where the target names no architecture


@dataclass(frozen=True)
class _Built:
    """One function: its host code, its kernels as simt takes them."""

    func: PrimFunc
    name: str
    host: HostCode
    program: DeviceProgram


def build_device(module: IRModule, target: Target) -> Module:
    """A module of the functions of a lowered IRModule, for a target with kernels.

    Its functions check arguments and launch; `imported_modules[0]` has the kernels, and its
    `get_source()` is their CUDA or OpenCL text.
    """
    built = [_build_one(func, key, target) for key, func in module.functions.items()]
    plain = {name: k for b in built for name, k in b.program.kernels.items()}
    align: Alignments = {}
    source = postprocess(_source(plain, target, align), target)
    first = built[0].name
    dump(first, "tir", lambda: str(IRModule(plain)))
    dump(first, target.kind.name, lambda: source)
    code = DeviceCode(
        kind=target.kind.name,
        kernels=tuple(kernel_info(k, target.kind.name, align[k.name]) for k in plain.values()),
        source=source,
        arch=str(target.attrs.get("arch", "") or ""),
        binary=compiled(source, target),
        payload=plain,
    )
    texts: dict[str, str | Callable[[], str]] = {"tir": lambda: str(IRModule(plain))}
    if code.kind == "cuda":
        texts.update(_compiled_texts(code))
    kernels = Module.of_kernels(code, target, texts)
    made = Module.of_device(
        [(_info(b, target, align), b.host.text) for b in built],
        target,
        kernels,
        {"tir": lambda: str(module)},
    )
    if config.get("dump_accesses"):
        dump(first, "accesses", lambda: json.dumps(accesses(made)))
    return made


def accesses(module: Module) -> dict[str, dict[str, float]]:
    """How each kernel of a module that was built here uses memory: turns of a shared access, bytes
    of a global one, the part of the bytes moved that was asked for; see `sampled`."""
    from .simt_device import sampled  # who asks for no figures loads no executor

    found: dict[str, dict[str, float]] = {}
    for name in module.function_names:
        function = module[name]
        if isinstance(function, DeviceFunction):
            reports = sampled(function)
            found.update((kernel, r.accesses()) for kernel, r in reports.items())
    return found


def _compiled_texts(code: DeviceCode) -> dict[str, str | Callable[[], str]]:
    """PTX and assembly, made when they are asked for, of the target's architecture."""
    arch = code.arch or _OLDEST

    def sass() -> str:
        cubin, log = nvrtc.compile_cuda(code.source, arch, "cubin")
        return nvrtc.commented(nvrtc.disassemble(cubin), log)

    return {
        "ptx": lambda: nvrtc.compile_cuda(code.source, arch, "ptx")[0].decode(),
        "sass": sass,
    }


def _source(kernels: dict[str, PrimFunc], target: Target, align: Alignments) -> str:
    """The kernels' text. OpenCL kernels in half precision get a second form for devices without
    half arithmetic, which keep float16 and compute in float32: the device's compiler chooses."""
    ready = {name: prepare_kernel(kernel, target) for name, kernel in kernels.items()}
    text: str = deep_call(generate, ready, target, align)
    if target.kind.name != "opencl" or not target.has_fp16 or "half" not in text:
        return text
    without = Target({**target.export(), "fp16": False})
    other = _source(kernels, without, {})  # of halves as of floats, elements are what they were
    return f"#ifdef cl_khr_fp16\n{text}\n#else\n{other}\n#endif\n"


def _build_one(func: PrimFunc, name: str, target: Target) -> _Built:
    named = (
        func if func.attrs.get("global_symbol") == name else func.with_attr("global_symbol", name)
    )
    program = run_device_pipeline(named, target, bool(config.get("verify")))
    require_limits(program.kernels, target)
    host = deep_call(generate_host, program.host, program.kernels)
    return _Built(named, name, host, program)


def _info(built: _Built, target: Target, align: Alignments) -> FunctionInfo:
    """The signature of a function, whose arguments are aligned as its kernels need them."""
    func = built.func
    info = function_info(func, built.name, built.host.symbols, (), str(target), wide=False)
    needs = _needs(built.program, align)
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
    )
