"""Every public function, class, method and property says what it is where `help()` looks."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

from tilewright.base.face import FACES
from tools.make_stubs import MODULES

PLAIN = (
    "tilewright.transform tilewright.testing tilewright.instrument tilewright.target "
    "tilewright.arith tilewright.tir.analysis tilewright.tir.stmt_functor tilewright.topi.nn "
    "tilewright.autotvm.task tilewright.autotvm.tuner tilewright.autotvm.callback "
    "tilewright.contrib.utils tilewright.contrib.cc tilewright.tir.ir_builder"
)


def has_text(value: Any) -> bool:
    """Whether a function or class has a docstring of its own (a method's may be inherited)."""
    doc = inspect.getdoc(value) if not inspect.isclass(value) else vars(value).get("__doc__")
    return bool(doc and doc.strip())


def missing_in(where: str, value: Any) -> list[str]:
    """What is documented nowhere: the value itself, and what it defines under public names."""
    if not inspect.isclass(value):
        return [] if has_text(value) or not callable(value) else [where]
    if not value.__module__.startswith("tilewright"):
        return []
    missing = [] if has_text(value) else [where]
    for name, own in vars(value).items():
        own = own.__func__ if isinstance(own, (classmethod, staticmethod)) else own
        public = inspect.isfunction(own) or isinstance(own, property)
        public = public and not name.startswith("_")
        if public and not has_text(getattr(value, name)):
            missing.append(f"{where}.{name}")
    return missing


def names_of(module: str) -> list[str]:
    home = import_module(module)
    if module in FACES:
        return [n for n in dir(home) if n not in FACES[module].modules]
    return [n for n in vars(home) if not n.startswith("_")]


@pytest.mark.parametrize("module", [*MODULES.split(), *PLAIN.split()])
def test_public_names_are_documented(module: str) -> None:
    home = import_module(module)
    assert home.__doc__
    missing = []
    for name in names_of(module):
        value = getattr(home, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            missing += missing_in(name, value)
    assert not missing, f"without docstrings in {module}: {', '.join(missing)}"
