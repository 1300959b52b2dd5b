"""The text of one LLVM module: entry functions, what they call, and the module's own data.

The native ABI is that of rt/signature.py: `i32 NAME(ptr slots)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...base.deep import Recursive, deep_call
from ...base.dtype import parse
from ...base.errors import CompileError
from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.data import data_lets, unknown_divisors
from ...target.capability import architecture
from ...target.target import Target
from . import math as vector_math
from .calls import call, quoted
from .emitter import Emitter
from .expr import EXPRS
from .imports import import_text
from .index import INDEX
from .parallel import outline, used_variables
from .slots import innermost_strides, read_slots
from .stmt import STMTS
from .types import register_type, suffix
from .workspace import THREADS, give, make_plan, take_workspace


@dataclass(frozen=True)
class GeneratedFunction:
    """An entry function: `symbols` are the variables read from the slots behind the arguments, in
    order; `messages` the texts of its checks, by the code that it returns, less one."""

    name: str
    symbols: tuple[E.Var, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True)
class GeneratedModule:
    """LLVM IR text, its entry functions, and IR of the user's to link in."""

    text: str
    functions: tuple[GeneratedFunction, ...]
    imports: tuple[str, ...]


def generate(functions: Mapping[str, S.PrimFunc], target: Target) -> GeneratedModule:
    """LLVM IR of lowered functions; CompileError where a function holds what a CPU cannot run."""
    return deep_call(_generate, functions, target)


def _generate(functions: Mapping[str, S.PrimFunc], target: Target) -> GeneratedModule:
    module = ModuleBuilder(target)
    generated = [module.entry(name, func) for name, func in functions.items()]
    module.check_calls()
    return GeneratedModule(module.text(), tuple(generated), tuple(module.imports))


class ModuleBuilder(Recursive):
    """A module while it is being written."""

    expr_table = {**EXPRS, E.Call: call}
    stmt_table = STMTS
    index_table = INDEX

    def __init__(self, target: Target) -> None:
        self.target = target
        self.native_half = target.has_fp16
        self.converts_half = target.capabilities.has_fp16_convert
        self.nan_extremes = architecture(target.triple) == "aarch64"
        self.definitions: list[str] = []
        self.declarations: dict[str, None] = {}
        self.declared_c: dict[str, str] = {}
        self.globals: list[str] = []
        self.strings: dict[str, str] = {}
        self.metadata: list[str] = []
        self.notes: dict[str, str] = {}
        self.names: dict[str, int] = {}
        self.math_defined: set[str] = set()
        self.lets: set[E.Var] = set()  # variables that stand for data
        self.unknown: set[E.Var] = set()  # divisors that may be zero
        self.imports: dict[str, None] = {}
        self.imported: dict[str, str] = {}
        self.called_c: dict[str, dict[str, None]] = {}
        self.pointer_notes: dict[E.Var, str] = {}
        self.messages: dict[str, int] = {}

    # -- parts of the text

    def add(self, definition: str) -> None:
        self.definitions.append(definition)

    def declare(self, line: str) -> None:
        self.declarations[line] = None

    def declare_unary(self, name: str, element: str, lanes: int) -> None:
        """Declare an intrinsic from a float type to itself."""
        dtype = parse(element).with_lanes(lanes)
        kind = register_type(dtype, self.native_half)
        self.declare(f"declare {kind} @{name}.{suffix(dtype)}({kind})")

    def declare_c(self, name: str, result: str, types: str, pure: bool) -> None:
        """Declare a C function; the first declaration of a name stays."""
        kind, _, note = result.partition(" ")
        plain = f"{kind} ({types.replace(' signext', '').replace(' zeroext', '')})"
        self.called_c.setdefault(name, {})[plain] = None
        note = f"{note} " if note else ""
        attributes = " nounwind willreturn memory(none)" if pure else ""
        line = f"declare {note}{kind} @{quoted(name)}({types}){attributes}"
        if self.declared_c.setdefault(name, line) == line:
            self.declare(line)

    def unique(self, name: str) -> str:
        """A name that no other function of the module has."""
        number = self.names.get(name, 0)
        self.names[name] = number + 1
        return f"{name}{number}" if number else name

    def string(self, text: str) -> str:
        """A C string."""
        known = self.strings.get(text)
        if known is None:
            known = self.strings[text] = f"@.text{len(self.strings)}"
            data = text.encode() + b"\0"
            body = "".join(
                chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data
            )
            self.globals.append(
                f'{known} = private unnamed_addr constant [{len(data)} x i8] c"{body}"'
            )
        return known

    def zeros(self, count: int) -> str:
        """So many bytes of zeros, to read from."""
        name = f"@zeros{count}"
        text = f"{name} = private unnamed_addr global [{count} x i8] zeroinitializer, align {count}"
        if text not in self.globals:
            self.globals.append(text)
        return name

    def message(self, text: str) -> int:
        """The number of a message of the present function."""
        return self.messages.setdefault(text, len(self.messages))

    def math(self, name: str, dtype: str) -> str:
        """The name of a vector math function, which becomes part of the module."""
        function = vector_math.function_name(name, dtype)
        if function not in self.math_defined:
            self.math_defined.add(function)
            text, lines = vector_math.definition(name, dtype, self.target.has_fma)
            self.definitions.append(text)
            for line in sorted(lines):
                self.declare(line)
        return function

    def import_code(self, key: str, value: Any) -> None:
        """Add LLVM IR or C source that the user brings along."""
        if not isinstance(value, E.StringImm):
            raise CompileError(f"{key} takes text")
        checked = import_text(key, value.value, self.target)
        self.imports.pop(checked.text, None)  # of several definitions the last one counts
        self.imports[checked.text] = None
        self.imported.update(checked.defined)

    def check_calls(self) -> None:
        """CompileError where imported functions are not what they are called as."""
        for name, calls in self.called_c.items():
            defined = self.imported.get(name)
            for wanted in calls:
                if defined is not None and defined != wanted:
                    raise CompileError(
                        f"{name} is called as {wanted}, but the imported code has {defined}"
                    )

    def _meta(self, text: str) -> str:
        self.metadata.append(text)
        return f"!{len(self.metadata) - 1}"

    def weights(self, which: str) -> str:
        """A note on a branch: its first side is taken nearly always."""
        note = self.notes.get(which)
        if note is None:
            node = self._meta('!{!"branch_weights", i32 2000, i32 1}')
            note = self.notes[which] = f", !prof {node}"
        return note

    def loop_note(self, s: S.For) -> str:
        """A note on a loop's last branch."""
        if s.kind != S.ForKind.UNROLLED:
            return ""
        full = self.notes.get("full")
        if full is None:
            full = self.notes["full"] = self._meta('!{!"llvm.loop.unroll.full"}')
        own = f"!{len(self.metadata)}"
        return f", !llvm.loop {self._meta(f'distinct !{{{own}, {full}}}')}"

    def text(self) -> str:
        width = self.target.vector_bytes * 8
        wide = f' "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
        aligned = max(16, self.target.vector_bytes)  # what is spilled lies in one line of the cache
        attributes = f"attributes #0 = {{ nounwind alignstack={aligned}{wide} }}"
        parts = [
            f'target triple = "{self.target.triple}"',
            *self.globals,
            *self.declarations,
            *self.definitions,
            attributes,
            *(f"!{i} = {text}" for i, text in enumerate(self.metadata)),
        ]
        return "\n".join(parts) + "\n"

    # -- functions

    def entry(self, name: str, func: S.PrimFunc) -> GeneratedFunction:
        """Write a function: an entry that unpacks the slots, and the body behind it."""
        self.messages = {}
        self.pointer_notes = {}
        self.lets = data_lets(func.body)
        self.unknown = unknown_divisors(func)
        self.names.setdefault(name, 1)
        f = self.emitter(name)
        symbols = read_slots(f, func)
        plan = make_plan(func.body, {*f.env, *f.wide})
        f.workspace = plan
        if plan.has_parallel:
            self.declarations["@tw_num_threads = external global i32"] = None
            count = f.effect("load i32, ptr @tw_num_threads")
            self.declare("declare i32 @llvm.smax.i32(i32, i32)")
            f.env[THREADS] = f.op(f"call i32 @llvm.smax.i32(i32 {count}, i32 1)")
        block = take_workspace(f, plan)
        for data in plan.serial:
            self.pointer_notes[data] = " noalias align 64"
        extra = [v for v in (*f.env, *f.wide) if v not in func.params and v not in symbols]
        inner = [*used_variables(f, func.body), *extra]
        steps = [v for v in innermost_strides(func) if v in inner]
        code = self._call_body(f, func, "body", inner)
        if steps:
            code = self._call_compact(f, func, inner, steps, code)
        else:
            code = f.effect(code)
        if block:
            give(f, block, plan.bytes, code)
        f.line(f"ret i32 {code}")
        self.add(f.text(f"i32 @{quoted(name)}(ptr noalias %slots)", "#0"))
        return GeneratedFunction(name, tuple(symbols), tuple(self.messages))

    def emitter(self, name: str) -> Emitter:
        """An emitter for an entry function."""
        return Emitter(self, name)

    def _call_body(self, f: Emitter, func: S.PrimFunc, suffix: str, inner: list[E.Var]) -> str:
        """Write the body as a function of its own; returns the text of its call."""
        name = quoted(f"{f.name}.{suffix}")
        child, params, args = outline(f, f"{f.name}.{suffix}", inner)
        child.stmt(func.body)
        child.line("ret i32 0")
        self.add(child.text(f"internal i32 @{name}({', '.join(params)})", "noinline #0"))
        return f"call i32 @{name}({', '.join(args)})"

    def _call_compact(
        self, f: Emitter, func: S.PrimFunc, inner: list[E.Var], steps: list[E.Var], general: str
    ) -> str:
        """Call a second body where the last stride of every array is 1, which vectors thrive on."""
        tests = [f.op(f"icmp eq i64 {f.wide[v]}, 1") for v in steps]
        compact = tests[0]
        for test in tests[1:]:
            compact = f.op(f"and i1 {compact}, {test}")
        kept = {v: f.wide[v] for v in steps}
        f.wide.update(dict.fromkeys(steps, "1"))
        special = self._call_body(f, func, "compact", inner)
        f.wide.update(kept)
        yes, no, after = f.label("compact"), f.label("general"), f.label("called")
        f.branch_if(compact, yes, no)
        f.block(yes)
        first = f.effect(special)
        f.branch(after)
        f.block(no)
        second = f.effect(general)
        f.branch(after)
        f.block(after)
        return f.effect(f"phi i32 [ {first}, %{yes} ], [ {second}, %{no} ]")
