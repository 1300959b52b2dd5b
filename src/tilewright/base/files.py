"""Opening files that users name: regular ones, since a pipe or a device may have no end, or never
begin."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

# each where the system has it
_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """A file for reading; OSError where it cannot be opened, or is no regular file."""
    number = os.open(path, os.O_RDONLY | _FLAGS)
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(number, "rb")
    os.close(number)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def read_file(path: str | os.PathLike[str]) -> bytes:
    """What is in a file; errors as of `open_file`."""
    with open_file(path) as file:
        return file.read()
