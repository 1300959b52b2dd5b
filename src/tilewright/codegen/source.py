"""Source text of kernels and functions, by kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..base.deep import deep_call
from ..base.errors import CompileError
from ..loopir.stmt import PrimFunc
from ..lowering.intrin.table import rule_kinds, rules
from ..lowering.legalize_types import legalize_types
from ..lowering.lower_division import lower_division
from ..lowering.lower_intrinsics import lower_intrinsics
from ..target.target import Target
from . import c, cuda, opencl
from .c_family import Alignments, kernel_texts
from .c_language import CLanguage

_PRINTERS: dict[str, type[CLanguage]] = {
    "cuda": cuda.CudaPrinter,
    "opencl": opencl.OpenCLPrinter,
    "c": c.CPrinter,
}
LANGUAGES = frozenset(_PRINTERS)
_FRONTS: dict[str, Callable[[Sequence[str], Target], str]] = {
    "cuda": cuda.front,
    "opencl": opencl.front,
}


def generate(
    kernels: Mapping[str, PrimFunc], target: Target, align: Alignments | None = None
) -> str:
    """Source text of kernels that `prepare_kernel` has prepared, in the language of the target.

    Each becomes a kernel (in C: a function) of its global_symbol; CompileError says what the
    language cannot do. `align` is told what each kernel needs of its parameters.
    """
    kind = target.kind.name
    if kind not in LANGUAGES:
        known = ", ".join(sorted(LANGUAGES))
        raise CompileError(f"no source generator for target {str(target)!r}; there are: {known}")
    if kind == "c":
        return c.generate(kernels, target, align)
    return together([write(kernels, target, align)], target)


@dataclass(frozen=True)
class Written:
    """Kernels as text, and what they need of what stands before them."""

    needs: tuple[str, ...]
    texts: tuple[str, ...]


def write(
    kernels: Mapping[str, PrimFunc], target: Target, align: Alignments | None = None
) -> Written:
    """As `generate`, for devices, of kernels that `together` puts beside others."""
    needs: dict[str, None] = {}
    texts = kernel_texts(_PRINTERS[target.kind.name], kernels, target, needs, align)
    return Written(tuple(needs), tuple(texts))


def together(parts: Sequence[Written], target: Target) -> str:
    """One source text of kernels of which each was written for this target."""
    needs = list(dict.fromkeys(need for part in parts for need in part.needs))
    front = _FRONTS[target.kind.name](needs, target)
    texts = [text for part in parts for text in part.texts]
    return "\n".join([front, *texts] if front else texts)


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
