"""One file that makes a board a device of a fleet, where there is Python and NumPy.

It is a zip file that Python runs: all modules of this package, without its data, dask.distributed
and what that needs, for the board's processor and Python, and `board`, which unpacks it there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from .. import __version__
from ..fleet.facts import FleetError
from ..fleet.tls import AUTHORITY, CERTIFICATE, KEY
from ..rt.files import write_atomically
from . import board

_ROOTS = ("distributed", "click")
_SYSTEMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")  # glibc of any board's since 2018
_DATE = (1980, 1, 1, 0, 0, 0)
_NOT_RUN = re.compile(r"(^|/)(__pycache__|tests?|bin)/|\.pyi$|^numpy(\.libs)?/")
_SHOWN = 600


def write(
    path: Path, machine: str = "aarch64", python: str = "3.11", certificates: Path | None = None
) -> dict[str, str]:
    """Write the archive for a board's processor (as `uname -m` names it) and Python; what it says
    of itself. With a folder of `certificates`, whoever has the file may join the fleet.

    FleetError where the packages that it needs cannot be had.
    """
    if not re.fullmatch(r"3\.\d+", python):
        raise FleetError(f"the board's Python is given as 3.11, not {python!r}")
    if not re.fullmatch(r"\w+", machine):
        raise FleetError(f"the board's processor is given as `uname -m` does, not {machine!r}")
    members = {**own_modules(), **_certificates(certificates)}
    with tempfile.TemporaryDirectory() as folder:
        _install(Path(folder), machine, python)
        members.update(_files(Path(folder)))
    content = hashlib.sha256()
    for name in sorted(members):
        content.update(f"{name}\0{len(members[name])}\0".encode() + members[name])
    about = {
        "tilewright": __version__, "machine": machine, "python": python,
        "digest": content.hexdigest()[:32],
    }  # fmt: skip
    members[board.ABOUT] = json.dumps(about).encode()
    members["__main__.py"] = Path(board.__file__).read_bytes()
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name in sorted(members):
                zipped.writestr(zipfile.ZipInfo(name, _DATE), members[name], zipfile.ZIP_DEFLATED)
        file.seek(0)
        write_atomically(path, file.read())
    if certificates is not None:
        path.chmod(0o600)
    return about


def own_modules() -> dict[str, bytes]:
    """All modules of this package, as members of an archive."""
    root = Path(__file__).resolve().parents[1]
    return {
        f"{root.name}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in root.rglob("*.py")
    }


def _certificates(folder: Path | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    names = (AUTHORITY, CERTIFICATE, KEY)
    missing = [n for n in names if not (folder / n).is_file()]
    if missing:
        raise FleetError(
            f"{folder} has no {', '.join(missing)}: `tilewright fleet init` makes them"
        )
    return {f"{board.CERTIFICATES}/{n}": (folder / n).read_bytes() for n in names}


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not _NOT_RUN.search(name):
            yield name, path.read_bytes()


def _install(folder: Path, machine: str, python: str) -> None:
    """Have pip put the packages for another machine into a folder."""
    versions = _versions()
    missing = [name for name in _ROOTS if name not in versions]
    if missing:
        raise FleetError(f"{', '.join(missing)} is not installed: pip install tilewright[fleet]")
    limits = folder.with_name(f"{folder.name}.txt")
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(folder),
        "--only-binary=:all:", "--implementation", "cp", "--python-version", python,
        "--disable-pip-version-check", "--constraint", str(limits),
    ]  # fmt: skip
    for system in _SYSTEMS:
        command += ["--platform", f"{system}_{machine}"]
    try:
        limits.write_text("".join(f"{n}=={v}\n" for n, v in versions.items()))
        done = subprocess.run([*command, *_ROOTS], capture_output=True, text=True, check=False)
    finally:
        limits.unlink(missing_ok=True)
    if done.returncode != 0:
        lines = [x for x in done.stderr.splitlines() if "warning" not in x.lower()]
        raise FleetError(
            f"pip cannot get what dask.distributed needs for {machine} and Python {python}; it "
            f"needs pip and a network here: {os.linesep.join(lines)[-_SHOWN:].strip()}"
        )


def _versions() -> Mapping[str, str]:
    """The versions, here, of dask.distributed and what it needs: both ends of a connection should
    have the same."""
    found: dict[str, str] = {}
    left = list(_ROOTS)
    while left:
        name = left.pop()
        if name in found:
            continue
        try:
            known = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = known.version
        wanted = [r for r in known.requires or () if "extra ==" not in r]
        left += [re.split(r"[^\w.-]", r, maxsplit=1)[0] for r in wanted]
    return found
