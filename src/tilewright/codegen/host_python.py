"""The host part of a device function as the text of a Python function.

    def NAME(rt, stream, A, B, n, stride):
        rt.launch("NAME_kernel", ((n + 63) // 64, 1, 1), (64, 1, 1), (A, B, n, stride), stream)

Parameters behind `rt` (rt.device_module.Launcher) and `stream` are those of the function, then its
symbols, as in rt.signature. It computes grid sizes, allocates what lives between kernels and
launches them; a launch does not wait. No LLVM is needed to make or to run it.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import const, const_int
from ..loopir.hopper_calls import TENSOR_MAP, map_parts
from ..loopir.signs import BITS, IN_PYTHON
from ..loopir.visit import free_vars
from ..lowering.split_host_device import CALL_KERNEL, launch_of

_INFIX = {kind: sign for kind, sign in IN_PYTHON.items() if kind is not E.Div}
_GIVEN = ("rt", "stream", "max", "min", "int", "float", "bool", "range", "math")


@dataclass(frozen=True)
class HostCode:
    """`text` defines the function `name`; `symbols` are its parameters behind the arguments."""

    name: str
    text: str
    symbols: tuple[E.Var, ...]


def generate_host(func: S.PrimFunc, kernels: Mapping[str, S.PrimFunc]) -> HostCode:
    """The text of a host function that split_host_device made, with its kernels.

    CompileError for what a host function of a device cannot do, such as calls of C functions.
    """
    data = {p: func.buffer_map[p].data for p in func.params if p in func.buffer_map}
    given = [data.get(p, p) for p in func.params]
    known = set(given)
    symbols = tuple(v for v in free_vars(func.body) if v not in known and v.dtype != "handle")
    writer = _Writer(func.name, kernels)
    names = [writer.define(v) for v in (*given, *symbols)]
    writer.stmt(func.body)
    name = _identifier(func.name)
    head = f"def {name}({', '.join(['rt', 'stream', *names])}):"
    lines = writer.lines or ["    return"]
    return HostCode(name, "\n".join([head, *lines]) + "\n", symbols)


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    return f"_{text}" if keyword.iskeyword(text) or not text or text[0].isdigit() else text


class _Writer:
    """Writes statements, one line each."""

    def __init__(self, name: str, kernels: Mapping[str, S.PrimFunc]) -> None:
        self.name = name
        self.kernels = kernels
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[E.Var, str] = {}
        self.taken = set(_GIVEN)
        self.memory: set[E.Var] = set()

    def define(self, v: E.Var) -> str:
        base = name = _identifier(v.name)
        number = 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        self.names[v] = name
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fail(self, what: str) -> CompileError:
        return CompileError(
            f"function {self.name}: {what} cannot stand in the host part of a device function; "
            "move it into a kernel, or build that stage for 'llvm'"
        )

    # -- statements

    def stmt(self, s: Any) -> None:
        rule = _STATEMENTS.get(type(s))
        if rule is None:
            raise self.fail(f"a {type(s).__name__}")
        rule(self, s)

    def block(self, head: str, body: S.Stmt) -> None:
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        self.stmt(body)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def seq(self, s: S.SeqStmt) -> None:
        for part in s.seq:
            self.stmt(part)

    def loop(self, s: S.For) -> None:
        low, high = self.expr(s.min), self.expr(s.min + s.extent)
        self.block(f"for {self.define(s.loop_var)} in range({low}, {high}):", s.body)

    def while_(self, s: S.While) -> None:
        self.block(f"while {self.expr(s.condition)}:", s.body)

    def branch(self, s: S.IfThenElse) -> None:
        self.block(f"if {self.expr(s.condition)}:", s.then_case)
        if s.else_case is not None:
            self.block("else:", s.else_case)

    def let(self, s: S.LetStmt) -> None:
        value = self.expr(s.value)
        self.line(f"{self.define(s.var)} = {value}")
        self.stmt(s.body)

    def check(self, s: S.AssertStmt) -> None:
        message = s.message.value if isinstance(s.message, E.StringImm) else str(s.message)
        self.block(f"if not {self.expr(s.condition)}:", S.no_op())
        self.lines[-1] = "    " * (self.depth + 1) + f"raise rt.failed({message!r})"
        self.stmt(s.body)

    def attribute(self, s: S.AttrStmt) -> None:
        self.stmt(s.body)

    def allocate(self, s: S.Allocate) -> None:
        """Memory goes back to a pool in the order of the stream, so it can at once."""
        b = s.buffer
        if b.scope() != "global":
            raise CompileError(
                f"function {self.name}: memory of scope {b.scope()} ({b.name}) cannot stand in the "
                "host part of a device function: it belongs to the threads of one kernel; compute "
                f"{b.name} inside of a stage that has threads (compute_at), or give it scope "
                "global and a kernel of its own"
            )
        t = parse(b.dtype)
        size: Any = const(t.nbytes * t.lanes)
        for extent in b.shape:
            size = extent * size
        text = self.expr(size)
        name = self.define(b.data)
        self.memory.add(b.data)
        if const_int(size) is None and any(d.dtype == "int32" for d in b.shape):
            self.line(f"rt.require_narrow({b.name!r}, {text} // {t.nbytes * t.lanes})")
        self.line(f"{name} = rt.alloc({text})")
        self.line("try:")
        self.depth += 1
        self.stmt(s.body)
        self.line("pass") if self.lines[-1].endswith("try:") else None
        self.depth -= 1
        self.line("finally:")
        self.line(f"    rt.free({name})")

    def evaluate(self, s: S.Evaluate) -> None:
        call = s.value
        if type(call) is not E.Call:
            return
        if call.op.name != CALL_KERNEL:
            raise self.fail(f"a call of {call.op.name}")
        first = call.args[0]
        name = first.value if isinstance(first, E.StringImm) else str(first)
        args, extents = launch_of(call, self.kernels[name])
        texts = [self.argument(a) for a in args]
        shapes = [
            ", ".join(self.expr(extents[t]) if t in extents else "1" for t in tags)
            for tags in (
                [f"blockIdx.{d}" for d in "xyz"],
                [f"threadIdx.{d}" for d in "xyz"],
            )
        ]
        packed = f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
        self.line(f"rt.launch({name!r}, ({shapes[0]}), ({shapes[1]}), {packed}, stream)")

    def argument(self, e: Any) -> str:
        if isinstance(e, E.Call) and e.op.name == TENSOR_MAP:
            return self.tensor_map(e)
        return self.array(e) if isinstance(e, E.Var) else self.expr(e)

    def array(self, e: E.Var) -> str:
        """An argument by itself, or memory that was allocated."""
        return f"{self.names[e]}.handle" if e in self.memory else self.var(e)

    def tensor_map(self, e: E.Call) -> str:
        """Of a whole array, as the launcher makes it."""
        parts = map_parts(e)
        pointer: Any = parts.pointer
        sample, data, offset = pointer.args[:3]
        if const_int(offset) != 0:
            raise self.fail(f"a tensor map of a part of {data.name}")
        sizes = [
            "(" + "".join(f"{self.expr(n)}, " for n in given).strip() + ")"
            for given in (parts.dims, parts.strides, map(const, parts.box))
        ]
        array = self.array(data)
        pixels = "" if parts.pixels is None else f", {astuple(parts.pixels)}"
        return (
            f"rt.tensor_map({array}, {sample.dtype!r}, {', '.join(sizes)}, {parts.swizzle}{pixels})"
        )

    # -- expressions

    def expr(self, e: Any) -> str:
        rule = _EXPRESSIONS.get(type(e))
        if rule is None:
            raise self.fail(f"the expression {e}")
        return rule(self, e)

    def var(self, e: E.Var) -> str:
        name = self.names.get(e)
        if name is None:
            raise CompileError(f"function {self.name}: no argument gives the value of {e.name}")
        return name

    def infix(self, e: Any) -> str:
        return f"({self.expr(e.a)} {_INFIX[type(e)]} {self.expr(e.b)})"

    def quotient(self, e: Any) -> str:
        """Division that rounds towards zero; true division of floats."""
        a, b = self.expr(e.a), self.expr(e.b)
        if parse(e.dtype).is_float:
            return f"({a} / {b})"
        towards_zero = f"rt.truncdiv({a}, {b})"
        return towards_zero if type(e) is E.Div else f"({a} - {towards_zero} * {b})"

    def cast(self, e: E.Cast) -> str:
        t, text = parse(e.dtype), self.expr(e.value)
        if t.is_bool:
            return f"bool({text})"
        if t.is_float:
            return f"float({text})"
        return text if not parse(e.value.dtype).is_float else f"int({text})"

    def choice(self, c: Any, t: Any, f: Any) -> str:
        return f"({self.expr(t)} if {self.expr(c)} else {self.expr(f)})"

    def call(self, e: E.Call) -> str:
        name = e.op.name
        if name == "tir.likely":
            return self.expr(e.args[0])
        if name == "tir.if_then_else":
            return self.choice(*e.args)
        if name in BITS:
            return f"({self.expr(e.args[0])} {BITS[name]} {self.expr(e.args[1])})"
        raise self.fail(f"a call of {name}")


def _immediate(_: _Writer, e: Any) -> str:
    return str(bool(e.value)) if e.dtype == "bool" else repr(e.value)


def _float(_: _Writer, e: Any) -> str:
    return f"float({str(e.number)!r})"


_STATEMENTS: dict[type, Callable[[_Writer, Any], None]] = {
    S.SeqStmt: _Writer.seq,
    S.For: _Writer.loop,
    S.While: _Writer.while_,
    S.IfThenElse: _Writer.branch,
    S.LetStmt: _Writer.let,
    S.AssertStmt: _Writer.check,
    S.AttrStmt: _Writer.attribute,
    S.Allocate: _Writer.allocate,
    S.Evaluate: _Writer.evaluate,
}
_EXPRESSIONS: dict[type, Callable[[_Writer, Any], str]] = {
    **dict.fromkeys(_INFIX, _Writer.infix),
    E.Var: _Writer.var,
    E.SizeVar: _Writer.var,
    E.IntImm: _immediate,
    E.FloatImm: _float,
    E.Div: _Writer.quotient,
    E.Mod: _Writer.quotient,
    E.Min: lambda w, e: f"min({w.expr(e.a)}, {w.expr(e.b)})",
    E.Max: lambda w, e: f"max({w.expr(e.a)}, {w.expr(e.b)})",
    E.Not: lambda w, e: f"(not {w.expr(e.a)})",
    E.Cast: _Writer.cast,
    E.Select: lambda w, e: w.choice(e.condition, e.true_value, e.false_value),
    E.Call: _Writer.call,
}
