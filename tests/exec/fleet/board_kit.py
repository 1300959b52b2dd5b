"""A board without a board: Debian's Python and NumPy for AArch64 in a folder, run by qemu-user.

Nothing is installed here: apt keeps its state in the folder, and packages are unpacked, not set up.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PYTHON = "3.11"  # Debian 12's
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SOURCE = f"deb [signed-by={_KEYS}] http://deb.debian.org/debian bookworm main\n"
_START = """#!/bin/sh
exec qemu-aarch64 -0 "$0" -L '{root}' '{root}/usr/bin/python{version}' "$@"
"""


def board_python(folder: Path) -> Path:
    """The board's `python3`, in a folder of its own; the test is skipped where it cannot be had."""
    missing = [t for t in ("qemu-aarch64", "apt-get", "dpkg") if shutil.which(t) is None]
    if missing or not _KEYS.exists():
        pytest.skip(f"no {', '.join(missing) or _KEYS} (Debian: qemu-user)")
    root = folder / "root"
    try:
        packages = _fetched(folder / "apt")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Debian's packages for AArch64 cannot be had: {error.stderr!r:.300}")
    for package in packages:
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    libraries = root / "usr/lib/aarch64-linux-gnu"
    for name in ("blas/libblas.so.3", "lapack/liblapack.so.3"):  # as setting them up would
        (libraries / Path(name).name).symlink_to(name)
    # what Python takes for itself, so that its children run under qemu too
    python = root / "usr/bin/board-python"
    python.write_text(_START.format(root=root, version=PYTHON))
    python.chmod(0o755)
    return python


def _fetched(state: Path) -> list[Path]:
    """Files of the packages that Python and NumPy take."""
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    (state / "sources.list").write_text(_SOURCE)
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::State::lists": str(state / "lists"),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache::archives": str(state / "archives"),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Dir::Etc::sourcelist": str(state / "sources.list"),
        "Dir::Etc::sourceparts": "/dev/null",
    }
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    for action in (["update"], ["install", "-y", "--download-only", "python3-numpy"]):
        subprocess.run([*command, *action], check=True, capture_output=True, timeout=120)
    found = sorted((state / "archives").glob("*.deb"))
    if not found:
        raise subprocess.CalledProcessError(1, "apt-get", stderr="it fetched nothing")
    return found
