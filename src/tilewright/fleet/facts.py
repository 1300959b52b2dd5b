"""What a worker says of itself when it joins a fleet, and the names of what it offers."""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .. import __version__
from ..base.errors import TilewrightError

FORMAT = 1
"""Of the messages between a search and its workers; one fleet has one."""

BUILD = "tilewright-build"
"""The resource of workers that compile: as many as they have cores to spare."""

LOST_SECONDS = 30.0
"""Without a sign of life, after which a worker's candidates go to others."""

FIELD = "tilewright"
"""Under which Dask's scheduler keeps what a worker says of itself."""


class FleetError(TilewrightError):
    """A fleet cannot be reached, or somebody may not join it."""


def device_resource(key: str) -> str:
    """The resource of devices of a key, one each: a device runs one candidate at a time."""
    return f"tilewright-device:{key}"


@dataclass(frozen=True)
class Facts:
    """A worker of a fleet.

    `role`: "build" or "device". `key`: which devices are alike, for searches to ask for. `target`:
    what is compiled for it. `slots`: tasks at a time. `pretends`: seconds a measurement of a device
    that only makes costs up, to try a fleet out; 0 for a real one.
    """

    role: str
    name: str
    key: str = ""
    target: str = ""
    slots: int = 1
    pretends: float = 0.0
    version: str = __version__
    format: int = FORMAT
    python: str = field(default_factory=lambda: ".".join(map(str, sys.version_info[:3])))
    machine: str = field(default_factory=platform.machine)
    host: str = field(default_factory=socket.gethostname)

    def resources(self) -> dict[str, float]:
        """What Dask's scheduler hands out of this worker."""
        name = BUILD if self.role == "build" else device_resource(self.key)
        return {name: float(self.slots)}

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_data(data: Any) -> Facts:
        """Facts from what a worker has sent; FleetError where it is no worker of ours."""
        known = {f.name for f in fields(Facts)}
        if not isinstance(data, Mapping) or not {"role", "name", "version", "format"} <= set(data):
            raise FleetError(
                "it is a worker of plain Dask: start workers with `tilewright device` and "
                "`tilewright fleet worker`"
            )
        if data["format"] != FORMAT or data["version"] != __version__:
            raise FleetError(
                f"it has tilewright {data['version']} (messages of format {data['format']}), and "
                f"this fleet {__version__} (format {FORMAT}): install the same version on both"
            )
        return Facts(**{k: v for k, v in data.items() if k in known})


def of_scheduler(info: Mapping[str, Any]) -> dict[str, Facts]:
    """The workers, by address, of what `Client.scheduler_info` gives."""
    found = {}
    for address, worker in info["workers"].items():
        try:
            found[address] = Facts.of_data(worker.get(FIELD))
        except FleetError:
            continue  # not ours to use; a fleet's own scheduler lets none in
    return found


def other_version(info: Mapping[str, Any]) -> str:
    """That all workers are of another version than this process, where they are; else empty."""
    told = [w.get(FIELD) or {} for w in info["workers"].values()]
    versions = {f"{t.get('version')} (format {t.get('format')})" for t in told}
    own = f"{__version__} (format {FORMAT})"
    if not versions or own in versions:
        return ""
    return (
        f"it has tilewright {', '.join(sorted(versions))}, and this process {own}: install the "
        "same version on both"
    )
