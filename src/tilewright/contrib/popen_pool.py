"""`tvm.contrib.popen_pool`: functions that run in processes of their own, with a limit of time.

Functions and values travel as pickles; where `cloudpickle` is installed, also functions of the
script itself and lambdas.
"""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..base.errors import UsageError

_SIZE = struct.Struct("<q")


class StatusKind(IntEnum):
    """How a task stands."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """What became of one task of `map_with_error_catching`: its value, or the exception."""

    status: StatusKind
    value: Any


def pickled(value: Any) -> bytes:
    """A value as a pickle; UsageError where it has none."""
    name = "cloudpickle" if find_spec("cloudpickle") else "pickle"
    try:
        data: bytes = import_module(name).dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"a worker process cannot be sent this: {error}; give it functions of modules, or "
            "install cloudpickle"
        ) from None
    return data


def read_exactly(file: Any, size: int) -> bytes:
    """So many bytes of a file; EOFError where it ends before."""
    data: bytes = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


class PopenWorker:
    """A process that runs one function at a time; it starts with the first, and again after it was
    killed.

    initializer: a function to call first in each process, with `initargs`. maximum_uses: after so
    many tasks a new process takes over. stdout, stderr: as of subprocess.Popen. Raises TypeError
    where initializer is no function.
    """

    def __init__(
        self,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be callable for PopenWorker")
        self._proc: subprocess.Popen[bytes] | None = None
        self._initializer = initializer
        self._initargs = tuple(initargs)
        self._maximum_uses = maximum_uses
        self._remaining_uses: int | None = None
        self._stdout, self._stderr = stdout, stderr
        self._timeout: float | None = None

    def __del__(self) -> None:
        with suppress(Exception):
            self.kill()

    def kill(self) -> None:
        """End the process; the next `send` starts another one."""
        proc, self._proc = self._proc, None
        if proc is None:
            return
        for file in (self._writer, self._reader):
            with suppress(OSError):
                file.close()
        with suppress(OSError):
            os.killpg(proc.pid, 9) if hasattr(os, "killpg") else proc.kill()
        proc.wait()

    def _start(self) -> None:
        from_worker, to_us = os.pipe()
        from_us, to_worker = os.pipe()
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join([root, *filter(None, sys.path)])
        self._proc = subprocess.Popen(
            [sys.executable, "-m", "tilewright.contrib.popen_worker", str(from_us), str(to_us)],
            pass_fds=(from_us, to_us),
            stdout=self._stdout,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        os.close(from_us)
        os.close(to_us)
        self._reader = os.fdopen(from_worker, "rb", buffering=0)
        self._writer = os.fdopen(to_worker, "wb")

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process ends, at most `timeout` seconds."""
        if self._proc is not None:
            with suppress(subprocess.TimeoutExpired):
                self._proc.wait(timeout)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._proc is not None and self._proc.poll() is None

    def send(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Let the process call fn(*args, **kwargs), for at most `timeout` seconds; `recv` gives the
        result and has to come before the next `send`."""
        data = pickled((fn, tuple(args), dict(kwargs or {})))
        if self._proc is not None and self._maximum_uses is not None and not self._remaining_uses:
            self.kill()
        if self._proc is None:
            self._start()
            self._remaining_uses = self._maximum_uses
            if self._initializer is not None:
                self._put(pickled((self._initializer, self._initargs, {})))
                self._timeout = None
                self.recv()
        self._put(data)
        self._timeout = timeout
        if self._remaining_uses is not None:
            self._remaining_uses -= 1

    def _put(self, data: bytes) -> None:
        with suppress(OSError):  # a dead process is noticed by recv
            self._writer.write(_SIZE.pack(len(data)) + data)
            self._writer.flush()

    def recv(self) -> Any:
        """The value of the last task; its exception is raised, TimeoutError where it took too long,
        ChildProcessError where the process ended."""
        if self._proc is None:
            raise ChildProcessError("Subprocess terminated")
        try:
            data = self._message()
            if not data:  # the task has begun: its time runs
                if not select.select([self._reader], [], [], self._timeout)[0]:
                    self.kill()
                    raise TimeoutError(f"the task took longer than {self._timeout} s")
                data = self._message()
        except TimeoutError:
            raise
        except (OSError, EOFError):
            self.kill()
            raise ChildProcessError("Subprocess terminated") from None
        status, value = pickle.loads(data)
        if status == StatusKind.COMPLETE:
            return value
        raise value

    def _message(self) -> bytes:
        """What the process sent; EOFError where it ended."""
        size = _SIZE.unpack(read_exactly(self._reader, _SIZE.size))[0]
        data = bytearray()
        while len(data) < size:
            part = self._reader.read(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


class PopenPoolExecutor:
    """Worker processes that tasks are handed to, as concurrent.futures' executors do.

    max_workers: how many (default: one a core). timeout: seconds of each task. The rest is as of
    PopenWorker. Raises TypeError where initializer is no function.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        timeout: float | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_process_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be callable for PopenPoolExecutor")
        self._threads = concurrent.futures.ThreadPoolExecutor(max_workers or os.cpu_count())
        self._timeout = timeout
        self._options = (initializer, initargs, maximum_process_uses, stdout, stderr)
        self._workers: dict[int, PopenWorker] = {}
        self._lock = threading.Lock()

    def __del__(self) -> None:
        with suppress(Exception):
            self.shutdown()

    def shutdown(self) -> None:
        """Wait for the tasks and end the processes."""
        self._threads.shutdown()
        with self._lock:
            for worker in self._workers.values():
                worker.kill()
            self._workers.clear()

    def _run(self, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with self._lock:
            ident = threading.get_ident()
            worker = self._workers.get(ident)
            if worker is None:
                worker = self._workers[ident] = PopenWorker(*self._options)
        worker.send(fn, args, kwargs, self._timeout)
        return worker.recv()

    def _caught(self, fn: Any, item: Any) -> MapResult:
        try:
            return MapResult(StatusKind.COMPLETE, self._run(fn, (item,), {}))
        except TimeoutError as error:
            return MapResult(StatusKind.TIMEOUT, error)
        except Exception as error:
            return MapResult(StatusKind.EXCEPTION, error)

    def submit(
        self, fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        """A future of fn(*args, **kwargs)."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def map_with_error_catching(
        self, fn: Callable[..., Any], iterator: Iterable[Any]
    ) -> Iterator[MapResult]:
        """What became of fn(item) of each item, in order."""
        return self._threads.map(lambda item: self._caught(fn, item), iterator)
