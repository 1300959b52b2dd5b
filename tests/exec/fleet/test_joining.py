"""Who may join a fleet, and what the others are told."""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from distributed.versions import error_message

from tests.unit.measure.runner_kit import FAST, product
from tilewright.cli.main import main
from tilewright.fleet.client import _HARMLESS, Fleet
from tilewright.fleet.facts import Facts, FleetError
from tilewright.fleet.local import LocalFleet, Server
from tilewright.fleet.measurer import FleetMeasurer
from tilewright.fleet.tls import make_certificates, security_for
from tilewright.measure.process import environment
from tilewright.measure.runner import Timing


def joins(fleet: LocalFleet, facts: Facts, **how: Any) -> Server:
    return Server(facts.role, {"address": fleet.address, "facts": facts.as_data(), **how})


def test_with_certificates(tmp_path: Path) -> None:
    """Its own are let in; those of another fleet, and none, are not."""
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        make_certificates(folder)
    assert (own / "fleet-key.pem").stat().st_mode & 0o077 == 0
    with LocalFleet(1, pretends=0.01, secure=str(own)) as fleet:
        assert fleet.address.startswith("tls://")
        with FleetMeasurer(Fleet(fleet.address, own), "local", Timing(**FAST)) as measurer:
            ((_, found),) = measurer.measure([product(2)])
        assert found.ok
        with pytest.raises(FleetError, match=r"they are of another fleet .*copy the folder"):
            Fleet(fleet.address, other)
        with pytest.raises(FleetError, match="does not start"):
            joins(fleet, Facts("device", "thief", "local", "llvm"), folder=str(other), patience=5)
        plain = fleet.address.replace("tls:", "tcp:")
        with pytest.raises(FleetError, match="no fleet answers at"):
            Fleet(plain, timeout=2)
        with Fleet(fleet.address, own) as seen:
            assert {f.name for f in seen.workers().values()} == {"builder", "device0"}


def test_certificates_are_never_written_over(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    before = (tmp_path / "fleet-key.pem").read_bytes()
    with pytest.raises(FleetError, match=r"fleet-ca\.pem exists"):
        make_certificates(tmp_path)
    assert (tmp_path / "fleet-key.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("address", "plain", "says"),
    [
        ("tcp://10.0.0.1:1", False, "for everybody to read and change: use tls://"),
        ("tls://10.0.0.1:1", False, "make a fleet's certificates with `tilewright fleet init`"),
        ("10.0.0.1:1", False, "is tls://HOST:PORT"),
        ("http://10.0.0.1", True, "is tls://HOST:PORT"),
    ],
)
def test_plain_connections_stay_here(tmp_path: Path, address: str, plain: bool, says: str) -> None:
    with pytest.raises(FleetError, match=says):
        security_for(address, tmp_path, plain)
    assert security_for("tcp://127.0.0.1:1", tmp_path, False) is None
    assert security_for("tcp://10.0.0.1:1", tmp_path, True) is None


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1", "tls://127.0.0.1:99999", "tcp://:8786", "127.0.0.1:8786", ""]
)
def test_addresses_without_a_host_or_a_port(address: str) -> None:
    says = re.escape(f"is tls://HOST:PORT (or tcp://HOST:PORT), not {address!r}")
    with pytest.raises(FleetError, match=says):
        Fleet(address)
    with pytest.raises(FleetError, match=says):
        Server("device", {"address": address, "facts": Facts("device", "a", "k").as_data()})


def test_what_cannot_be_reached_is_said_without_dasks_own_words() -> None:
    how = {"address": "tcp://127.0.0.1:9", "patience": 1}
    with pytest.raises(FleetError) as caught:
        Server("device", {**how, "facts": Facts("device", "a", "k").as_data()})
    assert "no fleet answers at tcp://127.0.0.1:9 within 1 s: is `tilewright" in str(caught.value)
    assert "object at" not in str(caught.value)
    with pytest.raises(FleetError, match=r"a scheduler cannot listen on 300\.1\.1\.1: "):
        Server("scheduler", {"host": "300.1.1.1", "plain": True})


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (Facts("device", "old", "local", "llvm", version="0.0.1"),
         r"it has tilewright 0\.0\.1 .*install the same version on both"),
        (Facts("device", "new", "local", "llvm", format=99), "format 99"),
        (Facts("device", "device0", "local", "llvm"), "there is a worker named 'device0' already"),
    ],
)  # fmt: skip
def test_the_scheduler_refuses(pretending: LocalFleet, facts: Facts, says: str) -> None:
    with pytest.raises(FleetError, match=says):
        joins(pretending, facts)


def test_a_worker_of_plain_dask_is_refused(pretending: LocalFleet) -> None:
    code = (
        "import asyncio, sys, distributed\n"
        "async def main():\n"
        "    async with distributed.Worker(sys.argv[1], memory_limit=0) as w:\n"
        "        print('joined')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, pretending.address],
        capture_output=True, text=True, timeout=60, env=environment(),
    )  # fmt: skip
    assert "joined" not in done.stdout
    assert "it is a worker of plain Dask" in done.stderr


def test_a_fleet_without_what_is_asked_for(pretending: LocalFleet) -> None:
    with (
        Fleet(pretending.address) as fleet,
        pytest.raises(FleetError, match=r"no device of 'phone' .* there are 'local'; start one"),
    ):
        FleetMeasurer(fleet, "phone")
    with pytest.raises(FleetError, match=r"no fleet answers at tcp://127\.0\.0\.1:1 within 2 s"):
        Fleet("tcp://127.0.0.1:1", timeout=2)


def test_the_state_of_a_fleet_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(*words: str) -> str:
        done = CliRunner().invoke(main, ["fleet", *words])
        assert done.exit_code == 0, done.output
        return done.output

    with LocalFleet(1, pretends=0.01) as fleet:
        with FleetMeasurer(Fleet(fleet.address), "local", Timing(**FAST)) as measurer:
            list(measurer.measure([product(2), product(4)]))
        # the scheduler hears a moment later than the client that the last run has ended
        deadline = time.monotonic() + 30
        while "0 busy" not in (text := shown("status", "--fleet", fleet.address)):
            assert time.monotonic() < deadline, text
        assert re.search(r"device0 +local .* 0 +0 +2 +0", text)
        assert "1 devices, 0 busy; 2 candidates run, 0 failed" in text and "dashboard" not in text

        def look() -> None:
            if next(looks):
                raise KeyboardInterrupt

        looks = iter((0, 1))
        monkeypatch.setattr("tilewright.cli.show_fleet._pause", look)
        watched = CliRunner().invoke(main, ["fleet", "status", "--fleet", fleet.address, "--watch"])
        assert watched.exit_code == 130 and "0 failed; 0.0 a second" in watched.output


def test_a_fleet_says_where_its_dashboard_is() -> None:
    how = {"host": "127.0.0.1", "dashboard": "127.0.0.1:0"}
    scheduler = Server("scheduler", how)
    try:
        with Fleet(scheduler.address) as fleet:
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/status", fleet.dashboard())
    finally:
        scheduler.close()


def test_a_dashboard_needs_bokeh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cli.fleet.find_spec", lambda name: None)
    done = CliRunner().invoke(main, ["fleet", "scheduler", "--dashboard", "8787"])
    assert done.exit_code == 2 and "pip install bokeh" in done.output


@pytest.mark.parametrize(
    "package, warns", [("python", False), ("numpy", False), ("msgpack", True), ("dask", True)]
)
def test_versions_that_may_differ(package: str, warns: bool) -> None:
    versions = {"python": "3.11.7", "numpy": "2.4", "msgpack": "1.2", "dask": "2026.8"}
    here, there = {"packages": versions}, {"packages": {**versions, package: "0.1"}}
    said = error_message(here, {"board": there}, here)["warning"]
    assert package in said
    assert bool(re.match(_HARMLESS, said)) is not warns
