"""xgboost, which only grows trees: an installation that does not train need not have it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .errors import TilewrightError

INSTALL = "pip install 'tilewright[train]'"


def can_train() -> bool:
    """Whether xgboost is installed."""
    try:
        return find_spec("xgboost") is not None
    except (ImportError, ValueError):  # what poses as it is not whole
        return False


def require_trainer(what: str) -> None:
    """TilewrightError, saying what to install, where `what` would have to train and cannot."""
    if not can_train():
        raise TilewrightError(f"{what} trains with xgboost, which is not installed: {INSTALL}")


def trainer(what: str) -> Any:
    """The module xgboost; TilewrightError, saying what to install, where `what` lacks it."""
    require_trainer(what)
    return import_module("xgboost")
