"""The text of one LLVM module: entry functions, what they call, and the module's own data.

The native ABI is that of rt/signature.py: `i32 NAME(ptr slots)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...base.deep import deep_call
from ...base.dtype import parse
from ...base.errors import CompileError, InternalError
from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.buffer import Buffer
from ...target.capability import architecture
from ...target.target import Target
from . import convert
from . import math as vector_math
from .calls import call, quoted
from .emitter import Emitter
from .expr import EXPRS
from .imports import import_text
from .parallel import outline, used_variables
from .stmt import STMTS
from .types import register_type, suffix
from .workspace import THREADS, give_back, make_plan, take_workspace


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
    return GeneratedModule(module.text(), tuple(generated), tuple(module.imports))


class ModuleBuilder:
    """A module while it is being written."""

    expr_table = {**EXPRS, E.Call: call}
    stmt_table = STMTS

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
        self.imports: dict[str, None] = {}
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

    def message(self, text: str) -> int:
        """The number of a message of the present function."""
        return self.messages.setdefault(text, len(self.messages))

    def math(self, name: str, dtype: str) -> str:
        """The name of a vector math function, which becomes part of the module."""
        function = vector_math.function_name(name, dtype)
        if function not in self.math_defined:
            self.math_defined.add(function)
            text, lines = vector_math.definition(name, dtype)
            self.definitions.append(text)
            for line in sorted(lines):
                self.declare(line)
        return function

    def import_code(self, key: str, value: Any) -> None:
        """Add LLVM IR or C source that the user brings along."""
        if not isinstance(value, E.StringImm):
            raise CompileError(f"{key} takes text")
        self.imports[import_text(key, value.value, self.target)] = None

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
        attributes = f"attributes #0 = {{ nounwind{wide} }}"
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
        self.names.setdefault(name, 1)
        f = Emitter(self, name)
        symbols = self._read_slots(f, func)
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
        child, params, args = outline(f, f"{name}.body", inner)
        child.stmt(func.body)
        child.line("ret i32 0")
        self.add(
            child.text(
                f"internal i32 @{quoted(name + '.body')}({', '.join(params)})", "noinline #0"
            )
        )
        code = f.effect(f"call i32 @{quoted(name + '.body')}({', '.join(args)})")
        if block:
            give_back(f, block)
        f.line(f"ret i32 {code}")
        self.add(f.text(f"i32 @{quoted(name)}(ptr noalias %slots)", "#0"))
        return GeneratedFunction(name, tuple(symbols), tuple(self.messages))

    def _read_slots(self, f: Emitter, func: S.PrimFunc) -> list[E.Var]:
        """Give parameters and symbols their values; returns the symbols."""
        noalias = " noalias" if func.attrs.get("tir.noalias") else ""
        for i, param in enumerate(func.params):
            buffer = func.buffer_map.get(param)
            if buffer is None:
                self._read_scalar(f, param, i)
                continue
            f.env[buffer.data] = _slot(f, "ptr", i)
            f.env[param] = f.env[buffer.data]
            f.align[buffer.data] = parse(buffer.dtype).nbytes
            self.pointer_notes[buffer.data] = noalias + _extent_note(buffer)
        symbols = symbols_of(func)
        for i, symbol in enumerate(symbols):
            value = _slot(f, "i64", len(func.params) + i)
            f.wide[symbol] = value
        return symbols

    def _read_scalar(self, f: Emitter, param: E.Var, slot: int) -> None:
        t = parse(param.dtype)
        if t.lanes != 1:
            raise CompileError(f"parameter {param.name} is a vector; pass an array")
        if t.is_handle:
            f.env[param] = _slot(f, "ptr", slot)
        elif t.is_float:
            f.env[param] = convert.cast(f, _slot(f, "double", slot), parse("float64"), t)
        elif t.is_bool:
            f.env[param] = f.op(f"icmp ne i64 {_slot(f, 'i64', slot)}, 0")
        elif t.is_int and t.bits >= 32:
            f.wide[param] = _slot(f, "i64", slot)
        else:
            f.env[param] = convert.cast(f, _slot(f, "i64", slot), parse("int64"), t)


def _slot(f: Emitter, kind: str, number: int) -> str:
    at = f.op(f"getelementptr inbounds i64, ptr %slots, i64 {number}") if number else "%slots"
    return f.effect(f"load {kind}, ptr {at}, align 8")


def _extent_note(buffer: Buffer) -> str:
    """What is known of an argument's memory: its alignment, and the bytes that may be read."""
    t = parse(buffer.dtype)
    size = t.nbytes * t.lanes
    note = f" align {t.nbytes}"
    if buffer.strides or not all(isinstance(d, E.IntImm) for d in buffer.shape):
        return note
    for extent in buffer.shape:
        size *= int(extent)  # type: ignore[call-overload]
    return f"{note} dereferenceable({size})" if size > 0 else note


def symbols_of(func: S.PrimFunc) -> list[E.Var]:
    """Variables whose values come from arrays' shapes and strides, in the order of their slots:
    of first appearance over the parameters, of each its shape, then its strides."""
    found: dict[E.Var, None] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            for dim in (*buffer.shape, *buffer.strides):
                if isinstance(dim, E.Var) and dim not in func.params:
                    found.setdefault(dim)
    for dim in found:
        if not parse(dim.dtype).is_integer:
            raise InternalError(f"dimension {dim.name} has type {dim.dtype}")
    return list(found)
