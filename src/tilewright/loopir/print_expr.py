"""Expressions as TVMScript-style text: one pass over the tree that appends to a list of tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ..base.deep import Recursive
from ..base.dtype import parse
from ..target.target import Target
from . import expr as E
from . import iter as I
from .buffer import Buffer
from .call_names import DTYPE_FIRST, shown_name
from .names import Names
from .operators import folds

OR, AND, NOT, CMP, ADD, MUL, ATOM = 1, 2, 3, 4, 5, 6, 9

_INFIX: dict[type, tuple[str, int]] = {
    E.Add: (" + ", ADD),
    E.Sub: (" - ", ADD),
    E.Mul: (" * ", MUL),
    E.Div: (" / ", MUL),
    E.FloorDiv: (" // ", MUL),
    E.FloorMod: (" % ", MUL),
    E.EQ: (" == ", CMP),
    E.NE: (" != ", CMP),
    E.LT: (" < ", CMP),
    E.LE: (" <= ", CMP),
    E.GT: (" > ", CMP),
    E.GE: (" >= ", CMP),
    E.And: (" and ", AND),
    E.Or: (" or ", OR),
}
_INDICES = ("int32", "int64")
_FUNCTION: dict[type, str] = {E.Min: "T.min", E.Max: "T.max", E.Mod: "T.truncmod"}


def float_text(dtype: str, value: float) -> str:
    """The shortest decimal that reads back as this value of the type; inf and nan as strings."""
    if not math.isfinite(value):
        return f'"{value}"'
    t = parse(dtype)
    if t.code == "bfloat":
        text = repr(value)
    else:
        text = np.format_float_positional(t.numpy.type(value), unique=True, trim="-")
        if len(text) > 20:
            text = np.format_float_scientific(t.numpy.type(value), unique=True, trim="-")
    if text == "-0":
        return "-0.0"
    return text.removesuffix(".0")


@lru_cache(1024)
def _number(dtype: str, value: float, sign: float) -> str:
    """The text of a constant; its sign tells the zeros apart. Unrolled loops repeat theirs."""
    return float_text(dtype, E.FloatImm(dtype, value).number)


def quote(text: str) -> str:
    """A string literal."""
    return json.dumps(text, ensure_ascii=False)


def range_end(low: Any, extent: Any) -> Any:
    """The end of a range, so written that the extent can be read from it: `i + n` after `i`."""
    constant = type(low) is E.IntImm and type(extent) is E.IntImm
    return low + extent if constant else E.Add(low, extent)


def _slice_end(base: Any, length: int) -> Any:
    """`base + length`. The node itself where that is what the operator makes: printing asks for
    each access of a vector."""
    if not E.is_const(base) and base.dtype in _INDICES and 0 < abs(length) < 1 << 31:
        return E.Add(base, E.IntImm(base.dtype, length))
    return base + length


class ExprPrinter(Recursive):
    """Appends the text of expressions to `out`."""

    table: ClassVar[dict[type, Callable[[Any, Any, int], None]]] = {}

    def __init__(self) -> None:
        self.out: list[str] = []
        self.names = Names()

    def expr(self, e: Any, level: int = 0) -> None:
        """Print `e`; in parentheses if it binds weaker than `level`."""
        self.table[type(e)](self, e, level)

    def exprs(self, items: Iterable[Any]) -> None:
        """Print expressions with commas between them."""
        out = self.out
        for n, item in enumerate(items):
            if n:
                out.append(", ")
            self.any(item)

    def any(self, value: Any) -> None:
        """Print an expression, an attribute's value, or anything else that an argument may be."""
        kind = type(value)
        out = self.out
        if kind in self.table:
            self.table[kind](self, value, 0)
        elif isinstance(value, bool):
            out.append(f"T.bool({value})")
        elif isinstance(value, str):
            out.append(quote(value))
        elif isinstance(value, (list, tuple)):
            out.append("[")
            self.exprs(value)
            out.append("]")
        elif isinstance(value, dict):
            self.mapping(value)
        elif isinstance(value, Buffer):
            out.append(self.buffer_name(value))
        elif value is None or isinstance(value, (int, float)):
            out.append(repr(value))
        elif isinstance(value, Target):
            host = "" if value.host is None else f", host={quote(str(value.host))}"
            out.append(f"T.target({quote(str(value))}{host})")
        elif hasattr(value, "asexpr"):
            self.expr(value.asexpr())
        else:
            out.append(quote(str(value)))

    def mapping(self, items: Any) -> None:
        """Print attributes, sorted by name."""
        out = self.out
        out.append("{")
        for n, key in enumerate(sorted(items, key=str)):
            out.append(f"{', ' if n else ''}{quote(str(key))}: ")
            self.any(items[key])
        out.append("}")

    def call(self, name: str, *args: Any) -> None:
        self.out.append(name + "(")
        self.exprs(args)
        self.out.append(")")

    def var_name(self, v: E.Var) -> str:
        return self.names.get(v) or self.names.define(v, v.name)

    def buffer_name(self, b: Buffer) -> str:
        return self.names.get(b) or self.names.define(b, b.name)

    def _var(self, e: E.Var, level: int) -> None:
        self.out.append(self.var_name(e))

    def _int(self, e: E.IntImm, level: int) -> None:
        if e.dtype == "int32":
            self.out.append(str(e.value))
        else:
            self.out.append(f"T.{e.dtype}({bool(e.value) if e.dtype == 'bool' else e.value})")

    def _float(self, e: E.FloatImm, level: int) -> None:
        self.out.append(f"T.{e.dtype}({_number(e.dtype, e.value, math.copysign(1.0, e.value))})")

    def _string(self, e: E.StringImm, level: int) -> None:
        self.out.append(quote(e.value))

    def _infix(self, e: Any, level: int) -> None:
        kind = type(e)
        text, own = _INFIX[kind]
        a, b = e.a, e.b
        if folds(kind, a, b):  # Python's operator would give something else
            return self.call(f"T.{kind.__name__}", a, b)
        if kind is E.Div and not parse(e.dtype).is_float:
            return self.call("T.Div", a, b)
        out = self.out
        if own < level:
            out.append("(")
        self.expr(a, own + 1 if own == CMP else own)
        out.append(text)
        self.expr(b, own + 1)
        if own < level:
            out.append(")")
        return None

    def _function(self, e: Any, level: int) -> None:
        kind = type(e)
        self.call(f"T.{kind.__name__}" if folds(kind, e.a, e.b) else _FUNCTION[kind], e.a, e.b)

    def _not(self, e: E.Not, level: int) -> None:
        self.out.append("(not " if level > NOT else "not ")
        self.expr(e.a, NOT)
        if level > NOT:
            self.out.append(")")

    def _select(self, e: E.Select, level: int) -> None:
        self.call("T.Select", e.condition, e.true_value, e.false_value)

    def _cast(self, e: E.Cast, level: int) -> None:
        self.call("T.Cast", e.dtype, e.value)

    def _ramp(self, e: E.Ramp, level: int) -> None:
        self.call("T.Ramp", e.base, e.stride, e.lanes)

    def _broadcast(self, e: E.Broadcast, level: int) -> None:
        self.call("T.Broadcast", e.value, e.lanes)

    def _shuffle(self, e: E.Shuffle, level: int) -> None:
        self.call("T.Shuffle", e.vectors, e.indices)

    def _let(self, e: E.Let, level: int) -> None:
        out = self.out
        mark = self.names.mark()
        at = len(out)
        self.expr(e.value)
        value = out[at:]
        del out[at:]
        name = self.names.define(e.var, e.var.name)
        out.append("T.Let(")
        self.expr(e.body)
        out.append(f", where={{{name}: ")
        out.extend(value)
        out.append("})")
        self.names.release(mark)

    def _call(self, e: E.Call, level: int) -> None:
        name = e.op.name
        if name == "tir.tvm_access_ptr" and E.is_const(e.args[0], 0):
            self.out.append(f'T.tvm_access_ptr(T.type_annotation("{e.args[0].dtype}"), ')
            self.exprs(e.args[1:])
            self.out.append(")")
            return
        shown = shown_name(e)
        if shown is None:
            self.call("T.call_intrin", e.dtype, name, *e.args)
            return
        self.call(f"T.{shown}", *((e.dtype, *e.args) if name in DTYPE_FIRST else e.args))

    def access(self, buffer: Buffer, indices: Sequence[Any]) -> None:
        """Print `buffer[indices]`, ramps of constant stride as slices."""
        out = self.out
        out.append(self.buffer_name(buffer) + "[")
        if not indices:
            out.append("()")
        for n, index in enumerate(indices):
            if n:
                out.append(", ")
            step = E.const_int(index.stride) if type(index) is E.Ramp else None
            if not step or index.lanes < 2:
                self.expr(index)
                continue
            self.expr(index.base)
            out.append(":")
            self.expr(_slice_end(index.base, index.lanes * step))
            if step != 1:
                out.append(f":{step}")
        out.append("]")

    def _load(self, e: E.BufferLoad, level: int) -> None:
        if e.predicate is None:
            self.access(e.buffer, e.indices)
            return
        self.out.append(f"{self.buffer_name(e.buffer)}.vload([")
        self.exprs(e.indices)
        self.out.append("], predicate=")
        self.expr(e.predicate)
        self.out.append(")")

    def _producer_load(self, e: I.ProducerLoad, level: int) -> None:
        self.out.append(f"{e.producer.name}[")
        self.exprs(e.indices)
        self.out.append("]" if e.indices else "()]")

    def _range(self, r: I.Range, level: int) -> None:
        end = r.extent if E.is_const(r.min, 0) else range_end(r.min, r.extent)
        self.call("T.Range", r.min, end)

    def _iter_var(self, v: I.IterVar, level: int) -> None:
        self.out.append(f"T.iter_var({self.var_name(v.var)}, ")
        self.any(v.dom)
        self.out.append(f", {quote(v.KINDS[v.iter_type])}, {quote(v.thread_tag)})")

    def _reducer(self, r: I.CommReducer, level: int) -> None:
        mark = self.names.mark()
        names = [self.names.define(v, v.name) for v in (*r.lhs, *r.rhs)]
        several = len(r.result) > 1
        self.out.append(f"T.comm_reducer(lambda {', '.join(names)}: {'(' if several else ''}")
        self.exprs(r.result)
        self.out.append(")" if several else "")
        self.names.release(mark)
        self.out.append(", ")
        self.any(r.identity_element)
        self.out.append(")")

    def _reduce(self, e: I.Reduce, level: int) -> None:
        out = self.out
        out.append("T.reduce(")
        self._reducer(e.combiner, 0)
        for name, value in (("source", e.source), ("init", e.init), ("axis", e.axis)):
            out.append(f", {name}=")
            self.any(value)
        out.append(", condition=")
        self.expr(e.condition)
        out.append(f", value_index={e.value_index})")


ExprPrinter.table.update(
    {
        **dict.fromkeys(_INFIX, ExprPrinter._infix),
        **dict.fromkeys(_FUNCTION, ExprPrinter._function),
        E.Var: ExprPrinter._var,
        E.SizeVar: ExprPrinter._var,
        E.IntImm: ExprPrinter._int,
        E.FloatImm: ExprPrinter._float,
        E.StringImm: ExprPrinter._string,
        E.Not: ExprPrinter._not,
        E.Select: ExprPrinter._select,
        E.Cast: ExprPrinter._cast,
        E.Ramp: ExprPrinter._ramp,
        E.Broadcast: ExprPrinter._broadcast,
        E.Shuffle: ExprPrinter._shuffle,
        E.Let: ExprPrinter._let,
        E.Call: ExprPrinter._call,
        E.BufferLoad: ExprPrinter._load,
        I.ProducerLoad: ExprPrinter._producer_load,
        I.Reduce: ExprPrinter._reduce,
        I.Range: ExprPrinter._range,
        I.IterVar: ExprPrinter._iter_var,
        I.CommReducer: ExprPrinter._reducer,
    }
)
