"""`tvm.contrib.utils`: temporary folders for exported libraries."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any


class TempDirectory:
    """A folder that is removed with this object, or at exit; `path` is where it lies.

    custom_path: use this folder (made if missing) instead, and keep it.
    """

    def __init__(self, custom_path: str | os.PathLike[str] | None = None) -> None:
        self._end: weakref.finalize[Any, TempDirectory] | None = None
        if custom_path is None:
            self.path = tempfile.mkdtemp()
            self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        else:
            self.path = os.fspath(custom_path)
            os.makedirs(self.path, exist_ok=True)

    @property
    def temp_dir(self) -> str:
        return self.path

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __truediv__(self, name: str) -> str:
        return self.relpath(name)

    def remove(self) -> None:
        """Remove the folder; again is no error. A folder named by the caller is kept."""
        if self._end is not None:
            self._end()

    def relpath(self, name: str) -> str:
        """The path of `name` inside the folder."""
        return os.path.join(self.path, name)

    def listdir(self) -> Sequence[str]:
        """Names of what the folder holds."""
        return os.listdir(self.path)


def tempdir(custom_path: str | os.PathLike[str] | None = None) -> TempDirectory:
    """A temporary folder; see TempDirectory."""
    return TempDirectory(custom_path)
