"""Marks of the code that a configuration's schedule is made by, so that records show when it is not
the same any more."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from hashlib import md5
from typing import Any

from .space import ConfigSpace


def attach_code_hash(s: Any) -> Callable[[Any], Any]:
    """A decorator: when its function has been called, `code_hash` of `s`, the space or the
    configuration, is a hash of the function's source."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            s.code_hash = _hash_of(function)
            return result

        return call

    return decorate


def attach_code_hash_to_arg(arg_idx: int = 1) -> Callable[[Any], Any]:
    """A decorator like `attach_code_hash`, of the space or the configuration that is argument
    number `arg_idx` of a call."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            assert isinstance(args[arg_idx], ConfigSpace)
            args[arg_idx].code_hash = _hash_of(function)
            return result

        return call

    return decorate


def _hash_of(function: Any) -> str:
    return md5(inspect.getsource(function).encode()).hexdigest()
