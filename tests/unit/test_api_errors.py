"""Docstrings of the reference name the errors that are raised for a caller's arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tilewright import te, topi
from tilewright.base.errors import ScheduleError, TilewrightError, UsageError
from tools.api_errors import Public, errors_of, missing, public, strangers


def test_every_public_function_names_the_errors_that_it_raises() -> None:
    """No exceptions: what is raised is said, where `help()` and the reference show it."""
    raising, silent = 0, []
    for item in public():
        raising += bool(errors_of(item))
        for error, places in missing(item).items():
            silent.append(f"{item.path}: {error.__name__} ({places[0].where}, {places[0].message})")
    assert silent == []
    assert raising > 1000, "the reader has found less than there was"


def test_sentences_on_errors_are_of_the_parameters_that_there_are() -> None:
    assert [f"{item.path}: {names}" for item in public() if (names := strangers(item))] == []


def speaking_of_another(size: int) -> int:
    """Twice. Raises UsageError where `count` or `size` is below 0."""
    return direct(size)


def _checked(count: Any) -> int:
    if not isinstance(count, int):
        raise TilewrightError(f"a count is a number, got {count!r}")
    return count


def direct(size: int) -> int:
    """Twice."""
    if size < 0:
        raise UsageError("below zero")
    return 2 * size


def through(first: Any, second: Any) -> int:
    """The sum."""
    return _checked(first) + _checked(second)


def of_its_own(first: int) -> int:
    """What it gives a callee is its own making."""
    return _checked(first + 1)


def caught(first: Any) -> int:
    """One, where it is no number. TilewrightError is never raised."""
    try:
        return _checked(first)
    except TilewrightError:
        return 1


def saying(size: int) -> int:
    """Twice; UsageError, a ValueError, below zero."""
    return direct(size)


def _item(function: Any) -> Public:
    return Public(f"tests.{function.__name__}", function, (function,))


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of this file count as the project's."""
    monkeypatch.setattr("tools.raise_reader.PACKAGE", ("tilewright", __name__))


def test_what_is_raised_is_found_where_it_depends_on_arguments() -> None:
    (raised,) = errors_of(_item(direct))
    assert (raised.error, raised.guard, raised.about) == (
        UsageError,
        "size < 0",
        frozenset({"size"}),
    )
    assert [(r.about, r.depth) for r in errors_of(_item(through))] == [
        (frozenset({"first"}), 1),
        (frozenset({"second"}), 1),
    ]
    assert errors_of(_item(of_its_own)) == []
    assert errors_of(_item(caught)) == []


def test_what_is_not_said_is_missing() -> None:
    assert strangers(_item(speaking_of_another)) == ["count"]
    assert set(missing(_item(direct))) == {UsageError}
    assert missing(_item(saying)) == {}


def test_errors_of_primitives_and_of_wrapped_operators_are_found() -> None:
    split = Public("te.Stage.split", te.Stage.split, (te.Stage.split,), te.Stage)
    assert ScheduleError in {r.error for r in errors_of(split)}
    cholesky = _item(topi.cholesky)
    assert any("ndim" in r.guard for r in errors_of(cholesky))
    assert "`data` is not of 2 or more dimensions" in (inspect.getdoc(topi.cholesky) or "")


def test_operators_made_by_one_function_say_what_all_of_them_raise() -> None:
    for operator in (topi.nn.conv2d_nchw, topi.nn.conv1d_nwc, topi.add, topi.nn.pool2d):
        text = inspect.getdoc(operator) or ""
        assert text.split("\n\n")[-1].startswith("Raises TilewrightError where ")
        assert "    Raises" not in text
