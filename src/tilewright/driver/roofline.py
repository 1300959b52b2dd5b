"""Which limit of the machine binds a computation: its arithmetic or its memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..rt import threads
from ..rt.plan import Work
from ..target.target import Target
from .bandwidth import bandwidth
from .peak import fma_peak


@dataclass(frozen=True)
class Limit:
    """The least time that some work takes here, in seconds, and what it is spent on: "compute" or
    "memory"."""

    seconds: float
    binds: str


def limit_of(work: Work, target: Target) -> Limit:
    """The limit of float32 work on this machine, with as many threads as are set.

    Arithmetic at the measured FMA peak, memory at the measured rate of copies of so many bytes:
    what is small comes from the caches.
    """
    compute = work.flops / fma_peak(target, threads.num_threads())
    memory = work.bytes / bandwidth(work.bytes, target) if work.bytes else 0.0
    return Limit(compute, "compute") if compute >= memory else Limit(memory, "memory")
