"""Builders and runners that are other machines: a fleet (see tilewright.fleet)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..fleet.options import OnDask, OnFleet, Place, Tracker
from .local import LocalBuilder, LocalRunner, RPCArguments


class DaskBuilder(OnFleet, LocalBuilder):
    """Builds on the builders of a fleet, each candidate within `timeout` seconds.

    `scheduler`, `certificates` and `plain` as of DaskRunner. A search whose runner is of a fleet
    builds there whatever its builder is; this one builds a few candidates by itself, too.
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
    LocalRunner.

    Raises FleetError when a search begins and nobody answers there, no device has that key, or no
    worker builds.
    """


@dataclass(eq=False)
class RPCRunner(RPCArguments, Tracker, OnFleet, LocalRunner):
    """What TVM's scripts name for boards behind a tracker: a fleet's devices of `key`, whose
    scheduler is at `host` and `port` (TLS, unless `host` is this machine).

    `priority`: this search's share, see DaskRunner. `n_parallel` is the fleet's own affair: each
    device runs one candidate at a time. The rest as for LocalRunner.
    """

    def __post_init__(self) -> None:
        LocalRunner.__init__(self, **self.of_runner())
        self.place = Place.of_tracker(self.key, self.host, int(self.port), float(self.priority))
