"""Mistakes seeded into every stage of the compiler: the fuzzer must catch each.

A mutant is a context in which one function of the compiler is wrong in a way that real mistakes
are. `python -m tests.fuzz --mutants` runs each against up to 5,000 cases.
"""

from __future__ import annotations

from .mutant_kit import Mutant
from .mutants_c import TEXTS
from .mutants_code import CODE
from .mutants_kernels import KERNELS
from .mutants_nest import NEST
from .mutants_passes import PASSES

MUTANTS: dict[str, Mutant] = {**NEST, **PASSES, **CODE, **KERNELS, **TEXTS}


def device_of(name: str) -> str:
    """Where a mutant shows."""
    return "simt" if name in KERNELS else "opencl" if name in TEXTS else "llvm"
