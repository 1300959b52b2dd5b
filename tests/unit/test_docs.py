"""The documentation's listings are what the programs beside them print; its pages build."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.make_listings import DOCS, run_document

PAGES = sorted(p.name for p in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_listings_are_up_to_date(page: str) -> None:
    text = (DOCS / page).read_text()
    assert run_document(text) == text, "run: python -m tools.make_listings"


def test_every_page_is_in_the_navigation() -> None:
    config = (DOCS.parent / "mkdocs.yml").read_text()
    assert [page for page in PAGES if f": {page}" not in config] == []


def test_a_stale_listing_is_noticed() -> None:
    stale = "```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n"
    assert run_document(stale) == stale.replace("41", "42")


def test_pages_build_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "primitives" / "index.html").is_file()
