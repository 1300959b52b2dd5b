"""A fleet of processes on this machine: to try one out, and what tests run.

with LocalFleet(2) as fleet:
    runner = auto_scheduler.DaskRunner(fleet.address)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.closing import Closing
from ..measure.process import environment
from .facts import LOST_SECONDS, Facts, FleetError

_START_SECONDS = 60.0
_END_SECONDS = 10.0


class Server:
    """One process of a fleet, up when this is made; FleetError with its own reason otherwise. It
    ends with this process. `within`: a command that starts it elsewhere, such as `ip netns exec`.
    """

    def __init__(self, role: str, how: Mapping[str, Any], within: Sequence[str] = ()) -> None:
        self.role = role
        told = json.dumps({**how, "tied": True})
        self.process = subprocess.Popen(
            [*within, sys.executable, "-m", "tilewright.fleet.server", role, told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            start_new_session=True,  # Ctrl-C is for the search
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        said: dict[str, Any] = (
            json.loads(line) if line.strip() else {"error": "its process ended at once"}
        )
        if "error" in said:
            self.process.wait(_START_SECONDS)
            self._reap()
            raise FleetError(f"a {role} of the fleet does not start: {said['error']}")
        self.address: str = said["address"]

    def kill(self) -> None:
        """End it, and its children, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._reap()

    def close(self) -> None:
        """End it in order, or else by force."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_SECONDS)
        self.kill()

    def _reap(self) -> None:
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class LocalFleet(Closing):
    """A scheduler, `builders` (cores of it at a time, None: as many as there are devices) and
    `devices` that all are this machine.

    `key`, `target`: of the devices. `pretends`: seconds a measurement of devices that make costs
    up, 0 for real ones. `secure`: a folder of certificates; without, plain TCP that nobody else can
    reach. `lost_after`: seconds without a sign of life after which a worker's candidates go to
    others.
    """

    def __init__(
        self,
        devices: int = 1,
        builders: int | None = None,
        *,
        key: str = "local",
        target: str = "llvm",
        pretends: float = 0.0,
        secure: str | None = None,
        lost_after: float | None = None,
    ) -> None:
        self.key = key
        self.servers: list[Server] = []
        self._common = {"folder": secure}
        self._facts: dict[str, Any] = {"key": key, "target": target, "pretends": pretends}
        try:
            self.scheduler = self._add(
                "scheduler", {"host": "127.0.0.1", "lost_after": lost_after or LOST_SECONDS}
            )
            self.address = self.scheduler.address
            self.add_builder("builder", builders or devices)
            self.devices = [self.add_device(f"device{n}") for n in range(devices)]
        except BaseException:
            self.close()
            raise

    def add_builder(self, name: str, slots: int = 1) -> Server:
        """One more process that compiles, `slots` candidates at a time."""
        return self._join(Facts("build", name, slots=slots))

    def add_device(self, name: str, **other: Any) -> Server:
        """One more device. `other`: what differs of its facts."""
        return self._join(Facts("device", name, **{**self._facts, **other}))

    def _join(self, facts: Facts) -> Server:
        return self._add(facts.role, {"address": self.address, "facts": facts.as_data()})

    def _add(self, role: str, how: Mapping[str, Any]) -> Server:
        server = Server(role, {**self._common, **how})
        self.servers.append(server)
        return server

    def close(self) -> None:
        """End all of it, workers first."""
        for server in reversed(self.servers):
            server.close()
        self.servers.clear()
