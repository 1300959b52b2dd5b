"""Parameters of tests, and the targets that they run on.

pytest is imported by the functions that need it only.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ..rt.device import device
from .targets import device_enabled, enabled_targets, kind_of


def parameter(*values: Any, ids: Any = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A fixture that takes each of the values in turn; assign it to the argument's name.

    by_dict: the values by their ids, instead. Raises ValueError where by_dict is given beside
    values or ids.
    """
    pytest = import_module("pytest")
    if by_dict is not None:
        if values or ids:
            raise ValueError("Use of the by_dict parameter cannot be used alongside values or ids")
        ids, values = list(by_dict), tuple(by_dict.values())

    return pytest.fixture(params=values, ids=ids)(_taker())


def _taker() -> Callable[..., Any]:
    """A function for pytest to mark: it marks each once."""

    def take(*_self: Any, request: Any) -> Any:
        return request.param

    return take


class _Group:
    """Values that vary together, one tuple a case."""

    def __init__(self, cases: tuple[Any, ...], ids: Any) -> None:
        self.cases, self.ids = cases, ids


def parameters(*value_sets: Any, ids: Any = None) -> list[Any]:
    """Fixtures that vary together: `a, b = parameters((1, 2), (3, 4))`.

    Each of `value_sets` is one case, with a value for each fixture.
    """
    group = _Group(value_sets, ids)
    made = []
    for index in range(len(value_sets[0]) if value_sets else 0):
        one = import_module("pytest").fixture(_taker())
        one.parametrize_group = group
        one.parametrize_index = index
        made.append(one)
    # pytest asks the modules of tests for parameters: so this works without the plugin
    sys._getframe(1).f_globals.setdefault("pytest_generate_tests", vary_together)
    return made


def vary_together(metafunc: Any) -> None:
    """Parametrize a test with those of its fixtures that `parameters` made."""
    if getattr(metafunc, "tvm_varied", False):
        return
    metafunc.tvm_varied = True
    groups: dict[int, tuple[_Group, list[tuple[int, str]]]] = {}
    for name in metafunc.fixturenames:
        for owner in (metafunc.cls, metafunc.module):
            made = inspect.getattr_static(owner, name, None)
            group = getattr(made, "parametrize_group", None)
            if made is not None and group is not None:
                groups.setdefault(id(group), (group, []))[1].append((made.parametrize_index, name))
                break
    for group, members in groups.values():
        names = ",".join(name for _, name in members)
        cases = [tuple(case[index] for index, _ in members) for case in group.cases]
        values = cases if len(members) > 1 else [case[0] for case in cases]
        metafunc.parametrize(names, values, indirect=True, ids=group.ids)


def fixture(func: Any = None, *, cache_return_value: bool = False, **options: Any) -> Any:
    """pytest's fixture. With `cache_return_value` it is computed once for each value of what it
    takes, and every test gets a copy of its own; $TVM_TEST_DISABLE_CACHE=1 computes it anew."""
    pytest = import_module("pytest")

    def make(function: Callable[..., Any]) -> Any:
        given = _cached(function) if cache_return_value else function
        return pytest.fixture(**options)(given)

    return make if func is None else make(func)


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    found: dict[Any, Any] = {}

    @functools.wraps(function)
    def compute(*args: Any, **kwargs: Any) -> Any:
        if int(os.environ.get("TVM_TEST_DISABLE_CACHE") or 0):
            return function(*args, **kwargs)
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
        key = tuple(_key(bound[name]) for name in names)
        if key not in found:
            found[key] = function(*args, **kwargs)
        try:
            return copy.deepcopy(found[key])
        except Exception as error:
            raise TypeError(f"the value of a cached fixture cannot be copied: {error}") from None

    return compute


def _key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def target_parameter(target: Any) -> Any:
    """A target as a parameter that is skipped where it does not work."""
    pytest = import_module("pytest")
    works = device_enabled(target)
    marks = () if works else pytest.mark.skip(reason=f"{target} is not here")
    return target, marks


def parametrize_targets(*args: Any) -> Any:
    """Runs a test for each target named that works here (or for all): it gets `target`, `dev`, or
    both."""
    pytest = import_module("pytest")

    def decorate(function: Any) -> Any:
        known = set(inspect.signature(function).parameters)
        names = [n for n in ("target", "dev") if n in known] or ["target"]
        targets = list(chosen) or [t for t, _ in enabled_targets()]
        cases = []
        for target in targets:
            value, marks = target_parameter(target)
            both = {"target": value, "dev": device(kind_of(target))}
            cases.append(pytest.param(*[both[n] for n in names], marks=marks, id=str(target)))
        return pytest.mark.parametrize(",".join(names), cases)(function)

    if len(args) == 1 and callable(args[0]):
        chosen: tuple[Any, ...] = ()
        return decorate(args[0])
    chosen = args
    return decorate


def exclude_targets(*targets: str) -> Callable[[Any], Any]:
    """Targets that a test is not run for, where `tvm.testing.plugin` gives it its `target`."""

    def note(function: Any) -> Any:
        function.tvm_excluded_targets = targets
        return function

    return note


def known_failing_targets(*targets: str) -> Callable[[Any], Any]:
    """Targets for which a test is expected to fail, where `tvm.testing.plugin` gives it its
    `target`."""

    def note(function: Any) -> Any:
        function.tvm_known_failing_targets = targets
        return function

    return note


def skip_parameterizations(*skip_params: str, reason: str) -> Callable[[Any], Any]:
    """Skips the cases of a parametrized test that have these ids."""
    return _marked(skip_params, "skip", reason)


def xfail_parameterizations(*xfail_params: str, reason: str) -> Callable[[Any], Any]:
    """Expects the cases of a parametrized test that have these ids to fail."""
    return _marked(xfail_params, "xfail", reason)


def _marked(ids: tuple[str, ...], mark: str, reason: str) -> Callable[[Any], Any]:
    pytest = import_module("pytest")

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def run(request: Any, *args: Any, **kwargs: Any) -> Any:
            if request.node.callspec.id in ids:
                if mark == "skip":
                    pytest.skip(reason)
                request.node.add_marker(pytest.mark.xfail(reason=reason))
            own = {"request": request} if takes_request else {}
            return function(*args, **own, **kwargs)

        signature = inspect.signature(function)
        takes_request = "request" in signature.parameters
        kept = [p for n, p in signature.parameters.items() if n != "request"]
        request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        own_self = kept[:1] if kept and kept[0].name == "self" else []
        rest = kept[len(own_self) :]
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own_self, request, *rest]
        )
        return _with_self(run) if own_self else run

    return decorate


def _with_self(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def method(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        return run(request, self, *args, **kwargs)

    method.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]
    return method


def main() -> None:
    """Run the tests of the calling script by pytest and exit with its status."""
    pytest = import_module("pytest")
    path = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([path, *sys.argv[1:]]))
