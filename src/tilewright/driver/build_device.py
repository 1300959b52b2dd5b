"""Building for devices: host code as Python text, kernels as CUDA or OpenCL source.

Stages: device pipeline (host and kernels) -> limits of the target -> per kernel: rules of
intrinsics, types, division -> source text (`device_unit`) -> rt.Module of the host part, which
imports the module of the kernels. Nothing here needs LLVM, a driver or a device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..base import config
from ..codegen.source import together
from ..loopir.module import IRModule
from ..rt.device_module import DeviceFunction
from ..rt.drivers import nvrtc
from ..rt.drivers.base import DeviceCode
from ..rt.drivers.cuda_parts import compile_parts
from ..rt.module import Module
from ..target.target import Target
from .callbacks import compiled, postprocess
from .device_unit import DeviceUnit, Programs, build_unit
from .dump import dump

_OLDEST = "sm_75"  # what text is shown for where the target names no architecture


def build_device(module: IRModule, target: Target) -> Module:
    """A module of the functions of a lowered IRModule, for a target with kernels.

    Its functions check arguments and launch; `imported_modules[0]` has the kernels, and its
    `get_source()` is their CUDA or OpenCL text.
    """
    return join_units([build_unit(module, target)], target)


def join_units(units: Sequence[DeviceUnit], target: Target) -> Module:
    """As `build_device`, of the functions of all units, whose names differ."""
    plain = Programs(list(units))
    source = postprocess(_source(units, target), target)
    first = units[0].functions[0][0].name
    dump(first, "tir", lambda: str(IRModule(dict(plain))))
    dump(first, target.kind.name, lambda: source)
    code = DeviceCode(
        kind=target.kind.name,
        kernels=tuple(k for unit in units for k in unit.kernels),
        source=source,
        arch=str(target.attrs.get("arch", "") or ""),
        binary=compiled(source, target),
        payload=plain,
    )
    texts: dict[str, str | Callable[[], str]] = {"tir": lambda: str(IRModule(dict(plain)))}
    if code.kind == "cuda":
        texts.update(_compiled_texts(code))
    kernels = Module.of_kernels(code, target, texts)
    functions = [f for unit in units for f in unit.functions]
    made = Module.of_device(functions, target, kernels, {"tir": lambda: str(_lowered(units))})
    if config.get("dump_accesses"):
        dump(first, "accesses", lambda: json.dumps(accesses(made)))
    return made


def _lowered(units: Sequence[DeviceUnit]) -> IRModule:
    return IRModule({name: f for unit in units for name, f in unit.lowered().functions.items()})


def _source(units: Sequence[DeviceUnit], target: Target) -> str:
    """The kernels' text, with a second form for devices without half arithmetic where some have
    one."""
    text = together([unit.forms[0] for unit in units], target)
    if all(len(unit.forms) == 1 for unit in units):
        return text
    without = Target({**target.export(), "fp16": False})
    other = together([unit.forms[-1] for unit in units], without)
    return f"#ifdef cl_khr_fp16\n{text}\n#else\n{other}\n#endif\n"


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
        made = compile_parts(code.source, arch)
        return "\n".join(nvrtc.commented(nvrtc.disassemble(image), log) for image, log in made)

    return {
        "ptx": lambda: nvrtc.compile_cuda(code.source, arch, "ptx")[0].decode(),
        "sass": sass,
    }
