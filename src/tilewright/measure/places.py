"""Where measurements are kept: a file by its path, or a database by its URL."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from ..base.errors import TilewrightError
from ..base.files import open_file
from ..rt.files import as_path

_URL = re.compile(r"[a-z][a-z0-9_]*(\+[a-z0-9_]+)?://", re.IGNORECASE)
_SQLITE = re.compile(r"sqlite:///(?P<path>[^?#]+)$", re.IGNORECASE)
_SECRETS = re.compile(r"(?<=://)([^/@:]*):[^@/]*@|(?<=[?&]password=)[^&]*")
_HEADER = b"SQLite format 3\0"


class Url(str):
    """The URL of a database. What is printed of it is `shown`."""

    __slots__ = ()


def place_of(place: object) -> Path | Url:
    """What users name by a path or a URL. `sqlite:///PATH` is the file, as SQLAlchemy has it.
    TilewrightError for anything else."""
    if isinstance(place, Url):
        return place
    if not isinstance(place, str) or not _URL.match(place):
        return as_path(place)
    file = _SQLITE.match(place)
    if file:
        return as_path(unquote(file["path"]))
    if place.lower().startswith("sqlite://"):
        raise TilewrightError(f"{place!r} names no file: give sqlite:///PATH, or the path alone")
    return Url(place)


def shown(place: str | os.PathLike[str]) -> str:
    """A place for people to read: without the password."""
    return _SECRETS.sub(lambda m: f"{m[1]}:***@" if m[1] is not None else "***", os.fspath(place))


def is_store(place: str | os.PathLike[str]) -> bool:
    """Whether a place is a database: a URL, or a file of SQLite's."""
    found = place_of(place)
    if isinstance(found, Url):
        return True
    try:
        with open_file(found) as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False
