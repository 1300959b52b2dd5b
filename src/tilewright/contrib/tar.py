"""`tvm.contrib.tar`: pack files into an archive."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence


def tar(output: str, files: str | Sequence[str]) -> None:
    """Write a tar file of files, each at its top level."""
    with tarfile.open(output, "w") as archive:
        for name in [files] if isinstance(files, str) else files:
            archive.add(name, arcname=os.path.basename(name))


def untar(tar_file: str, directory: str) -> None:
    """Unpack a tar file into a folder; nothing is written outside it."""
    with tarfile.open(tar_file) as archive:
        archive.extractall(directory, filter="data")


def normalize_file_list_by_unpacking_tars(temp: object, file_list: Sequence[str]) -> list[str]:
    """The files, with those inside tar files in place of these; `temp` is a TempDirectory."""
    found: list[str] = []
    for index, name in enumerate(file_list):
        if not tarfile.is_tarfile(name):
            found.append(name)
            continue
        folder = str(temp.relpath(f"tar{index}"))  # type: ignore[attr-defined]
        os.makedirs(folder, exist_ok=True)
        untar(name, folder)
        found += [os.path.join(folder, part) for part in sorted(os.listdir(folder))]
    return found
