"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.errors import TilewrightError


def as_path(path: object) -> Path:
    """The path that users give as text or Path; TilewrightError for anything else."""
    try:
        text = os.fspath(path)  # type: ignore[call-overload]
    except TypeError:
        text = None
    if not isinstance(text, str) or not text or "\0" in text:
        raise TilewrightError(f"a path is text or a pathlib.Path, got {path!r}")
    return Path(text)


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the body ends without error, with a
    mode that the process's umask limits."""
    target = as_path(path)
    if os.path.exists(target):
        require_writable(target)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise TilewrightError(f"cannot write {target}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(mode & ~_umask())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # a full disk, a directory of that name
            raise TilewrightError(f"cannot write {target}: {error.strerror}") from None
        raise


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise TilewrightError now if `path` could not be written later."""
    target = Path(path)
    if os.path.isdir(target):
        raise TilewrightError(f"cannot write {target}: it is a directory")
    if os.path.exists(target) and not target.is_file():
        raise TilewrightError(f"cannot write {target}: it is a device or pipe, not a file")
    if not target.parent.is_dir():
        raise TilewrightError(f"cannot write {target}: there is no directory {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise TilewrightError(f"cannot write {target}: no permission to write {target.parent}")


def write_atomically(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> None:
    """Make `data` the content of a file, all of it or nothing."""
    with replacing(path, mode) as temporary:
        temporary.write_bytes(data)


def _umask() -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith("Umask"))
    except (OSError, StopIteration, ValueError):
        return 0o022
