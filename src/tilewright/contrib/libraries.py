"""Matrix products by a BLAS, under the names of TVM's modules for several of them."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base.errors import TargetError


def refuse(library: str, instead: str) -> NoReturn:
    """TargetError: `library` is not called by code of ours; what to use instead."""
    raise TargetError(f"{library} is not called by compiled code of tilewright: {instead}")


def refusal(name: str, library: str, instead: str) -> Any:
    """A function of that name that refuses."""

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(library, instead)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"TargetError: {library} is not called; {instead}."
    return function
