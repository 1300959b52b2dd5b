"""Terms of a thread's indices that are the same all through a kernel, computed once.

Where loops are written out, thousands of addresses begin with the same arithmetic on a thread's
place. NVRTC would find out, in up to an eighth of its time; so it gets a name, before the first
statement of the kernel's outermost block that uses it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.visit import CHILDREN, nodes

_ARITH = frozenset((E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max))
_CALLS = frozenset(
    f"tir.{name}" for name in ("shift_left", "shift_right", "bitwise_and", "bitwise_or")
)
KINDS = frozenset((*_ARITH, E.Call))
_INTEGERS = ("int32", "int64")
_FEWEST = 5
"""Operations of a term that gets a name: fewer are cheaper to repeat than a register to keep, and
ptxas, which is not told by a name, weighs that itself."""
_NAME = re.compile(r"\bthread_term(?:_\d+)?\b")
HINT = "thread_term"
LONG = 300
"""Statements of a kernel that has names. Of shorter ones, which NVRTC compiles soon, some had fewer
registers with names and some more (an int8 product 102, not 90): they stay as they were."""


@dataclass
class _Term:
    name: str
    kind: str  # its type, as the language spells it
    text: str
    line: int  # the line before which it stands


class FixedTerms:
    """The terms of one kernel. Equal ones share an index; of what is no such term it is -1."""

    def __init__(self, func: S.PrimFunc, threads: set[E.Var]) -> None:
        self.threads = threads
        count = sum(type(x) is S.BufferStore or type(x) is S.Evaluate for x in nodes(func.body))
        self.needless = count < LONG
        self.line = 0
        self.within = False  # the text of a term is being written
        self._of: dict[int, tuple[Any, int]] = {}
        self._index: dict[Any, int] = {}
        self._operations: list[int] = []
        self._terms: dict[Any, _Term] = {}
        self._names: set[str] = set()

    def named(self, p: Any, e: Any, write: Callable[[Any], str]) -> str | None:
        """The name of a term, whose text `write` gives; None of what is no term, or too short."""
        if self.needless or self.within or e.dtype not in _INTEGERS:
            return None
        index = self._find(e)
        if index < 0 or self._operations[index] < _FEWEST:
            return None
        if index not in self._terms:
            self.within = True
            text = write(e)
            self.within = False
            return self.name(p, index, p.type(e.dtype), text)
        return self.name(p, index)

    def name(self, p: Any, key: Any, kind: str = "", text: str = "") -> str:
        """The name of what `key` stands for: `text`, of a type that the language spells `kind`."""
        term = self._terms.get(key)
        if term is None:
            name = p.names.fresh(HINT)
            term = self._terms[key] = _Term(name, kind, text, self.line)
            self._names.add(name)
        return term.name

    def has(self, text: str) -> bool:
        """Whether text is the name of a term, or none at all."""
        return not self.needless and (not text or text in self._names)

    def placed(self, lines: list[str], bare: Callable[[str], str]) -> list[str]:
        """The lines of a kernel with what names stand for, where they are used more than once."""
        if not self._terms:
            return lines
        texts = [*lines, *(t.text for t in self._terms.values())]
        uses = Counter(name for text in texts if HINT in text for name in _NAME.findall(text))
        once: dict[str, str] = {}

        def inside(text: str) -> str:
            return _NAME.sub(lambda m: once.get(m[0], m[0]), text) if HINT in text else text

        starts: dict[int, list[str]] = {}
        for t in self._terms.values():  # those that stand within others come before them
            text = inside(t.text)
            if uses[t.name] == 1:
                once[t.name] = text
            else:
                starts.setdefault(t.line, []).append(f"  const {t.kind} {t.name} = {bare(text)};")
        made: list[str] = []
        for number, line in enumerate(lines):
            made += starts.get(number, [])
            made.append(inside(line))
        return made

    def _find(self, e: Any) -> int:
        stack, of = [e], self._of
        while stack:
            x = stack[-1]
            if id(x) in of:
                stack.pop()
                continue
            below = CHILDREN[type(x)](x) if self._may_be(x) else ()
            left = [c for c in below if id(c) not in of]
            if left:
                stack += left
                continue
            stack.pop()
            of[id(x)] = x, self._number(x, tuple([of[id(c)][1] for c in below]))
        return of[id(e)][1]

    @staticmethod
    def _may_be(x: Any) -> bool:
        return type(x) in _ARITH or (type(x) is E.Call and x.op.name in _CALLS)

    def _number(self, x: Any, below: tuple[int, ...]) -> int:
        if x.dtype not in _INTEGERS:
            return -1
        if type(x) is E.IntImm:
            key: Any = x.dtype, x.value
        elif type(x) is E.Var:
            if x not in self.threads:
                return -1
            key = x
        elif not below or -1 in below:
            return -1
        else:
            key = type(x), x.op.name if type(x) is E.Call else "", below
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self._operations)
            count = sum(self._operations[i] for i in below)
            self._operations.append(count + 1 if below else 0)
        return found
