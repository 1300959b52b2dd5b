"""Texts that must not change unnoticed. `UPDATE_GOLDEN=1 pytest tests/golden` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

DATA = Path(__file__).parent / "data"


def check(name: str, text: str) -> None:
    """Compare `text` with the golden file of that name."""
    path = DATA / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        DATA.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert text + "\n" == path.read_text(), f"{path} differs; UPDATE_GOLDEN=1 accepts the new text"
