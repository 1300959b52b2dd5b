"""Blocks that stay: a launch of some blocks, each of which does the work of several of a kernel's,
one after another.

    launch blockIdx.x < total: body(blockIdx.x)

becomes, for AttrStmt "pragma_persistent_blocks" = count (the pragma of a schedule),

    launch blockIdx.x < count:
        for turn in range(ceil(total / count)):
            block = turn * count + blockIdx.x
            if block < total: body(block)

Where the threads of a kernel part (AttrStmt "warp_specialized" around a branch: those that copy,
and those that use what is copied and do all that follows), each side gets a loop of its own, so
that copies for the next block are under way while the results of one are stored. What stands before
the branch is done once, and what stands beside it, behind: barriers are made once, and the side
that copies never waits for the other but there. Barriers of all threads in what follows become
barriers of the threads of that side.

TURN, a call, is the number of the turn; it says how often barriers in shared memory have been used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.calls import storage_sync
from ..loopir.expr import const, const_int
from ..loopir.hopper_calls import TURN, ptx_bar_sync
from ..loopir.op import min as least
from ..loopir.rewrite import Rewriter, handles
from ..loopir.subst import substitute
from ..loopir.visit import walk
from .statement_accesses import is_barrier
from .stream_blocks import Kept, Shares, kept_sums
from .unify_threads import is_launch

PRAGMA = "pragma_persistent_blocks"
SIDES = "warp_specialized"
_BARRIER = 1  # of the side that uses: 0 is that of all threads


def persistent_blocks(func: S.PrimFunc) -> S.PrimFunc:
    """Let the blocks of kernels that say so do the work of several; see the module's head.

    Needs one launch a kernel, with the barriers of its threads. CompileError where the number of
    blocks is no constant above 0, or something stands before the branch of a kernel that parts.
    """
    if not any(_is_pragma(s) for s in walk(func.body)):
        return func
    return func.with_body(_Kernels().stmt(func.body))


def _is_pragma(s: Any) -> bool:
    return type(s) is S.AttrStmt and s.attr_key == PRAGMA


class _Kernels(Rewriter):
    """The pragma of the outermost loop stands around the launch that this has become."""

    def __init__(self) -> None:
        self.said: Any = None

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if is_launch(s):
            return _kernel(s, self.said)
        if not _is_pragma(s):
            return super()._attr(s)
        around, self.said = self.said, s.value
        body = self.stmt(s.body)
        self.said = around
        return body


def _kernel(kernel: S.AttrStmt, said: Any) -> Any:
    said = next((s.value for s in walk(kernel) if _is_pragma(s)), said)
    if said is None:
        return kernel
    count = const_int(said)
    if count is None or count < 1:
        raise CompileError(f"the pragma persistent_blocks takes how many blocks, not {said}")
    launches: list[S.AttrStmt] = []
    body: Any = kernel
    while is_launch(body):
        launches.append(body)
        body = body.body
    body = _Plain().stmt(body)
    blocks = {s.node.thread_tag[-1]: s for s in launches if s.node.thread_tag[:5] == "block"}
    if "x" not in blocks:
        raise CompileError("the pragma persistent_blocks needs an axis that is bound to blockIdx.x")
    order = [blocks[d] for d in "xyz" if d in blocks]
    total: Any = order[0].value
    for s in order[1:]:
        total = total * s.value
    kept = kept_sums(body)  # where blocks share all steps (stream_blocks.py)
    extents = {id(s): s.value for s in launches}
    shares: Shares | None = None
    after: S.Stmt | None = None
    if kept is None and (const_int(total) or count + 1) <= count:
        body = _Turn(const(0)).stmt(body)  # each has one
    else:
        loops = _Loops(order, total, count)
        if kept is None:
            body = loops.whole(body)
            extents[id(order[0])] = least(total, count)
        else:
            shares, body, after = loops.shared(body, kept, launches)
            extents[id(order[0])] = const(count)
        extents = {key: value for key, value in extents.items() if key not in map(id, order[1:])}
    for s in reversed(launches):
        if id(s) in extents:
            body = S.AttrStmt(s.node, s.attr_key, extents[id(s)], body)
    return body if shares is None or after is None else shares.whole(body, after)


class _Plain(Rewriter):
    """Without the pragma, which has done its work."""

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        return self.stmt(s.body) if _is_pragma(s) else super()._attr(s)


class _Turn(Rewriter):
    """Says what turn it is."""

    def __init__(self, turn: Any) -> None:
        self.turn = turn

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        return self.turn if e.op.name == TURN else super()._call(e)


class _Parted(NamedTuple):
    """The parts of a kernel around a branch whose sides are different threads."""

    around: Callable[[S.Stmt], S.Stmt]
    before: list[S.Stmt]
    sides: S.AttrStmt
    beside: list[S.Stmt]
    after: list[S.Stmt]

    def whole(self, then: S.Stmt, other: S.Stmt) -> S.Stmt:
        """The kernel with other sides, and nothing behind."""
        branch: Any = self.sides.body
        sides = S.IfThenElse(branch.condition, then, other)
        parted = S.AttrStmt(self.sides.node, SIDES, self.sides.value, sides)
        return self.around(S.seq(*self.before, parted, *self.beside))


def _parted(body: S.Stmt) -> _Parted | None:
    if not any(type(s) is S.AttrStmt and s.attr_key == SIDES for s in walk(body)):
        return None
    wrappers: list[Any] = []
    after: list[S.Stmt] = []
    s: Any = body
    while not isinstance(s, S.SeqStmt) or not any(map(_is_sides, s.seq)):
        if isinstance(s, S.SeqStmt):
            first, *rest = s.seq
            if after or not any(map(_is_sides, walk(first))):
                raise CompileError(
                    "persistent_blocks: a kernel whose threads part begins with the branch between "
                    "them, and does all that follows behind it"
                )
            s, after = first, list(rest)
        elif isinstance(s, (S.AttrStmt, S.LetStmt, S.Allocate)):
            wrappers.append(s)
            s = s.body
        else:
            raise CompileError(f"persistent_blocks: threads part within {type(s).__name__}")

    def around(inner: S.Stmt) -> S.Stmt:
        for w in reversed(wrappers):
            if type(w) is S.AttrStmt:
                inner = S.AttrStmt(w.node, w.attr_key, w.value, inner)
            elif type(w) is S.LetStmt:
                inner = S.LetStmt(w.var, w.value, inner)
            else:
                inner = S.Allocate(w.buffer, inner, w.annotations)
        return inner

    at = next(n for n, x in enumerate(s.seq) if _is_sides(x))
    sides: Any = s.seq[at]
    return _Parted(around, list(s.seq[:at]), sides, list(s.seq[at + 1 :]), after)


def _is_sides(s: Any) -> bool:
    return type(s) is S.AttrStmt and s.attr_key == SIDES


class _Loops:
    """Loops over the blocks whose work one does."""

    def __init__(self, blocks: list[S.AttrStmt], total: Any, count: int) -> None:
        self.blocks, self.total, self.count = blocks, total, count

    def whole(self, body: S.Stmt) -> S.Stmt:
        parts = _parted(body)
        if parts is None:
            shares = any(
                type(s) is S.Allocate and s.buffer.scope().startswith("shared") for s in walk(body)
            )
            again = [S.Evaluate(storage_sync("shared"))] if shares else []
            return self.loop("turn", S.seq(body, *again))
        branch: Any = parts.sides.body
        users = S.seq(branch.else_case, self.after(parts))
        return parts.whole(self.loop("turn_copied", branch.then_case), self.loop("turn", users))

    def after(self, parts: _Parted) -> S.Stmt:
        """What one side of a kernel does behind the branch."""
        threads = const_int(parts.sides.value) or 0
        own = (_Barriers(threads).stmt(s) for s in parts.after)
        # who stored results of the turn before
        return S.seq(S.Evaluate(ptx_bar_sync(_BARRIER, threads)), *own)

    def shared(
        self, body: S.Stmt, kept: Kept, launches: list[S.AttrStmt]
    ) -> tuple[Shares, S.Stmt, S.Stmt]:
        """A kernel whose blocks share all steps, and what follows sums in the one that joins."""
        parts = _parted(body)
        if parts is None:
            raise InternalError("stream_sums stands in a kernel whose threads part")
        threads = const_int(parts.sides.value) or 0
        axis = self.blocks[0].node.var
        shares = Shares(body, kept, axis, self.total, self.count, threads, self.placed)
        (shares.thread,) = (s.node.var for s in launches if s.node.thread_tag == "threadIdx.x")
        branch: Any = parts.sides.body
        copying = shares.loop("turn_copied", branch.then_case)
        using = shares.loop("turn", branch.else_case, self.after(parts))
        after = substitute(S.seq(*parts.after), {shares.thread: shares.joiner})
        return shares, parts.whole(copying, using), after

    def placed(self, body: S.Stmt, block: Any) -> S.Stmt:
        """A statement for a block."""
        rest: Any = block
        places: dict[E.Var, Any] = {}
        for s in self.blocks[:-1]:
            places[s.node.var] = rest % s.value
            rest = rest // s.value
        places[self.blocks[-1].node.var] = rest
        placed: S.Stmt = substitute(body, places)
        return placed

    def loop(self, name: str, body: S.Stmt) -> S.Stmt:
        turn, block = E.Var(name, "int32"), E.Var(f"{name}_block", "int32")
        body = self.placed(_Turn(turn).stmt(body), block)
        known = const_int(self.total)
        if known is None or known % self.count:
            body = S.IfThenElse(block < self.total, body)
        first: Any = self.blocks[0].node.var
        body = S.LetStmt(block, turn * self.count + first, body)
        turns = (self.total + (self.count - 1)) // self.count
        return S.For(turn, const(0), turns, S.ForKind.SERIAL, body)


class _Barriers(Rewriter):
    """Barriers of all threads become some of so many."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        if is_barrier(s):
            return S.Evaluate(ptx_bar_sync(_BARRIER, self.threads))
        return super()._evaluate(s)
