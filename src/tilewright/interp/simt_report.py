"""What a run in the simt executor found and counted, and how it is told to the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..base.errors import TilewrightError
from ..loopir.printer import script
from ..loopir.stmt import PrimFunc, Stmt

RACE = "race"
RACE_BLOCKS = "race between blocks"
BOUNDS = "out of bounds"
UNWRITTEN = "unwritten memory"
DIVERGENT = "barrier under divergence"
SHUFFLE = "shuffle from an inactive lane"
ASYNC = "async copy not waited for"
WGMMA = "product not waited for"
DEADLOCK = "deadlock"
FENCE = "missing fence"
MISALIGNED = "misaligned address"
DIVISION = "division by zero"
ASSERTION = "assertion failed"

_SHOWN = 8  # findings that the text of an error has
_AROUND = 3  # lines of the program around a marked one


class Abandoned(Exception):
    """A kernel in which something was found does not come to its end."""


class Thread(NamedTuple):
    """A thread by its indices (x, y, z) and those of its block."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int]

    def __str__(self) -> str:
        return f"thread {self.thread} of block {self.block}"


@dataclass
class Finding:
    """Something that a kernel must not do.

    `kind` is one of the texts at the top of this module, `statement` and `other` the statements of
    the two sides (`other` of the earlier access), `line` and `other_line` their printed text,
    `index` the element of `buffer`, `threads` who was there (the later one first), `count` how
    often the same was seen.
    """

    kind: str
    message: str
    statement: Stmt | None
    buffer: str = ""
    index: int | None = None
    threads: tuple[Thread, ...] = ()
    other: Stmt | None = None
    count: int = 1
    line: str = ""
    other_line: str = ""

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        text = f"{self.kind}: {self.message}{times}"
        if self.line:
            text += f"\n    at      {self.line}"
        if self.other_line and self.other is not self.statement:
            text += f"\n    against {self.other_line}"
        return text


@dataclass
class Traffic:
    """Counts of memory accesses of one scope: elements loaded, stored, updated atomically."""

    loads: int = 0
    stores: int = 0
    atomics: int = 0


@dataclass
class SimtReport:
    """Figures of one launch.

    `barriers` counts block barriers times the blocks that ran them, `warp_barriers` the same for
    warps. `traffic` has element counts by scope ("global", "shared", "local", "warp"). Three
    figures are estimated from a sample of the accesses: `bank_conflicts`, how many turns an access
    of a warp to shared memory takes in the mean (1.0 is free of conflicts; 32 banks of 4 bytes),
    `coalescing`, the bytes that warps asked of global memory by those moved in sectors of 32 bytes
    (1.0 is perfect), and `bytes_an_access`, how many of them a warp asked for at once (512 where
    each of 32 lanes takes 128 bits). They are None where there was no such access. `benign_writes`
    counts writes of the very value that another thread had written without a barrier between.
    """

    kernel: str
    blocks: int = 0
    threads: int = 0
    barriers: int = 0
    warp_barriers: int = 0
    shuffles: int = 0
    async_copies: int = 0
    benign_writes: int = 0
    traffic: dict[str, Traffic] = field(default_factory=dict)
    bank_conflicts: float | None = None
    coalescing: float | None = None
    bytes_an_access: float | None = None
    findings: list[Finding] = field(default_factory=list)

    def scope(self, name: str) -> Traffic:
        """The counts of a scope, made when first asked for."""
        counts = self.traffic.get(name)
        if counts is None:
            counts = self.traffic[name] = Traffic()
        return counts

    def accesses(self) -> dict[str, float]:
        """The estimated figures by names for people, those that there are."""
        found = {
            "turns_a_shared_access": self.bank_conflicts,
            "bytes_a_global_access": self.bytes_an_access,
            "percent_of_moved_bytes_asked": self.coalescing and 100 * self.coalescing,
        }
        return {name: round(value, 2) for name, value in found.items() if value is not None}

    def __str__(self) -> str:
        lines = [
            f"{self.kernel}: {self.blocks} blocks of {self.threads} threads, "
            f"{self.barriers} barriers, {self.warp_barriers} warp barriers, "
            f"{self.shuffles} shuffles, {self.async_copies} async copies"
        ]
        for scope, t in sorted(self.traffic.items()):
            atomics = f", {t.atomics} atomics" if t.atomics else ""
            lines.append(f"  {scope:<8}{t.loads} loads, {t.stores} stores{atomics}")
        if self.benign_writes:
            lines.append(f"  {self.benign_writes} writes of a value that another thread wrote too")
        if self.bank_conflicts is not None:
            lines.append(f"  shared memory: {self.bank_conflicts:.2f} turns an access")
        if self.coalescing is not None:
            lines.append(
                f"  global memory: {self.coalescing:.0%} of the bytes moved were asked for"
            )
        return "\n".join(lines)


class SimtError(TilewrightError):
    """A kernel does what it must not. `findings` has each thing found, `report` all figures."""

    def __init__(self, message: str, report: SimtReport) -> None:
        super().__init__(message)
        self.report = report
        self.findings: list[Finding] = report.findings


def raise_findings(func: PrimFunc, report: SimtReport) -> None:
    """Raise SimtError for the findings of a report, with the program's lines marked."""
    found = report.findings
    lines = mark_lines(func, found)
    more = "" if len(found) <= _SHOWN else f"\n... and {len(found) - _SHOWN} more"
    head = "1 problem" if len(found) == 1 else f"{len(found)} problems"
    text = "\n".join([f"[{n + 1}] {f}" for n, f in enumerate(found[:_SHOWN])])
    raise SimtError(f"simt found {head} in {func.name}\n{text}{more}\n{lines}", report)


def mark_lines(func: PrimFunc, findings: Sequence[Finding]) -> str:
    """Set the lines of findings; gives the program's text around them, with marks."""
    if not findings:
        return ""
    marks: dict[Any, str] = {}
    for n, f in enumerate(findings):
        for s in (f.statement, f.other):
            if s is not None:
                old = marks.get(s)
                note = f"[{n + 1}]"
                if old is None:
                    marks[s] = note
                elif n < _SHOWN and not old.endswith(note):
                    marks[s] = f"{old} {note}"
    names = {s: f"mark {n}" for n, s in enumerate(marks)}
    plain = script(func, names).split("\n")
    where: dict[str, int] = {}
    for n, line in enumerate(plain):
        code, found, notes = line.partition("  # <-- ")
        if found:
            where.update(dict.fromkeys(notes.split("; "), n))
            plain[n] = code
    text = {s: plain[where[name]].strip() for s, name in names.items() if name in where}
    for f in findings:
        f.line = text.get(f.statement, "") if f.statement is not None else ""
        f.other_line = text.get(f.other, "") if f.other is not None else ""
    shown: set[int] = set()
    for s, note in marks.items():
        at = where.get(names[s])
        if at is not None:
            plain[at] += f"  # <-- {note}" if "# <--" not in plain[at] else f" {note}"
            shown.update(range(max(at - _AROUND, 0), min(at + _AROUND + 1, len(plain))))
    return _excerpt(plain, sorted(shown))


def _excerpt(lines: list[str], shown: list[int]) -> str:
    out: list[str] = []
    last = -1
    for n in shown:
        if n != last + 1:
            out.append("...")
        out.append(lines[n])
        last = n
    if shown and last < len(lines) - 1:
        out.append("...")
    return "\n".join(out)
