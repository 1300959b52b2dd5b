"""The processes of a fleet: its scheduler, which lets only workers of this version in, and workers.

    python -m tilewright.fleet.server scheduler|build|device JSON

runs one until it is told to end, and prints a line of JSON when it is up. Users start them with
`tilewright fleet` and `tilewright device`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from distributed import Scheduler, SchedulerPlugin, Worker

from ..measure.protocol import pack
from ..measure.runner import MEMORY_SHARE, available_memory
from .client import why_not
from .facts import FIELD, LOST_SECONDS, Facts, FleetError
from .held import Sessions
from .share import Turns
from .tls import is_loopback, require_address, security_for

_FIRST_SECONDS = 60.0  # for the first attempt to join a fleet
_PATIENCE_SECONDS = 10.0  # for one attempt to join it again
_AGAIN_SECONDS = 1.0  # between two
_LOOK_SECONDS = 0.25
_TRIES = 3  # workers that may die of a candidate before it is given up


_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}
"""Dask looks at what its workers do up to a hundred times a second, beside what a device times."""


class FleetScheduler(Scheduler):
    """Dask's scheduler, which refuses workers that are not ours or of another version, and a
    device's name that is taken; it counts what each worker has done."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.has_dashboard = bool(given.get("dashboard"))
        self.done: dict[str, Counter[str]] = {}
        self.handlers["tilewright_done"] = self._done
        self.handlers["tilewright_dashboard"] = self._dashboard
        self.handlers["tilewright_session"] = self._session
        self.add_plugin(_Counted(self.done), name="tilewright")

    async def _dashboard(self, comm: Any = None) -> int:
        """The port of Dask's dashboard; 0 where it is not served."""
        return int(self.services["dashboard"].port) if self.has_dashboard else 0

    async def _done(self, comm: Any = None) -> dict[str, dict[str, int]]:
        return {address: dict(counts) for address, counts in self.done.items()}

    async def _session(self, worker: str, session: str, request: bytes) -> bytes:
        """Hand a session's question to its device: clients need to reach nobody but this."""
        asked = asyncio.ensure_future(
            self.rpc(worker).tilewright_session(session=session, request=request)
        )
        while worker in self.workers:  # to one that has gone, Dask tries to connect for long
            done, _ = await asyncio.wait({asked}, timeout=_LOOK_SECONDS)
            if done:
                with suppress(OSError):
                    answer: bytes = asked.result()
                    return answer
                break
        asked.cancel()
        return pack({"ended": "the device is gone"})

    async def add_worker(self, comm: Any, *, extra: Any = None, **given: Any) -> None:
        why = self._objection(extra or {}, given)
        if why:
            answer = {"status": "error", "message": why, "time": asyncio.get_running_loop().time()}
            await comm.write(answer)
            return
        await super().add_worker(comm, extra=extra, **given)

    def valid_workers(self, ts: Any) -> Any:
        """Dask's, but that a task for one device is any device's of its kind once that has left: a
        search need not see to it."""
        if ts.worker_restrictions and self.workers.keys().isdisjoint(ts.worker_restrictions):
            ts.worker_restrictions = None
        return super().valid_workers(ts)

    def _objection(self, extra: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        try:
            facts = Facts.of_data(extra.get(FIELD))
        except FleetError as error:
            return f"this worker may not join the fleet: {error}"
        if given.get("name") in self.aliases:
            return (
                f"this worker may not join the fleet: there is a worker named {facts.name!r} "
                "already; give another --name"
            )
        return ""


class _Counted(SchedulerPlugin):
    """Counts tasks by worker and by how they ended."""

    def __init__(self, done: dict[str, Counter[str]]) -> None:
        self.done = done

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, worker: str = "", **other: Any
    ) -> None:
        if start == "processing" and finish in ("memory", "erred") and worker:
            self.done.setdefault(worker, Counter())[finish] += 1


class FleetWorker(Worker):
    """A worker of a fleet: its facts go with it when it registers, its children when it ends."""

    def __init__(self, address: str, facts: Facts, **given: Any) -> None:
        self.facts = facts
        self.child_memory = int(MEMORY_SHARE * available_memory())
        self.turns = Turns()
        self.sessions = Sessions()
        super().__init__(
            address,
            name=facts.name,
            nthreads=facts.slots,
            resources=facts.resources(),
            startup_information={FIELD: lambda _: facts.as_data()},
            memory_limit=0,  # children have limits of their own
            heartbeat_interval="1s",
            **given,
        )
        self.handlers["tilewright_session"] = self._session

    async def _session(self, session: str, request: bytes) -> bytes:
        return await asyncio.wrap_future(self.sessions.ask(session, request))


def scheduler(how: Mapping[str, Any]) -> FleetScheduler:
    """{host, port, folder, plain, dashboard}: a scheduler, TLS where it can be reached from other
    machines unless `plain`."""
    import dask

    host = how.get("host") or "127.0.0.1"
    protocol = "tcp" if how.get("plain") or (is_loopback(host) and not how.get("folder")) else "tls"
    folder = Path(how["folder"]) if how.get("folder") else None
    safe = security_for(f"{protocol}://{host}", folder, bool(how.get("plain")))
    lost = float(how.get("lost_after", LOST_SECONDS))
    dask.config.set({"distributed.scheduler.worker-ttl": f"{lost:g}s"})
    return FleetScheduler(
        host=host,
        port=int(how.get("port", 0)),
        protocol=protocol,
        security=safe,
        allowed_failures=_TRIES - 1,
        dashboard=how.get("dashboard") is not None,
        dashboard_address=how.get("dashboard") or f"{host}:0",  # where Dask tells its health
    )


def worker(how: Mapping[str, Any]) -> FleetWorker:
    """{address, folder, plain, facts}: a worker that joins the fleet at an address."""
    import dask

    folder = Path(how["folder"]) if how.get("folder") else None
    require_address(how["address"])
    safe = security_for(how["address"], folder, bool(how.get("plain")))
    facts = Facts(**how["facts"])
    dask.config.set(_QUIET)
    patience = how.get("patience", _FIRST_SECONDS)
    return FleetWorker(how["address"], facts, security=safe, death_timeout=patience)


def serve(role: str, how: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]) -> int:
    """Run a server until it is told to end; its exit status. `say` hears {address, role} once it is
    up. FleetError where it does not start."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    logging.getLogger("distributed.scheduler").addFilter(_is_no_farewell)
    return asyncio.run(_serve(role, how, say))


def _is_no_farewell(record: logging.LogRecord) -> bool:
    """Dask calls it critical that a client was killed which it had news for."""
    return not str(record.msg).startswith("Closed comm ")


async def _serve(
    role: str, how: Mapping[str, Any], say: Callable[[Mapping[str, Any]], None]
) -> int:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    if how.get("tied"):  # to who holds the other end of its standard input
        loop.add_reader(sys.stdin.fileno(), told.set)
    server = await _joined(role, how)
    say({"address": server.address, "role": role})
    while True:
        ends = [loop.create_task(told.wait()), loop.create_task(server.finished())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        if told.is_set() or role == "scheduler":
            await server.close()
            return 0
        server = await _rejoined(role, how, told) or server


async def _joined(role: str, how: Mapping[str, Any]) -> Any:
    """A server that is up; FleetError with the reason why there is none."""
    try:
        server: Any = scheduler(how) if role == "scheduler" else worker(how)
        return await server
    except FleetError:
        raise
    except (OSError, ValueError, TimeoutError, RuntimeError) as error:
        raise FleetError(_reason(error, how)) from None


async def _rejoined(role: str, how: Mapping[str, Any], told: asyncio.Event) -> Any:
    """The worker anew, whose scheduler has ended or has given it up: as soon as there is one again,
    however long that takes; None once it is told to end. FleetError where it may not join any
    more."""
    while not told.is_set():
        try:
            return await _joined(role, {**how, "patience": _PATIENCE_SECONDS})
        except FleetError as error:
            # of its own name the scheduler may not know yet that its worker is gone
            if "may not join" in str(error) and "a worker named" not in str(error):
                raise
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(told.wait(), _AGAIN_SECONDS)
    return None


def _reason(error: BaseException, how: Mapping[str, Any]) -> str:
    """Why a server does not start, as its user can use it."""
    chain: BaseException | None = error
    parts = []
    while chain is not None:
        parts.append(str(chain) or type(chain).__name__)
        chain = chain.__cause__ or chain.__context__
    refused = re.search(
        r"(this worker may not join the fleet: .*?)[\"'], 'time'", " | ".join(parts)
    )
    if refused:
        return refused[1]
    if "address" in how:
        # the innermost is what the network said; Dask's own are around it
        return why_not(how["address"], parts[-1], how.get("patience", _FIRST_SECONDS))
    where = ":".join(str(how[x]) for x in ("host", "port") if how.get(x))
    return f"a scheduler cannot listen on {where}: {parts[-1]}"


def _say(message: Mapping[str, Any]) -> None:
    with suppress(OSError):
        print(json.dumps(message), flush=True)


def main(args: list[str]) -> int:
    """Run the server that the arguments describe; the exit status."""
    try:
        return serve(args[0], json.loads(args[1]), _say)
    except FleetError as error:
        _say({"error": str(error)})
        return 2


__all__ = ["FleetScheduler", "FleetWorker", "main", "serve"]

if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
