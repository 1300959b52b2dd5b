"""Functions that implement a published method say where it comes from."""

from __future__ import annotations

from typing import Any

import pytest

from tools.api_errors import Public
from tools.api_sources import methods, texts, without_source


def test_every_published_method_names_its_source() -> None:
    assert without_source() == []
    assert len(list(methods())) > 90, "the reader has found less than there was"


def cited() -> None:
    """Twice, as Doe and Roe, On Doubling, 1999."""


def referring() -> None:
    """As `cited`, of pairs."""


def silent() -> None:
    """Twice as much as ever."""


@pytest.mark.parametrize(("function", "count"), [(cited, 1), (referring, 2), (silent, 1)])
def test_what_a_docstring_refers_to_counts(function: Any, count: int) -> None:
    said = list(texts(Public(f"tests.{function.__name__}", function, (function,))))
    assert len(said) == count
    assert any("1999" in text for text in said) is (function is not silent)
