"""`tilewright fleet` and `tilewright device`: the machines that measure for searches elsewhere."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ..base.errors import UsageError
from .group import Group

_address = click.option(
    "--fleet", "address", required=True, metavar="ADDRESS",
    help="The fleet's scheduler: tls://HOST:PORT, or tcp://HOST:PORT on this machine.",
)  # fmt: skip
_certificates = click.option(
    "--certificates",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="What `tilewright fleet init` made (default: where it puts it).",
)
_plain = click.option(
    "--plain", is_flag=True, help="TCP without encryption, where the network is trusted."
)
_name = click.option(
    "--name",
    default=socket.gethostname,
    help="Of this worker, unique in its fleet (default: its host).",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def fleet() -> None:
    """Measure and tune on many machines.

    \b
    On one machine, which all others reach:
      tilewright fleet init
      tilewright fleet scheduler --host 0.0.0.0 --port 8786
    On machines with cores to spare:
      tilewright fleet worker --fleet tls://HOST:8786
    On each device:
      tilewright device --fleet tls://HOST:8786 --key board
    And to search:
      tilewright tune MODEL.onnx --fleet tls://HOST:8786 --device-key board
    """


@fleet.command()
@_certificates
def init(certificates: str | None) -> None:
    """Make the certificates of a fleet: whoever has the three files may join it."""
    from ..fleet.tls import default_folder, make_certificates

    folder = Path(certificates) if certificates else default_folder()
    for path in make_certificates(folder):
        click.echo(f"wrote {path}")
    click.echo(f"copy the folder to each machine, to {default_folder()} or where you like: it is "
               "the key to the fleet, and whoever has it can run code there")  # fmt: skip


@fleet.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8786,
    show_default=True,
    help="0 takes a free one.",
)
@click.option("--dashboard", metavar="[HOST:]PORT", help="Serve Dask's dashboard there.")
@_certificates
@_plain
def scheduler(
    host: str, port: int, dashboard: str | None, certificates: str | None, plain: bool
) -> None:
    """Run the scheduler of a fleet until it is interrupted."""
    if dashboard and find_spec("bokeh") is None:
        raise UsageError("Dask's dashboard is drawn by bokeh: pip install bokeh")
    where = dashboard and (dashboard if ":" in dashboard else f":{dashboard}")
    how = {"host": host, "port": port, "dashboard": where, "folder": certificates, "plain": plain}

    def say(up: Mapping[str, Any]) -> None:
        click.echo(f"the fleet's scheduler is at {up['address']}; end it with Ctrl-C")
        click.echo(f"devices join with: tilewright device --fleet {up['address']}")
        click.echo(f"builders with: tilewright fleet worker --fleet {up['address']}")

    _serve("scheduler", how, say)


@fleet.command()
@_address
@_name
@click.option("--slots", type=int, help="Candidates to build at a time (default: all cores).")
@_certificates
@_plain
def worker(
    address: str, name: str, slots: int | None, certificates: str | None, plain: bool
) -> None:
    """Compile candidates for a fleet on this machine until it is interrupted."""
    from ..base.cores import allowed_cores
    from ..fleet.facts import Facts

    if slots is not None and slots < 1:
        raise UsageError(f"--slots is at least 1, got {slots}")
    facts = Facts("build", f"{name}-build", slots=slots or len(allowed_cores()))
    _join(facts, address, certificates, plain)


@click.command()
@_address
@_name
@click.option("--key", metavar="KEY", help="Which devices are alike, for searches to ask for "
              "(default: the target).")  # fmt: skip
@click.option("--target", default="llvm", show_default=True, help="What to compile for it.")
@click.option("--pretend", default=0.0, metavar="SECONDS", help="Make costs up, each in so many "
              "seconds: to try a fleet out.")  # fmt: skip
@_certificates
@_plain
def device(
    address: str,
    name: str,
    key: str | None,
    target: str,
    pretend: float,
    certificates: str | None,
    plain: bool,
) -> None:
    """Be a device of a fleet: time candidates here, one at a time, until interrupted.

    Needs NumPy and dask.distributed, no LLVM: builders send object code.
    """
    from ..fleet.facts import Facts
    from ..target.target import Target

    chosen = Target(target)
    facts = Facts("device", name, key=key or target, target=str(chosen), pretends=pretend)
    _join(facts, address, certificates, plain)


def run_device(program: str, name: str, args: list[str]) -> None:
    """`device` by another name, as an archive for boards runs it: the process ends with it."""
    alone = Group("archive")
    alone.add_command(device, name)
    alone.main([name, *args], prog_name=program)


@fleet.command()
@click.option("--machine", default="aarch64", show_default=True, help="The board's processor, as "
              "`uname -m` names it there.")  # fmt: skip
@click.option("--python", default="3.11", show_default=True, help="The board's Python.")
@click.option("-o", "--output", default="device.pyz", show_default=True, metavar="FILE",
              type=click.Path(dir_okay=False), help="The file to write.")  # fmt: skip
@click.option("--certificates", type=click.Path(exists=True, file_okay=False), metavar="FOLDER",
              help="Put the fleet's certificates in: whoever has the file may join, and run code "
              "on the fleet.")  # fmt: skip
def archive(machine: str, python: str, output: str, certificates: str | None) -> None:
    """Make one file that is `tilewright device` on a board with Python and NumPy.

    \b
      tilewright fleet archive --machine aarch64 --python 3.11
      scp device.pyz board:
      ssh board python3 device.pyz --fleet tls://HOST:8786 --key board
    """
    from .archive import write

    folder = None if certificates is None else Path(certificates)
    write(Path(output), machine, python, folder)
    size = Path(output).stat().st_size / 1e6
    click.echo(f"wrote {output} ({size:.1f} MB): on a board of {machine} with Python {python} and "
               f"NumPy, `python3 {Path(output).name} --help`")  # fmt: skip


@fleet.command()
@_address
@_certificates
@_plain
@click.option("--watch", is_flag=True, help="Show it anew every second until interrupted.")
@_json
def status(address: str, certificates: str | None, plain: bool, watch: bool, as_json: bool) -> None:
    """List the workers of a fleet, and what they do just now."""
    from ..fleet.client import Fleet
    from . import show_fleet

    with Fleet(address, Path(certificates) if certificates else None, plain) as found:
        if as_json:
            click.echo(json.dumps(found.status()))
        elif watch:
            show_fleet.watch(found)
        else:
            show_fleet.once(found)


def _join(facts: Any, address: str, certificates: str | None, plain: bool) -> None:
    how = {"address": address, "facts": facts.as_data(), "folder": certificates, "plain": plain}
    what = f"device {facts.name!r} of key {facts.key!r}" if facts.role == "device" else (
        f"builder {facts.name!r}, {facts.slots} at a time,"
    )  # fmt: skip

    def say(up: Mapping[str, Any]) -> None:
        click.echo(
            f"{what} is up at {up['address']} for the fleet at {address}; end it with Ctrl-C"
        )

    _serve(facts.role, how, say)


def _serve(role: str, how: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]) -> None:
    from ..fleet.client import require_distributed

    require_distributed()
    from ..fleet import server

    sys.exit(server.serve(role, how, say))
