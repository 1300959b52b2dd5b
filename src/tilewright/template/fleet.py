"""Runners of templates that are other machines: a fleet (see tilewright.fleet)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..fleet.facts import FleetError
from ..fleet.options import OnDask, OnFleet, Place
from ..fleet.requests import check_remote
from .measure import LocalRunner, logger


class DaskRunner(OnDask, LocalRunner):
    """Times candidates on the devices of a fleet, one at a time on each, and has them built there.

    `scheduler`, `key`, `priority`, `resources`, `certificates` and `plain` as of
    auto_scheduler.DaskRunner, the rest as of LocalRunner. Raises FleetError when tuning begins and
    nobody answers there, no device has that key, or no worker builds.
    """


class RPCRunner(OnFleet, LocalRunner):
    """What TVM's scripts name for boards behind a tracker: a fleet's devices of `key`, whose
    scheduler is at `host` and `port` (TLS, unless `host` is this machine). Where nobody compiles in
    the fleet, this machine does.

    `priority`: this search's share, see DaskRunner. `n_parallel`, candidates at a time, is the
    fleet's own affair. `timeout`: seconds for the runs of one. `repeat`: repetitions, of `number`
    runs each. `cooldown_interval`: seconds of rest between candidates.
    """

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        del n_parallel
        self.key, self.host, self.port, self.priority = key, host, int(port), priority
        super().__init__(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush,
            module_loader,
        )  # fmt: skip
        self.place = Place.of_tracker(key, host, int(port), float(priority))

    def set_task(self, task: Any) -> None:
        """Called before a search; FleetError (a RuntimeError) where no device is free."""
        super().set_task(task)
        if not check_remote(task.target, self.key, self.host, self.port):
            raise FleetError(
                f"Cannot get remote devices from the tracker at {self.host}:{self.port}: there is "
                f"none of key {self.key!r} for {task.target.kind.name}, or none is free"
            )
        logger.info("Get devices for measurement successfully!")

    def session(self) -> AbstractContextManager[dict[str, Any]]:
        """What a session for `module_loader` is asked for."""
        where = {"host": self.host, "port": self.port, "priority": self.priority}
        return nullcontext({"device_key": self.key, **where, "timeout": self.timeout})
