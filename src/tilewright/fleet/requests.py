"""Sessions as tuners ask for them: at the tracker that the environment names, and whether there is
one to be had."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from ..base.errors import UsageError
from ..target.target import Target
from .session import RPCSession
from .tracker import FleetLink, connect_tracker

log = logging.getLogger(__name__)
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
    the rest as for `request_remote`. Raises TargetError where `target` is no target, as text, dict
    or Target, where `target` has no kind of target, or no attributes by name."""
    asked = (device_key, host, port, priority)
    return _is_had(Target(target).kind.name, asked, timeout)


def check_session(
    device_key: str,
    host: str | None = None,
    port: int | None = None,
    priority: int = 100,
    timeout: float = 10,
) -> bool:
    """`check_remote` of any device: whether within `timeout` seconds a session is to be had of the
    scheduler at `host`, TCP port `port`."""
    return _is_had(None, (device_key, host, port, priority), timeout)


def _is_had(kind: str | None, asked: tuple[Any, ...], timeout: float) -> bool:
    """Whether a session that is `asked` for begins within so many seconds, and shows a device of
    that kind, if one is wanted. An attempt that comes too late ends by itself."""
    passed, late = threading.Event(), threading.Event()

    def attempt() -> None:
        try:
            with request_remote(*asked) as remote:
                while kind and not remote.device(kind).exist and not late.wait(_LOOK_SECONDS):
                    continue
        except Exception:  # whatever keeps a session from being had
            log.debug("no session for %s", asked, exc_info=True)
            return
        passed.set()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout)
    found = passed.is_set()
    late.set()
    return found
