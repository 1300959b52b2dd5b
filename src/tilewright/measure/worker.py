"""The worker: builds candidates and times them, one message at a time, until its input ends.

    python -m tilewright.measure.worker

Reads requests from its standard input and writes replies to its standard output (see `protocol`);
what the code that it runs prints goes to standard error. Requests, by "op":

    set    memory: bytes that it may use                       -> {}
    build  id, program: see `program`, options: by name        -> {seconds}
    pack   the same; the code is for another process           -> {archive, seconds}
    run    id, and how to time it: see `runner.Timing`;
           keep: it will be run again                          -> {costs, early, seconds}
    drop   id                                                  -> {}

A reply has the request's "op" and "id"; after an error "error", a MeasureErrorNo, and "message".
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..base import config
from ..base.errors import ArgumentError, CompileError, InternalError, TargetError, TilewrightError
from ..rt.device import device
from ..rt.module import Module
from .program import Unfit, as_archive, construct
from .protocol import Message
from .result import MeasureErrorNo as No
from .serve import prepare, serve
from .timing import Bench, Wrong

_LOST = 3  # the exit status of a worker whose device answers no more


class Failed(Exception):
    """A request failed, with this number."""

    def __init__(self, number: No, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        known = isinstance(error, TilewrightError) and not isinstance(error, InternalError)
        super().__init__(text if known else f"{type(error).__name__}: {text}")
        self.number = number


class Worker:
    """What the worker keeps between requests: built candidates, and arrays to run them on."""

    __slots__ = ("bench", "built", "options")

    def __init__(self) -> None:
        self.bench = Bench()
        self.built: dict[int, tuple[Module, Mapping[str, Any]]] = {}
        self.options: dict[str, Any] = {}

    def use(self, options: dict[str, Any]) -> None:
        """Have just these options differ from their defaults."""
        if options != self.options:
            for name in self.options:
                config.set_option(name, None)
            self.options = options
            for name, value in options.items():
                config.set_option(name, value)

    def answer(self, request: Message) -> Message:
        reply: Message = {"op": request.get("op"), "id": request.get("id")}
        handler = _HANDLERS.get(str(request.get("op")))
        start = time.perf_counter()
        try:
            if handler is None:
                raise Failed(No.UNKNOWN_ERROR, ValueError(f"unknown request {request!r:.100}"))
            reply.update(handler(self, request))
        except Failed as failed:
            reply.update(error=int(failed.number), message=str(failed))
        except Exception as error:
            reply.update(error=int(No.UNKNOWN_ERROR), message=f"{type(error).__name__}: {error}")
        reply["seconds"] = time.perf_counter() - start
        return reply


def _build(worker: Worker, request: Message) -> Message:
    worker.built[request["id"]] = (_constructed(worker, request), request["program"])
    return {}


def _pack(worker: Worker, request: Message) -> Message:
    return {"archive": as_archive(_constructed(worker, request), runtime=True)}


def _constructed(worker: Worker, request: Message) -> Module:
    program = request["program"]
    worker.use(request.get("options", {}))
    on_host = program["target"]["kind"] in ("llvm", "c")
    compiling = No.COMPILE_HOST if on_host else No.COMPILE_DEVICE
    try:
        module = construct(program)
        module.compile_kernels()  # here, beside other builds: runs are timed one at a time
        if "export" in program:
            module.export_library(program["export"])
        return module
    except Unfit as error:
        raise Failed(No.INSTANTIATION_ERROR, error) from error
    except (CompileError, TargetError) as error:
        raise Failed(compiling, error) from error
    except TilewrightError as error:
        raise Failed(No.INSTANTIATION_ERROR, error) from error
    except Exception as error:
        raise Failed(compiling, error) from error


def _run(worker: Worker, request: Message) -> Message:
    module, program = worker.built[request["id"]]
    if not request.get("keep"):
        del worker.built[request["id"]]
    try:
        return worker.bench.run(module, program, request)
    except Wrong as error:
        raise Failed(No.WRONG_ANSWER, error) from error
    except (ArgumentError, TilewrightError, RuntimeError, MemoryError) as error:
        if _is_lost(module.target.kind.name, int(request.get("device", 0))):
            # every candidate after this one would fail: another worker takes them
            print(error, file=sys.stderr, flush=True)
            os._exit(_LOST)
        raise Failed(No.RUNTIME_DEVICE, error) from error


def _is_lost(kind: str, index: int) -> bool:
    """Whether a device answers no more, as after a kernel that left its arrays."""
    dev = device(kind, index)
    if kind not in ("cuda", "opencl") or not dev.exist:
        return False
    try:
        dev.sync()
    except TilewrightError:
        return True
    return False


def _drop(worker: Worker, request: Message) -> Message:
    worker.built.pop(request["id"], None)
    return {}


_HANDLERS: dict[str, Callable[[Worker, Message], Message]] = {
    "set": lambda worker, request: prepare(request),
    "build": _build,
    "pack": _pack,
    "run": _run,
    "drop": _drop,
}


if __name__ == "__main__":
    status = serve(Worker().answer)
    sys.stdout.flush()
    # candidates and drivers may have left threads that an ordinary exit would wait for
    os._exit(status)
