"""`tvm.contrib.utils`: temporary folders for exported libraries, locks, programs on the path."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar


class DirectoryCreatedPastAtExit(Exception):
    """A TempDirectory was asked for after those of the process were removed at its exit."""


class TempDirectory:
    """A new folder that is removed with this object, or at exit.

    custom_path: where it is to lie; FileExistsError where something lies there.
    keep_for_debug: keep it, so that one can look at what was written; as within
    `with TempDirectory.set_keep_for_debug():`. Such folders are numbered from 00000 and lie in one
    folder a process, `tvm-debug-mode-tempdirs/<time>___<...>` of the system's temporary folder.
    """

    _KEEP_FOR_DEBUG: ClassVar[bool] = False
    TEMPDIRS: ClassVar[set[str] | None] = set()
    _numbers: ClassVar[Iterator[int]] = count()
    _kept_in: ClassVar[str | None] = None

    def __init__(
        self,
        custom_path: str | os.PathLike[str] | None = None,
        keep_for_debug: bool | None = None,
    ) -> None:
        if TempDirectory.TEMPDIRS is None:
            raise DirectoryCreatedPastAtExit
        keep = TempDirectory._KEEP_FOR_DEBUG if keep_for_debug is None else keep_for_debug
        self._end: weakref.finalize[Any, TempDirectory] | None = None
        if custom_path is None and not keep:
            self.temp_dir = tempfile.mkdtemp()
        else:
            number = self._kept() / f"{next(TempDirectory._numbers):05d}" if not custom_path else ""
            self.temp_dir = os.fspath(custom_path or number)
            os.mkdir(self.temp_dir)
        if not keep:
            TempDirectory.TEMPDIRS.add(self.temp_dir)
            self._end = weakref.finalize(self, _remove, self.temp_dir)

    @classmethod
    def _kept(cls) -> Path:
        if TempDirectory._kept_in is None:
            above = Path(tempfile.gettempdir()) / "tvm-debug-mode-tempdirs"
            above.mkdir(exist_ok=True)
            now = datetime.now().strftime("%Y-%m-%dT%H-%M-%S___")
            TempDirectory._kept_in = tempfile.mkdtemp(prefix=now, dir=above)
        return Path(TempDirectory._kept_in)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return Path(self.temp_dir)

    @classmethod
    def remove_tempdirs(cls) -> None:
        """Remove all that are there, and let no more be made: what is done at exit."""
        for path in list(TempDirectory.TEMPDIRS or ()):
            _remove(path)
        TempDirectory.TEMPDIRS = None

    @classmethod
    @contextmanager
    def set_keep_for_debug(cls, set_to: bool = True) -> Iterator[None]:
        """Folders made inside are kept."""
        before, TempDirectory._KEEP_FOR_DEBUG = TempDirectory._KEEP_FOR_DEBUG, set_to
        try:
            yield
        finally:
            TempDirectory._KEEP_FOR_DEBUG = before

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __truediv__(self, name: str | os.PathLike[str]) -> Path:
        return self.path / name

    def remove(self) -> None:
        """Remove the folder; again is no error."""
        if self._end is not None:
            self._end()

    def relpath(self, name: str) -> str:
        """The path of `name` inside the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> Sequence[str]:
        """Names of what the folder holds."""
        return os.listdir(self.temp_dir)


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if TempDirectory.TEMPDIRS is not None:
        TempDirectory.TEMPDIRS.discard(path)


atexit.register(TempDirectory.remove_tempdirs)


def tempdir(
    custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool | None = None
) -> TempDirectory:
    """A temporary folder; see TempDirectory."""
    return TempDirectory(custom_path, keep_for_debug)


class FileLock:
    """A lock between processes: the file at `path`, locked until `release()`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.lock_file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        if os.name == "posix":
            import fcntl

            fcntl.lockf(self.lock_file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let others in; again is no error."""
        if not self.lock_file.closed:
            self.lock_file.close()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def filelock(path: str | os.PathLike[str]) -> FileLock:
    """A lock between processes; see FileLock."""
    return FileLock(path)


def is_source_path(path: str) -> bool:
    """Whether a text is a path rather than source code: one that exists, or one line that ends in a
    suffix."""
    if os.path.exists(path):
        return True
    _, dot, suffix = path.rpartition(".")
    return "\n" not in path and bool(dot) and suffix.strip() == suffix


def which(exec_name: str) -> str | None:
    """The path of a program, where it is on the path; else None."""
    return shutil.which(exec_name)
