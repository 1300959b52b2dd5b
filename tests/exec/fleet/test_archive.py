"""The file that is a device: what is in it, and how it starts. Packages for boards are left out, so
that no network is needed: this Python has them. `test_aarch64_device` has them all."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import archive, board
from tilewright.fleet.facts import FleetError
from tilewright.fleet.local import LocalFleet
from tilewright.fleet.tls import make_certificates
from tilewright.measure.process import environment

HERE = ".".join(map(str, sys.version_info[:2]))
MACHINE = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())

IMPORTS = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # as where it is not installed
import tilewright.fleet.server, tilewright.fleet.work, tilewright.measure.worker
import tilewright.rt.linked, tilewright.cli."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With certificates, mine.pyz, which has them, and archives for other boards."""
    found = tmp_path_factory.mktemp("archives")
    make_certificates(found / "certificates")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "_install", lambda folder, machine, python: None)
        archive.write(found / "mine.pyz", MACHINE, HERE, found / "certificates")
        archive.write(found / "old.pyz", MACHINE, "3.7")
        archive.write(found / "other.pyz", "riscv64", HERE)
        archive.write(found / "again.pyz", "riscv64", HERE)
    yield found


def started(file: Path, cache: Path, *args: str, python: tuple[str, ...] = ()) -> Any:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.Popen(
        [sys.executable, *python, str(file), *args],
        env={**env, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(file.parent)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_what_is_in_it(folder: Path) -> None:
    with zipfile.ZipFile(folder / "other.pyz") as zipped:
        names = set(zipped.namelist())
    assert {"__main__.py", board.ABOUT, "tilewright/fleet/work.py"} < names
    assert not [n for n in names if not n.endswith(".py") and n != board.ABOUT]
    assert (folder / "other.pyz").read_bytes() == (folder / "again.pyz").read_bytes()
    with zipfile.ZipFile(folder / "mine.pyz") as zipped:
        own = {n for n in zipped.namelist() if n.startswith(board.CERTIFICATES)}
    assert len(own) == 3 and (folder / "mine.pyz").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "command, has", [("fleet", {"numpy"}), ("main", {"numpy", "ml-dtypes"})], ids=["archive", "pip"]
)
def test_what_a_device_imports(command: str, has: set[str]) -> None:
    brings = {re.sub("_", "-", name).lower() for name in archive._versions()}
    assert {"distributed", "tornado", "click"} < brings
    others = [
        module
        for module, owners in packages_distributions().items()
        if not {re.sub("_", "-", o).lower() for o in owners} & {*brings, *has, "tilewright"}
        and module not in sys.stdlib_module_names
    ]
    assert "llvmlite" in others and "onnx" in others
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS + command, *others],
        capture_output=True, text=True, env=environment(), timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_two_starts_at_once(folder: Path, tmp_path: Path) -> None:
    both = [started(folder / "mine.pyz", tmp_path / "cache", "--help") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and "Usage: python3 mine.pyz [OPTIONS]" in out, err
    (only,) = (tmp_path / "cache/tilewright").iterdir()
    keys = list((only / board.CERTIFICATES).iterdir())
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600} and len(keys) == 3


def test_without_a_home(folder: Path) -> None:
    before = set(folder.iterdir())
    process = started(folder / "mine.pyz", Path("/dev/null/none"), "--fleet", "nowhere")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "the address of a fleet is tls://" in err
    assert set(folder.iterdir()) == before


@pytest.mark.parametrize(
    "name, python, says",
    [
        ("old", (), f"this archive is for Python 3.7, and this is Python {HERE}: make one with"),
        ("other", (), f"this archive is for linux on riscv64, and this is linux on {MACHINE}"),
        ("mine", ("-S",), "NumPy is not installed: apt install python3-numpy"),
    ],
)
def test_what_is_missing(
    folder: Path, tmp_path: Path, name: str, python: tuple[str, ...], says: str
) -> None:
    process = started(folder / f"{name}.pyz", tmp_path, "--help", python=python)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and says in err and not out
    assert len(err.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_it_joins_with_the_certificates_that_it_brings(folder: Path, tmp_path: Path) -> None:
    with LocalFleet(0, 1, secure=str(folder / "certificates")) as fleet:
        args = ("--fleet", fleet.address, "--key", "board", "--name", "mine", "--pretend", "0.1")
        process = started(folder / "mine.pyz", tmp_path, *args)
        try:
            assert "device 'mine' of key 'board' is up at tls://" in process.stdout.readline()
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    "how, says",
    [
        ({"python": "3"}, "Python is given as 3.11"),
        ({"machine": "a b"}, "processor is given as `uname -m`"),
        ({"machine": "pdp11"}, "pip cannot get what dask.distributed needs for pdp11"),
        ({"certificates": Path(__file__).parent}, "`tilewright fleet init` makes them"),
    ],
)
def test_what_cannot_be_made(tmp_path: Path, how: dict[str, Any], says: str) -> None:
    with pytest.raises(FleetError, match=re.escape(says)):
        archive.write(tmp_path / "device.pyz", **how)
    assert not list(tmp_path.iterdir())
