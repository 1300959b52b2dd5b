"""Statements that OpenCL writes its own way: what PoCL gets behind loops, and in front of some."""

from __future__ import annotations

from typing import Any

from ..base.deep import Recursive
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.calls import call_pure_extern
from ..loopir.expr import const_int
from ..loopir.visit import children, nodes
from ..lowering.spread_conditions import Uniformity
from .c_stmt import STMTS

LOOP_END = "TW_LOOP_END"
OWN = "TW_OWN"


class Regions(Recursive):
    """Which statements of a kernel have barriers or loops in them, and what differs by thread."""

    recursive = ("inside",)

    def __init__(self, body: S.Stmt) -> None:
        self.known: dict[int, tuple[Any, bool, bool]] = {}
        self.hidden: set[E.Var] = set()  # how often loops run, where PoCL is not to see it
        threads = [
            (s.node.var, s.value)
            for s in nodes(body)
            if type(s) is S.AttrStmt
            and s.attr_key == "thread_extent"
            and s.node.thread_tag.startswith("threadIdx")
        ]
        self.uniform = Uniformity(body, threads) if self.inside(body)[0] else None

    def inside(self, s: Any) -> tuple[bool, bool]:
        """Whether a statement has barriers, and whether it has loops."""
        found = self.known.get(id(s))
        if found is None:
            below = [self.inside(c) for c in children(s) if isinstance(c, S.Stmt)]
            barrier = is_barrier(s) or any(b for b, _ in below)
            loop = type(s) is S.While or (type(s) is S.For and const_int(s.extent) != 1)
            found = (s, barrier, loop or any(x for _, x in below))
            self.known[id(s)] = found
        return found[1:]

    def hides_loops(self, *parts: Any) -> bool:
        """Whether parts of a kernel with barriers have loops, but no barriers of their own."""
        if self.uniform is None:
            return False
        below = [self.inside(s) for s in parts if s is not None]
        return any(x for _, x in below) and not any(b for b, _ in below)


def is_barrier(s: Any) -> bool:
    """Whether a statement is a barrier of the block."""
    call = s.value if type(s) is S.Evaluate else None
    return type(call) is E.Call and bool(call.op.name == "tir.tvm_storage_sync")


def _loop(p: Any, s: Any) -> S.Stmt | None:
    """A loop; what follows one with barriers is cut off from it for PoCL.

    PoCL 3.1 makes a loop over work-items of what stands between barriers, after LLVM has moved code
    across the end of a loop of the kernel; it then stops the process with "Incoming edges to
    non-entry block!". No code moves across another barrier. Every thread of the block comes to the
    end of such a loop, so that one may stand there.
    """
    regions: Regions = p.regions
    if type(s) is S.For and not regions.inside(s.body)[0]:
        return _uneven_loop(p, s)
    rest = STMTS[type(s)](p, s)
    extent = None if type(s) is S.While else const_int(s.extent)
    if (extent is None or extent > 1) and regions.inside(s.body)[0]:
        p.line(f"{p.need(LOOP_END)};")
    return rest


def _uneven_loop(p: Any, s: S.For) -> S.Stmt | None:
    """A loop without barriers around others: how often it runs, hidden from PoCL.

    In kernels with barriers PoCL 3.1 puts more of them into innermost loops that seem to run
    equally often in all work-items. It looks for ways around them, but not at how often a loop
    outside of them runs once LLVM knows it to run at all: where threads differ in that, work-items
    that are done go on, and the memory of their own is not theirs any more; where they do not,
    a branch behind the innermost loop may take the end of the outer one with it, which then has
    none. It sees a loop that may not run as a way around.
    """
    regions: Regions = p.regions
    if (
        const_int(s.extent) is not None
        or s.extent in regions.hidden
        or not regions.hides_loops(s.body)
    ):
        return STMTS[S.For](p, s)
    times = E.Var("times", s.extent.dtype)
    regions.hidden.add(times)
    loop = s.with_parts(extent=times, thread_binding=None)
    return S.LetStmt(times, _own(p, s.extent), loop)


def _branch(p: Any, s: S.IfThenElse) -> S.Stmt | None:
    """A branch: one that all threads take alike, with loops in it, hidden from PoCL.

    The barriers that PoCL 3.1 puts into these loops (see _uneven_loop) are in a branch then. Where
    more follows it, PoCL has two copies of that and mixes up the values in them.
    """
    condition = s.condition
    if (
        isinstance(condition, E.IntImm)
        or not p.regions.hides_loops(s.then_case, s.else_case)
        or any(x in p.regions.uniform.varying for x in nodes(condition) if isinstance(x, E.Var))
    ):
        return STMTS[S.IfThenElse](p, s)
    own = S.IfThenElse(_own(p, condition), s.then_case, s.else_case)
    return STMTS[S.IfThenElse](p, own)


def _own(p: Any, e: Any) -> E.Call:
    """A value that PoCL takes to be another one in every work-item."""
    return call_pure_extern(e.dtype, p.need(OWN), e)


OPENCL_STMTS = {S.For: _loop, S.While: _loop, S.IfThenElse: _branch}
