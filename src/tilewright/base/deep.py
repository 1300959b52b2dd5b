"""Recursion over programs that may be tens of thousands of nodes deep.

Passes are plain recursive functions, since those are what people can read. CPython's limit of a
thousand frames is met by unusual programs only, and each thread has a count of its own. So
`deep_call` runs a function directly, at no cost. Where that ends in a RecursionError it starts
again in deep mode: there, recursive walkers (classes that derive from `Recursive`, functions marked
`recursive`) look how deep the stack is whenever they go down to another node. Where it is deep they
go on in a thread of its own, with a copy of the context, but for small parts, which are done where
they are: a thread costs two wake-ups, so a walk takes one for some hundred nodes of depth. Options,
targets and all else in context variables hold there, and nothing of the process is changed, neither
the recursion limit nor the size of stacks.

A function that is started again must have no effects but those on what it makes itself.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, copy_context
from functools import cache, wraps
from typing import Any, ClassVar, TypeVar, cast

from .errors import TilewrightError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_MOST_THREADS = 4000
_SMALL = 32  # nodes: the recursion over a part of so few fits into a quarter of a thread's frames
_threads: ContextVar[int] = ContextVar("deep_threads", default=-1)  # -1: not in deep mode


def _nothing(item: Any) -> Iterable[Any]:
    return ()


_children: Callable[[Any], Iterable[Any]] = _nothing


def set_children(children: Callable[[Any], Iterable[Any]]) -> None:
    """What is below a node, () for all else; loopir sets it once, since it stands above this."""
    global _children
    _children = children


def deep_call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`function(*args, **kwargs)`, however deep it recurses.

    Walkers that exist already are those whose method `function` is, or that are among `args`.
    """
    if _threads.get() >= 0:
        _go_deep(function, args)
        return _step(function, args, kwargs)
    try:
        return function(*args, **kwargs)
    except RecursionError:
        _go_deep(function, args)
    return _elsewhere(function, args, kwargs)


def roomy(function: F) -> F:
    """Mark an entry for users: it has frames enough however few its caller has left."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _frames_reach(sys.getrecursionlimit() // 2):
            return _elsewhere(function, args, kwargs)
        return function(*args, **kwargs)

    return cast(F, call)


def recursive(function: F) -> F:
    """Mark a function that calls itself: it goes on in a thread of its own where it must."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _threads.get() >= 0:
            return _step(function, args, kwargs)
        return function(*args, **kwargs)

    return cast(F, call)


def is_on() -> bool:
    """Whether this is deep mode."""
    return _threads.get() >= 0


class Recursive:
    """A walker.

    It goes down through tables of functions by type of node. Those of its class are found;
    `recursive` names its methods that call themselves, and tables that each object has of its own.
    """

    __slots__ = ()
    recursive: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        if _threads.get() >= 0:  # what the constructor makes itself, it turns to deep mode itself
            Recursive.go_deep(self)
        return self

    def go_deep(self) -> None:
        """Look at the depth of the stack from now on."""
        kind = type(self)
        for name in _ways_down(kind):  # type: ignore[arg-type]
            way = getattr(self, name, None)
            if isinstance(way, _DeepTable) or way is None or getattr(way, "looks", False):
                continue
            if not isinstance(way, Mapping):
                deep: Any = _looking(way)
            elif way is getattr(kind, name, None):
                deep = _deep_table(kind, name)  # type: ignore[arg-type]
            else:
                deep = _DeepTable({key: _looking(rule) for key, rule in way.items()})
            setattr(self, name, deep)


@cache
def _ways_down(kind: Any) -> tuple[str, ...]:
    """Names of what a class recurses through: its tables of functions by type, and what it and
    those that it derives from name."""
    named = {name for base in kind.__mro__ for name in vars(base).get("recursive", ())}
    return (*named, *(name for name in dir(kind) if _is_table(getattr(kind, name))))


def _is_table(value: Any) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(isinstance(key, type) and callable(rule) for key, rule in value.items())


class _DeepTable(dict[Any, Any]):
    """A table whose functions look at the depth of the stack."""


@cache
def _deep_table(kind: Any, name: str) -> _DeepTable:
    return _DeepTable({key: _looking(rule) for key, rule in getattr(kind, name).items()})


def _looking(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if _must_leave(args):
            return _elsewhere(function, args, kwargs)
        return function(*args, **kwargs)

    call.looks = True  # type: ignore[attr-defined]
    return call


def _go_deep(function: Any, args: tuple[Any, ...]) -> None:
    for walker in (getattr(function, "__self__", None), *args):
        if isinstance(walker, Recursive):
            walker.go_deep()


def _step(function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    if _must_leave(args):
        return _elsewhere(function, args, kwargs)
    return function(*args, **kwargs)


def _must_leave(args: tuple[Any, ...]) -> bool:
    """Whether a call has to go on in another thread.

    Half of a thread's frames are for large parts and a quarter for small ones. The rest is for what
    a walker calls at one node, which may import modules too.
    """
    limit = sys.getrecursionlimit()
    if not _frames_reach(limit // 2):
        return False
    return _frames_reach(limit * 3 // 4) or not _is_small(args)


def _frames_reach(count: int) -> bool:
    try:
        sys._getframe(count)
    except ValueError:
        return False
    return True


def _is_small(items: Iterable[Any]) -> bool:
    stack = list(items)
    for _ in range(_SMALL):
        if not stack:
            return True
        item = stack.pop()
        stack.extend(item if type(item) is tuple else _children(item))
    return not stack


def _elsewhere(function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """A call in a new thread, in deep mode, for which this one waits."""
    count = _threads.get() + 1
    if count > _MOST_THREADS:
        raise TilewrightError("the program is nested too deeply, or nests itself without end")
    context = copy_context()
    context.run(_threads.set, count)
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(context.run(function, *args, **kwargs))
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    done = _thread.allocate_lock()
    done.acquire()
    try:
        _thread.start_new_thread(work, ())
    except RuntimeError:
        raise TilewrightError(
            f"the program is nested too deeply for the threads that this process may have ({count})"
        ) from None
    done.acquire()
    if errors:
        raise errors.pop()
    return results[0]
