"""Source text of kernels and functions, by kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..base.deep import deep_call
from ..base.errors import CompileError
from ..loopir.stmt import PrimFunc
from ..lowering.intrin.table import rule_kinds, rules
from ..lowering.legalize_types import legalize_types
from ..lowering.lower_division import lower_division
from ..lowering.lower_intrinsics import lower_intrinsics
from ..target.target import Target
from . import c, cuda, opencl
from .c_family import Alignments
from .c_language import CLanguage

Generator = Callable[[Mapping[str, PrimFunc], Target, "Alignments | None"], str]

GENERATORS: dict[str, Generator] = {
    "cuda": cuda.generate,
    "opencl": opencl.generate,
    "c": c.generate,
}
_PRINTERS: dict[str, type[CLanguage]] = {
    "cuda": cuda.CudaPrinter,
    "opencl": opencl.OpenCLPrinter,
    "c": c.CPrinter,
}


def generate(
    kernels: Mapping[str, PrimFunc], target: Target, align: Alignments | None = None
) -> str:
    """Source text of kernels that `prepare_kernel` has prepared, in the language of the target.

    `align` is told what each kernel needs of its parameters.
    """
    generator = GENERATORS.get(target.kind.name)
    if generator is None:
        known = ", ".join(sorted(GENERATORS))
        raise CompileError(f"no source generator for target {str(target)!r}; there are: {known}")
    return generator(kernels, target, align)


def prepare_kernel(func: PrimFunc, target: Target) -> PrimFunc:
    """A lowered function in the form that the source generators take."""
    return deep_call(_prepare, func, target)


def _prepare(func: PrimFunc, target: Target) -> PrimFunc:
    kind = target.kind.name
    table = _PRINTERS[kind].call_table
    # rules see the types of the user's program
    func = lower_intrinsics(func, rule_kinds(kind), rules(target), lambda name, _: name in table)
    # what rules made of narrow floats is legalised too
    func = legalize_types(func, kind == "cuda" or (kind == "opencl" and target.has_fp16))
    # last: rules may divide
    return lower_division(func)
