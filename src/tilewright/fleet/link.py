"""What ties a session's arrays and functions to the process that they live in.

Everything of a session holds its link, and the session ends when the last of them goes, or is
closed. A link asks one thing at a time; what goes is told with the next question.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from ..base import errors
from ..base.errors import RPCError, TilewrightError
from ..measure.protocol import Message
from .session_process import SessionProcess


class Link:
    """A session's questions and answers. `name`: of the device, for errors."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = ""
        """Why the session is over; empty while it is not."""
        self._lock = threading.RLock()
        self._freed: list[int] = []

    def ask(self, op: str, **question: Any) -> Message:
        """The answer to a message (see `session_child`). RPCError where the session is over, and
        the error of the other side where it raised one."""
        with self._lock:
            if self.ended:
                raise self._over()
            freed, self._freed = self._freed, []
            try:
                answer = self._send({"op": op, "id": 0, "free": freed, **question})
            except BaseException as error:
                # an answer that nobody waited for would be taken for that of the next question
                self.end(f"a question was interrupted ({type(error).__name__})")
                raise
            if "ended" in answer:
                self.end(answer["ended"])
                raise self._over()
        if "error" in answer:
            raise _error_of(self.name, answer)
        return answer

    def free(self, number: int) -> None:
        """Nobody needs what that number stands for; garbage collection calls this, anywhere."""
        self._freed.append(number)

    def end(self, why: str) -> None:
        """The session is over."""
        if not self.ended:
            self.ended = why
            self._leave()

    def _over(self) -> RPCError:
        return RPCError(f"the session on {self.name} has ended: {self.ended}")

    def _send(self, message: Message) -> Message:
        raise NotImplementedError

    def _leave(self) -> None:
        """Let the other side go."""


class LocalLink(Link):
    """With a child process of this one. `seconds`: after which the session ends (0: never)."""

    def __init__(self, seconds: float = 0) -> None:
        super().__init__("this machine")
        self._limit = Limit(seconds)
        self._process = SessionProcess()

    def _send(self, message: Message) -> Message:
        why = self._over_now()
        return {"ended": why} if why else self._process.ask(message, self._over_now)

    def _over_now(self) -> str:
        return self.ended or self._limit.passed()

    def _leave(self) -> None:
        if self._lock.acquire(blocking=False):  # else the thread that asks ends it
            try:
                self._process.close()
            finally:
                self._lock.release()


class Limit:
    """The time that a session may last (0: as long as it is held)."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._start = time.monotonic()

    def passed(self) -> str:
        """What to say where it has passed; else empty."""
        late = 0 < self._seconds < time.monotonic() - self._start
        return f"its session_timeout of {self._seconds:g} s has passed" if late else ""


class Kept:
    """A number that stands for something in a session's process, which forgets it with this."""

    __slots__ = ("link", "number")

    def __init__(self, link: Link, number: int) -> None:
        self.link = link
        self.number = number

    def __del__(self) -> None:
        link = getattr(self, "link", None)
        if link is not None:
            link.free(self.number)


def _error_of(name: str, answer: Message) -> Exception:
    """The error that the other side raised: of its class, where it is one for users."""
    kind = getattr(errors, str(answer["error"]), None)
    if isinstance(kind, type) and issubclass(kind, TilewrightError):
        found: Exception = kind(answer["message"])
        return found
    return RPCError(f"{name}: {answer['message']}")
