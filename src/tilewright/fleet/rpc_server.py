"""`rpc.Server` and `rpc.tracker.Tracker`: processes of a fleet under the names of TVM's scripts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..base.errors import UsageError
from ..target.target import Target
from .facts import Facts, FleetError
from .local import Server as Process
from .options import address_of

PORT, PORT_END = 9091, 9199
TRACKER_PORT, TRACKER_PORT_END = 9190, 9199

Own = TypeVar("Own", bound="_Running")


class _Running:
    """A process that ends with this object, or when a `with` is left."""

    _process: Process | None = None

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def __del__(self) -> None:
        self.terminate()

    def terminate(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            process.close()


class Tracker(_Running):
    """A fleet's scheduler as a process, at the first port from `port` that is free, below
    `port_end`. It can be reached from other machines where `host` is not this one's own name; then
    it needs certificates, see `tilewright fleet init`. `timeout`: seconds. Raises FleetError where
    no port is free."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = TRACKER_PORT,
        port_end: int = TRACKER_PORT_END,
        silent: bool = False,
        reuse_addr: bool = True,
        timeout: float | None = None,
        *,
        certificates: str | Path | None = None,
        plain: bool = False,
    ) -> None:
        del silent, reuse_addr, timeout
        how = {"host": host, "folder": certificates and str(certificates), "plain": plain}
        process = _first_free(host, port, port_end, how)
        self._process = process
        self.address = process.address
        self.host = host
        self.port = int(urlsplit(self.address).port or 0)


class Server(_Running):
    """A device as a process: of the fleet whose scheduler is at `tracker_addr`, (host, port); else
    of one of its own, at the first port from `port` that is free, for `rpc.connect(host, port)`.

    `key`: which devices are alike (default: the target). `target`: what code it takes, as searches
    are told. Other arguments of TVM's are of how its servers are built: those that would change
    what happens are refused. `port_end`: the first port that is not tried. `timeout`: seconds.
    Raises UsageError where an argument is given, which a device of a fleet does not have, and
    FleetError where no port is free, and TargetError where `target` is no target, as text, dict or
    Target.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = PORT,
        port_end: int = PORT_END,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        no_fork: bool = False,
        server_init_callback: Any = None,
        reuse_addr: bool = True,
        timeout: float | None = None,
        *,
        target: str = "llvm",
        name: str = "",
        certificates: str | Path | None = None,
        plain: bool = False,
    ) -> None:
        del silent, no_fork, reuse_addr, timeout
        refuse_options(is_proxy, load_library, custom_addr, server_init_callback)
        self._tracker: Tracker | None = None
        if tracker_addr is None:
            self._tracker = Tracker(host, port, port_end, certificates=certificates, plain=plain)
            scheduler = self._tracker.address
        else:
            scheduler = address_of(tracker_addr, plain, certificates)
        facts = device_facts(key, target, name)
        how = {"address": scheduler, "facts": facts.as_data(), "plain": plain}
        self.key = facts.key
        self.host = host
        try:
            self._process = Process("device", {**how, "folder": certificates and str(certificates)})
            own = self._process.address if self._tracker is None else scheduler
            self.port = int(urlsplit(own).port or 0)
        except BaseException:
            self.terminate()
            raise

    def terminate(self) -> None:
        """End it, and the fleet that is its own."""
        super().terminate()
        tracker = getattr(self, "_tracker", None)
        if tracker is not None:
            tracker.terminate()


def on_this_machine() -> tuple[Tracker, Server]:
    """A tracker and a server of one device, of a key that no other has, for this machine alone;
    they end when they are told to, or are no longer held."""
    tracker = Tracker(port=9000, port_end=10000)
    key = f"$local$device${tracker.port}"
    return tracker, Server(key=key, tracker_addr=(tracker.host, tracker.port))


def refuse_options(is_proxy: Any, load_library: Any, custom_addr: Any, callback: Any) -> None:
    """UsageError for what a device of a fleet cannot do."""
    given = {"is_proxy": is_proxy, "load_library": load_library, "custom_addr": custom_addr,
             "server_init_callback": callback}  # fmt: skip
    for name, value in given.items():
        if value:
            raise UsageError(
                f"{name}={value!r}: a device of a fleet has no such thing (docs/fleet.md): it "
                "connects to the scheduler, and runs what sessions upload"
            )


def device_facts(key: str, target: str, name: str = "") -> Facts:
    """What a device says of itself; its name, where none is given, is the host's with a number."""
    chosen = str(Target(target))
    return Facts(
        "device", name or f"{socket.gethostname()}-{_unused_port()}", key=key or target,
        target=chosen,
    )  # fmt: skip


def free_ports(host: str, port: int, end: int) -> Iterator[int]:
    """The ports of a range that nobody listens on just now; 0, any, where `port` is 0."""
    if port == 0:
        yield 0
        return
    for number in range(port, max(end, port + 1)):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, number))
            except OSError:
                continue
        yield number


def _first_free(host: str, port: int, end: int, how: dict[str, Any]) -> Process:
    why = "all are taken"
    for number in free_ports(host, port, end):
        try:
            return Process("scheduler", {**how, "port": number})
        except FleetError as error:
            why = str(error)
            if "in use" not in why:
                raise
    raise FleetError(f"no port of {host} from {port} to {end - 1} is to be had: {why}")


def _unused_port() -> int:
    """A number that no other process of this machine takes for its name just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
