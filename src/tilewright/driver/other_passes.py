"""Passes that TVM's users call by name and whose work is done elsewhere here, or cannot arise.

Each is a pass that may stand in a Sequential. `settled` ones leave a program as it is, and their
docstrings say why that is right; `refused` ones say, when they are made, what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any, NoReturn

from ..base.errors import CompileError, UsageError
from ..loopir.define import define_once
from ..loopir.expr import BufferLoad, Call
from ..loopir.functor import defines_once
from ..loopir.module import IRModule
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    no_op,
)
from ..loopir.visit import uses_var, walk
from ..lowering.combine_contexts import combine_contexts
from ..lowering.dead_stores import remove_dead_stores
from ..lowering.flatten_buffers import flatten_buffers
from ..lowering.hoist_expressions import (
    HoistedConditionals,
    HoistedLetBindings,
    hoist_expressions,
)
from ..lowering.inject_async_copy import inject_async_copy
from ..lowering.inject_copy_intrin import CopyIntrin, inject_copy_intrin
from ..lowering.lift_attr_scope import lift_attr_scope
from ..lowering.merge_shared import merge_shared
from ..lowering.name_common import name_common
from ..lowering.narrow_types import narrow_to
from ..lowering.options import LowerOptions
from ..lowering.remove_no_ops import remove_proved_no_ops
from ..lowering.simplify_statements import simplify_in_loops
from ..lowering.unify_threads import unify_threads
from ..lowering.usage import allocated_bytes
from ..lowering.vectorize_loops import vectorize_loops
from ..lowering.verify_gpu_code import verify_gpu_code
from ..target.target import Target
from .passes import ModulePass, PassInfo, PrimFuncPass
from .tir_passes import target_of

_BLOCKS = "programs have no TensorIR blocks, for which it is meant"
_CALLS = "the code generator makes entries of functions itself, from their signatures"
_OPTIONAL = "it changes how fast a program is, not what it computes, and other passes do its work"
_FP8 = "there are no types of 8-bit floats"
SETTLED: dict[str, str] = {
    **dict.fromkeys(
        (
            "ApplyLayoutTransforms",
            "CompactBufferAllocation",
            "ConvertBlocksToOpaque",
            "DefaultGPUSchedule",
            "InjectPermutedLayout",
            "InjectSoftwarePipeline",
            "LiftThreadBinding",
            "LowerAutoCopy",
            "LowerCrossThreadReduction",
            "LowerInitBlock",
            "LowerMatchBuffer",
            "LowerOpaqueBlock",
            "ManifestSharedMemoryLocalStage",
            "PlanAndUpdateBufferAllocationLocation",
            "RemoveWeightLayoutRewriteBlock",
            "TransformMmaBufferLayout",
        ),
        _BLOCKS,
    ),
    **dict.fromkeys(("LegalizePackedCalls", "LowerTVMBuiltin", "MakePackedAPI"), _CALLS),
    "LowerDeviceKernelLaunch": "SplitHostDevice finds kernels; builds note how they are launched",
    **dict.fromkeys(
        (
            "InjectPTXLDG32",
            "InlinePrivateFunctions",
            "PointerValueTypeRewrite",
            "ReduceBranchingThroughOvercompute",
            "UseAssumeToReduceBranches",
        ),
        _OPTIONAL,
    ),
    **dict.fromkeys(("FP8ComputeLegalize", "FP8StorageLegalize"), _FP8),
    "BF16StorageLegalize": "memory of bfloat16 stays that: arrays and code generators have it",
    "CoProcSync": "there are no targets with coprocessors",
    "InferFragment": "code generators read what a fragment is in the calls that load it",
    "InstallDebugSpans": "maps from code to loops are made when code is, without spans",
    "LowerAsyncDMA": "there are no targets with engines for it; CUDA has InjectPTXAsyncCopy",
    "LowerCustomDatatypes": "there are no types that users define",
    "LowerDeviceStorageAccessInfo": "there is no memory that users describe by tvm.info.mem",
    "TextureFlatten": "there is no memory of textures",
}
# what such a pass would have to lower: CompileError where a program has it
_UNSUPPORTED: dict[str, Callable[[Any], bool]] = {
    "CoProcSync": lambda x: type(x) is AttrStmt and x.attr_key.startswith("coproc_"),
    "InjectSoftwarePipeline": lambda x: (
        type(x) is For and any(str(key).startswith("software_pipeline") for key in x.annotations)
    ),
    "LowerAsyncDMA": lambda x: type(x) is AttrStmt and x.attr_key.startswith("async_"),
    "TextureFlatten": lambda x: type(x) is Allocate and "texture" in x.buffer.scope(),
}
REFUSED: dict[str, str] = {
    "BindParams": "constants are AllocateConst statements, or arguments",
    "InstrumentProfileIntrinsics": "use Module.time_evaluator, or a network's profile()",
    "UnifiedStaticMemoryPlanner": "networks of tilewright.compile share one workspace already",
}


# the arguments that makers of such passes take in TVM
_PARAMETERS: dict[str, dict[str, Any]] = {
    "CompactBufferAllocation": {"is_strict": True},
    "FP8ComputeLegalize": {"promote_dtype_str": "float32"},
    "InjectPTXLDG32": {"enable_inject_ptx_intrin": True},
    "RemoveWeightLayoutRewriteBlock": {"skip_ndarray_rewrite": False},
}


_WAYS = ("prove_conditional", "simplify_expressions")


def settled(name: str) -> Callable[..., PrimFuncPass]:
    """A maker of a pass that leaves programs as they are, with the arguments that TVM's has."""
    signature = Signature(
        [
            Parameter(key, Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for key, default in _PARAMETERS.get(name, {}).items()
        ]
    )

    unsupported = _UNSUPPORTED.get(name)

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        for node in walk(func.body) if unsupported is not None else ():
            if unsupported is not None and unsupported(node):
                raise CompileError(f"{name} would have to lower this, but {SETTLED[name]}:\n{node}")
        return func

    def make(*args: Any, **kwargs: Any) -> PrimFuncPass:
        signature.bind(*args, **kwargs)
        return PrimFuncPass(run, 0, f"tir.{name}")

    make.__signature__ = signature  # type: ignore[attr-defined]
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Leaves a program as it is: {SETTLED[name]}."
    return make


def refused(name: str) -> Callable[..., NoReturn]:
    """A maker that says what to do instead of the pass."""
    instead = REFUSED[name]

    def make(*args: Any, **kwargs: Any) -> NoReturn:
        raise UsageError(f"there is no pass {name}: {instead}")

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"UsageError: {instead}."
    return make


class _Drop(Rewriter):
    """Takes out statements that evaluate a call of `name`, or store what is made of one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made: set[Any] = set()  # variables of lets whose value is made of one

    def has(self, e: Any) -> bool:
        """Whether a value is made of such a call."""
        return any(x in self.made or _calls(x, self.name) for x in walk(e))

    @handles(Evaluate)
    def _evaluate(self, s: Evaluate) -> Any:
        return no_op() if _calls(s.value, self.name) else s

    @handles(LetStmt)
    def _let_stmt(self, s: LetStmt) -> Any:
        if not self.has(s.value):
            return Rewriter.table[LetStmt](self, s)
        self.made.add(s.var)
        body = self.stmt(s.body)
        if uses_var(body, s.var.same_as):
            raise CompileError(f"{self.name} decides more than what is stored:\n{s}")
        return body

    @handles(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        loads = [i for x in walk(s.value) if isinstance(x, BufferLoad) for i in x.indices]
        if any(self.has(i) for i in (*s.indices, *loads)):
            raise CompileError(f"{self.name} stands in an index:\n{s}")
        return no_op() if self.has(s.value) else s


def _calls(e: Any, name: str) -> bool:
    return type(e) is Call and e.op.name == name


def remove_assume(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Drop `tir.assume`, and what does nothing then."""
    return _without(func, "tir.assume")


def remove_store_undef(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Drop stores of what is made of `tir.undef()`, and what does nothing then; CompileError where
    it stands in an index."""
    return _without(func, "tir.undef")


def _without(func: PrimFunc, name: str) -> PrimFunc:
    body = _Drop(name).stmt(func.body)
    return func if body is func.body else remove_proved_no_ops(func.with_body(body), _options())


def check_ssa(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """CompileError where a variable is defined twice."""
    if not defines_once(func):
        raise CompileError(
            f"IR is not in SSA form: {func.name}: a variable is defined twice; "
            "ConvertSSA renames them"
        )
    return func


def convert_ssa() -> ModulePass:
    """A pass that gives what is defined again, in this function of a module or another, a variable
    of its own: parameters, loops, lets, allocations, threads."""

    def run(module: IRModule, context: Any) -> IRModule:
        seen: set[Any] = set()
        found = {name: define_once(func, seen) for name, func in module.functions.items()}
        same = all(found[name] is func for name, func in module.functions.items())
        return module if same else module.with_functions(found)

    return ModulePass(run, PassInfo(0, "tir.ConvertSSA"))


def merge_shared_memory(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Shared memory of a kernel whose lives do not meet in one allocation."""
    return merge_shared(func)


def unify_thread_axes(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """One variable for each thread axis of a kernel."""
    return unify_threads(func)


def copy_asynchronously(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Copies from global to shared memory that need no register, where the target has them."""
    return inject_async_copy(func, target_of(func))


def verify_gpu_limits(constraints: dict[str, int]) -> PrimFuncPass:
    """A pass that raises CompileError where kernels exceed limits; see analysis.verify_gpu_code."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        if not verify_gpu_code(func, constraints):
            raise CompileError(
                f"GPU constraint(s) violated: {func.name}: its kernels exceed the limits "
                f"{constraints}"
            )
        return func

    return PrimFuncPass(run, 0, "tir.VerifyGPUCode")


def lift_attributes(attr_key: str) -> PrimFuncPass:
    """A pass that puts the AttrStmts of a key around the largest statements they hold for."""
    return PrimFuncPass(
        lambda func, module, context: lift_attr_scope(func, attr_key), 0, "tir.LiftAttrScope"
    )


def inject_copies(pragma_key: str, fintrin: CopyIntrin) -> PrimFuncPass:
    """A pass that puts what `fintrin(src, dst, pad_before, pad_after, pad_value)` gives in the
    place of copies under AttrStmt "pragma_KEY"."""
    return PrimFuncPass(
        lambda func, module, context: inject_copy_intrin(func, pragma_key, fintrin),
        0,
        "tir.InjectCopyIntrin",
    )


def combine_context_calls(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Contexts of devices (`tvm_thread_context`) made once, in functions noted as for a CPU."""
    noted = func.attrs.get("target")
    on_host = noted is not None and Target(noted).kind.name in ("llvm", "c")
    return combine_contexts(func) if on_host else func


def verify_vtcm_limit(limit: int) -> PrimFuncPass:
    """A pass that raises CompileError where a function allocates more than `limit` bytes (0: any)
    of scope "global.vtcm"."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        used = allocated_bytes(func).get("global.vtcm", 0) if limit else 0
        if used > limit:
            raise CompileError(
                f"{func.name}: The global.vtcm memory allocation limit has been exceeded: "
                f"{used} bytes of {limit}"
            )
        return func

    return PrimFuncPass(run, 0, "tir.VerifyVTCMLimit")


def narrow_data_type(target_bits: int) -> PrimFuncPass:
    """A pass that computes indices in so many bits (8, 16, 32) where they fit; 64 leaves them."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        return func if target_bits == 64 else narrow_to(func, target_bits)

    return PrimFuncPass(run, 0, "tir.NarrowDataType")


def vectorize_loop(enable_vectorize: bool = True) -> PrimFuncPass:
    """A pass that makes vectors of vectorised loops; without `enable_vectorize` they are serial."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        options = _options()
        if not enable_vectorize:
            options = replace(options, disable_vectorize=True)
        return vectorize_loops(func, options)

    return PrimFuncPass(run, 0, "tir.VectorizeLoop")


def eliminate_subexpressions(
    enable_cse_tir: bool = True, identify_equiv_terms: bool = False
) -> PrimFuncPass:
    """A pass that computes once what statements compute several times. `identify_equiv_terms`:
    terms that are equal in their normal form are one."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        return name_common(func, identify_equiv_terms) if enable_cse_tir else func

    return PrimFuncPass(run, 0, "tir.CommonSubexprElimTIR")


def flatten_storage(cache_line_size: int, create_bound_attribute: bool = False) -> PrimFuncPass:
    """A pass that makes buffers flat. Its arguments change nothing (`cache_line_size`, in bytes):
    alignment is that of the buffers, and accesses are checked by InstrumentBoundCheckers before
    it."""
    del cache_line_size, create_bound_attribute

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        return flatten_buffers(func, _options())

    return PrimFuncPass(run, 0, "tir.StorageFlatten")


def hoist_if_then_else(variant: str | None = None) -> PrimFuncPass:
    """A pass that moves conditions of statements out of loops. `variant`: "basic", or None for the
    option "tir.HoistIfThenElse": {"support_block_scope_hosting": True}, by which conditions on
    threads move too. Raises UsageError where variant is neither None nor "basic"."""
    if variant not in (None, "basic"):
        raise UsageError(f'HoistIfThenElse has the variants None and "basic", got {variant!r}')

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        given = context.config.get("tir.HoistIfThenElse") or {}
        kinds = HoistedConditionals.IfElseStmt
        if variant is None and given.get("support_block_scope_hosting"):
            kinds |= HoistedConditionals.UsingBlockVar
        return hoist_expressions(func, _options(), kinds, HoistedLetBindings.Never)

    return PrimFuncPass(run, 0, "tir.HoistIfThenElse")


def hoist_expression() -> PrimFuncPass:
    """A pass that moves conditions and lets out of loops: those that the option
    "tir.HoistExpression" names by "hoisted_conditionals" and "hoisted_let_bindings", else all but
    conditions on threads."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        given = context.config.get("tir.HoistExpression") or {}
        usual = HoistedConditionals.All & ~HoistedConditionals.UsingBlockVar
        kinds = int(given.get("hoisted_conditionals", usual))
        lets = int(given.get("hoisted_let_bindings", HoistedLetBindings.All))
        return hoist_expressions(func, _options(), kinds, lets)

    return PrimFuncPass(run, 0, "tir.HoistExpression")


def simplify() -> PrimFuncPass:
    """A pass that brings expressions to their normal form and decides branches; with the option
    "tir.Simplify": {"propagate_knowns_to_prove_conditional": True} it also knows what `tir.assume`
    says of variables, and with "convert_boolean_to_and_of_ors" conditions become conjunctions of
    disjunctions. The other fields of the option ask for what is always tried, or are not followed:
    values in memory."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        given = context.config.get("tir.Simplify") or {}
        knows = [f"propagate_knowns_to_{way}" for way in _WAYS]
        form = bool(given.get("convert_boolean_to_and_of_ors"))
        return simplify_in_loops(func, _options(), any(given.get(key) for key in knows), form)

    return PrimFuncPass(run, 0, "tir.Simplify")


def remove_no_op() -> PrimFuncPass:
    """A pass that removes what does nothing; with the option "tir.RemoveNoOp":
    {"use_dataflow_analysis": True} also stores that nothing sees."""

    def run(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        given = context.config.get("tir.RemoveNoOp") or {}
        if given.get("use_dataflow_analysis"):
            func = remove_dead_stores(func)
        return remove_proved_no_ops(func, _options())

    return PrimFuncPass(run, 0, "tir.RemoveNoOp")


def _options() -> LowerOptions:
    return LowerOptions.current(Target.current(allow_none=True))
