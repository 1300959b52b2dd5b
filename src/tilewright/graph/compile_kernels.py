"""The kernels of a network as object code: made here, and by processes that help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..rt.plan import Kernel, symbol_of
from .kernel import cache_key, kept, make_kernel
from .passes.fuse import Group
from .team import Job, Team
from .tuned import Tuned

Progress = Callable[[int, int, str], None]


def compile_kernels(
    distinct: Sequence[Group],
    tuned: Sequence[Tuned | None],
    team: Team,
    progress: Progress | None = None,
) -> list[Kernel]:
    """Object code of each group, from the compile cache where it has it; `progress(done, total,
    name)` is called after each. CompileError with the nodes' names where one cannot be compiled."""
    target = team.target
    jobs = []
    for k, (group, how) in enumerate(zip(distinct, tuned)):
        name = symbol_of(k)
        jobs.append(Job(name, group, how, cache_key(group, target, name, how)))
    done = 0

    def told(some: Iterable[Job]) -> None:
        nonlocal done
        for job in some:
            done += 1
            if progress is not None:
                progress(done, len(jobs), job.group.name)

    for job in jobs:
        job.obj = kept(job.key)
    told(job for job in jobs if job.obj is not None)
    team.give([job for job in jobs if job.obj is None])
    while (mine := team.next()) is not None:
        made = make_kernel(mine.group, target, mine.symbol, mine.tuned, mine.key)
        told(team.finished(mine, made))
    told(team.rest())
    kernels = []
    for job in jobs:
        assert job.obj is not None
        recorded = job.tuned is not None and job.tuned.recorded
        kernels.append(Kernel(job.symbol, job.group.name, job.obj, recorded))
    return kernels
