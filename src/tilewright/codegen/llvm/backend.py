"""LLVM IR text to machine code: parse, link what users import, optimise, emit.

Loops are vectorised in the loop IR, so LLVM's loop and SLP vectorisers stay off unless asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

from ...base.errors import CompileError, InternalError
from ...target.capability import architecture
from ...target.target import Target
from .rotations import without_rings

_lock = threading.Lock()
_ready: set[str] = set()


_EXTERNAL = ("external", "common")


def emit_object(
    text: str,
    target: Target,
    imports: Sequence[str] = (),
    opt_level: int = 2,
    vectorize: bool = False,
) -> bytes:
    """Object code, position independent, of LLVM IR text."""

    def emit() -> bytes:
        with optimized(text, target, imports, opt_level, vectorize) as (module, machine):
            return bytes(machine.emit_object(module))

    return without_rings(emit, architecture(target.triple))


def emit_assembly(
    text: str,
    target: Target,
    imports: Sequence[str] = (),
    opt_level: int = 2,
    vectorize: bool = False,
) -> str:
    """Assembly text of LLVM IR text."""

    def emit() -> str:
        with optimized(text, target, imports, opt_level, vectorize) as (module, machine):
            return str(machine.emit_assembly(module))

    return without_rings(emit, architecture(target.triple))


@contextmanager
def optimized(
    text: str,
    target: Target,
    imports: Sequence[str] = (),
    opt_level: int = 2,
    vectorize: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """The optimised module, and the target machine that emits it.

    Both modules and their context are freed at the end, in this order: the garbage collector, which
    meets them in a cycle where an error keeps the frame, would free them in any.
    """
    import llvmlite.binding as llvm

    with ExitStack() as owned:
        with _lock:
            machine = _machine(target.triple, target.cpu, target.features, target.abi, opt_level)
            # A context of its own: LLVM's global one keeps every constant.
            context = owned.enter_context(llvm.create_context())

            def parse(text: str) -> Any:
                return owned.enter_context(llvm.parse_assembly(text, context))

            try:
                module = parse(text)
                module.data_layout = str(machine.target_data)
                for extra in _imported(parse, module, imports):
                    module.link_in(extra)
                module.verify()
            except RuntimeError as error:
                if imports:
                    raise CompileError(f"linking the imported code failed: {error}") from None
                raise InternalError(f"LLVM rejects generated code: {error}") from None
            _run_passes(llvm, module, machine, opt_level, vectorize)
        yield module, machine


def _imported(parse: Callable[[str], Any], module: Any, imports: Sequence[str]) -> list[Any]:
    """The modules to link into ours. What several of them define is taken from the last; what ours
    defines is a CompileError."""
    taken = {own.name for own in _definitions(module)}
    later: set[str] = set()
    found: list[Any] = []
    for text in reversed(imports):
        extra = parse(text)
        extra.triple, extra.data_layout = module.triple, module.data_layout
        for one in _definitions(extra):
            if one.name in taken:
                raise CompileError(
                    f"the imported code defines {one.name}, and so does the compiled module; "
                    "give one of them another name"
                )
            if one.name in later:
                one.linkage = "available_externally"
            later.add(one.name)
        found.append(extra)
    return found[::-1]


def _definitions(module: Any) -> list[Any]:
    """Functions and variables that a module defines for others to see."""
    every = (*module.functions, *module.global_variables)
    return [x for x in every if not x.is_declaration and x.linkage.name in _EXTERNAL]


MOST_BLOCKS = 1000
"""Functions with more keep their loops: where LLVM unrolls the short ones of a body that is written
out by the hundred, its passes take the time of the cube of their number."""


def _run_passes(llvm: Any, module: Any, machine: Any, opt_level: int, vectorize: bool) -> None:
    """Inline what asks for it, then simplify each function; at level 3, or with LLVM's vectorisers,
    run LLVM's whole pipeline, which takes about twice as long for the same inner loops."""
    options = llvm.create_pipeline_tuning_options(speed_level=min(max(opt_level, 0), 3))
    options.loop_vectorization = vectorize
    options.slp_vectorization = vectorize
    options.loop_interleaving = vectorize
    builder = llvm.create_pass_builder(machine, options)
    if vectorize or opt_level >= 3:
        with _closing(builder.getModulePassManager()) as whole:
            whole.run(module, builder)
    else:
        with _closing(llvm.create_new_module_pass_manager()) as first:
            first.add_always_inliner_pass()
            first.add_global_dead_code_eliminate_pass()
            first.run(module, builder)
        if opt_level > 0:
            own = [f for f in module.functions if not f.is_declaration]
            long = [f for f in own if sum(1 for _ in f.blocks) > MOST_BLOCKS]
            _simplify(builder, [f for f in own if f not in long])
            if long:
                builder.close()
                options.loop_unrolling = False
                builder = llvm.create_pass_builder(machine, options)
                _simplify(builder, long)
    builder.close()


def _simplify(builder: Any, functions: Sequence[Any]) -> None:
    with _closing(builder.getFunctionPassManager()) as manager:
        for function in functions:
            manager.run(function, builder)


@contextmanager
def _closing(manager: Any) -> Iterator[Any]:
    """Free a pass manager at the end. llvmlite 0.50 does not: it inherits a method that frees
    nothing before the one that would, and every build would leave 45 KB."""
    import llvmlite.binding as llvm

    try:
        yield manager
    finally:
        if type(manager)._dispose is llvm.ffi.ObjectRef._dispose:
            llvm.newpassmanagers.NewPassManager._dispose(manager)
        manager.close()


@lru_cache(maxsize=32)
def _machine(triple: str, cpu: str, features: str, abi: str, opt_level: int) -> Any:
    import llvmlite.binding as llvm

    _initialize(llvm, triple)
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CompileError(f"LLVM has no code generator for {triple}: {error}") from None
    return target.create_target_machine(
        cpu, features, opt=opt_level, reloc="pic", codemodel="small", abiname=abi
    )


def _initialize(llvm: Any, triple: str) -> None:
    """Make LLVM's code generators known: the host's alone (cheap), or all for another machine."""
    host = architecture(llvm.get_process_triple()) == architecture(triple)
    which = "native" if host else "all"
    if which in _ready:
        return
    if host:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    _ready.add(which)
