"""Recursion over expressions that may be tens of thousands of nodes deep.

Passes are plain recursive functions, since those are what people can read. CPython's own limit of a
thousand frames is met only by unusual programs, so the usual call runs directly and only when
it overflows runs again in a thread with a large stack. The function must be free of side effects.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_STACK_BYTES = 1 << 30
_LIMIT = 2_000_000
_lock = threading.Lock()


def deep_call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`function(*args, **kwargs)`, run once more with a 1 GiB stack if it overflows."""
    try:
        return function(*args, **kwargs)
    except RecursionError:
        return _on_large_stack(function, args, kwargs)


def _on_large_stack(function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    result: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(function(*args, **kwargs))
        except BaseException as error:
            failure.append(error)

    with _lock:
        old_limit, old_size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
        sys.setrecursionlimit(_LIMIT)
        try:
            worker = threading.Thread(target=work)
            worker.start()
            worker.join()
        finally:
            threading.stack_size(old_size)
            sys.setrecursionlimit(old_limit)
    if failure:
        raise failure[0]
    return result[0]
