"""The kernels of a network as object code, or as text for a device: made here, and by processes
that help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..driver.device_unit import DeviceUnit
from ..loopir.module import IRModule
from ..rt.plan import Kernel, symbol_of
from ..target.target import Target
from .kernel import cache_key, kept, lower_named, make_kernel, make_unit
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
    jobs = _jobs(distinct, tuned, team.target)

    def make(job: Job) -> bytes:
        return make_kernel(job.group, team.target, job.symbol, job.tuned, job.key)

    kernels = []
    for job, obj in zip(jobs, _made(jobs, team, make, progress)):
        recorded = job.tuned is not None and job.tuned.recorded
        kernels.append(Kernel(job.symbol, job.group.name, obj, recorded))
    return kernels


def compile_units(
    distinct: Sequence[Group],
    tuned: Sequence[Tuned | None],
    team: Team,
    progress: Progress | None = None,
) -> list[DeviceUnit]:
    """As compile_kernels, for a device. The loop IR of units that were made elsewhere is made when
    it is asked for."""
    target, here = team.target, {}

    def make(job: Job) -> bytes:
        unit = make_unit(job.group, target, job.symbol, job.tuned, job.key)
        here[job] = unit
        return unit.to_bytes()

    def lowered(job: Job) -> Callable[[], IRModule]:
        return lambda: lower_named(job.group, target, job.symbol, job.tuned)

    jobs = _jobs(distinct, tuned, target)
    made = _made(jobs, team, make, progress)
    return [
        here[job] if job in here else DeviceUnit.from_bytes(obj, target, lowered(job))
        for job, obj in zip(jobs, made)
    ]


def _jobs(distinct: Sequence[Group], tuned: Sequence[Tuned | None], target: Target) -> list[Job]:
    jobs = []
    for k, (group, how) in enumerate(zip(distinct, tuned)):
        name = symbol_of(k)
        jobs.append(Job(name, group, how, cache_key(group, target, name, how)))
    return jobs


def _made(
    jobs: Sequence[Job], team: Team, make: Callable[[Job], bytes], progress: Progress | None
) -> list[bytes]:
    """What each job makes: from the compile cache, by a helper, or by `make` in this thread."""
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
        told(team.finished(mine, make(mine)))
    told(team.rest())
    made = []
    for job in jobs:
        assert job.obj is not None
        made.append(job.obj)
    return made
