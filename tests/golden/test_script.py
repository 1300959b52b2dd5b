"""Every golden program is read back from its text as the program that was printed."""

from __future__ import annotations

import pytest

from tests.fuzz.script import round_trip
from tests.golden.goldens import DATA
from tests.golden.listings import LISTINGS
from tests.golden.test_printer import kitchen_sink
from tilewright.script import from_source

TEXTS = sorted(
    p for p in DATA.rglob("*.txt") if p.read_text().startswith("# from tvm.script import")
)


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: str(p.relative_to(DATA)))
def test_text(path) -> None:
    """What is read prints as the text that it was read from."""
    text = path.read_text().rstrip("\n")
    program = from_source(text, check_well_formed=False)
    assert program.script() == text
    round_trip(program)


@pytest.mark.parametrize("name", LISTINGS)
def test_listing(name: str) -> None:
    round_trip(LISTINGS[name]())


def test_every_kind_of_statement() -> None:
    round_trip(kitchen_sink())


def test_there_are_texts() -> None:
    assert len(TEXTS) > 40
