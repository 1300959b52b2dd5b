"""From lowered functions to object code for a CPU: device passes (`prepare`), LLVM IR, LLVM.

It needs no runtime: who makes code for others to run, as the helpers of graph.compile do, loads
none. The compile cache is keyed by the LLVM IR with everything that changes what LLVM makes of it,
so what stands above the IR (rules, callbacks, options of passes) needs no place in the key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from ..base import config
from ..base.deep import roomy
from ..base.errors import TilewrightError
from ..codegen.llvm import backend
from ..codegen.llvm.module import GeneratedModule, generate
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..rt import cache as disk
from ..target.target import Target
from .dump import dump
from .prepare import prepare

_CACHE_VERSION = 2


@dataclass(frozen=True)
class LoweredCode:
    """Functions as the code generator took them, their LLVM IR, and how LLVM is to compile it."""

    functions: dict[str, PrimFunc]
    generated: GeneratedModule
    target: Target
    opt_level: int
    vectorize: bool

    def object_code(self, cached: bool = True) -> bytes:
        """Object code, from the compile cache where it has it. Who keeps it there himself, under a
        key that needs no IR, has it made not `cached`."""
        name, functions = self.generated.functions[0].name, self.functions
        dump(name, "tir", lambda: str(IRModule(functions)))
        dump(name, "ll", lambda: self.generated.text)
        emit = emit_cached if cached else emit_new
        obj = emit(self.generated, self.target, self.opt_level, self.vectorize)
        dump(name, "s", self.assembly)
        return obj

    def assembly(self) -> str:
        """The text of what LLVM makes of it."""
        text, imports = self.generated.text, self.generated.imports
        return backend.emit_assembly(text, self.target, imports, self.opt_level, self.vectorize)


@roomy
def generate_code(module: IRModule, target: Target) -> LoweredCode:
    """LLVM IR of the functions of a lowered module, for a CPU."""
    functions = {key: prepare(func, target) for key, func in module.functions.items()}
    opt_level, vectorize = int(config.get("opt_level")), bool(config.get("llvm_vectorize"))
    return LoweredCode(functions, generate(functions, target), target, opt_level, vectorize)


def emit_cached(
    generated: GeneratedModule, target: Target, opt_level: int = 2, vectorize: bool = False
) -> bytes:
    """Object code, from the compile cache where it has it."""
    key = cache_key(generated, target, opt_level, vectorize)
    found = disk.get(key)
    if found is not None:
        return found
    obj = emit_new(generated, target, opt_level, vectorize)
    disk.put(key, obj)
    return obj


def emit_new(
    generated: GeneratedModule, target: Target, opt_level: int = 2, vectorize: bool = False
) -> bytes:
    """Object code, made by LLVM."""
    return backend.emit_object(generated.text, target, generated.imports, opt_level, vectorize)


def cache_key(generated: GeneratedModule, target: Target, opt_level: int, vectorize: bool) -> str:
    """Text that differs wherever the object code may differ."""
    digest = hashlib.sha256(generated.text.encode())
    for text in generated.imports:
        digest.update(b"\0" + text.encode())
    how = f"{_CACHE_VERSION}|{llvm_version()}|{opt_level}|{vectorize}"
    return f"object|{how}|{target.fingerprint()}|{digest.hexdigest()}"


@cache
def llvm_version() -> str:
    """Versions of llvmlite and LLVM. TilewrightError where they are not installed, as they need not
    be where saved networks run."""
    try:
        import llvmlite
        import llvmlite.binding as llvm
    except ModuleNotFoundError:
        raise TilewrightError(
            "compiling takes llvmlite, which is not installed here: pip install llvmlite; saved "
            "networks (load_network) and exported libraries run without it"
        ) from None

    return f"{llvmlite.__version__}/{'.'.join(map(str, llvm.llvm_version_info))}"
