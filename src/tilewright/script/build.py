"""The builder of programs under construction: a stack of frames, each a statement with a body.

`T.serial(8)` gives a frame, `with` enters it, and what is emitted meanwhile becomes its body. The
parser drives the same frames from text, so that `tvm.script.ir_builder` and `@T.prim_func` are two
ways to one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any

from ..base.errors import UsageError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.iter import IterVar

_current: ContextVar[Builder | None] = ContextVar("script_builder", default=None)


class Builder:
    """Collects frames and statements; `with Builder() as b:` makes it the present one."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.done: list[Any] = []
        self.views: dict[Any, list[Buffer]] = {}
        self.scopes: dict[Any, str] = {}
        self.threads: dict[Any, IterVar] = {}
        self.unnamed: dict[int, Any] = {}
        self._token: Token[Builder | None] | None = None

    def __enter__(self) -> Builder:
        self._token = _current.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _current.reset(self._token)

    def emit(self, item: Any) -> None:
        """Put a statement at the end of the innermost frame."""
        if self.frames:
            self.frames[-1].body.append(item)
        else:
            self.done.append(item)

    def fresh(self, thing: Any) -> Any:
        """Remember a variable or buffer that has no name yet; gives it back."""
        self.unnamed[id(thing)] = thing
        return thing

    def name(self, text: str, thing: Any) -> None:
        """Name what has no name yet: a variable, a buffer with its memory, or each of a list."""
        if isinstance(thing, (list, tuple)):
            for n, part in enumerate(thing):
                self.name(f"{text}_{n}", part)
            return
        if isinstance(thing, IterVar):
            thing = thing.var
        if self.unnamed.pop(id(thing), None) is None:
            return
        thing.name = text
        if isinstance(thing, Buffer) and self.unnamed.pop(id(thing.data), None) is not None:
            thing.data.name = text

    def get(self) -> Any:
        """What was built: the one function, module or statement. Raises UsageError where frames are
        open, or there is not one result."""
        if self.frames:
            raise UsageError("the builder has frames that are still open")
        if len(self.done) != 1:
            raise UsageError(f"the builder holds {len(self.done)} results, not one")
        return self.done[0]

    def find(self, kind: type) -> Any:
        """The innermost frame of a kind; None if there is none."""
        return next((f for f in reversed(self.frames) if isinstance(f, kind)), None)


def present() -> Builder | None:
    """The builder at work, if there is one."""
    return _current.get()


def builder(what: str) -> Builder:
    """The builder at work; `what` needs one."""
    found = _current.get()
    if found is None:
        raise UsageError(
            f"{what} stands in a function under @T.prim_func, or in `with IRBuilder():`; there is "
            "none here"
        )
    return found


def fresh(thing: Any) -> Any:
    """Remember, where a builder is at work, that a variable or buffer has no name yet."""
    found = _current.get()
    return thing if found is None else found.fresh(thing)


class Frame:
    """A statement under construction. `value` is what `with ... as` gives."""

    value: Any = None

    def __init__(self) -> None:
        self.body: list[Any] = []
        self.callbacks: list[Callable[[], None]] = []

    def open(self) -> Any:
        """Begin: what is emitted from now on is the body. Gives `value`."""
        builder(f"T.{type(self).__name__}").frames.append(self)
        return self.value

    def close(self) -> None:
        """End: the statement goes to the frame around."""
        for call in reversed(self.callbacks):
            call()
        b = builder("the end of a frame")
        while b.frames[-1] is not self:  # frames entered without `with` end with this one
            b.frames[-1].close()
        b.frames.pop()
        made = self.made()
        if made is not None:
            b.emit(made)

    def add_callback(self, call: Callable[[], None]) -> None:
        """What to call before the frame ends."""
        self.callbacks.append(call)

    def __enter__(self) -> Any:
        return self.open()

    def __exit__(self, kind: Any, *error: object) -> None:
        if kind is None:
            self.close()

    def stmt(self) -> S.Stmt:
        """The body as one statement."""
        return joined(self.body)

    def made(self) -> Any:
        """The statement, function or module."""
        raise NotImplementedError


def joined(parts: Sequence[Any]) -> S.Stmt:
    """Statements as one, as they are: nothing is dropped."""
    flat = [x for p in parts for x in (p.seq if isinstance(p, S.SeqStmt) else (p,))]
    if len(flat) == 1:
        only: S.Stmt = flat[0]
        return only
    return S.SeqStmt(flat) if flat else S.Evaluate(E.const(0))
