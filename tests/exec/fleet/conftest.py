"""Fleets of processes of this machine, which tests of a module share where they break nothing."""

from collections.abc import Iterator

import pytest

pytest.importorskip("distributed", reason="dask.distributed is not installed")

from tilewright.fleet.local import LocalFleet


@pytest.fixture(scope="module")
def pretending() -> Iterator[LocalFleet]:
    """Two devices that make costs up, in 10 ms each."""
    with LocalFleet(2, pretends=0.01) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def real() -> Iterator[LocalFleet]:
    """One device and two builders, all of them this machine."""
    with LocalFleet(1, 2) as fleet:
        yield fleet
