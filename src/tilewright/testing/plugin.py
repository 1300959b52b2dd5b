"""A plugin of pytest: `pytest_plugins = ["tvm.testing.plugin"]` in a conftest.py.

Tests that take `target` or `dev` run once for each target that works here, less those of
`exclude_targets`; those of `known_failing_targets` are expected to fail. Fixtures of
`tvm.testing.parameters` vary together.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..rt.device import device
from .cases import target_parameter, vary_together
from .requires import Feature
from .targets import device_enabled, enabled_targets, kind_of

MARKERS = {"gpu": "mark a test as requiring a gpu", "tensorcore": "mark a test as needing cores"}


def pytest_configure(config: Any) -> None:
    """Make the marks known."""
    for name, text in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {text}")
    for name, feature in Feature._all_features.items():
        config.addinivalue_line("markers", f"{name}: needs {feature.long_name}")


def pytest_generate_tests(metafunc: Any) -> None:
    """Give tests their targets, and parameters that vary together."""
    vary_together(metafunc)
    _give_targets(metafunc)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Expect failures of targets that a test names itself, too."""
    pytest = import_module("pytest")
    for item in items:
        failing = getattr(getattr(item, "function", None), "tvm_known_failing_targets", ())
        target = getattr(getattr(item, "callspec", None), "params", {}).get("target")
        if failing and target is not None and kind_of(target) in map(kind_of, failing):
            item.add_marker(pytest.mark.xfail(reason=f"known to fail on {target}"))


def _target_to_requirement(target: Any) -> list[Any]:
    """The marks of a test that runs on a target."""
    marks = target_parameter(target)[1]
    return [marks] if marks else []


def _parametrized(metafunc: Any) -> set[str]:
    found: set[str] = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        found.update(n.strip() for n in names.split(",")) if isinstance(names, str) else (
            found.update(names)
        )
    return found


def _give_targets(metafunc: Any) -> None:
    pytest = import_module("pytest")
    wanted = [n for n in ("target", "dev") if n in metafunc.fixturenames]
    given = _parametrized(metafunc)
    if not wanted or given & {"target", "dev"} or not _ours(metafunc, wanted):
        return
    excluded = getattr(metafunc.function, "tvm_excluded_targets", ())
    cases = []
    for target, _ in enabled_targets():
        if kind_of(target) in map(kind_of, excluded):
            continue
        value, marks = target_parameter(target)
        cases.append(pytest.param(value, marks=marks, id=str(target)))
    metafunc.parametrize("target", cases, scope="session")


def _ours(metafunc: Any, names: list[str]) -> bool:
    """Whether tests have these fixtures from here: those of their own, of the same names, stay."""
    known = getattr(metafunc, "_arg2fixturedefs", {})
    return all(known[n][-1].func.__module__ == __name__ for n in names if known.get(n))


def _fixture(function: Any) -> Any:
    return import_module("pytest").fixture(scope="session")(function)


@_fixture
def target(request: Any) -> Any:
    """The target of a test's case."""
    return request.param


@_fixture
def dev(target: Any) -> Any:
    """The first device of the target of a test's case."""
    return device(kind_of(target))


__all__ = [
    "dev",
    "device_enabled",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "target",
]
