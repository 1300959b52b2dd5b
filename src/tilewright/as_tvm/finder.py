"""The importer that puts tilewright's modules where `tvm` and what is below it are imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ..vocabulary import find, refusal

TVM_VERSION = "0.18.0"
"""What ``tvm.__version__`` is: the version of TVM whose names and defaults are followed."""

VARIABLES = {"TVM_NUM_THREADS": "TILEWRIGHT_NUM_THREADS"}
"""Environment variables of TVM's that count for `import tvm`, where ours are not set."""

SHIM = str(Path(__file__).resolve().parent / "path")
"""A directory with a package `tvm` that does what this module does: child processes find it."""

_OWN = frozenset({"__version__", "__name__", "__spec__", "__loader__", "__package__", "__class__"})


class Tvm(ModuleType):
    """The module `tvm`: tilewright's names, TVM's version. What is set on it is set there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tilewright"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
        else:
            setattr(importlib.import_module("tilewright"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(importlib.import_module("tilewright"), name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module("tilewright"))


class TvmFinder(MetaPathFinder, Loader):
    """Finds `tvm` and everything below it, and puts tilewright's module in its place."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != "tvm":
            return None
        real = _spec_of(name)
        plain = real is not None and real.submodule_search_locations is None
        origin = None if real is None else real.origin
        return ModuleSpec(name, self, origin=origin, is_package=not plain)

    def get_code(self, name: str) -> CodeType | None:
        """For `python -m tvm.x`: the code of tilewright's module."""
        real = _spec_of(name)
        loader: Any = None if real is None else real.loader
        return None if real is None else loader.get_code(real.name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if spec.name != "tvm":
            return None
        module = Tvm("tvm", "tilewright under the name of TVM, see tilewright.as_tvm.")
        module.__version__ = TVM_VERSION
        for theirs, ours in VARIABLES.items():  # scripts set them before they import tvm
            if theirs in os.environ:
                os.environ.setdefault(ours, os.environ[theirs])
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ != "tvm":
            sys.modules[module.__name__] = stand_in(module.__name__)


def _spec_of(name: str) -> ModuleSpec | None:
    """Where tilewright's module for ``tvm.x.y`` is; None where there is none."""
    try:
        return importlib.util.find_spec(f"tilewright.{name.removeprefix('tvm.')}")
    except ImportError:
        return None


def module_of_tvm() -> ModuleType:
    """A module `tvm`, complete, with the importer of what is below it installed."""
    return importlib.util.module_from_spec(ModuleSpec("tvm", TvmFinder(), is_package=True))


def stand_in(name: str) -> ModuleType:
    """tilewright's module for ``tvm.x.y``; ModuleNotFoundError, saying what instead, without one.

    The error's `name` is the module of tilewright's that is missing: were it ``tvm.x``, `from tvm
    import x` would drop the error with its text.
    """
    rest = name.removeprefix("tvm.")
    real = f"tilewright.{rest}"
    entry = find(rest)
    if entry is not None and entry.is_module and entry.mark == "absent":
        raise ModuleNotFoundError(refusal(rest), name=real)
    try:
        return importlib.import_module(real)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{real}.".startswith(f"{error.name}."):
            raise  # of what that module imports
        text = refusal(rest) or (
            f"{name} is not here: tilewright has no module {real}; "
            "docs/vocabulary.md lists the names that it shares with TVM"
        )
        raise ModuleNotFoundError(text, name=real) from None


def install() -> None:
    """Let `tvm` be tilewright from here on, in this process and in Pythons that it starts.

    RuntimeError where another `tvm` has been imported. Calling it again does nothing.
    """
    if any(isinstance(finder, TvmFinder) for finder in sys.meta_path):
        return
    other = sys.modules.get("tvm")
    if other is not None and not str(getattr(other, "__file__", "")).startswith(SHIM):
        raise RuntimeError(
            f"tvm is imported already, from {getattr(other, '__file__', None)}: "
            "import tilewright.as_tvm before anything that imports tvm"
        )
    sys.meta_path.insert(0, TvmFinder())
    # Processes that multiprocessing spawns take over sys.path; others, the environment. Behind the
    # script's own directory, before installed packages.
    if SHIM not in sys.path:
        sys.path.insert(1, SHIM)
    paths = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if SHIM not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([SHIM, *paths])
