"""What a page shows of one kernel: its loops as a tree, the loop IR after each pass, code beside
loops, line by line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.deep import deep_call, roomy
from ..base.errors import CompileError, TargetError
from ..codegen.c_family import marking, split_marks
from ..codegen.llvm import backend
from ..codegen.llvm.located import Located, generate_located, located_assembly, located_ir
from ..codegen.source import generate, prepare_kernel
from ..driver.prepare import prepare
from ..loopir.module import IRModule
from ..loopir.print_lines import script_with_lines
from ..loopir.stmt import AttrStmt, PrimFunc
from ..loopir.visit import nodes
from ..lowering.device_pipeline import PASSES as DEVICE_PASSES
from ..lowering.options import LowerOptions
from ..lowering.pipeline import watching
from ..lowering.split_host_device import split_host_device
from ..rt.drivers import nvrtc
from ..target.target import Target
from .cost import counted, line_weights
from .tree import Tree, loop_tree

LONGEST = 400_000
"""Characters of a text from which on only its beginning is shown."""
_SOURCE_LINE = re.compile(r'^\s*//## File ".*", line (\d+)')
_CUDA_ARCH = "sm_80"  # where the target names none
_LANGUAGES = {"cuda": "CUDA C", "opencl": "OpenCL C"}


@dataclass(frozen=True)
class Code:
    """A text with the line of the loop IR that each of its lines comes from, 0 where none is known;
    `note` says how far that can be trusted, or why there is no text; `weights`, of the loops: the
    estimated share of each line in the work."""

    title: str
    lines: Sequence[str]
    places: Sequence[int]
    note: str = ""
    weights: Sequence[float] = ()


@dataclass
class Kernel:
    """One kernel. `passes`: names and texts, of those that changed something; `unchanged`: names of
    the others. `codes`: the loops that code is made of, source, assembly; of several functions of a
    device each begins with its loops. `figures`: facts by name."""

    name: str
    title: str = ""
    tree: list[Tree] = field(default_factory=list)
    passes: list[tuple[str, str]] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    codes: list[Code] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What the page's script reads."""
        return {
            "name": self.name,
            "title": self.title,
            "tree": self.tree,
            "passes": [{"name": n, "text": _cut(t)} for n, t in self.passes],
            "unchanged": self.unchanged,
            "codes": [
                {
                    "title": c.title,
                    "text": _cut("\n".join(c.lines)),
                    "places": list(c.places),
                    "note": c.note,
                    "weights": [round(w, 5) for w in c.weights],
                }
                for c in self.codes
            ],
            "figures": self.figures,
        }


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n... ({len(text) - LONGEST} characters more)"


class Watched:
    """Collects what the passes make of functions that are lowered in `with watched.watching():`."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.functions: list[tuple[Kernel, PrimFunc, PrimFunc, LowerOptions]] = []

    def watching(self) -> Any:
        """A context in which lowering is watched."""
        return watching(self._see)

    def _see(self, name: str, func: PrimFunc, options: LowerOptions) -> None:
        if name == "loop_nest":
            kernel = Kernel(func.name)
            self.kernels.append(kernel)
            self.functions.append((kernel, func, func, options))
            kernel.passes.append((name, str(func)))
            return
        kernel, first, last, _ = self.functions[-1]
        _add_pass(kernel, name, last, func)
        self.functions[-1] = (kernel, first, func, options)

    def keep_last(self, most: int) -> int:
        """Forget functions of which there is a later one with the same text, and all but the last
        `most`; how many differ."""
        last = {(k.name, k.passes[-1][1]): n for n, k in enumerate(self.kernels)}
        kept = sorted(last.values())
        self.kernels = [self.kernels[n] for n in kept[-most:]]
        self.functions = [self.functions[n] for n in kept[-most:]]
        return len(kept)

    def finished(self, target: Target | None = None) -> list[Kernel]:
        """The kernels with trees and code, for the target that they were lowered for, else
        `target`."""
        for kernel, first, last, options in self.functions:
            kernel.tree = loop_tree(first)
            add_code(kernel, last, target_of(first, options, target))
        return self.kernels


def target_of(func: PrimFunc, options: LowerOptions, target: Target | None) -> Target:
    """What a function was lowered for, else `target`; where neither says it of a function with GPU
    threads, CUDA."""
    chosen = options.target or target or Target("llvm")
    if options.target is None and chosen.kind.name == "llvm" and _has_threads(func):
        return Target(f"cuda -arch={_CUDA_ARCH}")
    return chosen


def _has_threads(func: PrimFunc) -> bool:
    return any(isinstance(s, AttrStmt) and s.attr_key == "thread_extent" for s in nodes(func.body))


def _add_pass(kernel: Kernel, name: str, before: PrimFunc, after: PrimFunc) -> None:
    _add_text(kernel, name, kernel.passes[-1][1] if after is before else str(after))


def _add_text(kernel: Kernel, name: str, text: str) -> None:
    if text == kernel.passes[-1][1]:
        kernel.unchanged.append(name)
    else:
        kernel.passes.append((name, text))


@roomy
def add_code(kernel: Kernel, func: PrimFunc, target: Target) -> None:
    """The code that a lowered function becomes."""
    try:
        if target.kind.name == "llvm":
            _add_llvm(kernel, func, target)
        elif target.kind.name in _LANGUAGES:
            _add_device(kernel, func, target)
        else:
            raise CompileError(f"a report shows no code for {target}")
    except (CompileError, TargetError) as error:
        kernel.figures["no code"] = str(error).splitlines()[0]
        if not kernel.codes:
            _loops(kernel, func)


def _loops(kernel: Kernel, func: PrimFunc) -> Mapping[int, int]:
    """Show the loops that code is made of; the lines of their statements."""
    text, places = script_with_lines(func)
    lines = text.split("\n")
    weights, total = line_weights(func, places, len(lines))
    own = "operations, with those of indices"
    key = own if own not in kernel.figures else f"{func.name}: {own}"
    kernel.figures[key] = f"about {counted(total)}"
    note = (
        "The loops as the code generator took them. Hot lines are estimated: operations of a "
        "statement times the extents of the loops around it; nothing was sampled."
    )
    kernel.codes.append(Code("Loops", lines, range(1, len(lines) + 1), note, weights))
    return places


def _add_llvm(kernel: Kernel, func: PrimFunc, target: Target) -> None:
    ready = prepare(func, target)
    places = _loops(kernel, ready)
    _add_text(kernel, "prepare", "\n".join(kernel.codes[-1].lines))
    made = generate_located({kernel.name: ready}, target, places)
    assembly = backend.emit_assembly(made.text, target, made.imports)
    kernel.codes.append(
        _of(located_ir(made.text), "LLVM IR", "Exact: each instruction by its statement.")
    )
    note = (
        "By debug locations that LLVM's passes carry: an instruction that stands for several "
        "statements has the place of one of them, or none."
    )
    kernel.codes.append(_of(located_assembly(assembly), "Assembly", note))


def _of(located: Located, title: str, note: str) -> Code:
    return Code(title, located.lines, located.places, note)


def _add_device(kernel: Kernel, func: PrimFunc, target: Target) -> None:
    """Kernels of a GPU: passes of the device, then source and, of CUDA, assembly."""
    for one in DEVICE_PASSES:
        after = deep_call(one, func, target)
        _add_pass(kernel, one.__name__, func, after)
        func = after
    program = deep_call(split_host_device, func)
    kernel.passes.append(("split_host_device", str(IRModule(program.kernels))))
    for name, part in program.kernels.items():
        ready = prepare_kernel(part, target)
        places = _loops(kernel, ready)
        with marking(places):
            source, lines = split_marks(generate({name: ready}, target))
        title = _LANGUAGES[target.kind.name]
        note = "Exact: each line by the statement that wrote it."
        kernel.codes.append(Code(title, source.split("\n"), lines, note))
        if target.kind.name == "cuda":
            _add_sass(kernel, name, source, lines, target)


def _add_sass(kernel: Kernel, name: str, source: str, lines: Sequence[int], target: Target) -> None:
    arch = str(target.attrs.get("arch", "") or _CUDA_ARCH)
    try:
        cubin, log = nvrtc.compile_cuda(source, arch, "cubin", options=["--generate-line-info"])
        usage = nvrtc.resource_usage(cubin, log)[name]
        for title, value in (
            ("registers a thread", usage.registers),
            ("static shared memory, bytes", usage.shared),
            ("stack, bytes a thread", usage.stack),
            ("spilled, bytes a thread", usage.spill_stores + usage.spill_loads),
        ):
            kernel.figures[f"{name}: {title}" if name != kernel.name else title] = str(value)
        text = nvrtc.disassemble(cubin, lines=True)
    except (TargetError, CompileError) as error:
        kernel.codes.append(Code(f"SASS ({arch})", (), (), f"No assembly: {error}"))
        return
    note = (
        "By the compiler's line information: an instruction that was moved or merged has one of "
        "its lines."
    )
    kernel.codes.append(_sass(text, lines, f"SASS ({arch})", note))


def _sass(text: str, source: Sequence[int], title: str, note: str) -> Code:
    kept: list[str] = []
    places: list[int] = []
    place = 0
    for line in text.rstrip("\n").split("\n"):
        found = _SOURCE_LINE.match(line)
        if found is not None:
            at = int(found[1])
            place = source[at - 1] if at <= len(source) else 0
            continue
        code = line.lstrip().startswith("/*")
        kept.append(re.sub(r"^\s+(/\*\w+\*/)\s+", r"\1  ", line) if code else line)
        places.append(place if code else 0)
    return Code(title, kept, places, note)
