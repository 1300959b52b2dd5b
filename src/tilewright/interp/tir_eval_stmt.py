"""Statements and functions of the loop IR as Python source text; see tir_eval_text.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.data import is_data
from ..loopir.expr import const_int
from ..loopir.iter import IterVar
from ..loopir.visit import free_vars, nodes
from .tir_eval_calls import CallCode
from .tir_eval_text import Line, Text

_MAX_LOOPS = 16  # of Python's 20 nested blocks in one function
_MAX_PAD = 90  # of Python's 100 levels of indentation


class FunctionCode(CallCode):
    """Writes one function: `run(_extern, argument, ...)`.

    An array argument comes as (flat memory, shape, strides in elements), a scalar as its value.
    """

    recursive = ("stmt",)

    statements: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {}

    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__()
        self.func = func
        self.loops = 0
        self.elements: dict[E.Var, dict[str, None]] = {}
        for node in nodes(func.body):
            if isinstance(node, (E.BufferLoad, S.BufferStore, S.Allocate)):
                b = node.buffer
                self.elements.setdefault(b.data, {})[parse(b.dtype).element] = None

    def write(self) -> None:
        """Write the whole function."""
        arguments = []
        for p in self.func.params:
            name = self.fresh(p.name)
            arguments.append(name)
            self.parameter(p, name)
        for p, name in zip(self.func.params, arguments):
            if p in self.func.buffer_map:
                self.sizes(self.func.buffer_map[p], name)
        for p, name in zip(self.func.params, arguments):
            if p in self.func.buffer_map:
                self.size_checks(self.func.buffer_map[p], name)
        head = Line(0, f"def run({', '.join(['_extern', *arguments])}):", None)
        self.lines.insert(0, head)
        self.stmt(self.func.body)

    # -- arguments

    def parameter(self, p: E.Var, name: str) -> None:
        b = self.func.buffer_map.get(p)
        if b is not None:
            self.emit(f"{name}_m, {name}_shape, {name}_strides = {name}")
            self.new_memory(b.data, f"{name}_m", b)
            self.names[p] = Text(f"{name}_m")
        elif parse(p.dtype).is_handle:
            self.new_memory(p, f"{name}[0]", None)
        else:
            self.names[p] = Text(name, 0, True)

    def new_memory(self, data: E.Var, code: str, primary: Buffer | None) -> None:
        """Name the memory that `code` gives, in each element type that it is used as."""
        views = self.memories[data] = {}
        own = parse(primary.dtype).element if primary is not None else None
        elements = dict.fromkeys(([own] if own else []) + list(self.elements.get(data, {})))
        base = self.fresh(data.name)
        self.emit(f"{base} = {code}")
        self.names[data] = Text(base)
        for element in elements:
            name = base if element == own else f"{base}_{element}"
            if element != own:
                self.emit(f"{name} = {self.helper('view')}({base}, {element!r})")
            if not parse(element).is_float:
                self.emit(f"{name}_item = {name}.item")
            self.emit(f"{name}_size = {name}.size")
            views[element] = name
        if primary is not None:
            self.primary[data] = primary

    def sizes(self, b: Buffer, name: str) -> None:
        """Give the variables of a buffer's shape and strides their values."""
        fields = [*((d, "shape", n) for n, d in enumerate(b.shape))]
        fields += [(s, "strides", n) for n, s in enumerate(b.strides)]
        for e, field, n in fields:
            if isinstance(e, E.Var) and e not in self.names:
                var = self.fresh(e.name)
                self.emit(f"{var} = {name}_{field}[{n}]")
                self.names[e] = Text(var, 0, True)
        if isinstance(b.elem_offset, E.Var) and b.elem_offset not in self.names:
            self.names[b.elem_offset] = Text("0", 0, True)
        elif const_int(b.elem_offset) != 0 and not isinstance(b.elem_offset, E.Var):
            raise TilewrightError(
                f"tir_eval: argument {b.name} starts at element {b.elem_offset} of its memory; "
                "arrays start at 0"
            )

    def size_checks(self, b: Buffer, name: str) -> None:
        for field, items in (("shape", b.shape), ("strides", b.strides)):
            for n, e in enumerate(items):
                for v in free_vars(e):
                    if v not in self.names:
                        raise TilewrightError(
                            f"tir_eval: {v.name} in the {field} of {b.name} is no argument's size"
                        )
                what = f"{field}[{n}] of argument {b.name}"
                wanted = self.code(e)
                check = self.helper("check_size")
                self.emit(f"{check}({what!r}, {name}_{field}[{n}], {wanted})")

    # -- statements

    def stmt(self, s: S.Stmt) -> None:
        """Write a statement; nested ones that only add a line are taken in a loop."""
        while True:
            if isinstance(s, S.SeqStmt):
                for x in s.seq[:-1]:
                    self.stmt(x)
                if not s.seq:
                    self.emit("pass")
                    return
                s = s.seq[-1]
                continue
            if self.pad > _MAX_PAD:
                raise TilewrightError("tir_eval: statements are nested too deeply")
            handler = self.statements.get(type(s))
            if handler is None:
                raise TilewrightError(f"tir_eval does not know the statement {type(s).__name__}")
            following: Any = handler(self, s)
            if following is None:
                return
            s = following

    def block(self, body: S.Stmt) -> None:
        """An indented block."""
        self.pad += 1
        start = len(self.lines)
        self.stmt(body)
        if len(self.lines) == start:
            self.emit("pass")
        self.pad -= 1

    def loop(self, head: str, write: Callable[[], None]) -> None:
        """A Python loop; every so often its inside becomes a function, since blocks are limited."""
        self.emit(head)
        self.loops += 1
        if self.loops % _MAX_LOOPS:
            write()
        else:
            name = self.fresh("inner")
            self.pad += 1
            self.emit(f"def {name}():")
            write()
            self.emit(f"{name}()")
            self.pad -= 1
        self.loops -= 1

    def _for(self, s: S.For) -> None:
        self.begin(s, (s.min, s.extent))
        low, extent = self.code(s.min), self.code(s.extent)
        name = self.fresh(s.loop_var.name)
        bounds = extent if low == "0" else f"{low}, {low} + {extent}"
        self.names[s.loop_var] = Text(name, 0, True)
        start, steps = const_int(s.min), const_int(s.extent)
        if start is not None and steps is not None:
            self.ranges[s.loop_var] = (start, start + steps - 1)
        else:
            self.ranges.pop(s.loop_var, None)
        self.loop(f"for {name} in range({bounds}):", lambda: self.block(s.body))

    def _while(self, s: S.While) -> None:
        def inside() -> None:
            self.pad += 1
            self.begin(s, (s.condition,))
            self.emit(f"if not {self.code(s.condition)}:")
            self.emit("    break")
            self.pad -= 1
            self.block(s.body)

        self.emit("while True:")
        self.loops += 1
        if self.loops % _MAX_LOOPS == 0:
            raise TilewrightError("tir_eval: loops are nested too deeply around a while loop")
        inside()
        self.loops -= 1

    def _let_stmt(self, s: S.LetStmt) -> S.Stmt:
        self.begin(s, (s.value,))
        v = self.value(s.value)
        if parse(s.var.dtype).is_handle:
            self.new_memory(s.var, v.code, None)
        else:
            name = self.fresh(s.var.name)
            self.emit(f"{name} = {v.code}")
            self.names[s.var] = Text(name, 0, v.exact)
            if is_data(s.value, self.lets):
                self.lets.add(s.var)
            self.ranges.pop(s.var, None)
        return s.body

    def _attr(self, s: S.AttrStmt) -> S.Stmt | None:
        if s.attr_key not in ("thread_extent", "virtual_thread"):
            return s.body
        if not isinstance(s.node, IterVar):
            raise TilewrightError(f"tir_eval: {s.attr_key} without a thread axis")
        var, tag = s.node.var, s.node.thread_tag or s.node.var.name
        virtual = tag.startswith("vthread")  # each a loop of its own, also inside another
        active = None if virtual else self.threads.get(tag)
        if active is not None:
            self.names[var] = Text(active, 0, True)
            return s.body
        self.begin(s, (s.value,))
        name = self.fresh(var.name)
        self.names[var] = Text(name, 0, True)
        steps = const_int(s.value)
        if steps is not None:
            self.ranges[var] = (0, steps - 1)
        head = f"for {name} in range({self.code(s.value)}):"
        if not virtual:
            self.threads[tag] = name
        self.loop(head, lambda: self.block(s.body))
        if not virtual:
            del self.threads[tag]
        return None

    def _assert(self, s: S.AssertStmt) -> S.Stmt:
        self.begin(s, (s.condition,))
        message = s.message.value if isinstance(s.message, E.StringImm) else str(s.message)
        self.emit(f"if not {self.code(s.condition)}:")
        self.emit(f"    raise {self.helper('EvalError')}({'assertion failed: ' + message!r})")
        return s.body

    def _if(self, s: S.IfThenElse) -> None:
        self.begin(s, (s.condition,))
        self.emit(f"if {self.code(s.condition)}:")
        self.block(s.then_case)
        if s.else_case is not None:
            self.emit("else:")
            self.block(s.else_case)

    def _store(self, s: S.BufferStore) -> None:
        extra = () if s.predicate is None else (s.predicate,)
        self.begin(s, (s.value, *s.indices, *extra))
        lanes = parse(s.buffer.dtype).lanes
        for i in s.indices:
            lanes = max(lanes, parse(i.dtype).lanes)
        value = self.value(s.value)
        if lanes > 1:
            memory, at = self.lanes(s.buffer, s.indices, s.predicate)
            mask = self.mask(s.predicate)
            call = self.helper("scatter")
            self.emit(f"{call}({memory}, {at}, {mask}, {value.code}, {lanes})")
            return
        t = parse(s.buffer.dtype)
        code = value.code
        if t.is_integer and value.exact and const_int(s.value) is None:
            code = self.wrapped(t, code, value.depth, False).code
        memory, at, _ = self.place(s.buffer, s.indices)
        if s.predicate is not None:
            self.emit(f"if {self.code(s.predicate)}:")
            self.emit(f"    {memory}[{at}] = {code}")
        else:
            self.emit(f"{memory}[{at}] = {code}")

    def _allocate(self, s: S.Allocate) -> S.Stmt:
        b = s.buffer
        self.begin(s, b.shape)
        t = parse(b.dtype)
        size = str(t.lanes)
        if b.strides and b.shape:
            terms = [
                f"(max({self.code(d)}, 1) - 1) * {self.code(x)}" for d, x in zip(b.shape, b.strides)
            ]
            size = f"({' + '.join(terms)} + 1) * {t.lanes}"
        else:
            for d in b.shape:
                size = f"{size} * max({self.code(d)}, 0)"
        if isinstance(b.elem_offset, E.Var) and b.elem_offset not in self.names:
            self.names[b.elem_offset] = Text("0", 0, True)
        call = f"{self.helper('allocate')}({size}, {t.element!r})"
        self.new_memory(b.data, call, b)
        return s.body

    def _evaluate(self, s: S.Evaluate) -> None:
        self.begin(s, (s.value,))
        e = s.value
        if isinstance(e, E.Call) and e.op.name == "tir.ret":
            self.emit(f"raise {self.helper('Return')}({self.code(e.args[0])})")
        else:
            self.emit(self.code(e))

    def _prefetch(self, s: S.Prefetch) -> None:
        pass


FunctionCode.statements.update(
    {
        S.For: FunctionCode._for,
        S.While: FunctionCode._while,
        S.LetStmt: FunctionCode._let_stmt,
        S.AttrStmt: FunctionCode._attr,
        S.AssertStmt: FunctionCode._assert,
        S.IfThenElse: FunctionCode._if,
        S.BufferStore: FunctionCode._store,
        S.Allocate: FunctionCode._allocate,
        S.Evaluate: FunctionCode._evaluate,
        S.Prefetch: FunctionCode._prefetch,
    }
)
