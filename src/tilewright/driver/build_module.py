"""build(): from a schedule or loop IR to a module that runs; the one place where the pieces meet.

Stages: lower (driver.lower) -> device passes (`prepare`) -> LLVM IR -> object code (for CPUs, all
three in object_code.py) -> rt.Module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ..base.deep import roomy
from ..base.errors import CompileError
from ..loopir.buffer import Buffer
from ..loopir.expr import Var
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..rt.module import Module
from ..schedule.api import Schedule
from ..target.target import Target
from ..tensor.op import PlaceholderOp
from ..tensor.tensor import Tensor
from .lower import lower, schedule_to_func
from .object_code import generate_code
from .signature import function_info

BACKENDS = {
    "llvm": __name__,
    "cuda": "tilewright.driver.build_device",
    "opencl": "tilewright.driver.build_device",
}


@roomy
def build(
    inputs: Any,
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    runtime: Any = None,
    name: str = "default_function",
    binds: Mapping[Any, Buffer] | None = None,
) -> Module:
    """Compile a schedule (with its arguments), a PrimFunc or an IRModule.

    `target`: text or a Target (default: `Target.current()`, else "llvm", this machine's CPU).
    Functions with an attribute "target" are built for that one; `inputs` may also be a dict of
    targets and what to build for each. Functions for "cuda" and "opencl" launch kernels, whose
    text is `module.imported_modules[0].get_source()`.
    `name`: of the function, for a schedule. `binds`: buffers for tensors. Raises ScheduleError,
    CompileError or TargetError; all say what to change. `runtime` is accepted for TVM's sake.
    """
    del runtime
    if isinstance(inputs, Mapping):
        parts = [(_target(t, target_host), part) for t, part in inputs.items()]
    else:
        parts = _by_target(inputs, _target(target, target_host))
    if not parts:
        raise CompileError("there is nothing to build: the dict of targets is empty")
    built = [_build_for(chosen, part, args, name, binds) for chosen, part in parts]
    if isinstance(inputs, Schedule) and args:
        _warn_of_lost_results(inputs, args)
    return built[0] if len(built) == 1 else Module.joined(built)


def _by_target(inputs: Any, default: Target) -> list[tuple[Target, Any]]:
    """The functions of a module, together where they have the same target."""
    if not isinstance(inputs, (IRModule, PrimFunc)):
        return [(default, inputs)]
    functions = inputs.functions if isinstance(inputs, IRModule) else {inputs.name: inputs}
    groups: dict[Target, dict[str, PrimFunc]] = {}
    for key, func in functions.items():
        own = func.attrs.get("target")
        groups.setdefault(default if own is None else Target(own), {})[key] = func
    if not groups or list(groups) == [default]:
        return [(default, inputs)]
    return [(chosen, IRModule(group)) for chosen, group in groups.items()]


def _build_for(
    target: Target,
    inputs: Any,
    args: Sequence[Any] | None,
    name: str,
    binds: Mapping[Any, Buffer] | None,
) -> Module:
    if target.kind.name not in BACKENDS:
        raise CompileError(
            f"there is no code generator for target {str(target)!r}; build for one of "
            f"{', '.join(BACKENDS)}"
        )
    with target:
        return build_lowered(lower(inputs, args, name=name, binds=binds), target)


def _is_given(a: Any) -> bool:
    return isinstance(a, Tensor) and isinstance(a.op, PlaceholderOp)


def _warn_of_lost_results(sch: Schedule, args: Sequence[Any]) -> None:
    """A warning where tensors are given, but none that the schedule is made for: TVM takes that,
    and so does this, but a function whose results nobody sees is seldom meant. `lower` does not
    warn: programs look at the loops of a schedule with its inputs alone, as TVM's tutorials do."""
    read = [isinstance(a, Var) or _is_given(a) for a in args]
    if not all(read):
        return
    outputs = [t for stage in sch.stages if stage.is_output for t in stage.origin_op.outputs]
    names = ", ".join(t.name for t in outputs)
    warnings.warn(
        f"what the schedule computes, {names}, is no argument: results are dropped. Add it to the "
        "arguments, as in build(s, [A, B, C])",
        UserWarning,
        stacklevel=4,
    )


def schedule_to_module(
    sch: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Any, Buffer] | None = None,
) -> IRModule:
    """The loop nest of a schedule before any pass, as a module of one function."""
    return IRModule({name: schedule_to_func(sch, args, name, binds)})


def _target(target: Any, host: Any) -> Target:
    if target is None:
        target = Target.current(allow_none=True) or "llvm"
    return Target(target, host)


@roomy
def build_lowered(module: IRModule, target: Target) -> Module:
    """Compile functions that `lower` has made, without lowering them again. Raises CompileError
    where the module has no functions."""
    if not module.functions:
        raise CompileError("the module to build has no functions")
    if target.kind.name != "llvm":  # who builds for CPUs only, loads no writers of GPU code
        built: Module = import_module(BACKENDS[target.kind.name]).build_device(module, target)
        return built
    code = generate_code(module, target)
    infos = [
        function_info(code.functions[g.name], g.name, g.symbols, g.messages, str(target))
        for g in code.generated.functions
    ]
    obj = code.object_code()
    sources: dict[str, str | Callable[[], str]] = {
        "ll": code.generated.text,
        "asm": code.assembly,
        "c": lambda: c_source(module),
        "tir": lambda: str(module),
    }
    return Module.from_object(obj, infos, target, sources)


def c_source(module: IRModule) -> str:
    """The functions of a lowered module as C source."""
    from ..codegen.source import generate, prepare_kernel  # who needs no C loads no writers of it

    target = Target("c")
    functions = {key: prepare_kernel(func, target) for key, func in module.functions.items()}
    return generate(functions, target)
