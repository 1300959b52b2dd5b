"""What this machine can do, for rooflines: its measured peak, and how fast its caches and memory
are."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from ..driver.bandwidth import LEAST_BYTES, MOST_BYTES, bandwidth
from ..driver.peak import fma_peak, sample_peak
from ..rt import threads
from ..rt.busy import Watch
from ..rt.plan import Work
from ..target.target import Target
from .page import Point, Roofline

_ABOVE = 1.1  # of the peak: more is no noise
_ATTEMPTS = 40
Measured = tuple[int, str, str, Work, float | None, int]
"""Number, name and title of a kernel, its work, the seconds that a call takes, if measured, and how
often it is called."""


def roofline_of(kernels: Sequence[Measured], target: Target, reason: str = "") -> Roofline:
    """The roofline of kernels, with the limits of this machine where they were measured on it.

    `reason`: why nothing was measured.
    """
    if not any(seconds for *_, seconds, _ in kernels):
        note = (
            f"Nothing was measured: {reason}. Heights are operations instead of rates, and shares "
            "are of the operations."
        )
        whole = sum(work.flops * calls for _, _, _, work, _, calls in kernels) or 1
        return Roofline([_point(k, k[3].flops / whole) for k in kernels], note)
    total = sum((seconds or 0.0) * calls for *_, seconds, calls in kernels)
    count = threads.num_threads()
    peak = _peak(kernels, target, count)
    points = []
    for k in kernels:
        work, seconds = k[3], k[4]
        if not seconds:
            points.append(_point(k, 0.0))
            continue
        compute = work.flops / peak
        memory = work.bytes / bandwidth(work.bytes, target) if work.bytes else 0.0
        binds = "compute" if compute >= memory else "memory"
        points.append(_point(k, seconds / total, binds, max(compute, memory) / seconds))
    roofs = [
        ("caches", bandwidth(LEAST_BYTES, target)),
        ("memory", bandwidth(MOST_BYTES, target)),
    ]
    note = (
        f"Measured on this machine ({platform.machine()}, {count} thread{'s' * (count > 1)}): "
        "float32 operations a second of chains of multiply-adds, and copies of 1 MiB (caches) and "
        "256 MiB (memory). Bytes of a kernel are its arguments, each once; what comes from caches "
        "may be above the line of memory."
    )
    return Roofline(points, note, peak, roofs)


def _point(k: Measured, share: float, binds: str = "", of_limit: float | None = None) -> Point:
    number, name, title, work, seconds, calls = k
    how = (seconds, share * calls, binds, of_limit)
    return Point(number, name, title, work.flops, work.bytes, *how)


def _peak(kernels: Sequence[Measured], target: Target, count: int) -> float:
    """The peak of multiply-adds; measured longer where a kernel was faster, since then something
    else ran meanwhile."""
    peak = fma_peak(target, count)
    fastest = max(work.flops / seconds for _, _, _, work, seconds, _ in kernels if seconds)
    for _ in range(_ATTEMPTS):
        if peak >= fastest:
            break
        peak = max(peak, sample_peak(target, count))
    return peak


def busy_notes(watch: Watch, roofline: Roofline | None = None) -> list[str]:
    """Warnings about what else ran meanwhile, and about what cannot be true of a roofline that was
    measured on a quiet machine."""
    note = watch.note()
    notes = [] if note is None else [note[0].upper() + note[1:] + "."]
    peak = None if roofline is None else roofline.peak
    points = () if roofline is None or peak is None else roofline.points
    above = [p.name for p in points if p.seconds and p.flops / p.seconds > _ABOVE * (peak or 0.0)]
    if above:
        count = "One kernel is" if len(above) == 1 else f"{len(above)} kernels are"
        notes.append(
            f"{count} faster than the measured peak ({', '.join(above[:3])}), so that was measured "
            "too low: make the report again on a quiet machine."
        )
    return notes


def why_not_measured(target: Target) -> str:
    """Why kernels for a target were not timed here."""
    if target.kind.name != "llvm":
        return f"kernels for {target.kind.name} are not timed for a report"
    return target.missing_on_host()
