"""How runners of searches and templates name a fleet."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..measure.runner import Measures, Timing
from .client import Fleet
from .facts import Facts, FleetError
from .local import Server
from .tls import is_loopback


@dataclass(frozen=True)
class Place:
    """Which devices of which fleet. `scheduler`: its address. `key`: of the devices; may be empty
    where a fleet has devices of one key, and None where only builders are asked. `priority`: of two
    searches that want the same devices, one of priority 2 times twice as many candidates as one of
    1. `resources`: what a device has to have besides, as Dask counts it. `builds_here`: where
    nobody in the fleet compiles, this machine does, as TVM's scripts take it."""

    scheduler: str
    key: str | None = ""
    priority: float = 1.0
    resources: Mapping[str, float] | None = None
    certificates: Path | None = None
    plain: bool = False
    builds_here: bool = False

    def __post_init__(self) -> None:
        if not self.priority > 0:
            raise FleetError(f"a search's priority is above 0, got {self.priority}")

    @staticmethod
    def of(scheduler: Any, **how: Any) -> Place:
        """`scheduler`: an address, or what has one (a LocalFleet, a Dask cluster)."""
        address = getattr(scheduler, "scheduler_address", None) or getattr(
            scheduler, "address", scheduler
        )
        if not isinstance(address, str):
            raise FleetError(
                f"a fleet is the address of its scheduler, tls://HOST:PORT, not {scheduler!r}"
            )
        return Place(address, **how)

    @staticmethod
    def of_tracker(key: str, host: str, port: int, priority: float) -> Place:
        """What TVM's scripts call a tracker: here a fleet's scheduler."""
        scheme = urlsplit(host).scheme
        if scheme:
            return Place(f"{host}:{port}", key, priority, builds_here=True)
        name = f"[{host}]" if ":" in host else host
        scheme = "tcp" if is_loopback(host) else "tls"
        return Place(f"{scheme}://{name}:{port}", key, priority, builds_here=True)

    def measurer(self, timing: Timing) -> Any:
        """A measurer over these devices; the caller closes it."""
        from .measurer import FleetMeasurer

        fleet = Fleet(self.scheduler, self.certificates, self.plain)
        with ExitStack() as stack:
            stack.callback(fleet.close)
            key = fleet.only_key() if self.key == "" else self.key
            if self.builds_here and not fleet.builders():
                stack.callback(self._builder(timing.workers).close)
            measurer = FleetMeasurer(fleet, key, timing, self.priority, self.resources)
            measurer.ends_with = stack.pop_all()
            return measurer

    def _builder(self, slots: int) -> Server:
        """A process of this machine that compiles for the fleet, so many candidates at a time."""
        facts = Facts("build", f"builder-{socket.gethostname()}-{os.getpid()}", slots=slots)
        folder = None if self.certificates is None else str(self.certificates)
        how = {"address": self.scheduler, "facts": facts.as_data(), "folder": folder}
        return Server("build", {**how, "plain": self.plain})


def address_of(tracker: tuple[str, int], plain: bool, certificates: str | Path | None) -> str:
    """The address of the scheduler at (host, port)."""
    address = Place.of_tracker("", tracker[0], int(tracker[1]), 1.0).scheduler
    if certificates is not None:
        return address.replace("tcp:", "tls:")
    return address.replace("tls:", "tcp:") if plain else address


class OnFleet:
    """What makes a runner one of a fleet: its candidates are built and timed at its `place`."""

    __slots__ = ()
    place: Place

    def measurer(self, timing: Timing) -> Measures:
        """What builds and times candidates: the fleet."""
        measurer: Measures = self.place.measurer(timing)
        return measurer


@dataclass(eq=False)
class Tracker:
    """Where TVM's scripts look for boards of `key`: by a tracker, here a fleet's scheduler."""

    key: str
    host: str
    port: int


class OnDask(OnFleet):
    """A runner that is named by a fleet's scheduler; what is not of the fleet is the runner's."""

    def __init__(
        self,
        scheduler: Any,
        key: str = "",
        *,
        priority: float = 1.0,
        resources: Mapping[str, float] | None = None,
        certificates: str | Path | None = None,
        plain: bool = False,
        **timing: Any,
    ) -> None:
        super().__init__(**timing)
        folder = None if certificates is None else Path(certificates)
        self.place = Place.of(
            scheduler, key=key, priority=priority, resources=resources, certificates=folder,
            plain=plain,
        )  # fmt: skip
