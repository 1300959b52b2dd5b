"""The passes between lowering and the code generator of a CPU."""

from __future__ import annotations

from ..base.deep import deep_call
from ..codegen.llvm.calls import supported
from ..loopir.stmt import PrimFunc
from ..lowering.intrin.llvm import llvm_rules
from ..lowering.legalize_types import legalize_types
from ..lowering.lower_division import lower_division
from ..lowering.lower_intrinsics import lower_intrinsics
from ..target.target import Target


def prepare(func: PrimFunc, target: Target) -> PrimFunc:
    """A lowered function in the form that codegen.llvm takes."""
    return deep_call(_prepare, func, target)


def _prepare(func: PrimFunc, target: Target) -> PrimFunc:
    # rules see the types of the user's program
    func = lower_intrinsics(func, ["llvm", "default"], llvm_rules(), supported)
    # what rules made of narrow floats is legalised too
    func = legalize_types(func, target.has_fp16)
    # last: rules may divide
    return lower_division(func)
