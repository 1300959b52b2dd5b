"""Expressions of the loop IR as Python source text.

Index arithmetic (on loop variables, parameters and constants) runs on Python's unbounded ints, all
that touches data wraps as SEMANTICS.md says.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from ..base.dtype import DType, parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.data import is_data
from ..loopir.signs import COMPARE, IN_PYTHON
from . import np_ops
from . import tir_eval_rt as rt
from .tir_eval_memory import MemoryCode
from .tir_eval_text import MAX_DEPTH, Line, Text

_DIVIDE: dict[type, Callable[[int, int], int]] = {
    E.FloorDiv: operator.floordiv,
    E.FloorMod: operator.mod,
    E.Div: rt.trunc_div,
    E.Mod: rt.trunc_mod,
}
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


class ExprCode(MemoryCode):
    """Writes expressions."""

    calls: ClassVar[dict[str, Callable[[Any, E.Call], Text]]] = {}

    # -- leaves

    def _var(self, v: E.Var) -> Text:
        known = self.names.get(v)
        if known is None:
            raise TilewrightError(f"tir_eval: variable {v.name} is used where it has no value")
        return known

    def _int(self, e: E.IntImm) -> Text:
        if parse(e.dtype).is_bool:
            return Text(str(bool(e.value)))
        return Text(str(e.value) if e.value >= 0 else f"({e.value})", 0, True)

    def _float(self, e: E.FloatImm) -> Text:
        key = (e.dtype, repr(e.number))
        name = self.constants.get(key)
        if name is None:
            name = self.constants[key] = f"_c{len(self.constants)}"
            self.globals[name] = rt.to_float(e.dtype)(e.number)
        return Text(name)

    def _string(self, e: E.StringImm) -> Text:
        return Text(repr(e.value))

    # -- arithmetic

    def _binary(self, e: Any) -> Text:
        kind, t = type(e), parse(e.dtype)
        a, b = self.value(e.a), self.value(e.b)
        depth = 1 + max(a.depth, b.depth)
        if t.lanes > 1:
            if kind in (E.Add, E.Sub, E.Mul) or (kind is E.Div and t.is_float):
                return Text(f"({a.code} {IN_PYTHON[kind]} {b.code})", depth)
            zero = kind in np_ops.DIVISIONS and self.may_be_zero(e.b)
            function = self.helper("vector_binary")
            return Text(f"{function}({kind.__name__!r}, {a.code}, {b.code}, {zero})", depth)
        if kind in (E.Min, E.Max):
            return self._min_max(kind, t, a, b, depth)
        index = a.exact and b.exact
        if t.is_float:
            if kind not in (E.Add, E.Sub, E.Mul, E.Div):
                raise TilewrightError(f"tir_eval: {kind.__name__} of floats: {e}")
            return Text(f"({a.code} {IN_PYTHON[kind]} {b.code})", depth)
        if kind in np_ops.DIVISIONS and self.may_be_zero(e.b):
            function = self.helper(f"any_{kind.__name__}", rt.of_data(_DIVIDE[kind]))
            return self.wrapped(t, f"{function}({a.code}, {b.code})", depth, index)
        if kind in (E.Div, E.Mod):
            function = self.helper("trunc_div" if kind is E.Div else "trunc_mod")
            return self.wrapped(t, f"{function}({a.code}, {b.code})", depth, index)
        code = f"({a.code} {IN_PYTHON[kind]} {b.code})"
        if kind is E.FloorMod:
            return Text(code, depth, index)
        return self.wrapped(t, code, depth, index)

    def may_be_zero(self, divisor: Any) -> bool:
        """Whether a divisor is data, by which division is defined if it is zero."""
        return E.is_const(divisor, 0) or is_data(divisor, self.lets)

    def _min_max(self, kind: type, t: DType, a: Text, b: Text, depth: int) -> Text:
        low = kind is E.Min
        if t.is_float:
            return Text(f"{self.helper('fmin' if low else 'fmax')}({a.code}, {b.code})", depth)
        name = "min" if low else "max"
        return Text(f"{name}({a.code}, {b.code})", depth, a.exact and b.exact)

    def _compare(self, e: Any) -> Text:
        a, b = self.value(e.a), self.value(e.b)
        return Text(f"({a.code} {COMPARE[type(e)]} {b.code})", 1 + max(a.depth, b.depth))

    def _logic(self, e: Any) -> Text:
        word, bit = ("and", "&") if isinstance(e, E.And) else ("or", "|")
        if parse(e.dtype).lanes > 1:
            return Text(f"({self.code(e.a)} {bit} {self.code(e.b)})", MAX_DEPTH)
        a = self.value(e.a)
        with self.branch() as lines:
            b = self.value(e.b)
        if not lines:
            return Text(f"({a.code} {word} {b.code})", 1 + max(a.depth, b.depth))
        name = self.fresh()
        self.emit(f"{name} = {a.code}")
        self.emit(f"if {'' if word == 'and' else 'not '}{name}:")
        self.lines += lines
        self.lines.append(Line(self.pad + 1, f"{name} = {b.code}", self.owner))
        return Text(name)

    def _not(self, e: E.Not) -> Text:
        a = self.value(e.a)
        return Text(f"({'~' if parse(e.dtype).lanes > 1 else 'not '}{a.code})", a.depth + 1)

    def _select(self, e: E.Select) -> Text:
        c, a, b = self.value(e.condition), self.value(e.true_value), self.value(e.false_value)
        depth = 1 + max(c.depth, a.depth, b.depth)
        if parse(e.dtype).lanes > 1:
            return Text(f"{self.helper('select')}({c.code}, {a.code}, {b.code})", depth)
        # both are evaluated: an access out of bounds in either is an error
        pick = f"({a.code}, {b.code})[not {c.code}]"
        return Text(pick, depth, a.exact and b.exact)

    def _if_then_else(self, e: E.Call) -> Text:
        condition, x, y = e.args
        if parse(condition.dtype).lanes > 1:
            return self._select(E.Select(condition, x, y))
        c = self.value(condition)
        with self.branch() as first:
            a = self.value(x)
        with self.branch() as second:
            b = self.value(y)
        if not first and not second:
            depth = 1 + max(c.depth, a.depth, b.depth)
            return Text(f"({a.code} if {c.code} else {b.code})", depth, a.exact and b.exact)
        name = self.fresh()
        for word, lines, text in ((f"if {c.code}:", first, a), ("else:", second, b)):
            self.emit(word)
            self.lines += lines
            self.lines.append(Line(self.pad + 1, f"{name} = {text.code}", self.owner))
        return Text(name, 0, a.exact and b.exact)

    def _cast(self, e: E.Cast) -> Text:
        to, source = parse(e.dtype), parse(e.value.dtype)
        x = self.value(e.value)
        depth = x.depth + 1
        if to.lanes > 1:
            return Text(f"{self.helper('cast', np_ops.cast)}({x.code}, {to.element!r})", depth)
        if to.is_bool:
            return Text(f"({x.code} != 0)", depth)
        if to.is_float:
            return Text(f"{self.float_type(to)}({x.code})", depth)
        if source.is_bool:
            return Text(f"int({x.code})", depth, not is_data(e, self.lets))
        if source.is_float:
            call = f"{self.helper('to_int')}({x.code}, {to.min_value}, {to.max_value})"
            return Text(call, depth)
        fits = to.min_value <= source.min_value and source.max_value <= to.max_value
        if fits:
            return x
        return Text(self.wrapped(to, x.code, depth, False).code, depth, x.exact)

    def _let(self, e: E.Let) -> Text:
        v = self.value(e.value)
        name = self.fresh(e.var.name)
        self.emit(f"{name} = {v.code}")
        self.names[e.var] = Text(name, 0, v.exact)
        if is_data(e.value, self.lets):
            self.lets.add(e.var)
        return self.value(e.body)

    # -- vectors

    def _ramp(self, e: E.Ramp) -> Text:
        a, b = self.value(e.base), self.value(e.stride)
        depth = 1 + max(a.depth, b.depth)
        element = parse(e.dtype).element
        return Text(f"{self.helper('ramp')}({a.code}, {b.code}, {e.lanes}, {element!r})", depth)

    def _broadcast(self, e: E.Broadcast) -> Text:
        v = self.value(e.value)
        element = parse(e.dtype).element
        return Text(f"{self.helper('full')}({v.code}, {e.lanes}, {element!r})", v.depth + 1)

    def _shuffle(self, e: E.Shuffle) -> Text:
        vectors = "".join([f"{self.code(v)}, " for v in e.vectors])
        call = f"{self.helper('shuffle')}(({vectors}), {e.indices!r}, {e.dtype!r})"
        return Text(call, MAX_DEPTH)

    # -- calls

    def _call(self, e: E.Call) -> Text:
        name = e.op.name
        special = self.calls.get(name)
        if special is not None:
            return special(self, e)
        plain = name[4:] if name.startswith("tir.") else name
        if not np_ops.known(plain) and plain != "reinterpret":
            return self.by_name(name, e, e.args)
        texts = [self.value(a) for a in e.args]
        t = parse(e.dtype)
        if plain == "reinterpret" and t.lanes > parse(e.args[0].dtype).lanes == 1:
            # the bits of a number are those of its type
            whole = f"{self.helper('full')}({texts[0].code}, 1, {e.args[0].dtype!r})"
            texts = [Text(whole, texts[0].depth + 1)]
        codes = ", ".join([t.code for t in texts])
        depth = 1 + max((t.depth for t in texts), default=0)
        if t.lanes > 1:
            call = f"{self.helper('call_vector')}({plain!r}, {e.dtype!r}, {codes})"
            return Text(call, depth)
        if plain in _BITS and not t.is_bool:
            code = f"({texts[0].code} {_BITS[plain]} {texts[1].code})"
            return Text(code, depth, texts[0].exact and texts[1].exact)
        if plain in ("shift_left", "shift_right"):
            call = f"{self.helper('shift')}({plain!r}, {codes}, {t.bits})"
            index = texts[0].exact and texts[1].exact
            return self.wrapped(t, call, depth, index)
        if plain in np_ops.MATH and t.is_float:
            own = f"{plain}_{t.text}"
            function = self.helper(
                own, self.globals.get("_" + own) or rt.scalar_math(plain, t.text)
            )
            return Text(f"{function}({codes})", depth)
        dtypes = tuple(a.dtype for a in e.args)
        if any(parse(d).lanes > 1 for d in dtypes):
            return Text(
                f"{self.helper('call_vector')}({plain!r}, {e.dtype!r}, {codes}).item()", depth
            )
        call = f"{self.helper('call_scalar')}({plain!r}, {e.dtype!r}, ({codes},), {dtypes!r})"
        return Text(call, depth)

    def by_name(self, name: str, e: E.Call, args: tuple[Any, ...]) -> Text:
        """A call of a function from the table of the user's."""
        codes = "".join([f"{self.code(a)}, " for a in args])
        call = self.helper("call_by_name")
        return Text(f"{call}(_extern, {name!r}, {e.dtype!r}, ({codes}))", MAX_DEPTH)


_GROUPS: tuple[tuple[Any, Any], ...] = (
    (np_ops.BINARY, ExprCode._binary),
    (COMPARE, ExprCode._compare),
)
for _kinds, _handler in _GROUPS:
    ExprCode.table.update(dict.fromkeys(_kinds, _handler))
ExprCode.table.update(
    {
        E.Var: ExprCode._var,
        E.SizeVar: ExprCode._var,
        E.IntImm: ExprCode._int,
        E.FloatImm: ExprCode._float,
        E.StringImm: ExprCode._string,
        E.And: ExprCode._logic,
        E.Or: ExprCode._logic,
        E.Not: ExprCode._not,
        E.Select: ExprCode._select,
        E.Cast: ExprCode._cast,
        E.Let: ExprCode._let,
        E.Ramp: ExprCode._ramp,
        E.Broadcast: ExprCode._broadcast,
        E.Shuffle: ExprCode._shuffle,
        E.BufferLoad: ExprCode._load,
        E.Call: ExprCode._call,
    }
)
