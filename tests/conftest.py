"""For every test: programs are verified after each pass, the user's cache is left alone."""

import atexit
import gc
import os
import tempfile

import pytest

_scratch = tempfile.TemporaryDirectory(prefix="tilewright-tests-")
os.environ["TILEWRIGHT_CACHE_DIR"] = _scratch.name
os.environ.setdefault("TILEWRIGHT_VERIFY", "1")

# not a hook of pytest: workers may end without being asked to tidy up
atexit.register(_scratch.cleanup)


def pytest_collection_finish() -> None:
    """What was collected lives as long as the tests: millions of objects that the collector of
    cycles need not look through time and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def plain_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pytest that a test starts is a user's: without our options, nor measured by CI."""
    for name in list(os.environ):
        if name == "PYTEST_ADDOPTS" or name.startswith("SLIPCOVER_"):
            monkeypatch.delenv(name)
