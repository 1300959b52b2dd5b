"""The process of a PopenWorker: it reads tasks from one pipe and writes results to another."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

from .popen_pool import _SIZE, StatusKind, pickled, read_exactly


def _outcome(data: bytes, begun: Callable[[], None]) -> bytes:
    try:
        function, args, kwargs = pickle.loads(data)
        begun()
        status, value = StatusKind.COMPLETE, function(*args, **kwargs)
    except Exception as error:
        status, value = StatusKind.EXCEPTION, error
    try:
        return pickled((status, value))
    except Exception as error:
        said: Any = RuntimeError(f"the result of a task cannot be sent back: {error}")
        return pickled((StatusKind.EXCEPTION, said))


def main() -> None:
    """Serve until the pipe of tasks is closed."""
    pickled(None)  # loads what makes pickles, which is not to count as time of the first task
    source, sink = (os.fdopen(int(n), mode) for n, mode in zip(sys.argv[1:3], ("rb", "wb")))

    def send(data: bytes) -> None:
        sink.write(_SIZE.pack(len(data)) + data)
        sink.flush()

    while True:
        try:
            data = read_exactly(source, _SIZE.unpack(read_exactly(source, _SIZE.size))[0])
            send(_outcome(data, lambda: send(b"")))
        except (EOFError, OSError):
            return


if __name__ == "__main__":
    main()
