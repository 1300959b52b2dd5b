"""Damage every kernel of the corpus a little, and see whether simt reports it.

`python -m tests.exec.gpu.mutate [NAME ...]` removes each barrier (and each wait for asynchronous
copies) in turn, takes one element off each buffer in turn, runs the rest as it was, and prints what
simt says. What it does not report has to stand in REDUNDANT.md, with the reason why it is harmless;
the exit status is 1 where it does not, or where less than 95 % are reported.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilewright as tw
from tests.exec.gpu.corpus import CASES
from tests.exec.gpu.kit import Problem
from tilewright.base.dtype import parse
from tilewright.interp.simt import SimtArray, SimtError
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.expr import const, const_int
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.loopir.visit import nodes

LISTED = Path(__file__).with_name("REDUNDANT.md")
LEAST = 0.95
_NOTHING = S.Evaluate(const(0))


@dataclass(frozen=True)
class Mutant:
    """One change of one kernel; `node` is what changes: a statement, or a parameter."""

    case: str
    kernel: str
    what: str
    node: Any

    @property
    def name(self) -> str:
        return f"{self.kernel}: {self.what}"


class _Without(Rewriter):
    """Leaves a barrier out, or takes an element off an allocation."""

    def __init__(self, node: Any) -> None:
        self.node = node

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        return _NOTHING if s is self.node else super()._evaluate(s)

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        if s is not self.node:
            return super()._allocate(s)
        *outer, last = s.buffer.shape
        smaller = s.buffer.with_(shape=(*outer, last - 1))
        return S.Allocate(smaller, s.body, s.annotations)


class Subject:
    """A case that is built and can run with one kernel changed."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.problem = Problem(CASES[name], seed)
        self.name = name
        self.module = self.problem.build(self.problem.case.target)
        self.dev = tw.simt(0)
        self.run()  # without any change nothing is wrong
        launcher = self.module.entry_func.simt()._code.launcher("simt", 0)
        self.kernels = launcher.kernels

    def run(self) -> list[Any]:
        arrays = self.problem.arrays(self.dev)
        self.module(*arrays)
        return arrays

    def mutants(self) -> Iterator[Mutant]:
        for name, kernel in self.kernels.items():
            counts: Counter[str] = Counter()
            for s in nodes(kernel.func.body):
                what = _barrier(s)
                if what is None and type(s) is S.Allocate and const_int(s.buffer.shape[-1]):
                    what = f"{s.buffer.scope_name} buffer {s.buffer.name}"
                if what is not None:
                    counts[what] += 1
                    number = f" {counts[what]}" if counts[what] > 1 else ""
                    yield Mutant(self.name, name, what + number, s)
            for p in kernel.func.params:
                if p.dtype == "handle":
                    yield Mutant(self.name, name, f"argument {p.name}", p)

    def outcome(self, m: Mutant) -> str:
        """What simt reports of a mutant; empty where it reports nothing."""
        kernel = self.kernels[m.kernel]
        func = kernel.func
        try:
            if isinstance(m.node, E.Var):
                at = list(func.params).index(m.node)
                size = _element(func, m.node)
                self.kernels[m.kernel] = _Shorter(kernel, at, size)
            else:
                kernel.func = func.with_body(_Without(m.node).stmt(func.body))
            self.run()
        except SimtError as error:
            return error.findings[0].kind
        finally:
            kernel.func = func
            self.kernels[m.kernel] = kernel
        return ""


class _Shorter:
    """A kernel whose argument number `at` has one element less than the function was given."""

    def __init__(self, kernel: Any, at: int, size: int) -> None:
        self.kernel, self.at, self.size = kernel, at, size

    def launch(self, grid: Any, block: Any, args: Sequence[Any], stream: Any) -> None:
        whole = args[self.at]
        less = SimtArray(whole.data[: -self.size], whole.written[: -self.size])
        changed = [less if n == self.at else a for n, a in enumerate(args)]
        self.kernel.launch(grid, block, changed, stream)


def _barrier(s: Any) -> str | None:
    """The name of a statement that threads wait at."""
    if type(s) is not S.Evaluate or not isinstance(s.value, E.Call):
        return None
    op = s.value.op.name
    if op == "tir.tvm_storage_sync":
        return f"barrier ({s.value.args[0].value})"
    return "wait" if op == "tir.ptx_wait_group" else None


def _element(func: S.PrimFunc, p: Any) -> int:
    """Bytes of an element of what a parameter points to."""
    for s in nodes(func.body):
        b = getattr(s, "buffer", None)
        if b is not None and b.data is p:
            t = parse(b.dtype)
            return max(t.bits // 8, 1)
    return 4


def listed() -> dict[str, str]:
    """What REDUNDANT.md says is harmless: names of mutants (patterns with *), and why."""
    found = {}
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"\| `([^`]+)` \| (.+) \|", line)
        if match:
            found[match[1]] = match[2]
    return found


def why(mutant: Mutant, reasons: dict[str, str]) -> str:
    """The reason why nothing is reported, or empty."""
    for pattern, reason in reasons.items():
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), mutant.name):
            return reason
    return ""


def survey(names: Sequence[str]) -> list[tuple[Mutant, str]]:
    """All mutants of these cases, with what simt reports of each."""
    found = []
    for name in names:
        subject = Subject(name)
        found += [(m, subject.outcome(m)) for m in list(subject.mutants())]
    return found


def main(names: Sequence[str]) -> int:
    start = time.perf_counter()
    table: dict[str, Counter[str]] = {}
    silent: list[Mutant] = []
    for name in names or list(CASES):
        for m, outcome in survey([name]):
            kind = re.sub(r" \d+$", "", m.what) if "barrier" in m.what else m.what.split()[0]
            kind = kind if "barrier" in kind or kind in ("wait", "argument") else f"{kind} buffer"
            table.setdefault(kind, Counter())[outcome or "nothing"] += 1
            if not outcome:
                silent.append(m)
    total = sum(c.total() for c in table.values())
    reported = total - len(silent)
    kinds = sorted({k for c in table.values() for k in c})
    print("| what was removed or shrunk | " + " | ".join(kinds) + " | all |")
    print("| --- " * (len(kinds) + 2) + "|")
    for what, counts in sorted(table.items()):
        print(f"| {what} | " + " | ".join(str(counts[k]) for k in kinds) + f" | {counts.total()} |")
    print(f"\n{reported} of {total} mutants reported ({reported / max(total, 1):.1%}) in ", end="")
    print(f"{time.perf_counter() - start:.0f} s; not reported:")
    reasons = listed()
    unknown = 0
    for m in silent:
        reason = why(m, reasons)
        unknown += not reason
        print(f"  {m.name}: {reason or 'NOT LISTED'}")
    return int(unknown > 0 or reported < LEAST * total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
