"""Passes that TVM's users call by name and that are no passes of our pipeline as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import UsageError
from ..codegen.llvm.calls import supported
from ..codegen.source import LANGUAGES, prepare_kernel
from ..loopir.construct import convert, is_const
from ..loopir.module import IRModule
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import AssertStmt, For, ForKind, PrimFunc
from ..lowering.intrin.llvm import llvm_rules
from ..lowering.legalize_types import legalize_types
from ..lowering.lower_division import lower_division
from ..lowering.lower_intrinsics import lower_intrinsics
from ..lowering.lower_thread_allreduce import lower_thread_allreduce
from ..lowering.lower_warp_memory import lower_warp_memory
from ..lowering.split_host_device import split_host_device
from ..lowering.sync_threads import sync_threads
from ..lowering.unify_threads import unify_threads
from ..lowering.verify_memory import verify_memory
from ..target.target import Target
from .api_passes import without_host
from .passes import ModulePass, PassInfo, PrimFuncPass


def apply_to_functions(ftransform: Callable[[PrimFunc], PrimFunc]) -> PrimFuncPass:
    """A pass that gives each function to `ftransform`."""
    return PrimFuncPass(lambda func, module, context: ftransform(func), 0, "tir.Apply")


def filter_functions(fcond: Callable[[PrimFunc], bool]) -> PrimFuncPass:
    """A pass that keeps the functions for which `fcond` holds."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc | None:
        return func if fcond(func) else None

    return PrimFuncPass(run, 0, "tir.Filter")


def bind_target(target: Any) -> PrimFuncPass:
    """A pass that notes the target on each function that has none.

    Functions without "global_symbol", which nobody calls from outside, get no host; those with it
    get the host also where they have a target without one; those with "tir.is_host_func" get the
    host alone, in that attribute's place. Raises TargetError where `target` is no
    target, as text, dict or Target, where `target` has no kind of target, or no attributes by name.
    """
    noted = Target(target)
    alone = without_host(noted)

    def bind(func: PrimFunc) -> PrimFunc:
        known = func.attrs.get("target")
        exposed = "global_symbol" in func.attrs
        if known is None and is_const(convert(func.attrs.get("tir.is_host_func", 0)), 1):
            return func.without_attr("tir.is_host_func").with_attr("target", noted.host or alone)
        if known is None:
            return func.with_attr("target", noted if exposed else alone)
        if exposed and noted.host is not None and Target(known).host is None:
            return func.with_attr("target", Target(known, noted.host))
        return func

    return PrimFuncPass(lambda func, module, context: bind(func), 0, "tir.BindTarget")


def annotate_entry_func() -> ModulePass:
    """A pass that marks the entry of a module: its only function, or the only one that has a
    "global_symbol"; with more of them, none."""

    def run(module: IRModule, context: Any) -> IRModule:
        names = list(module.functions)
        exposed = [n for n, f in module.functions.items() if "global_symbol" in f.attrs]
        entry = names[0] if len(names) == 1 else exposed[0] if len(exposed) == 1 else None
        if entry is None:
            return module
        return module.with_functions(
            {
                name: f.with_attr("tir.is_entry_func", True) if name == entry else f
                for name, f in module.functions.items()
            }
        )

    return ModulePass(run, PassInfo(0, "tir.AnnotateEntryFunc"))


def target_of(func: PrimFunc) -> Target:
    """The target noted on a function, else the present one, else this machine's CPU."""
    noted = func.attrs.get("target") or Target.current(allow_none=True)
    return Target(noted or "llvm")


def lower_intrin(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Intrinsics and divisions as what the target has, by the rules for its kind."""
    target = target_of(func)
    kind = target.kind.name
    if kind in LANGUAGES:
        return prepare_kernel(func, target)
    func = lower_intrinsics(func, [kind, "default"], llvm_rules(), supported)
    return lower_division(func)


def legalize_narrow_floats(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """float16 and bfloat16 computed in float32 where the target does so."""
    return legalize_types(func, target_of(func).has_fp16)


def check_memory(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """CompileError where the host accesses memory of a device (for targets with devices)."""
    return func if target_of(func).kind.name in ("llvm", "c") else verify_memory(func)


def thread_sync(storage_scope: str) -> PrimFuncPass:
    """A pass that puts barriers between threads of a block where they share memory. Raises
    UsageError where storage_scope is none of 'shared', 'shared.dyn' and 'warp'."""
    if storage_scope not in ("shared", "shared.dyn", "warp"):
        raise UsageError(
            f"ThreadSync({storage_scope!r}): the scopes of barriers are 'shared', 'shared.dyn' and "
            "'warp'"
        )
    if storage_scope == "warp":  # lower_warp_memory has lanes exchange values by shuffles
        return apply_to_functions(lambda func: func)
    return apply_to_functions(lambda func: sync_threads(unify_threads(func)))


def reduce_across_threads(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Reductions over threads as shuffles and shared memory, as the target has them."""
    return lower_thread_allreduce(unify_threads(func), _gpu_of(func))


def share_within_warps(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Memory of a warp as registers of its lanes."""
    return lower_warp_memory(unify_threads(func), _gpu_of(func))


def _gpu_of(func: PrimFunc) -> Target:
    target = target_of(func)
    return Target("cuda") if target.kind.name in ("llvm", "c") else target


def split_functions() -> ModulePass:
    """A pass that makes a function of its own of every kernel."""

    def run(module: IRModule, context: Any) -> IRModule:
        found: dict[str, PrimFunc] = {}
        for name, func in module.functions.items():
            program = split_host_device(func)
            found[name] = program.host
            marks = _device_marks(func)
            found.update({key: k.with_attr(marks) for key, k in program.kernels.items()})
        return module.with_functions(found)

    return ModulePass(run, PassInfo(0, "tir.SplitHostDevice"))


def _device_marks(func: PrimFunc) -> dict[str, Any]:
    """What kernels of a function are said to be: whose target's, and called from outside."""
    noted = func.attrs.get("target")
    marks: dict[str, Any] = {"tir.is_global_func": True}
    return marks if noted is None else {"target": without_host(Target(noted)), **marks}


class _DropAsserts(Rewriter):
    @handles(AssertStmt)
    def _assert(self, s: AssertStmt) -> Any:
        return self.stmt(s.body)


def skip_asserts(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Leave out the program's asserts."""
    return func.with_body(_DropAsserts().stmt(func.body))


class _SerialLoops(Rewriter):
    @handles(For)
    def _for(self, s: For) -> Any:
        body = self.stmt(s.body)
        if s.kind == ForKind.SERIAL:
            return s.with_parts(body=body)
        return s.with_parts(kind=ForKind.SERIAL, body=body, thread_binding=None)


def make_loops_serial(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Every loop runs its steps in order."""
    return func.with_body(_SerialLoops().stmt(func.body))
