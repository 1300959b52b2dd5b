"""Keeps devices fed while the search thinks: a thread that sends candidates and hears of results.

A search hands it loads, which are tickets that travel together; it has so many of them on the way
that each device has one that runs and some that wait, and keeps results until they are taken.
Everything that concerns devices is done in this thread, in the order in which it happens. What goes
wrong there is raised where results are taken.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, Iterable
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ..measure.repeats import Best
from ..measure.result import Measurement

_LOOK_SECONDS = 1.0  # between looks at who has joined, while candidates are out
_END_SECONDS = 10.0

Load = tuple[int, ...]
Judged = Measurement | None
_Waiting = tuple[Load, list[Best | None]]
"""A load, and the best that its round knows, which all of the round share."""


class Line(Protocol):
    """What the feeder asks of who speaks with the fleet."""

    def room(self) -> int:
        """How many loads may be on the way."""
        ...

    def send(self, load: Load, best: Best | None) -> Any:
        """Send candidates of one parcel; a Dask future of the answer, None where all of them were
        dropped meanwhile."""
        ...

    def judge(self, future: Any, load: Load, more: bool) -> Iterable[tuple[int, Judged]]:
        """What has come of the candidates of a load: of each the measurement, None where it has to
        be measured again. `more`: whether others wait to be sent."""
        ...

    def cancel(self, futures: list[Any]) -> None:
        """Drop what is on the way."""
        ...


class Feeder:
    """Candidates between a search and its devices. `close` ends its thread."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._waiting: deque[_Waiting] = deque()
        self._flying: dict[Any, _Waiting] = {}
        self._wanted: set[int] = set()
        self._results: dict[int, Measurement] = {}
        self._error: BaseException | None = None
        self._events: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self, loads: Iterable[Load], best: Best | None) -> None:
        """Have candidates measured. `best`: the fastest so far, for the early stop; it follows what
        is found of these."""
        group = [best]
        new = [(load, group) for load in loads]
        with self._changed:
            self._wanted.update(ticket for load, _ in new for ticket in load)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tilewright-fleet", daemon=True)
            self._thread.start()
        self._events.put(lambda: self._waiting.extend(new))

    @property
    def known(self) -> Container[int]:
        """Candidates that are measured, or have been and wait to be taken."""
        return self._wanted

    def take(self, wait: bool = True) -> tuple[int, Measurement] | None:
        """The next result of any candidate; with `wait` as soon as there is one, else None where
        there is none. Whatever went wrong in the feeder is raised."""
        with self._changed:
            while not self._results:
                if self._error is not None:
                    raise self._error
                if not wait:
                    return None
                self._changed.wait()
            ticket = next(iter(self._results))
            self._wanted.discard(ticket)
            return ticket, self._results.pop(ticket)

    def forget(self, tickets: Iterable[int]) -> None:
        """Drop candidates: those on their way are given up, results are not kept."""
        gone = set(tickets)
        with self._changed:
            self._wanted -= gone
            for ticket in gone:
                self._results.pop(ticket, None)
        self._events.put(lambda: self._drop(gone))

    def close(self) -> None:
        """Drop everything, and end the thread."""
        if self._thread is not None:
            self._events.put(None)
            self._thread.join(_END_SECONDS)  # it may wait for a fleet that is gone
            self._thread = None
        self._line.cancel(list(self._flying))
        self._flying.clear()
        self._waiting.clear()

    # -- in the thread

    def _run(self) -> None:
        try:
            while True:
                event = self._next_event()
                if event is None:
                    return
                event()
                self._send()
        except BaseException as error:  # for whoever takes results
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _next_event(self) -> Callable[[], Any] | None:
        """What has happened next. While candidates are out, a look now and then at whether there is
        anybody who could measure them."""
        try:
            is_out = self._waiting or self._flying
            return self._events.get(timeout=_LOOK_SECONDS if is_out else None)
        except Empty:
            return self._line.room

    def _send(self) -> None:
        if not self._waiting:
            return
        room = self._line.room()
        while self._waiting and len(self._flying) < room:
            load, group = self._waiting.popleft()
            future = self._line.send(load, group[0])
            if future is None:
                continue
            self._flying[future] = load, group
            future.add_done_callback(lambda f: self._events.put(lambda: self._heard(f)))

    def _heard(self, future: Any) -> None:
        if future not in self._flying:
            return  # given up meanwhile
        load, group = self._flying.pop(future)
        results = list(self._line.judge(future, load, bool(self._waiting)))
        # alone: what was wrong with one of them is then no matter of the others
        self._waiting.extendleft(((t,), group) for t, result in reversed(results) if result is None)
        found = {t: result for t, result in results if result is not None}
        for result in found.values():
            group[0] = Best.after(group[0], result)
        with self._changed:
            self._results.update((t, r) for t, r in found.items() if t in self._wanted)
            self._changed.notify_all()

    def _drop(self, gone: set[int]) -> None:
        self._waiting = deque(w for w in self._waiting if not gone.issuperset(w[0]))
        futures = [f for f, (load, _) in self._flying.items() if gone.issuperset(load)]
        for future in futures:
            del self._flying[future]
        self._line.cancel(futures)
