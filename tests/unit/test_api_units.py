"""Docstrings of the reference name the units of quantities."""

from __future__ import annotations

from typing import Any

import pytest

from tools.api_errors import Public, public
from tools.api_units import kind_of, names, silent, without_unit


def test_every_quantity_of_the_reference_has_a_unit() -> None:
    """No exceptions: a time is in seconds because somebody says so."""
    assert silent() == []
    found = [kind_of(name) for item in public() for name, _ in names(item)]
    assert sum(kind is not None for kind in found) > 150, "the reader has found less than there was"


def waits(timeout: float, min_repeat_ms: float, name: str) -> None:
    """Wait. `name`: text that is shown for ten seconds."""


def waits_long(timeout: float) -> None:
    """Wait for `timeout` minutes."""


def waits_as_others(timeout: float) -> None:
    """Wait, as of `waits_long`, and show a picture."""


def latency(of: str) -> float:
    """How long it takes."""
    return float(of)


@pytest.mark.parametrize(
    ("function", "found"),
    [(waits, ["timeout"]), (waits_long, []), (waits_as_others, []), (latency, ["latency"])],
)
def test_what_has_no_unit_is_found(function: Any, found: list[str]) -> None:
    item = Public(f"tests.{function.__name__}", function, (function,))
    assert [one.name for one in without_unit(item)] == found


def test_names_say_what_kind_of_quantity_they_are() -> None:
    kinds = {
        name: kind_of(name) for name in ("session_timeout", "n_trial", "port", "gflops", "axis")
    }
    assert kinds == {
        "session_timeout": "time", "n_trial": "trials", "port": "port", "gflops": "rate",
        "axis": None,
    }  # fmt: skip
    assert kind_of("cooldown_interval_ms") is None, "it has its unit in its name"
