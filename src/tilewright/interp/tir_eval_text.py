"""Pieces of Python source text that stand for values, and the writer that puts them together.

`value(e)` gives the text of `e`, in parentheses where needed, after emitting the statements that it
rests on: deep and shared parts go to temporaries, since Python's parser takes about a hundred
nested parentheses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from ..base.deep import Recursive
from ..base.dtype import DType
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.effects import CallEffectKind, side_effect
from ..loopir.names import legal_name
from ..loopir.visit import children
from . import tir_eval_rt as rt

MAX_DEPTH = 12  # of nested operations in one line


class Text(NamedTuple):
    """Source text of a value; `exact` says that it is a number that cannot have overflowed."""

    code: str
    depth: int = 0
    exact: bool = False


class Line(NamedTuple):
    pad: int
    code: str
    owner: Any  # the statement of the IR that it belongs to


class Writer(Recursive):
    """Writes values and what they rest on; `lines` is what has been emitted."""

    table: ClassVar[dict[type, Callable[[Any, Any], Text]]] = {}
    calls: ClassVar[dict[str, Callable[[Any, E.Call], Text]]] = {}

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.pad = 1
        self.owner: Any = None
        self.names: dict[E.Var, Text] = {}
        self.lets: set[E.Var] = set()  # variables that stand for data
        self.globals: dict[str, Any] = {}
        self.constants: dict[Any, str] = {}
        self.count = 0
        self.shared: dict[int, int] = {}
        self.memo: dict[int, Text] = {}

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
        opaque = any(side_effect(e) == CallEffectKind.UpdateState for e in roots)
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
        if text.depth > MAX_DEPTH or again:
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

    def float_type(self, t: DType) -> str:
        name = f"_to_{t.text}"
        if name not in self.globals:
            self.globals[name] = rt.to_float(t.text)
        return name
