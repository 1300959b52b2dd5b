"""For every test: programs are verified after each pass, the user's cache is left alone."""

import os
import tempfile

import pytest

_scratch = tempfile.TemporaryDirectory(prefix="tilewright-tests-")
os.environ["TILEWRIGHT_CACHE_DIR"] = _scratch.name
os.environ.setdefault("TILEWRIGHT_VERIFY", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files instead of comparing"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


def pytest_unconfigure() -> None:
    _scratch.cleanup()
