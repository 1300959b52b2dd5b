"""Sessions as tuners ask for them: at the tracker that the environment names, and whether there is
one to be had."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from ..base.errors import UsageError
from ..target.target import Target
from .session import RPCSession
from .tracker import FleetLink, connect_tracker

_LOOK_SECONDS = 0.1


def request_remote(
    device_key: str,
    host: str | None = None,
    port: int | None = None,
    priority: int = 1,
    timeout: float = 60,
) -> RPCSession:
    """A session with a device of a key, which leaves the tracker when it ends; waits until there is
    one that is free.

    `host`, `port`: of the tracker, a fleet's scheduler (None: TVM_TRACKER_HOST, TVM_TRACKER_PORT of
    the environment). `priority`: of requests that wait, that of the greatest is first. `timeout`:
    seconds after which the session ends. UsageError where no tracker is named, FleetError where
    nobody answers there or no device has that key.
    """
    where = (host or os.environ.get("TVM_TRACKER_HOST"), port or os.environ.get("TVM_TRACKER_PORT"))
    if not (where[0] and where[1]):
        raise UsageError(
            f"request_remote({device_key!r}): which tracker? Give host and port, or set "
            "TVM_TRACKER_HOST and TVM_TRACKER_PORT"
        )
    fleet = connect_tracker(where[0], int(where[1]))._fleet
    try:
        link = FleetLink(fleet, device_key, int(priority), float(timeout), owns=True)
    except BaseException:
        fleet.close()
        raise
    return RPCSession(link)


def check_remote(
    target: Any,
    device_key: str,
    host: str | None = None,
    port: int | None = None,
    priority: int = 100,
    timeout: float = 10,
) -> bool:
    """Whether within `timeout` seconds a session is to be had whose device of the target is there;
    the rest as for `request_remote`."""
    kind = Target(target).kind.name

    def check(late: threading.Event) -> None:
        with request_remote(device_key, host, port, priority) as remote:
            while not remote.device(kind).exist and not late.wait(_LOOK_SECONDS):
                continue

    return within(timeout, check)


def check_session(
    device_key: str,
    host: str | None = None,
    port: int | None = None,
    priority: int = 100,
    timeout: float = 10,
) -> bool:
    """`check_remote` of any device: whether within `timeout` seconds a session is to be had."""

    def check(late: threading.Event) -> None:
        with request_remote(device_key, host, port, priority):
            return

    return within(timeout, check)


def within(seconds: float, check: Callable[[threading.Event], None]) -> bool:
    """Whether a check has ended without an error within so many seconds; it is told when it is too
    late."""
    passed, late = threading.Event(), threading.Event()

    def attempt() -> None:
        try:
            check(late)
        except Exception:  # whatever keeps a session from being had
            return
        passed.set()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    found = passed.is_set()
    late.set()
    return found
