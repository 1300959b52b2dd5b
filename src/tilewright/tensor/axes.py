"""Variables and axes that users declare, and the scope that tags operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..base.dtype import parse
from ..base.errors import UsageError
from ..loopir.expr import PrimExpr, SizeVar, Var, convert
from ..loopir.expr import const as constant
from ..loopir.iter import IterVar, Range
from .arguments import check_name


def var(name: str = "tindex", dtype: str = "int32", span: object = None) -> Var:
    """A symbolic integer (or value of any `dtype`), such as an extent known only at run time.
    Raises TilewrightError where `name` is not text, where `dtype` is no type such as 'float32'."""
    check_name(name, "a variable")
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32", span: object = None) -> SizeVar:
    """A symbolic extent: a variable known to be zero or more. Raises TilewrightError where `name`
    is not text."""
    check_name(name, "a variable")
    return SizeVar(name, dtype)


def const(value: Any, dtype: str = "int32", span: object = None) -> PrimExpr:
    """A constant of a type. Raises OperandError where `value` is neither a number nor an
    expression, and TilewrightError where `dtype` is the type of a handle, where `dtype` is no type
    such as 'float32'."""
    return constant(value, dtype)


UNNAMED = "rv"
"""What axes to reduce over are called that are given no name."""


def reduce_axis(
    dom: Any, name: str = UNNAMED, thread_tag: str = "", span: object = None
) -> IterVar:
    """An axis to reduce over; `dom` is (begin, end), an extent, or a Range. Raises TilewrightError
    where `name` is not text, and UsageError where `dom` is not (begin, end) of integers."""
    check_name(name, "an axis")
    return IterVar(_domain(dom), name, IterVar.CommReduce, thread_tag)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: object = None) -> IterVar:
    """A thread axis such as "threadIdx.x"; `thread_axis("threadIdx.x")` leaves its extent open.
    Raises UsageError where no tag is given, where `dom` is not (begin, end) of integers."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise UsageError("tag must be given as Positional or keyword argument")
    return IterVar(None if dom is None else _domain(dom), name or tag, IterVar.ThreadIndex, tag)


def _domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    ends = dom if isinstance(dom, (tuple, list)) else (0, dom)
    if len(ends) != 2:
        raise UsageError(f"the domain of an axis is (begin, end), got {dom!r}")
    for end in ends:
        if not parse(convert(end).dtype).is_integer:
            raise UsageError(f"the domain of an axis holds integers, got {end!r}")
    return Range(ends[0], ends[1])


class tag_scope:
    """Tags every operation made in its `with` block, or in the function it decorates."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    @classmethod
    def get_current(cls) -> tag_scope | None:
        """The scope around this place; None outside of all."""
        return _current.get()

    def __enter__(self) -> tag_scope:
        scoped_tag(self.tag)
        _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.set(None)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with tag_scope(self.tag):
                return function(*args, **kwargs)

        return tagged


_current: ContextVar[tag_scope | None] = ContextVar("tag_scope", default=None)


def scoped_tag(tag: str) -> str:
    """The tag of a new operation: its own, or that of the scope around it."""
    scope = _current.get()
    if scope is None:
        return tag
    if tag:
        raise UsageError(f"nested tag is not allowed for now: {tag!r} inside {scope.tag!r}")
    return scope.tag
