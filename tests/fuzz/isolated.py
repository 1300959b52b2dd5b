"""Cases in processes of their own: what a case breaks ends with it.

Compiled code that is wrong may crash or hang, and so does PoCL on kernels that it compiles wrongly;
a case during which the process dies has failed, and another process goes on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from queue import SimpleQueue
from typing import Any

from .check import SECONDS, WAIT, Failure, Statistics, drawn, drawn_program, run_case
from .shrink import shrink, text_of

Chunk = tuple[int, int, str]
Outcome = tuple[Statistics, list[tuple[int, str]]]
DEVICES = ("llvm", "opencl")  # the interpreter of kernels runs in the fuzzer's own process


class Dead(Exception):
    """The process of a case is no more; the text says how it ended."""


class Worker:
    """A process that answers one question after the other."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def ask(self, question: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> Any:
        """What `question(*args)` returns there. Raises Dead."""
        try:
            self.pipe.send((question, args))
            if not self.pipe.poll(seconds):
                self.process.kill()
                raise Dead(f"no answer within {seconds:.0f} s")
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise Dead(f"the process died: {how}") from None

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(pipe: Any) -> None:
    os.environ.setdefault("TILEWRIGHT_CACHE", "0")
    while True:
        try:
            question, args = pipe.recv()
        except EOFError:
            return
        pipe.send(question(*args))


def _case(seed: int, device: str) -> tuple[Statistics, str | None]:
    stats = Statistics()
    failure = run_case(seed, stats, device)
    return stats, None if failure is None else failure.problem


def _shrunk(seed: int, device: str, attempts: int) -> str:
    failure = run_case(seed, Statistics(), device)
    return "" if failure is None else text_of(shrink(failure, attempts))


def run_chunks(chunks: list[Chunk], jobs: int) -> Generator[Outcome, None, None]:
    """The outcomes of all chunks, in order."""
    free: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(max(jobs, 1)):
        free.put(Worker())
    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        running = [pool.submit(_chunk, free, *c) for c in chunks]
        try:
            for one in running:
                yield one.result()
        finally:
            for one in running:
                one.cancel()
    while not free.empty():
        free.get().close()


def _chunk(free: SimpleQueue[Worker], first: int, count: int, device: str) -> Outcome:
    total, failed = Statistics(), []
    worker = free.get()
    for seed in range(first, first + count):
        try:
            stats, problem = worker.ask(_case, (seed, device), WAIT * SECONDS + 20)
        except Dead as error:
            worker.close()
            worker = Worker()
            stats, problem = Statistics(), str(error)
            stats.cases = 1
        total.merge(stats)
        if problem is not None:
            failed.append((seed, problem))
    free.put(worker)
    return total, failed


def report(failure: Failure, attempts: int = 200) -> str:
    """The text of a failure, made small unless its process dies of that."""
    if failure.device not in DEVICES:
        return text_of(shrink(failure, attempts))
    worker = Worker()
    try:
        small = worker.ask(_shrunk, (failure.seed, failure.device, attempts), 600)
    except Dead:
        small = ""
    finally:
        worker.close()
    return small or text_of(failure)


def made_again(seed: int, problem: str, device: str) -> Failure:
    """The failure of a case that ran elsewhere: it holds functions, which processes cannot
    exchange."""
    try:
        program, _, s, _ = drawn(seed, device)
        return Failure(seed, program, s.steps, problem, device)
    except Exception:  # the drawing itself is what failed
        return Failure(seed, drawn_program(seed, device), [], problem, device)
