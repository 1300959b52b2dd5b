"""Numbers of a test that do not depend on which tests ran before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.topi import cases, run

GENERATORS = (cases.RNG, run.RNG)
BEGINNINGS = [g.bit_generator.state for g in GENERATORS]


@pytest.fixture(autouse=True)
def numbers_from_the_beginning() -> Iterator[None]:
    for generator, state in zip(GENERATORS, BEGINNINGS):
        generator.bit_generator.state = state
    yield
