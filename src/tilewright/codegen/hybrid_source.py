"""Loop IR as the text of a hybrid script (te.hybrid): Python that runs on NumPy arrays, and that
`te.hybrid.script` reads again."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.deep import Recursive, deep_call
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.iter import THREAD_KEYS
from ..loopir.signs import IN_PYTHON
from ..loopir.stmt import (
    FOR_KINDS,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    is_no_op,
)

_LOOPS: dict[int, str] = {
    ForKind.SERIAL: "range",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorize",
    ForKind.UNROLLED: "unroll",
}
_CALLS = ("sqrt", "rsqrt", "log", "tanh", "power", "exp", "sigmoid", "popcount", "round", "likely")


class _Writer(Recursive):
    recursive = ("statement", "text")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pad = 1
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()

    def name(self, key: Any, hint: str) -> str:
        """The name of a variable or buffer, made when first asked for."""
        found = self.names.get(key)
        if found is None:
            plain = re.sub(r"\W", "_", hint) or "x"
            plain = f"{plain}_" if keyword.iskeyword(plain) or plain[0].isdigit() else plain
            found, n = plain, 0
            while found in self.taken:
                n += 1
                found = f"{plain}_{n}"
            self.taken.add(found)
            self.names[key] = found
        return found

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.pad}{text}")

    def block(self, s: Stmt) -> None:
        self.pad += 1
        before = len(self.lines)
        self.statement(s)
        if len(self.lines) == before:
            self.line("pass")
        self.pad -= 1

    # -- statements

    def statement(self, s: Stmt) -> None:
        rule = self.statements.get(type(s))
        if rule is None:
            raise CompileError(f"a hybrid script has no {type(s).__name__}: {s}")
        rule(self, s)

    def _seq(self, s: SeqStmt) -> None:
        for x in s.seq:
            self.statement(x)

    def _for(self, s: For) -> None:
        if s.kind not in _LOOPS:
            raise CompileError(f"a hybrid script has no {FOR_KINDS[s.kind]} loops")
        head = f"{_LOOPS[s.kind]}({self.text(s.extent)})"
        if not E.is_const(s.min, 0):
            head = f"{_LOOPS[s.kind]}({self.text(s.min)}, {self.text(s.min + s.extent)})"
        self.line(f"for {self.name(s.loop_var, s.loop_var.name)} in {head}:")
        self.block(s.body)

    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key not in THREAD_KEYS:
            self.statement(s.body)
            return
        tag = s.node.thread_tag
        self.line(
            f'for {self.name(s.node.var, s.node.var.name)} in bind("{tag}", {self.text(s.value)}):'
        )
        self.block(s.body)

    def _if(self, s: IfThenElse) -> None:
        self.line(f"if {self.text(s.condition)}:")
        self.block(s.then_case)
        if s.else_case is not None:
            self.line("else:")
            self.block(s.else_case)

    def _let(self, s: LetStmt) -> None:
        self.line(f"{self.name(s.var, s.var.name)} = {self.text(s.value)}")
        self.statement(s.body)

    def _assert(self, s: AssertStmt) -> None:
        self.line(f"assert {self.text(s.condition)}, {getattr(s.message, 'value', '')!r}")
        self.statement(s.body)

    def _store(self, s: BufferStore) -> None:
        if s.predicate is not None:
            raise CompileError("a hybrid script has no stores under a mask")
        self.line(f"{self.element(s)} = {self.text(s.value)}")

    def _allocate(self, s: Allocate) -> None:
        b = s.buffer
        scope = b.scope_name
        self.line(
            f'{self.name(b.data, b.name)} = allocate({self.shape(b)}, "{b.dtype}", "{scope}")'
        )
        self.statement(s.body)

    def _evaluate(self, s: Evaluate) -> None:
        if not is_no_op(s):
            raise CompileError(f"a hybrid script has no call for its effect: {s}")

    # -- expressions

    def shape(self, b: Buffer) -> str:
        return f"({', '.join(map(self.text, b.shape))},)"

    def element(self, access: Any) -> str:
        indices = ", ".join(map(self.text, access.indices)) or "()"
        return f"{self.name(access.buffer.data, access.buffer.name)}[{indices}]"

    def text(self, e: Any) -> str:
        rule = self.expressions.get(type(e))
        if rule is None:
            raise CompileError(f"a hybrid script has no {type(e).__name__}: {e}")
        found: str = rule(self, e)
        return found

    def _pair(self, e: Any) -> str:
        return f"({self.text(e.a)} {IN_PYTHON[type(e)]} {self.text(e.b)})"

    def _extreme(self, e: Any) -> str:
        return f"{type(e).__name__.lower()}({self.text(e.a)}, {self.text(e.b)})"

    def _not(self, e: E.Not) -> str:
        return f"(not {self.text(e.a)})"

    def _var(self, e: E.Var) -> str:
        return self.name(e, e.name)

    def _int(self, e: E.IntImm) -> str:
        return str(bool(e.value)) if e.dtype == "bool" else str(e.value)

    def _float(self, e: E.FloatImm) -> str:
        text = repr(e.number)
        return text if e.dtype == "float32" else f"{e.dtype}({text})"

    def _cast(self, e: E.Cast) -> str:
        return f"{e.dtype}({self.text(e.value)})"

    def _choice(self, e: Any) -> str:
        condition, a, b = (
            e.args if isinstance(e, E.Call) else (e.condition, e.true_value, e.false_value)
        )
        return f"({self.text(a)} if {self.text(condition)} else {self.text(b)})"

    def _call(self, e: E.Call) -> str:
        name = e.op.name.removeprefix("tir.")
        if name == "if_then_else":
            return self._choice(e)
        if name not in _CALLS:
            raise CompileError(f"a hybrid script has no function {name}")
        return f"{name}({', '.join(map(self.text, e.args))})"

    statements: Mapping[type, Callable[..., None]] = {
        SeqStmt: _seq,
        For: _for,
        AttrStmt: _attr,
        IfThenElse: _if,
        LetStmt: _let,
        AssertStmt: _assert,
        BufferStore: _store,
        Allocate: _allocate,
        Evaluate: _evaluate,
    }
    expressions: Mapping[type, Callable[..., str]] = {
        **dict.fromkeys(IN_PYTHON, _pair),
        E.Min: _extreme,
        E.Max: _extreme,
        E.Not: _not,
        E.Var: _var,
        E.SizeVar: _var,
        E.IntImm: _int,
        E.FloatImm: _float,
        E.Cast: _cast,
        E.Select: _choice,
        E.Call: _call,
        E.BufferLoad: element,
    }


def print_hybrid(
    body: Stmt, inputs: Sequence[E.Var | Buffer], outputs: Sequence[Buffer], name: str
) -> str:
    """The source of a function of `inputs` that runs `body` and returns `outputs`; CompileError
    for what a script cannot say: masks, calls for their effect, most intrinsics."""
    writer = _Writer()
    writer.taken.update(("range", "output_tensor", "allocate", "bind", name, *_LOOPS.values()))
    params = [
        writer.name(x.data, x.name) if isinstance(x, Buffer) else writer.name(x, x.name)
        for x in inputs
    ]
    for b in outputs:
        writer.line(
            f'{writer.name(b.data, b.name)} = output_tensor({writer.shape(b)}, "{b.dtype}")'
        )
    deep_call(writer.statement, body)
    writer.line(f"return {', '.join(writer.names[b.data] for b in outputs)}")
    return f"def {name}({', '.join(params)}):\n" + "\n".join(writer.lines) + "\n"
