"""`tvm.tir.analysis`: questions about programs."""

from typing import Any
from typing import Any as _Any

from ..base.errors import CompileError as _CompileError
from ..base.errors import InternalError as _InternalError
from ..driver.passes import PrimFuncPass as _Pass
from ..driver.tir_passes import target_of as _target_of
from ..loopir.define import definition_problem as _definition_problem
from ..loopir.effects import CallEffectKind as _Kind
from ..loopir.effects import is_pure as is_pure
from ..loopir.effects import side_effect as side_effect
from ..loopir.equal import structural_equal
from ..loopir.expr import Call as _Call
from ..loopir.functor import defines_once as _defines_once
from ..loopir.functor import undefined_vars as undefined_vars
from ..loopir.module import IRModule as _IRModule
from ..loopir.realize import AllocateConst as _AllocateConst
from ..loopir.stmt import Allocate as _Allocate
from ..loopir.stmt import BufferStore as _BufferStore
from ..loopir.stmt import Evaluate as _Evaluate
from ..loopir.stmt import PrimFunc as _PrimFunc
from ..loopir.verify import verify as _verify
from ..loopir.visit import walk as _walk
from ..lowering.access_lca import detect_buffer_access_lca as detect_buffer_access_lca
from ..lowering.usage import allocated_bytes as _allocated
from ..lowering.usage import check_indices as _check_indices
from ..lowering.usage import estimate_flops as _estimate_flops
from ..lowering.usage import workspace_bytes as _workspace
from ..lowering.verify_gpu_code import verify_gpu_code as verify_gpu_code
from ..lowering.verify_memory import verify_memory as _verify_memory

expr_deep_equal = structural_equal


def is_pure_function(func: _PrimFunc) -> bool:
    """Whether a function changes nothing but memory of its own."""
    own = {n.buffer.data for n in _walk(func.body) if isinstance(n, _Allocate)}
    for node in _walk(func.body):
        if isinstance(node, _BufferStore) and node.buffer.data not in own:
            return False
        if isinstance(node, _Evaluate) and _changes_state(node.value):
            return False
    return True


def _changes_state(value: _Any) -> bool:
    if type(value) is _Call and value.op.name == "tir.ret":
        return any(_changes_state(x) for x in value.args)
    return side_effect(value) > _Kind.ReadState


def assert_pure_function(func: _PrimFunc) -> bool:
    """True; AssertionError where `is_pure_function` is not."""
    if not is_pure_function(func):
        raise AssertionError(f"{func.name} changes memory that it did not allocate")
    return True


def calculate_allocated_bytes(func_or_mod: _PrimFunc | _IRModule) -> dict[str, dict[str, int]]:
    """The most bytes that each function has allocated at one time, by storage scope; a function
    that is in no module is called "main". Sizes that are not constant count as 0."""
    if isinstance(func_or_mod, _IRModule):
        return {str(name): _allocated(func) for name, func in func_or_mod.functions.items()}
    return {"main": _allocated(func_or_mod)}


def calculate_workspace_bytes(func: _PrimFunc, workspace_byte_alignment: int) -> int:
    """The most bytes that a function has allocated at one time, each allocation rounded up to a
    multiple of `workspace_byte_alignment` bytes. Sizes that are not constant count as 0."""
    return _workspace(func, int(workspace_byte_alignment))


def calculate_constant_bytes(func: _PrimFunc, constant_byte_alignment: int) -> int:
    """Bytes of the constants of a function, each rounded up to a multiple of
    `constant_byte_alignment` bytes."""
    step = int(constant_byte_alignment)
    sizes = [n.values().nbytes for n in _walk(func.body) if isinstance(n, _AllocateConst)]
    return sum(-(-size // step) * step for size in sizes)


def estimate_tir_flops(stmt_or_mod: _Any) -> float:
    """Operations of arithmetic in a statement, function or module: see lowering/usage.py."""
    return _estimate_flops(stmt_or_mod)


def OOBChecker() -> _Pass:
    """A pass that raises ScheduleError where an index is proved to leave its buffer's shape."""
    return _Pass(lambda func, module, context: _check_indices(func), 0, "tir.analysis.OOBChecker")


def verify_ssa(func: _PrimFunc) -> bool:
    """Whether no variable is defined twice in a function."""
    return _defines_once(func)


def verify_memory(func: _PrimFunc) -> bool:
    """Whether only kernels touch memory of the function's device, if it is for one."""
    if _target_of(func).kind.name in ("llvm", "c"):
        return True
    try:
        _verify_memory(func)
    except _CompileError:
        return False
    return True


def verify_well_formed(obj: _PrimFunc | _IRModule, assert_mode: bool = True) -> bool:
    """Whether a program is well formed: types, scopes, and variables that are defined in one place
    of a module only; CompileError (a ValueError) with `assert_mode` if it is not."""
    functions: Any = list(obj.functions.values()) if isinstance(obj, _IRModule) else [obj]
    problem = _definition_problem(functions)
    try:
        for func in functions if problem is None else ():
            _verify(func)
    except _InternalError as error:
        problem = str(error)
    if problem is not None and assert_mode:
        raise _CompileError(problem)
    return problem is None
