"""CUDA source of many kernels in parts of one kernel each, which are compiled at the same time.

A network has dozens of kernels, and NVRTC, which takes seconds for some of them, compiles on one
core what it is given at once. It takes parts from several threads. What ptxas is told of a kernel
(`nvrtc.compile_cuda`) then depends on that kernel alone, and no other is compiled again for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ...base import config
from .. import threads
from . import nvrtc

T = TypeVar("T")

_KERNEL = re.compile(r'^(?=extern "C" __global__ )', re.M)
_NAME = re.compile(r"(\w+)\(")
_END = "\n}\n"


@dataclass(frozen=True)
class Part:
    """Source with the text of one kernel, or, where that has no name here, all of its kernels."""

    kernel: str
    source: str


def parts(source: str) -> list[Part]:
    """The source by kernels, each behind what stands before all of them; in one part where other
    text stands between kernels, as a user's callback may write it."""
    front, *kernels = _KERNEL.split(source)
    if len(kernels) < 2 or not all(map(_is_alone, kernels)):
        return [Part("", source)]
    names = [_NAME.findall(text.partition("{")[0])[-1] for text in kernels]
    return [Part(name, f"{front}{text.rstrip()}\n") for name, text in zip(names, kernels)]


def _is_alone(text: str) -> bool:
    """Whether nothing stands behind the closing brace of a kernel as the generator writes it."""
    kernel, end, rest = text.partition(_END)
    return bool(end) and "{" in kernel and not rest.strip()


def compile_parts(source: str, arch: str) -> list[tuple[bytes, str]]:
    """Cubins of the parts of CUDA source, with the compiler's log of each, in their order.

    CompileError and TargetError as `nvrtc.compile_cuda` raises them, of the first part that fails.
    """
    return at_once(lambda part: nvrtc.compile_cuda(part.source, arch, "cubin"), parts(source))


def at_once(work: Callable[[Part], T], given: Iterable[Part]) -> list[T]:
    """What `work` gives for each, in their order, by as many threads as the option
    `compile_processes` allows: the compiler lets others run meanwhile. The first error in their
    order is raised, and what was not begun then is left."""
    todo = list(given)
    most = int(config.get("compile_processes")) or threads.num_threads()
    if min(most, len(todo)) < 2:
        return [work(part) for part in todo]
    # the longest texts first, so that none of them is alone at the end
    order = sorted(range(len(todo)), key=lambda n: -len(todo[n].source))
    with ThreadPoolExecutor(min(most, len(todo)), "nvrtc") as pool:
        futures = {n: pool.submit(work, todo[n]) for n in order}
        try:
            return [futures[n].result() for n in range(len(todo))]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
