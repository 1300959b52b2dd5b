"""Sessions with devices of a fleet, by the names of TVM's scripts: its scheduler is the tracker."""

from __future__ import annotations

import json
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..base.closing import Closing
from ..base.errors import RPCError, UsageError
from ..measure.protocol import Message, pack, unpack
from .client import Fleet, leave
from .facts import FleetError
from .held import CLOSE, hold, topic
from .link import Link
from .options import address_of
from .session import RPCSession
from .work import as_bytes

T = TypeVar("T")
_LOOK_SECONDS = 1.0  # between looks at whether there is still a device to wait for


class FleetLink(Link):
    """With a session on a device of a fleet, which it waits for. `priority`: of sessions that want
    the same devices, the one of the greatest is first. `seconds`: after which it ends (0: never).
    `owns`: the fleet is left with the session."""

    def __init__(
        self, fleet: Fleet, key: str, priority: int, seconds: float, owns: bool = False
    ) -> None:
        super().__init__(f"a device of {key!r}")
        self._owns = owns
        resources = fleet.require_device(key)
        self._fleet = fleet
        self._session = uuid.uuid4().hex
        self._opened = opened = _Opened()
        name, client = topic(self._session), fleet.client
        client.subscribe_topic(name, opened.hear)
        weakref.finalize(self, _unsubscribe, client, name)
        request = as_bytes({"session": self._session, "timeout": float(seconds)})
        self._task = client.submit(
            hold, request, key=name, resources=resources, pure=False, priority=priority, retries=0
        )
        opened.task = weakref.ref(self._task)
        try:
            self._wait(opened, key)
        except BaseException:
            self.end("it was given up before it had a device")
            raise
        self._worker, self.name = opened.address, f"device {opened.name!r}"

    def _wait(self, opened: _Opened, key: str) -> None:
        while not opened.event.wait(_LOOK_SECONDS):
            if self._task.done():
                raise FleetError(f"no session with a device of {key!r}: {self._outcome()}")
            self._fleet.require_device(key)

    def _outcome(self) -> str:
        """How the task has ended that was the session."""
        try:
            return str(json.loads(self._task.result(timeout=0))["ended"])
        except (Exception, CancelledError) as error:
            return str(error) or type(error).__name__

    def _send(self, message: Message) -> Message:
        return self._send_bytes(pack(message))

    def _send_bytes(self, request: bytes) -> Message:
        if self._opened.count > 1:
            # Dask has started the task again elsewhere, where nothing of the session is
            return {"ended": "the device is gone"}
        client = self._fleet.client
        if client.status != "running":  # the scheduler's successor knows nothing of the session
            return {"ended": f"the fleet at {self._fleet.address} is gone"}
        try:
            reply = client.sync(
                client.scheduler.tilewright_session, worker=self._worker,
                session=self._session, request=request,
            )  # fmt: skip
        except (OSError, CancelledError) as error:
            return {"ended": f"the fleet at {self._fleet.address} is gone: {error}"}
        return unpack(reply)

    def _leave(self) -> None:
        if self._fleet.client.status == "running" and self._opened.count == 1:
            with suppress(OSError, CancelledError):
                self._send_bytes(CLOSE)  # at once, where Dask's own word takes a moment
        self._task.release()
        if self._owns:
            self._fleet.close()


class _Opened:
    """What the events of a session have said. Dask's client keeps this: it keeps nothing else, or
    a session that nobody has any more would go on."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.address = self.name = ""
        self.count = 0
        self.task: Callable[[], Any] = lambda: None

    def hear(self, event: tuple[float, dict[str, str]]) -> None:
        said = event[1]
        self.count += 1
        if self.count == 1:
            self.address, self.name = said["address"], said["name"]
            self.event.set()
        elif (task := self.task()) is not None:
            task.release()  # it was started again elsewhere, where nothing of the session is


def _unsubscribe(client: Any, name: str) -> None:
    with suppress(Exception):  # the fleet may be gone
        client.unsubscribe_topic(name)


class TrackerSession(Closing):
    """What gives out sessions: the fleet whose scheduler stands where TVM has a tracker; made by
    `rpc.connect_tracker`. A context manager that leaves the fleet; sessions end with that."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        weakref.finalize(fleet, _leave_later, fleet.client).atexit = False

    def close(self) -> None:
        """Leave the fleet."""
        self._fleet.close()

    def request(
        self,
        key: str,
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 5,
        session_constructor_args: Any = None,
    ) -> RPCSession:
        """A session with a device of a key, which no other has until this one ends; waits until
        there is one that is free, and FleetError where there is none of that key.

        `priority`: of requests that wait, that of the greatest is first; all of them are before the
        candidates of searches. `session_timeout`: seconds after which the session ends (0: never).
        Raises UsageError where session_constructor_args are given.
        """
        del max_retry  # Dask's affair
        _refuse_constructor(session_constructor_args)
        seconds = float(session_timeout or 0)
        return RPCSession(FleetLink(self._fleet, key, int(priority), seconds))

    def request_and_run(
        self,
        key: str,
        func: Callable[[RPCSession], T],
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 2,
    ) -> T:
        """What `func` gives of a session, which ends with it; where the session dies, a new one is
        tried, `max_retry` times. Raises RPCError where the session ends each time.
        `session_timeout`: seconds (0: no limit)."""
        for left in reversed(range(max(1, max_retry))):
            with self.request(key, priority, session_timeout) as session:
                try:
                    return func(session)
                except RPCError:
                    if not left:
                        raise
        raise AssertionError

    def summary(self) -> dict[str, Any]:
        """{"server_info": [{"addr": [host, port], "key": "server:KEY"}], "queue_info": {KEY:
        {"free": devices, "pending": requests that wait}}}."""
        devices = {a: f for a, f in self._fleet.workers().items() if f.role == "device"}
        servers = [{"addr": _parts(a), "key": f"server:{f.key}"} for a, f in devices.items()]
        queues = {f.key: {"free": 0, "pending": 0} for f in devices.values()}
        for address, tasks in self._fleet.tasks().items():
            if address in devices:
                queue = queues[devices[address].key]
                queue["free"] += not tasks
                queue["pending"] += max(0, tasks - 1)
        return {"server_info": servers, "queue_info": queues}

    def text_summary(self) -> str:
        """`summary` as two tables."""
        found = self.summary()
        servers = [(":".join(map(str, s["addr"])), s["key"]) for s in found["server_info"]]
        total = [s["key"].partition(":")[2] for s in found["server_info"]]
        queues = [
            (key, str(total.count(key)), str(q["free"]), str(q["pending"]))
            for key, q in sorted(found["queue_info"].items())
        ]
        tables = (
            "Server List", _table(("server-address", "key"), sorted(servers, key=lambda s: s[1])),
            "Queue Status", _table(("key", "total", "free", "pending"), queues),
        )  # fmt: skip
        return "\n".join(tables) + "\n"


def connect_tracker(
    url: str, port: int, *, certificates: str | Path | None = None, plain: bool = False
) -> TrackerSession:
    """The fleet whose scheduler is at a host and port: TLS with its certificates, unless the host
    is this machine, or `plain` says that the network is trusted. FleetError where nobody answers.
    """
    address = address_of((url, port), plain, certificates)
    folder = None if certificates is None else Path(certificates)
    return TrackerSession(Fleet(address, folder, plain))


def connect(
    url: str,
    port: int,
    key: str = "",
    session_timeout: float = 0,
    session_constructor_args: Any = None,
    enable_logging: bool = False,
    *,
    certificates: str | Path | None = None,
    plain: bool = False,
) -> RPCSession:
    """A session with a device of the fleet at a host and port, such as the one of `rpc.Server`;
    waits until it is free. `key` may be left out where all devices are of one. The rest as for
    `connect_tracker` and `request`. Raises UsageError where session_constructor_args are given, and
    FleetError where no scheduler answers at the address. `session_timeout`: seconds (0: no
    limit)."""
    del enable_logging
    _refuse_constructor(session_constructor_args)
    fleet = connect_tracker(url, port, certificates=certificates, plain=plain)._fleet
    try:
        link = FleetLink(fleet, key or fleet.only_key(), 1, float(session_timeout or 0), owns=True)
    except BaseException:
        fleet.close()
        raise
    return RPCSession(link)


def _refuse_constructor(given: Any) -> None:
    if given:
        raise UsageError(
            f"session_constructor_args={given!r}: a session runs in a child process of the device, "
            "and in nothing else"
        )


def _leave_later(client: Any) -> None:
    """Close a client that nobody has any more: not here, which may be its own thread."""
    threading.Thread(target=leave, args=(client,), daemon=True).start()


def _parts(address: str) -> list[Any]:
    found = urlsplit(address)
    return [found.hostname or "", found.port or 0]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, *rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(heads))]
    texts = ["  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines]
    rule = "-" * max(map(len, texts))
    return "\n".join([rule, texts[0], rule, *texts[1:], rule])
