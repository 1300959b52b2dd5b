"""Texts of the stages of a build, written to a folder (option dump_dir, TILEWRIGHT_DUMP_DIR)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from ..base import config

_numbers = itertools.count()


def dump(name: str, stage: str, text: Callable[[], str]) -> None:
    """Write `text()` to NNNN-NAME.STAGE in the dump folder, if there is one."""
    folder = config.get("dump_dir")
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"[^\w.-]", "_", name)
    (folder / f"{next(_numbers):04d}-{safe}.{stage}").write_text(text())
