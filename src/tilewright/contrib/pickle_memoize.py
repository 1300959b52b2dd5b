"""`tvm.contrib.pickle_memoize`: results of functions kept in files between runs of a script.

The files are pickles in `tvm/pkl_memoize_py3` of $XDG_CACHE_HOME or ~/.cache, as TVM's are. Reading
a pickle may run code: keep the folder as safe as the scripts.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..rt.files import write_atomically

F = TypeVar("F", bound=Callable[..., Any])


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "tvm" / "pkl_memoize_py3"


class Cache:
    """The results of one function, by its arguments.

    key: name of the file. save_at_exit: write it when the process ends.
    """

    cache_by_key: dict[str, Cache] = {}

    def __init__(self, key: str, save_at_exit: bool) -> None:
        self.path = _folder() / key
        self.save_at_exit = save_at_exit
        self.dirty = False
        self._found: dict[Any, Any] | None = None
        Cache.cache_by_key[key] = self

    @property
    def cache(self) -> dict[Any, Any]:
        """The results; read from the file when first asked for."""
        if self._found is None:
            self._found = {}
            if self.path.is_file():
                try:
                    self._found = pickle.loads(self.path.read_bytes())
                except (pickle.UnpicklingError, EOFError, AttributeError, ImportError):
                    self._found = {}  # of another version: computed anew
        return self._found

    def save(self) -> None:
        """Write the results where there are new ones."""
        if self.dirty:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(os.fspath(self.path), pickle.dumps(self.cache))
            self.dirty = False


@atexit.register
def _save_all() -> None:
    for cache in Cache.cache_by_key.values():
        if cache.save_at_exit:
            cache.save()


def memoize(key: str, save_at_exit: bool = False) -> Callable[[F], F]:
    """A decorator: calls with the same arguments, and the same variables of the enclosing function,
    are computed once. `save_at_exit` keeps the results in a file for the next run."""

    def decorate(function: F) -> F:
        cache = Cache(f"{key}.{function.__name__}.pkl", save_at_exit)
        enclosed = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        free = function.__code__.co_freevars

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            named = tuple(sorted((k, _plain(v)) for k, v in kwargs.items()))
            known = tuple(zip(free, map(_plain, enclosed)))
            at = (tuple(map(_plain, args)), named, known)
            if at not in cache.cache:
                cache.cache[at] = function(*args, **kwargs)
                cache.dirty = True
            return cache.cache[at]

        return call  # type: ignore[return-value]

    return decorate


def _plain(value: Any) -> Any:
    """Something hashable that says what a value is."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple(sorted((str(k), _plain(v)) for k, v in value.items()))
    if isinstance(value, (str, int, float, bool, bytes, type(None))):
        return value
    return str(value)
