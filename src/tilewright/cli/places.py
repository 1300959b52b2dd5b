"""Arguments that name records: a file by its path, or a database by its URL."""

from __future__ import annotations

from typing import Any

import click

from ..measure.places import Url, place_of


class Records(click.Path):
    """A file that is there, or a URL, which is given on as it is."""

    name = "records"

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        place = place_of(value) if value else value
        return place if isinstance(place, Url) else super().convert(str(place), param, ctx)
