"""A fleet as a search sees it: the scheduler, the devices, and what they are."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..base.closing import Closing
from .facts import Facts, FleetError, device_resource, of_scheduler, other_version
from .tls import require_address, security_for

_CONNECT_SECONDS = 15.0

_HARMLESS = r"(?s)\s*Mismatched versions found(?!.*\| (?:dask|distributed|msgpack|tornado) )"
"""Dask's warning, where it is about no package that speaks over the network: a board's Python and
NumPy are its own, and only bytes of JSON come to it."""


class Fleet(Closing):
    """A connection to a fleet's scheduler; a context manager that closes it.

    `address`: tls://HOST:PORT, or tcp://HOST:PORT on this machine. `folder`: with the fleet's
    certificates. `plain`: allow TCP over a network that is trusted. FleetError where nobody
    answers there, or somebody else does.
    """

    def __init__(
        self,
        address: str,
        folder: Path | None = None,
        plain: bool = False,
        timeout: float = _CONNECT_SECONDS,
    ) -> None:
        distributed = require_distributed()
        self.address = address
        require_address(address)
        safe = security_for(address, folder, plain)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", _HARMLESS)
                self.client = distributed.Client(
                    address, security=safe, set_as_default=False, timeout=timeout, name="tilewright"
                )
        except (OSError, TimeoutError, ValueError) as error:
            raise FleetError(
                why_not(address, str(error) or type(error).__name__, timeout)
            ) from None

    def close(self) -> None:
        """Leave the fleet; candidates in flight are dropped."""
        leave(self.client)

    def workers(self) -> dict[str, Facts]:
        """All workers of the fleet, by their addresses."""
        return of_scheduler(self.info())

    def info(self) -> Mapping[str, Any]:
        """What Dask's scheduler knows of its workers just now."""
        info: Mapping[str, Any] = self._asked("identity")
        return info

    def cancel(self, futures: Sequence[Any]) -> None:
        """Drop tasks that nobody waits for, also where the fleet is gone and has dropped them."""
        if futures and self.client.status == "running":
            with suppress(OSError, CancelledError):
                self.client.cancel(list(futures))

    def gone(self, error: BaseException | str) -> FleetError:
        """What to raise once the fleet does not answer any more."""
        first = str(error).partition("\n")[0].rstrip(".")  # Dask goes on about its own API
        return FleetError(
            f"the fleet at {self.address} is gone: {first}; what was measured is recorded, and the "
            "search goes on from there when it is started again"
        )

    def _asked(self, what: str) -> Any:
        try:
            return self.client.sync(getattr(self.client.scheduler, what))
        except (OSError, CancelledError) as error:
            raise self.gone(error) from None

    def dashboard(self) -> str:
        """The address of Dask's dashboard; empty where the scheduler was started without."""
        port = self._asked("tilewright_dashboard")
        host = urlsplit(self.address).hostname or ""
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/status" if port else ""

    def status(self) -> list[dict[str, Any]]:
        """A row a worker: name, role, key, target, host, address, and how many candidates it has
        (running and waiting) and has done."""
        info = self.info()
        found = of_scheduler(info)
        done = self._asked("tilewright_done")
        rows = []
        for address, facts in sorted(found.items(), key=lambda item: (item[1].role, item[1].name)):
            counts = info["workers"][address]["metrics"].get("task_counts", {})
            rows.append(
                {
                    **{n: getattr(facts, n) for n in ("name", "role", "key", "target", "host")},
                    "address": address,
                    "slots": facts.slots,
                    "running": int(counts.get("executing", 0)),
                    "waiting": int(counts.get("ready", 0) + counts.get("constrained", 0)),
                    "done": int(done.get(address, {}).get("memory", 0)),
                    "failed": int(done.get(address, {}).get("erred", 0)),
                    "last_seen_s": float(info["workers"][address].get("last_seen", 0.0)),
                }
            )
        return rows

    def tasks(self) -> dict[str, int]:
        """How many tasks each worker has, that run or wait for it, by address."""
        return {address: len(keys) for address, keys in self._asked("processing").items()}

    def devices(self, key: str) -> dict[str, Facts]:
        """The devices of a key, by their addresses."""
        return {a: f for a, f in self.workers().items() if f.role == "device" and f.key == key}

    def builders(self) -> list[Facts]:
        """Who compiles."""
        return [f for f in self.workers().values() if f.role == "build"]

    def require(self, key: str | None) -> dict[str, float]:
        """What a candidate for the devices of a key takes of one; FleetError where there is none of
        them, or nobody to compile for them. Of None, which stands for building only, nothing."""
        taken = {} if key is None else self.require_device(key)
        if not self.builders():
            raise FleetError(
                f"nobody compiles in the fleet at {self.address}: start `tilewright fleet worker "
                f"--fleet {self.address}` on a machine with spare cores"
            )
        return taken

    def require_device(self, key: str) -> dict[str, float]:
        """What takes a device of a key whole; FleetError where there is none."""
        info = self.info()
        keys = sorted({f.key for f in of_scheduler(info).values() if f.role == "device"})
        if key not in keys:
            have = f"there are {', '.join(map(repr, keys))}" if keys else "there is no device yet"
            why = other_version(info) or have
            raise FleetError(
                f"no device of {key!r} in the fleet at {self.address}: {why}"
                f"; start one with `tilewright device --fleet {self.address} --key KEY`"
            )
        return {device_resource(key): 1.0}

    def only_key(self) -> str:
        """The key of the devices where there is just one; FleetError otherwise."""
        info = self.info()
        keys = sorted({f.key for f in of_scheduler(info).values() if f.role == "device"})
        if len(keys) != 1:
            have = f"it has devices of {', '.join(map(repr, keys))}" if keys else "it has no device"
            raise FleetError(
                f"the fleet at {self.address}: {other_version(info) or have}; name one with key="
            )
        return keys[0]


def leave(client: Any) -> None:
    """Close a client of Dask's, which may just be trying to reach a scheduler that has gone."""
    log = logging.getLogger("distributed.client")
    log.addFilter(_is_no_cancellation)
    try:
        client.close(timeout=5)
    finally:
        log.removeFilter(_is_no_cancellation)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Dask logs the end of its own attempt with a traceback."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (kind is not None and issubclass(kind, asyncio.CancelledError))


def require_distributed() -> Any:
    """dask.distributed; FleetError where it is not installed."""
    try:
        import distributed
    except ImportError:
        raise FleetError(
            "a fleet is reached through dask.distributed, which is not installed: "
            "pip install tilewright[fleet]"
        ) from None
    return distributed


def why_not(address: str, text: str, timeout: float) -> str:
    """What to say of a fleet that could not be reached; `text` is what the network said."""
    if "certificate" in text.lower() or "ssl" in text.lower():
        return (
            f"{address} does not accept these certificates: they are of another fleet (copy the "
            f"folder that `tilewright fleet init` made there): {text}"
        )
    return (
        f"no fleet answers at {address} within {timeout:g} s: is `tilewright fleet scheduler` "
        f"running there, and can this machine reach it? ({text})"
    )
