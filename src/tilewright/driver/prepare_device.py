"""The passes between the device pipeline and the source text of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.deep import deep_call
from ..loopir.intrin_rules import Rule
from ..loopir.stmt import PrimFunc
from ..lowering.lower_division import lower_division
from ..lowering.lower_intrinsics import lower_intrinsics
from ..target.target import Target


def prepare_kernel(func: PrimFunc, target: Target) -> PrimFunc:
    """A kernel in the form that the code generator of its target takes."""
    return deep_call(_prepare, func, target)


def _prepare(func: PrimFunc, target: Target) -> PrimFunc:
    rules: Mapping[tuple[str, str], Rule] = {}
    func = lower_intrinsics(func, [target.kind.name, "default"], rules, lambda name, dtype: False)
    return lower_division(func)
