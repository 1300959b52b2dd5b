"""Damage every kernel of the corpus a little, and see whether simt reports it.

`python -m tests.exec.gpu.mutate [NAME ...]` removes each barrier (and each wait, arrival and fence
of asynchronous copies and products) in turn, has what is of a cluster of blocks be of one block
alone, takes one element off each buffer in turn, runs the rest as it was, and prints what simt
says. What it does not report has to stand in REDUNDANT.md,
with the reason why it is harmless; the exit status is 1 where it does not, or where less than 95 %
are reported.
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
from tests.narrow import some, value_of
from tilewright.base.dtype import parse
from tilewright.base.errors import TilewrightError
from tilewright.interp.simt import SimtArray, SimtError
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.calls import storage_sync
from tilewright.loopir.expr import const, const_int
from tilewright.loopir.rewrite import Rewriter, handles
from tilewright.loopir.visit import nodes, statements

LISTED = Path(__file__).with_name("REDUNDANT.md")
LEAST = 0.95
_ORDER = {
    "ptx_commit_group": "end of a group of copies",
    "ptx_wait_group": "wait",
    "ptx_wait_barrier": "wait at a barrier",
    "ptx_wgmma_wait_group": "wait for products",
    "ptx_arrive_barrier": "arrival",
    "ptx_arrive_barrier_cluster": "arrival at blocks of a cluster",
    "ptx_arrive_barrier_expect_tx": "arrival with bytes",
    "ptx_init_barrier_thread_count": "barrier that is made",
    "ptx_fence_barrier_init": "fence of barriers",
    "ptx_fence_proxy_async": "fence of stores",
    "ptx_wgmma_fence": "fence of registers",
    "ptx_wgmma_commit_group": "end of a group",
    "ptx_cp_async_bulk_tensor": "copy",
    "ptx_cp_async_bulk_tensor_multicast": "copy to blocks of a cluster",
    "ptx_cp_async_bulk_tensor_im2col": "copy of pixels",
    "ptx_cp_async_bulk_tensor_im2col_multicast": "copy of pixels to blocks of a cluster",
    "ptx_cluster_sync": "barrier (cluster)",
    "ptx_bar_sync": "barrier (some)",
}
_NOTHING = S.Evaluate(const(0))


def _alone(call: E.Call) -> E.Call | None:
    """What is of a cluster, of the own block alone; None for what is not."""
    name, args = call.op.name.removeprefix("tir."), call.args
    if name == "ptx_cluster_sync":
        return storage_sync("shared")
    if name == "ptx_arrive_barrier_cluster":
        return H.ptx_arrive_barrier(args[0])
    if call.op.name in (H.COPIES[False, True], H.COPIES[True, True]):
        c = H.copy_parts(call)
        to, source, barrier = c.shared_ptr, c.tensor_map, c.barrier_id
        offsets = c.offsets or None
        return H.ptx_cp_async_bulk_tensor(
            call.dtype, to, source, c.coordinates, barrier, None, offsets
        )
    return None


@dataclass(frozen=True)
class Mutant:
    """One change; `node` is what changes: a statement of a kernel (to `other`) in one of the places
    that it stands in, or an array by name."""

    case: str
    kernel: str
    what: str
    node: Any
    other: S.Stmt = _NOTHING
    place: int = 0

    @property
    def name(self) -> str:
        return f"{self.kernel}: {self.what}"


class _Changed(Rewriter):
    """Puts something else for a barrier, or takes an element off an allocation."""

    def __init__(self, node: Any, other: S.Stmt, place: int) -> None:
        self.node, self.other, self.left = node, other, place

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        if s is self.node:
            self.left -= 1
            if self.left == -1:
                return self.other
        return super()._evaluate(s)

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
        self.uses = self._uses()

    def run(self) -> list[Any]:
        arrays = self.problem.arrays(self.dev)
        self.module(*arrays)
        return arrays

    def mutants(self) -> Iterator[Mutant]:
        for name, kernel in self.kernels.items():
            counts: Counter[str] = Counter()
            places: Counter[int] = Counter()
            for s in statements(kernel.func.body):
                what = _barrier(s)
                if what is None and type(s) is S.Allocate and const_int(s.buffer.shape[-1]):
                    what = f"{s.buffer.scope_name} buffer {s.buffer.name}"
                if what is not None:
                    counts[what] += 1
                    number = f" {counts[what]}" if counts[what] > 1 else ""
                    place = places[id(s)]
                    places[id(s)] += 1
                    yield Mutant(self.name, name, what + number, s, place=place)
                    alone = None if type(s) is S.Allocate else _alone(s.value)
                    if alone is not None:
                        text = f"{what} of one block{number}"
                        yield Mutant(self.name, name, text, s, S.Evaluate(alone), place)
        for array in self.uses:
            yield Mutant(self.name, self.name, f"array {array}", array)

    def _uses(self) -> dict[str, dict[tuple[int, int], int]]:
        """The arrays in the device's memory by name: as which argument of which launch each is
        given, with the bytes of an element."""
        watch = _Watch(self.kernels)
        with watch:
            self.run()
        names: dict[int, str] = {}
        found: dict[str, dict[tuple[int, int], int]] = {}
        for number, (func, args) in enumerate(watch.seen):
            for at, (p, value) in enumerate(zip(func.params, args)):
                if isinstance(value, SimtArray):
                    name = names.setdefault(value.data.ctypes.data, p.name)
                    found.setdefault(name, {})[number, at] = _element(func, p)
        return found

    def outcome(self, m: Mutant) -> str:
        """What simt reports of a mutant; empty where it reports nothing."""
        kernel = self.kernels.get(m.kernel)
        func = None if kernel is None else kernel.func
        try:
            if kernel is None:
                with _Watch(self.kernels, self.uses[m.node]):
                    self.run()
            else:
                func = some(func)
                kernel.func = func.with_body(_Changed(m.node, m.other, m.place).stmt(func.body))
                self.run()
        except SimtError as error:
            return error.findings[0].kind
        except TilewrightError:  # of fragments, which have one size
            return "refused"
        finally:
            if kernel is not None:
                kernel.func = func
        return ""


class _Watch:
    """Within its context: notes what kernels are launched with, or gives them arrays that have one
    element less (`shorter`: bytes of an element by launch and argument)."""

    def __init__(
        self, kernels: dict[str, Any], shorter: dict[tuple[int, int], int] | None = None
    ) -> None:
        self.kernels, self.shorter = kernels, shorter or {}
        self.plain = dict(kernels)
        self.seen: list[tuple[S.PrimFunc, Sequence[Any]]] = []

    def __enter__(self) -> None:
        self.kernels.update({name: _Watched(k, self) for name, k in self.plain.items()})

    def __exit__(self, *_: object) -> None:
        self.kernels.update(self.plain)


class _Watched:
    def __init__(self, kernel: Any, watch: _Watch) -> None:
        self.kernel, self.watch = kernel, watch

    def launch(self, grid: Any, block: Any, args: Sequence[Any], stream: Any) -> None:
        number, seen = len(self.watch.seen), list(args)
        self.watch.seen.append((self.kernel.func, args))
        for at, whole in enumerate(args):
            size = self.watch.shorter.get((number, at), 0)
            if size:
                seen[at] = SimtArray(whole.data[:-size], whole.written[:-size])
        self.kernel.launch(grid, block, seen, stream)


def _barrier(s: Any) -> str | None:
    """The name of a statement that threads wait at."""
    if type(s) is not S.Evaluate or not isinstance(s.value, E.Call):
        return None
    op = s.value.op.name
    if op == "tir.tvm_storage_sync":
        return f"barrier ({value_of(s.value.args[0])})"
    return _ORDER.get(op.removeprefix("tir."))


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
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), mutant.name):
            return reason
    return ""


def survey(name: str) -> list[tuple[Mutant, str]]:
    """All mutants of a case, with what simt reports of each; where it reports nothing, of the same
    change with other data."""
    subject = Subject(name)
    found = [(m, subject.outcome(m)) for m in list(subject.mutants())]
    for seed in (1, 2):
        if all(outcome for _, outcome in found):
            break
        other = Subject(name, seed)
        same = {m.name: m for m in other.mutants()}
        found = [(m, outcome or other.outcome(same[m.name])) for m, outcome in found]
    return found


def main(names: Sequence[str]) -> int:
    start = time.perf_counter()
    table: dict[str, Counter[str]] = {}
    silent: list[Mutant] = []
    for name in names or list(CASES):
        for m, outcome in survey(name):
            kind = re.sub(r" \d+$", "", m.what)
            named = re.match(r"\S+ buffer(?= )|array(?= )", kind)
            kind = named[0] if named else kind
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
    wrong = reported < LEAST * total
    for m in silent:
        reason = why(m, reasons)
        wrong = wrong or not reason
        print(f"  {m.name}: {reason or 'NOT LISTED'}")
    stale = [p for p, r in reasons.items() if not any(why(m, {p: r}) for m in silent)]
    if not names and stale:
        wrong = True
        print(f"listed in {LISTED.name}, but reported: {', '.join(stale)}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
