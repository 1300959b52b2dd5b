"""Expressions of the loop IR as Python source text.

`value(e)` gives the text of `e`, in parentheses where needed, after emitting the statements that it
rests on: deep and shared parts go to temporaries, since Python's parser takes about a hundred
nested parentheses. Index arithmetic (on loop variables, parameters and constants) runs on Python's
unbounded ints, all that touches data wraps as SEMANTICS.md says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from ..base.dtype import DType, parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.effects import side_effect
from ..loopir.expr import const_int
from ..loopir.names import legal_name
from ..loopir.visit import children
from . import np_ops
from . import tir_eval_rt as rt


class Text(NamedTuple):
    """Source text of a value; `exact` says that it is a number that cannot have overflowed."""

    code: str
    depth: int = 0
    exact: bool = False


class Line(NamedTuple):
    pad: int
    code: str
    owner: Any  # the statement of the IR that it belongs to


_INFIX = {E.Add: "+", E.Sub: "-", E.Mul: "*", E.FloorDiv: "//", E.FloorMod: "%"}
_COMPARE = {E.EQ: "==", E.NE: "!=", E.LT: "<", E.LE: "<=", E.GT: ">", E.GE: ">="}
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_MAX_DEPTH = 12
_MANY = 80  # characters of an index that is worth a temporary


class ExprCode:
    """Writes expressions; `lines` is what has been emitted."""

    table: ClassVar[dict[type, Callable[[Any, Any], Text]]] = {}
    calls: ClassVar[dict[str, Callable[[Any, E.Call], Text]]] = {}

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.pad = 1
        self.owner: Any = None
        self.names: dict[E.Var, Text] = {}
        self.ranges: dict[E.Var, tuple[int, int]] = {}
        self.globals: dict[str, Any] = {}
        self.constants: dict[Any, str] = {}
        self.count = 0
        self.shared: dict[int, int] = {}
        self.memo: dict[int, Text] = {}
        self.memories: dict[E.Var, dict[str, str]] = {}
        self.primary: dict[E.Var, Buffer] = {}

    # -- emitting

    def fresh(self, hint: str = "t") -> str:
        self.count += 1
        return f"{legal_name(hint)}_{self.count}"

    def emit(self, code: str) -> None:
        self.lines.append(Line(self.pad, code, self.owner))

    def helper(self, name: str, value: Any = None) -> str:
        """The name by which the made code sees a function of tir_eval_rt, or any other object."""
        text = f"_{name}"
        if text not in self.globals:
            self.globals[text] = getattr(rt, name) if value is None else value
        return text

    def to_temporary(self, code: str, index: bool) -> Text:
        name = self.fresh()
        self.emit(f"{name} = {code}")
        return Text(name, 0, index)

    @contextmanager
    def branch(self) -> Iterator[list[Line]]:
        """Collect what is emitted inside, for a place that may not be reached."""
        outer, memo = self.lines, dict(self.memo)
        self.lines = []
        self.pad += 1
        yield self.lines
        self.pad -= 1
        self.lines, self.memo = outer, memo

    def begin(self, owner: Any, roots: tuple[Any, ...]) -> None:
        """Start on the expressions of one statement: find which nodes are used several times."""
        self.owner = owner
        self.memo = {}
        self.shared = {}
        opaque = any(side_effect(e) > 2 for e in roots)
        stack = list(roots)
        while stack:
            e = stack.pop()
            uses = self.shared.get(id(e), 0)
            self.shared[id(e)] = uses + 1
            if uses == 0:
                stack.extend(children(e))
        if opaque:
            self.shared = {}

    def value(self, e: Any) -> Text:
        """The text of an expression's value."""
        known = self.memo.get(id(e))
        if known is not None:
            return known
        handler = self.table.get(type(e))
        if handler is None:
            raise TilewrightError(f"tir_eval: {type(e).__name__} must be lowered first: {e}")
        text = handler(self, e)
        again = self.shared.get(id(e), 0) > 1 and text.depth > 0
        if text.depth > _MAX_DEPTH or again:
            text = self.to_temporary(text.code, text.exact)
        if again:
            self.memo[id(e)] = text
        return text

    def code(self, e: Any) -> str:
        return self.value(e).code

    def wrapped(self, t: DType, code: str, depth: int, index: bool) -> Text:
        """An integer brought into its type's range, unless it is an index."""
        if t.is_int and t.bits >= 32 and index:
            return Text(code, depth, True)
        mask = (1 << t.bits) - 1
        if not t.is_int:
            return Text(f"({code} & {mask})", depth)
        half = 1 << (t.bits - 1)
        return Text(f"(({code} + {half} & {mask}) - {half})", depth)

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
        key = (e.dtype, repr(e.value))
        name = self.constants.get(key)
        if name is None:
            name = self.constants[key] = f"_c{len(self.constants)}"
            self.globals[name] = rt.to_float(e.dtype)(e.value)
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
                return Text(f"({a.code} {_INFIX.get(kind, '/')} {b.code})", depth)
            call = f"{self.helper('vector_binary')}({kind.__name__!r}, {a.code}, {b.code})"
            return Text(call, depth)
        if kind in (E.Min, E.Max):
            return self._min_max(kind, t, a, b, depth)
        index = a.exact and b.exact
        if t.is_float:
            if kind not in (E.Add, E.Sub, E.Mul, E.Div):
                raise TilewrightError(f"tir_eval: {kind.__name__} of floats: {e}")
            return Text(f"({a.code} {_INFIX.get(kind, '/')} {b.code})", depth)
        if kind in (E.Div, E.Mod):
            function = self.helper("trunc_div" if kind is E.Div else "trunc_mod")
            return self.wrapped(t, f"{function}({a.code}, {b.code})", depth, index)
        code = f"({a.code} {_INFIX[kind]} {b.code})"
        if kind is E.FloorMod:
            return Text(code, depth, index)
        return self.wrapped(t, code, depth, index)

    def _min_max(self, kind: type, t: DType, a: Text, b: Text, depth: int) -> Text:
        low = kind is E.Min
        if t.is_float:
            return Text(f"{self.helper('fmin' if low else 'fmax')}({a.code}, {b.code})", depth)
        name = "min" if low else "max"
        return Text(f"{name}({a.code}, {b.code})", depth, a.exact and b.exact)

    def _compare(self, e: Any) -> Text:
        a, b = self.value(e.a), self.value(e.b)
        return Text(f"({a.code} {_COMPARE[type(e)]} {b.code})", 1 + max(a.depth, b.depth))

    def _logic(self, e: Any) -> Text:
        word, bit = ("and", "&") if isinstance(e, E.And) else ("or", "|")
        if parse(e.dtype).lanes > 1:
            return Text(f"({self.code(e.a)} {bit} {self.code(e.b)})", _MAX_DEPTH)
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
            return Text(f"int({x.code})", depth, True)
        if source.is_float:
            call = f"{self.helper('to_int')}({x.code}, {to.min_value}, {to.max_value})"
            return Text(call, depth, True)
        fits = to.min_value <= source.min_value and source.max_value <= to.max_value
        if fits:
            return x
        return Text(self.wrapped(to, x.code, depth, False).code, depth, True)

    def float_type(self, t: DType) -> str:
        name = f"_to_{t.text}"
        if name not in self.globals:
            self.globals[name] = rt.to_float(t.text)
        return name

    def _let(self, e: E.Let) -> Text:
        v = self.value(e.value)
        name = self.fresh(e.var.name)
        self.emit(f"{name} = {v.code}")
        self.names[e.var] = Text(name, 0, v.exact)
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
        return Text(call, _MAX_DEPTH)

    # -- reads of memory

    def _load(self, e: E.BufferLoad) -> Text:
        t = parse(e.dtype)
        if t.lanes > 1:
            memory, at = self.lanes(e.buffer, e.indices, e.predicate)
            mask = self.mask(e.predicate)
            call = f"{self.helper('gather')}({memory}, {at}, {mask}, {t.lanes})"
            return Text(call, _MAX_DEPTH)
        memory, at, depth = self.place(e.buffer, e.indices)
        item = f"{memory}[{at}]" if t.is_float else f"{memory}_item({at})"
        if e.predicate is None:
            return Text(item, depth + 1)
        zero = f"{self.float_type(t)}(0)" if t.is_float else "0"
        return Text(f"({item} if {self.code(e.predicate)} else {zero})", depth + 1)

    def memory(self, b: Buffer) -> str:
        """The name of a buffer's memory, as flat array of its element type."""
        views = self.memories.get(b.data)
        element = parse(b.dtype).element
        if views is None or element not in views:
            raise TilewrightError(
                f"tir_eval: buffer {b.name} has no memory: it is no parameter and not allocated"
            )
        return views[element]

    def place(self, b: Buffer, indices: tuple[Any, ...]) -> tuple[str, str, int]:
        """Memory, element offset (checked) and depth of a scalar access."""
        memory = self.memory(b)
        if len(indices) != b.ndim:
            raise TilewrightError(
                f"tir_eval: buffer {b.name} has {b.ndim} dimensions, got {len(indices)} indices"
            )
        own = self.primary.get(b.data) is b
        if b.ndim == 1 and not b.strides and const_int(b.elem_offset) == 0:
            limit = b.shape[0] if own else self.limit(b, memory)
            text = self.checked(b, 0, indices[0], limit)
            return memory, text.code, text.depth
        total = Text("0")
        if const_int(b.elem_offset) != 0:
            total = self.value(b.elem_offset)
        depth = total.depth
        terms = [] if total.code == "0" else [total.code]
        step = ""
        for d in reversed(range(b.ndim)):
            text = self.checked(b, d, indices[d], b.shape[d])
            depth = max(depth, text.depth)
            factor = self.code(b.strides[d]) if b.strides else step
            terms.append(f"{text.code} * {factor}" if factor else text.code)
            if not b.strides:
                extent = self.code(b.shape[d])
                step = f"{step} * {extent}" if step else extent
        flat = " + ".join(terms) or "0"
        if not own:
            name = self.fresh()
            flat = (
                f"{name} if 0 <= ({name} := {flat}) < {memory}_size else "
                f"{self.helper('out_of_bounds')}({b.name!r}, -1, {name}, {memory}_size)"
            )
        return memory, flat, depth + 1

    def limit(self, b: Buffer, memory: str) -> Any:
        """How many elements a flat view of a buffer may use: those of its memory, or fewer."""
        own, extent = self.primary.get(b.data), const_int(b.shape[0])
        if own is None or own.strides or extent is None or parse(own.dtype).bits < 8:
            return f"{memory}_size"
        size = 1
        for d in own.shape:
            known = const_int(d)
            if known is None:
                return f"{memory}_size"
            size *= known
        bytes_per = parse(own.dtype).nbytes * parse(own.dtype).lanes
        return E.const(min(extent, size * bytes_per // parse(b.dtype).nbytes))

    def checked(self, b: Buffer, d: int, index: Any, extent: Any) -> Text:
        """An index, with a test that it is in [0, extent) where that is not plain to see."""
        known = extent if isinstance(extent, str) else const_int(extent)
        text = self.value(index)
        if isinstance(known, int):
            low, high = self.bounds(index)
            if low >= 0 and high < known:
                return text
        if len(text.code) > _MANY:
            text = self.to_temporary(text.code, True)
        top = extent if isinstance(extent, str) else self.code(extent)
        name, test = text.code, text.code
        if not name.isidentifier() and not name.isdigit():
            name = self.fresh()
            test = f"({name} := {text.code})"
        fail = f"{self.helper('out_of_bounds')}({b.name!r}, {d}, {name}, {top})"
        return Text(f"({name} if 0 <= {test} < {top} else {fail})", text.depth + 1, True)

    def bounds(self, e: Any) -> tuple[float, float]:
        """Cheap bounds of an index from the ranges of loops."""
        kind = type(e)
        if kind is E.IntImm:
            return e.value, e.value
        if kind in (E.Var, E.SizeVar):
            return self.ranges.get(e, (float("-inf"), float("inf")))
        if kind is E.Add:
            (a, b), (c, d) = self.bounds(e.a), self.bounds(e.b)
            return a + c, b + d
        if kind is E.Mul and type(e.b) is E.IntImm and e.b.value > 0:
            a, b = self.bounds(e.a)
            return a * e.b.value, b * e.b.value
        if kind is E.FloorMod and type(e.b) is E.IntImm and e.b.value > 0:
            return 0, e.b.value - 1
        return float("-inf"), float("inf")

    def mask(self, predicate: Any) -> str:
        """A vector access's predicate, which stands in several places."""
        if predicate is None:
            return "None"
        text = self.value(predicate)
        if text.depth:
            text = self.memo[id(predicate)] = self.to_temporary(text.code, False)
        return text.code

    def lanes(self, b: Buffer, indices: tuple[Any, ...], predicate: Any) -> tuple[str, str]:
        """Memory and checked element offsets of a vector access."""
        memory = self.memory(b)
        mask = self.mask(predicate)
        check = self.helper("lanes_in")
        own = self.primary.get(b.data) is b
        element_lanes = parse(b.dtype).lanes
        flat = self.code(b.elem_offset)
        step = "1"
        for d in reversed(range(b.ndim)):
            plain = b.ndim == 1 and not b.strides and not own and element_lanes == 1
            top = self.limit(b, memory) if plain else b.shape[d]
            extent = top if isinstance(top, str) else self.code(top)
            at = f"{check}({b.name!r}, {d}, {self.code(indices[d])}, {extent}, {mask})"
            stride = self.code(b.strides[d]) if b.strides else step
            flat = f"{flat} + {at} * {stride}"
            step = f"{step} * {extent}"
        if element_lanes > 1:
            flat = f"{self.helper('expand')}({flat}, {element_lanes})"
        if not own:
            flat = f"{check}({b.name!r}, -1, {flat}, {memory}_size, {mask})"
        return memory, flat

    # -- calls

    def _call(self, e: E.Call) -> Text:
        name = e.op.name
        special = self.calls.get(name)
        if special is not None:
            return special(self, e)
        plain = name[4:] if name.startswith("tir.") else name
        known = plain in np_ops.MATH or plain in np_ops.PREDICATES or plain in np_ops.INTEGER
        if not known and plain not in ("nextafter", "ldexp", "reinterpret"):
            return self.by_name(name, e, e.args)
        texts = [self.value(a) for a in e.args]
        codes = ", ".join([t.code for t in texts])
        depth = 1 + max((t.depth for t in texts), default=0)
        t = parse(e.dtype)
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
        return Text(f"{call}(_extern, {name!r}, {e.dtype!r}, ({codes}))", _MAX_DEPTH)


_GROUPS: tuple[tuple[Any, Any], ...] = (
    (np_ops.BINARY, ExprCode._binary),
    (_COMPARE, ExprCode._compare),
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
