"""`tvm.contrib.utils`: temporary folders for exported libraries."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence


class TempDirectory:
    """A folder that is removed with this object, or at exit; `path` is where it lies.

    custom_path: use this folder (made if missing) instead, and keep it.
    """

    def __init__(self, custom_path: str | os.PathLike[str] | None = None) -> None:
        self._owned: tempfile.TemporaryDirectory[str] | None = None
        if custom_path is None:
            self._owned = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            self.path = self._owned.name
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

    def __del__(self) -> None:
        # TemporaryDirectory warns when it is collected without an explicit cleanup
        if getattr(self, "_owned", None) is not None:
            self.remove()

    def remove(self) -> None:
        """Remove the folder; again is no error. A folder named by the caller is kept."""
        owned, self._owned = self._owned, None
        if owned is not None:
            owned.cleanup()

    def relpath(self, name: str) -> str:
        """The path of `name` inside the folder."""
        return os.path.join(self.path, name)

    def listdir(self) -> Sequence[str]:
        """Names of what the folder holds."""
        return os.listdir(self.path)


def tempdir(custom_path: str | os.PathLike[str] | None = None) -> TempDirectory:
    """A temporary folder; see TempDirectory."""
    return TempDirectory(custom_path)
