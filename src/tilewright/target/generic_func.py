"""Functions that are another one for each kind of target: `@target.generic_func`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..base.errors import TargetError
from .target import Target

F = TypeVar("F", bound=Callable[..., Any])

_by_name: dict[str, GenericFunc] = {}


class GenericFunc:
    """A function that calls the one registered for the first known key of the current target, else
    its default."""

    def __init__(self, name: str = "", default: Callable[..., Any] | None = None) -> None:
        self.name = name
        self._default = default
        self._of_key: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        return self.for_target()(*args)

    def for_target(self) -> Callable[..., Any]:
        """The function for the current target; TargetError where there is none."""
        target = Target.current(allow_none=True)
        for key in target.keys if target is not None else ():
            if key in self._of_key:
                return self._of_key[key]
        if self._default is None:
            keys = "no target" if target is None else f"target {target}"
            raise TargetError(f"the generic function {self.name!r} has nothing for {keys}")
        return self._default

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """What is called for targets without a function of their own; TargetError where that is
        said already, unless `allow_override` is set."""
        if self._default is not None and not allow_override:
            raise TargetError(f"Generic function {self.name!r} has a default already")
        self._default = func

    def register(
        self, func: Callable[..., Any], key_list: Sequence[str], allow_override: bool = False
    ) -> None:
        """The function for targets with one of the keys; TargetError where a key has one already,
        unless `allow_override` is set."""
        for key in [key_list] if isinstance(key_list, str) else key_list:
            if key in self._of_key and not allow_override:
                raise TargetError(f"Tag {key!r} of generic function {self.name!r} is registered")
            self._of_key[key] = func


def get_native_generic_func(name: str) -> GenericFunc:
    """The generic function of that name, made when first asked for."""
    return _by_name.setdefault(name, GenericFunc(name))


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: the function becomes the default of the generic function `func_name`, which is
    kept by that name; it is called as the decorated one, whose `register` adds others."""
    generic = get_native_generic_func(func_name)

    def decorate(function: Callable[..., Any]) -> Any:
        generic.set_default(function, allow_override=True)
        return _dispatcher(generic, function)

    return decorate


def generic_func(fdefault: Callable[..., Any]) -> Any:
    """A decorator: `f.register(["cuda", "gpu"])` then takes the functions for other targets; calls
    go to the one for the current target. `f.fdefault` is the function itself."""
    generic = GenericFunc(getattr(fdefault, "__name__", ""), fdefault)
    return _dispatcher(generic, fdefault)


def _dispatcher(generic: GenericFunc, function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        return generic.for_target()(*args, **kwargs)

    def register(
        key: str | Sequence[str], func: Callable[..., Any] | None = None, override: bool = False
    ) -> Any:
        """Register a function for one key or several; without it, a decorator."""

        def note(given: F) -> F:
            generic.register(given, [key] if isinstance(key, str) else key, override)
            return given

        return note if func is None else note(func)

    dispatch.register = register  # type: ignore[attr-defined]
    dispatch.fdefault = function  # type: ignore[attr-defined]
    dispatch.generic_func_node = generic  # type: ignore[attr-defined]
    return dispatch
