"""For every test: programs are verified after each pass, the user's cache is left alone."""

import atexit
import gc
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.probes import take_away_cheaply

_scratch = tempfile.TemporaryDirectory(prefix="tilewright-tests-")
os.environ["TILEWRIGHT_CACHE_DIR"] = _scratch.name
os.environ.setdefault("TILEWRIGHT_VERIFY", "1")

take_away_cheaply()

# Python's 700 has the collector of cycles look at what the compiler makes hundreds of times a
# second: trees, which reference counts let go of
gc.set_threshold(50_000, 20, 100)

# not a hook of pytest: workers may end without being asked to tidy up
atexit.register(_scratch.cleanup)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Next to nothing that collecting tests makes is let go of: the collector of cycles need not
    look for it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What was collected lives as long as the tests: millions of objects that the collector of
    cycles need not look through time and again."""
    if "hypothesis" in sys.modules:
        _draw_once()
    gc.collect()
    gc.freeze()


_file: Path | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """So does what stays of the files before: caches, modules. Tests that collect to see what is
    left would look through a million objects each time."""
    global _file
    if item.path != _file:
        _file = item.path
        gc.collect()
        gc.freeze()


def _draw_once() -> None:
    """Hypothesis asks the collector who holds its generator, when it first draws, and warns where
    nobody does. The holder is a dict of this thread, which from Python 3.14 on the collector knows
    while it is empty: frozen, it would not be found."""
    from hypothesis import given, settings, strategies

    @settings(max_examples=1, database=None, derandomize=True)
    @given(strategies.none())
    def draw(nothing: None) -> None:
        assert nothing is None

    draw()


@pytest.fixture
def plain_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pytest that a test starts is a user's: without our options, nor measured by CI."""
    for name in list(os.environ):
        if name == "PYTEST_ADDOPTS" or name.startswith("SLIPCOVER_"):
            monkeypatch.delenv(name)
