"""What notebooks show of an object: a picture that the room `report` draws, found when asked for,
since it stands above those whose objects it draws."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

_WIDGETS = "tilewright.report.widgets"


class Pictured:
    """Gives `_repr_html_`, which notebooks call to show the last value of a cell."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """HTML that shows this object in a notebook."""
        return str(import_module(_WIDGETS).html_of(self))


class Shown(Pictured):
    """Gives `show` too."""

    __slots__ = ()

    def show(self, path: str | os.PathLike[str] | None = None) -> Path | None:
        """Show this object: in a notebook below the cell, else as a page in the browser.

        `path`: the file for the page, which is only written then, without a browser; returned is
        where it is (None in a notebook). TilewrightError where there is nothing to draw.
        """
        shown: Any = import_module(_WIDGETS).show(self, path)
        return None if shown is None else Path(shown)
