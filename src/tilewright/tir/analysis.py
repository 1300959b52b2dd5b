"""`tvm.tir.analysis`: questions about programs."""

from typing import Any

from ..base.errors import CompileError as _CompileError
from ..base.errors import InternalError as _InternalError
from ..driver.tir_passes import target_of as _target_of
from ..loopir.effects import is_pure as is_pure
from ..loopir.effects import side_effect as side_effect
from ..loopir.equal import structural_equal
from ..loopir.functor import defines_once as _defines_once
from ..loopir.functor import undefined_vars as undefined_vars
from ..loopir.stmt import IRModule as _IRModule
from ..loopir.stmt import PrimFunc as _PrimFunc
from ..loopir.verify import verify as _verify
from ..lowering.verify_gpu_code import verify_gpu_code as verify_gpu_code
from ..lowering.verify_memory import verify_memory as _verify_memory

expr_deep_equal = structural_equal


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
    """Whether a program is well formed; with `assert_mode` it is an error if it is not."""
    functions: Any = obj.functions.values() if isinstance(obj, _IRModule) else [obj]
    try:
        for func in functions:
            _verify(func)
    except _InternalError:
        if assert_mode:
            raise
        return False
    return True
