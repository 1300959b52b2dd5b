"""Builders and runners that are other machines: a fleet (see tilewright.fleet)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..fleet.facts import FleetError
from ..fleet.options import OnDask, OnFleet, Place, Tracker
from ..fleet.requests import check_session
from ..fleet.rpc_server import on_this_machine
from .local import LocalBuilder, LocalRunner, RPCArguments


class DaskBuilder(OnFleet, LocalBuilder):
    """Builds on the builders of a fleet, each candidate within `timeout` seconds.

    `scheduler`, `certificates` and `plain` as of DaskRunner. A search whose runner is of a fleet
    builds there whatever its builder is; this one builds a few candidates by itself, too. Raises
    FleetError where `scheduler` is no address of a scheduler, tls://HOST:PORT.
    """

    def __init__(
        self,
        scheduler: Any,
        timeout: float = 15,
        *,
        certificates: str | Path | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__(timeout)
        folder = None if certificates is None else Path(certificates)
        self.place = Place.of(scheduler, key=None, certificates=folder, plain=plain)


class DaskRunner(OnDask, LocalRunner):
    """Times candidates on the devices of a fleet, one at a time on each, and has them built there.

    `scheduler`: the address of the fleet's scheduler (tls://HOST:PORT), or a LocalFleet. `key`:
    which devices; may be left out where all are of one. `priority`: of two searches that want the
    same devices, one of priority 2 times twice as many candidates as one of 1. `resources`: what a
    device has to have besides, as Dask counts it. `certificates`: the folder that `tilewright fleet
    init` made. `plain`: allow TCP without encryption over a trusted network. The rest as for
    LocalRunner; candidates are timed adaptively, unless adaptive=False.

    Raises FleetError when a search begins and nobody answers there, no device has that key, or no
    worker builds.
    """

    is_adaptive = True


@dataclass(eq=False)
class RPCRunner(RPCArguments, Tracker, OnFleet, LocalRunner):
    """Times candidates on boards behind a tracker: a fleet's devices of `key`, whose scheduler is
    at `host` and `port` (TLS, unless `host` is this machine). Where nobody compiles in the fleet,
    this machine does.

    `priority`: this search's share, see DaskRunner. `n_parallel` is the fleet's own affair: each
    device runs one candidate at a time. `repeat`: repetitions, of `number` runs each.
    `cooldown_interval`: seconds of rest between candidates. The rest as for LocalRunner.

    Prints a line where within `timeout` seconds a device was free; else FleetError, which is a
    RuntimeError.
    """

    min_repeat_ms: float = 100
    keep: tuple[Any, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        LocalRunner.__init__(self, **self.of_runner())
        self.place = Place.of_tracker(self.key, self.host, int(self.port), float(self.priority))
        if not check_session(self.key, self.host, self.port, self.priority, self.timeout):
            raise FleetError(
                f"Cannot get remote devices from the tracker at {self.host}:{self.port}: there is "
                f"none of key {self.key!r}, or none was free within {self.timeout} s. `python -m "
                f"tilewright.exec.query_rpc_tracker --host {self.host} --port {self.port}` shows it"
            )
        print("Get devices for measurement successfully!")


@dataclass(eq=False)
class LocalRPCMeasureContext(RPCArguments):
    """`runner`: an RPCRunner of a `tracker` and a `server` on this machine, which end with it.
    `timeout` and `cooldown_interval` are seconds, `min_repeat_ms` milliseconds. `repeat`:
    repetitions, of `number` runs each. `n_parallel`: candidates at a time."""

    def __post_init__(self) -> None:
        self.tracker, self.server = on_this_machine()
        where = (self.server.key, self.tracker.host, self.tracker.port)
        given = {f.name: getattr(self, f.name) for f in fields(RPCArguments)}
        self.runner = RPCRunner(*where, **given)
        self.runner.keep = (self.server, self.tracker)  # also where the runner alone is kept
