"""Finished measurements as lines of JSON, each on disk when the call that adds it returns.

They hold data only. `store.py` keeps measurements in databases.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..base.errors import TilewrightError
from ..base.files import open_file


def require_lines(path: str | os.PathLike[str]) -> None:
    """TilewrightError where a file is there already, and does not begin as lines of JSON do: what
    is added to it would spoil it."""
    try:
        with open_file(path) as file:
            begin = next((line.strip() for line in file if line.strip()), b"{")
    except OSError:
        return  # it is not there yet, or writing it will say why that cannot be
    if not _may_hold_records(begin):
        raise TilewrightError(
            f"{os.fspath(path)} is there already and is no file of records: give another name"
        )


def _may_hold_records(begin: bytes) -> bool:
    """Whether a file whose first line is this may hold lines of JSON, if damaged ones."""
    return begin[:1] in b"{[#"


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Add a line to a file, on disk when this returns. Half a line that a killed process left at
    its end stays a line of its own. TilewrightError where the file cannot be written or the disk is
    full; nothing of the line is kept then."""
    data = line.rstrip("\n").encode() + b"\n"
    try:
        binary = getattr(os, "O_BINARY", 0)  # Windows translates the ends of lines without it
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | binary, 0o666)
    except OSError as error:
        raise TilewrightError(f"cannot write {os.fspath(path)}: {error.strerror}") from None
    try:
        with suppress(OSError, ImportError):  # not every file system, and not every system, can
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        if size and _last_byte(fd, size) != b"\n":
            data = b"\n" + data
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
        except OSError as error:
            with suppress(OSError):  # a pipe or a device
                os.ftruncate(fd, size)
            raise TilewrightError(f"cannot write {os.fspath(path)}: {error.strerror}") from None
        with suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def _last_byte(fd: int, size: int) -> bytes:
    os.lseek(fd, size - 1, os.SEEK_SET)
    return os.read(fd, 1)


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, Any]]:
    """(line number, JSON value) of the lines of a file. Lines that are not JSON are left out, with
    one warning that says which; blank ones and those that begin with # without a warning.
    TilewrightError where there is no other, and the first is nothing that was JSON once."""
    damaged: list[int] = []
    first, found = b"", False
    try:
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text or text.startswith(b"#"):
                    continue
                first = first or text
                try:
                    value = json.loads(text)
                except (ValueError, RecursionError):
                    damaged.append(number)
                else:
                    found = True
                    yield number, value
    except OSError as error:
        raise TilewrightError(f"cannot read {os.fspath(path)}: {error.strerror}") from None
    if damaged and not found and not _may_hold_records(first):
        raise TilewrightError(
            f"{os.fspath(path)} is no file of records: none of its lines is JSON; "
            "`tilewright tune` and RecordToFile write such files"
        )
    warn_of_lines(path, damaged)


def warn_of_lines(path: object, damaged: list[int]) -> None:
    """One warning for the lines of a file of records that could not be read."""
    if damaged:
        shown = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        warnings.warn(
            f"{path}: left out {len(damaged)} damaged record{'s' if len(damaged) > 1 else ''} "
            f"(line {shown})",
            UserWarning,
            stacklevel=3,
        )
