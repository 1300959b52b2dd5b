"""Statements, functions and modules as TVMScript-style text: the one normal form for printing.

`script(node)` is what `str(node)` gives. Consecutive serial loops from zero print as one
`T.grid`; a statement that holds for the rest of its block (`T.allocate`, `T.launch_thread`, a let)
prints without `with`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ..base.deep import deep_call
from . import expr
from .buffer import Buffer
from .expr import SizeVar, Var, is_const
from .iter import IterVar
from .module import IRModule
from .operators import constants_last
from .print_buffer import BufferPrinter, fresh, is_default, is_plain
from .print_expr import quote, range_end
from .print_realize import STATEMENTS
from .print_scopes import place_buffers
from .stmt import (
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
    Prefetch,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)
from .visit import uses_var

_INDENT = "    "
_TIR_HEAD = "# from tvm.script import tir as T\n"
_IR_HEAD = "# from tvm.script import ir as I\n"


class Printer(BufferPrinter):
    """Prints one statement, function or module; `marks` puts comments beside statements."""

    recursive = ("block",)

    statements: ClassVar[dict[type, Callable[[Any, Any, bool], None]]] = {}

    def __init__(self, marks: Mapping[Any, str]) -> None:
        super().__init__()
        self.marks = {id(s): text for s, text in marks.items()}
        self.places: dict[int, list[Buffer]] = {}

    def end(self, *of: Stmt) -> None:
        notes = [self.marks[id(s)] for s in of if id(s) in self.marks]
        self.out.append(f"  # <-- {'; '.join(notes)}\n" if notes else "\n")

    # -- blocks

    def body(self, s: Stmt) -> None:
        """Print an indented block."""
        pad, mark = self.pad, self.names.mark()
        self.pad += _INDENT
        self.block(s, True)
        self.pad = pad
        self.names.release(mark)

    def block(self, s: Stmt, last: bool) -> None:
        """Print a statement; `last` says that its block ends with it."""
        if isinstance(s, SeqStmt):
            if not s.seq:
                self.begin("T.evaluate(0)")
                self.end(s)
            for n, x in enumerate(s.seq):
                if n == 0 and id(s) in self.marks:
                    self.marks.setdefault(id(x), self.marks[id(s)])
                self.block(x, last and n == len(s.seq) - 1)
            return
        for buffer in self.places.get(id(s), ()):
            self.declare(buffer)
        self.statements[type(s)](self, s, last)

    def rest(self, s: Any, name: str | None, last: bool, at: int) -> None:
        """End the line begun at `out[at]`, of a statement that holds for `s.body`, and print that.

        Where the block goes on afterwards, `with ... as name:` shows where it ends.
        """
        if last:
            self.end(s)
            self.block(s.body, True)
            return
        text = "".join(self.out[at:])
        del self.out[at:]
        suffix = f" as {name}:" if name else ":"
        self.out.append(f"{self.pad}with {text}{suffix}")
        self.end(s)
        self.body(s.body)

    def scoped(self, s: Any, text: Callable[[], None], var: Any, hint: str, last: bool) -> None:
        """Print `name = text` or `with text as name:`, then the body."""
        mark, at = self.names.mark(), len(self.out)
        text()
        tokens = self.out[at:]
        del self.out[at:]
        name = self.names.define(var, hint)
        if last:
            self.begin(f"{name} = ")
        self.out.extend(tokens)
        self.rest(s, name, last, at)
        if not last:
            self.names.release(mark)

    # -- statements

    def _for(self, s: For, last: bool) -> None:
        grid = self._grid(s)
        mark = self.names.mark()
        at = len(self.out)
        if len(grid) > 1:
            self.call("T.grid", *[loop.extent for loop in grid])
        else:
            self._range_of(s)
        text = self.out[at:]
        del self.out[at:]
        names = [self.names.define(loop.loop_var, loop.loop_var.name) for loop in grid]
        self.begin(f"for {', '.join(names)} in ")
        self.out.extend(text)
        self.out.append(":")
        self.end(*grid)
        self.body(grid[-1].body)
        self.names.release(mark)

    def _grid(self, s: For) -> list[For]:
        """`s` and the loops directly in it that print on one line."""
        loops: list[For] = []
        variables: set[Var] = set()
        loop: Any = s
        while (
            type(loop) is For
            and loop.kind == ForKind.SERIAL
            and is_const(loop.min, 0)
            and not loop.annotations
            and (loop is s or id(loop) not in self.places)
            and not uses_var(loop.extent, variables.__contains__)
        ):
            loops.append(loop)
            variables.add(loop.loop_var)
            loop = loop.body
        return loops or [s]

    def _range_of(self, s: For) -> None:
        plain = s.kind == ForKind.SERIAL and not s.annotations
        self.out.append("range(" if plain else f"T.{FOR_KINDS[s.kind]}(")
        if is_const(s.min, 0):
            self.expr(s.extent)
        else:
            self.exprs((s.min, range_end(s.min, s.extent)))
        if s.kind == ForKind.THREAD_BINDING and s.thread_binding is not None:
            self.out.append(f", thread={quote(s.thread_binding.thread_tag)}")
        self._annotations(s.annotations)
        self.out.append(")")

    def _annotations(self, annotations: Mapping[str, Any]) -> None:
        if annotations:
            self.out.append(", annotations=")
            self.mapping(annotations)

    def _while(self, s: While, last: bool) -> None:
        self.begin("while ")
        self.expr(s.condition)
        self.out.append(":")
        self.end(s)
        self.body(s.body)

    def _let_stmt(self, s: LetStmt, last: bool) -> None:
        if not last:
            self.scoped(s, lambda: self.call("T.LetStmt", s.value), s.var, s.var.name, False)
            return
        at = len(self.out)
        self.expr(s.value)
        value = self.out[at:]
        del self.out[at:]
        name = self.names.define(s.var, s.var.name)
        self.begin(f"{name}: T.{s.var.dtype} = ")
        self.out.extend(value)
        self.end(s)
        self.block(s.body, True)

    def _attr(self, s: AttrStmt, last: bool) -> None:
        node, at = s.node, len(self.out)
        if isinstance(node, IterVar) and _launches(node, s.attr_key):
            known = self.names.get(node.var)
            tag = quote(node.thread_tag)
            if known is None and node.var.dtype == s.value.dtype:

                def launch() -> None:
                    self.out.append(f"T.launch_thread({tag}, ")
                    self.expr(s.value)
                    self.out.append(")")

                self.scoped(s, launch, node.var, node.var.name, last)
                return
            if known is None:  # a type of its own
                known = self.names.define(node.var, node.var.name)
                kind = "" if node.var.dtype == "int32" else f", {quote(node.var.dtype)}"
                self.begin(f"{known} = T.env_thread({tag}{kind})\n")
                at = len(self.out)
            self._head(last, f"T.launch_thread({known}, ")
        else:
            if isinstance(node, IterVar) and self.names.get(node.var) is None:
                self.begin(f"{self.names.define(node.var, node.var.name)} = {fresh(node.var)}\n")
                at = len(self.out)
            self._head(last, "T.attr(")
            self.any(node)
            self.out.append(f", {quote(s.attr_key)}, ")
        self.expr(s.value)
        self.out.append(")")
        self.rest(s, None, last, at)

    def _head(self, last: bool, text: str) -> None:
        self.out.append((self.pad if last else "") + text)

    def _assert(self, s: AssertStmt, last: bool) -> None:
        at = len(self.out)
        self._head(last, "assert " if last else "T.Assert(")
        self.exprs((s.condition, s.message))
        self.out.append("" if last else ")")
        self.rest(s, None, last, at)

    def _if(self, s: IfThenElse, last: bool) -> None:
        self.begin("if ")
        self.expr(s.condition)
        self.out.append(":")
        self.end(s)
        self.body(s.then_case)
        if s.else_case is not None:
            self.begin("else:\n")
            self.body(s.else_case)

    def _store(self, s: BufferStore, last: bool) -> None:
        self.begin("")
        if s.predicate is None:
            self.access(s.buffer, s.indices)
            self.out.append(" = ")
            self.expr(s.value)
        else:
            self.out.append(f"{self.buffer_name(s.buffer)}.vstore([")
            self.exprs(s.indices)
            self.out.append("], ")
            self.expr(s.value)
            self.out.append(", predicate=")
            self.expr(s.predicate)
            self.out.append(")")
        self.end(s)

    def _allocate(self, s: Allocate, last: bool) -> None:
        b = s.buffer
        if not (is_default(b) or s.annotations):
            self.view(s, "T.alloc_buffer(", None, last)
            return

        def text() -> None:
            self.out.append("T.allocate([")
            viewed = any(v is b for at in self.places.values() for v in at)
            self.exprs([constants_last(d) for d in b.shape] if viewed else b.shape)
            self.out.append(f'], "{b.dtype}", "{b.scope_name}"')
            self._annotations(s.annotations)
            self.out.append(")")

        self.scoped(s, text, b.data, b.data.name, last)

    def view(self, s: Any, head: str, data: str | None, last: bool) -> None:
        """Print a statement that says all of `s.buffer`, then its body."""
        mark, at = self.names.mark(), len(self.out)
        name = self.names.define(s.buffer, s.buffer.name)
        if last:
            self.begin(f"{name} = ")
        self.out.append(head)
        self.buffer_args(s.buffer, name, data)
        self.out.append(")")
        self.rest(s, name, last, at)
        if not last:
            self.names.release(mark)

    def _evaluate(self, s: Evaluate, last: bool) -> None:
        self.begin("")
        if type(s.value) is expr.Call:
            self.expr(s.value)
        else:
            self.call("T.evaluate", s.value)
        self.end(s)

    def _prefetch(self, s: Prefetch, last: bool) -> None:
        self.begin(f"T.prefetch({self.buffer_name(s.buffer)}, ")
        self.any(s.bounds)
        self.out.append(")")
        self.end(s)

    # -- functions

    def function(self, f: PrimFunc, name: str) -> None:
        """Print a function at the present indentation."""
        mark, pad = self.names.mark(), self.pad
        private = "" if "global_symbol" in f.attrs else "(private=True)"
        self.begin(f"@T.prim_func{private}\n")
        self.begin(f"def {name}(")
        later: list[tuple[str, Buffer]] = []
        for n, p in enumerate(f.params):
            self.out.append(", " if n else "")
            self._param(p, f.buffer_map.get(p), later)
        self.out.append("):\n")
        self.pad += _INDENT
        if f.attrs:
            self.begin("T.func_attr(")
            self.mapping(f.attrs)
            self.out.append(")\n")
        self.places = place_buffers(f.body, f.buffer_map.values())
        self.sizes([b for _, b in later], f.body, [b for at in self.places.values() for b in at])
        for handle, b in later:
            buffer = self.names.define(b, b.name)
            self.begin(f"{buffer} = T.match_buffer({handle}, ")
            self.buffer_args(b, buffer, None)
            self.out.append(")\n")
        self.block(f.body, True)
        self.pad = pad
        self.names.release(mark)

    def _param(self, p: Var, b: Buffer | None, later: list[tuple[str, Buffer]]) -> None:
        if b is None or not is_plain(b) or self.names.get(b) is not None:
            name = self.names.define(p, p.name)
            kind = fresh(p) if type(p) is SizeVar else f"T.{p.dtype}"
            self.out.append(f"{name}: {kind}")
            if b is not None:
                later.append((name, b))
            return
        name = self.names.define(b, b.name)
        self.names.alias(p, name)
        self.names.alias(b.data, f"{name}.data")
        self.out.append(f"{name}: T.Buffer((")
        self.exprs(b.shape)
        self.out.append(f'{",)" if len(b.shape) == 1 else ")"}, "{b.dtype}")')

    def module(self, m: IRModule) -> None:
        self.out.append(f"{_IR_HEAD}{_TIR_HEAD}\n@I.ir_module\nclass Module:\n")
        self.pad = _INDENT
        if m.attrs:
            self.begin("I.module_attrs(")
            self.mapping(m.attrs)
            self.out.append(")\n")
        if not m.functions and not m.attrs:
            self.begin("pass\n")
        for n, name in enumerate(sorted(m.functions)):
            self.out.append("\n" if n or m.attrs else "")
            self.function(m.functions[name], name)


def _launches(thread: IterVar, key: str) -> bool:
    """Whether `T.launch_thread` of the thread's tag says all of an attribute."""
    virtual = thread.thread_tag.startswith(("vthread", "cthread"))
    wanted = "virtual_thread" if virtual else "thread_extent"
    return key == wanted and bool(thread.thread_tag) and thread.iter_type == IterVar.ThreadIndex


def _script(node: Any, marks: Mapping[Any, str]) -> str:
    printer = Printer(marks)
    if isinstance(node, IRModule):
        printer.module(node)
    elif isinstance(node, PrimFunc):
        printer.out.append(_TIR_HEAD + "\n")
        printer.function(node, node.name)
    elif isinstance(node, Stmt):
        printer.places = place_buffers(node, ())
        printer.block(node, True)
    else:
        printer.any(node)
    return "".join(printer.out).rstrip("\n")


def script(node: Any, marks: Mapping[Any, str] | None = None) -> str:
    """The text of an expression, statement, function or module.

    `marks` maps statements to comments that appear beside them as `# <-- comment`, for error
    messages. Takes time linear in the length of the text.
    """
    return deep_call(_script, node, marks or {})


Printer.statements.update(
    {
        For: Printer._for,
        While: Printer._while,
        LetStmt: Printer._let_stmt,
        AttrStmt: Printer._attr,
        AssertStmt: Printer._assert,
        IfThenElse: Printer._if,
        BufferStore: Printer._store,
        Allocate: Printer._allocate,
        Evaluate: Printer._evaluate,
        Prefetch: Printer._prefetch,
        **STATEMENTS,
    }
)
expr.set_printer(script)
