"""Memory of a warp: registers of its lanes, read by shuffles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.calls import tvm_warp_shuffle
from ..loopir.copies import walk_stmts
from ..loopir.expr import BufferLoad, const, const_int
from ..loopir.rewrite import handles
from ..loopir.subst import substitute
from ..loopir.visit import free_vars, uses_var, walk
from ..target.target import Target
from .block_threads import BlockThreads, ThreadAxis, extent_of, index_of, lane_mask, warp_size_of
from .bounded import BoundedRewriter


def lower_warp_memory(func: S.PrimFunc, target: Target) -> S.PrimFunc:
    """Spread each buffer of scope "warp" over the lanes of its warp.

    Let w lanes run along threadIdx.x. Each lane stores to elements of its own: consecutive `c`,
    then `c` of the next lane, and so on, over and again; element e belongs to lane (e / c) % w and
    is its register (e / (c w)) c + e % c. A lane reads registers of others by a shuffle, which all
    lanes of the warp run: one that stands under a condition on the lane is moved out of it.

    Needs unify_threads, flat buffers of constant size, and at most a warp of threads along
    threadIdx.x (a divisor of the warp). Guarantees that no buffer of scope "warp" is left. Stands
    after sync_threads, which sees who reads what others wrote. CompileError where a store goes to
    another lane's element, or a register that is read is another one in each lane.
    """
    if not any(_is_warp(x) for x in walk_stmts(func.body)):
        return func
    return func.with_body(_Kernels(func, target).stmt(func.body))


def _is_warp(s: Any) -> bool:
    return type(s) is S.Allocate and s.buffer.scope_name == "warp"


def _index_lets(body: S.Stmt) -> dict[E.Var, Any]:
    """The integers that lets name, in terms of loops and threads: which lane an index means shows
    in these alone. What reads memory stays a name, since memory may change meanwhile."""
    found: dict[E.Var, Any] = {}
    for s in walk_stmts(body):
        if type(s) is not S.LetStmt or not parse(s.value.dtype).is_integer:
            continue
        if not any(type(e) in (E.BufferLoad, E.Call) for e in walk(s.value)):
            found[s.var] = substitute(s.value, found)
    return found


class _Spread:
    """How one buffer lies in the registers of a warp."""

    def __init__(self, buffer: Buffer, run: int, width: int) -> None:
        size = const_int(buffer.shape[0])
        assert size is not None
        self.run, self.width = run, width
        rounds = -(-size // (run * width))
        self.local = Buffer((rounds * run,), buffer.dtype, buffer.name, scope="local")

    def lane(self, index: Any) -> Any:
        return index // self.run % self.width

    def register(self, index: Any) -> Any:
        return index // (self.run * self.width) * self.run + index % self.run


class _Frame:
    """A statement that lanes may run apart, and what must be computed before it."""

    def __init__(self, s: Any, apart: bool) -> None:
        self.stmt = s
        self.apart = apart
        self.lets: list[tuple[E.Var, Any]] = []

    def around(self, s: S.Stmt) -> S.Stmt:
        for var, value in reversed(self.lets):
            s = S.LetStmt(var, value, s)
        return s


class _Kernels(BoundedRewriter):
    def __init__(self, func: S.PrimFunc, target: Target) -> None:
        super().__init__(func)
        self.warp = warp_size_of(target)
        self.target = target
        self.kernel: S.AttrStmt | None = None
        self.lane: ThreadAxis | None = None
        self.others: list[ThreadAxis] = []
        self.spread: dict[E.Var, _Spread] = {}
        self.views: dict[Buffer, Buffer] = {}
        self.frames: list[_Frame] = []
        self.lets = _index_lets(func.body)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if s.attr_key != "thread_extent" or self.kernel is not None:
            return super()._attr(s)
        self.kernel = s
        block = BlockThreads.of_kernel(s) if any(map(_is_warp, walk_stmts(s))) else None
        axes = block.axes if block is not None else []
        self.lane = next((a for a in axes if a.tag == "threadIdx.x"), None)
        self.others = [a for a in axes if a is not self.lane]
        result = super()._attr(s)
        self.kernel = None
        return result

    @property
    def width(self) -> int:
        return 1 if self.lane is None else self.lane.extent

    # -- the buffers

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        if not _is_warp(s):
            return super()._allocate(s)
        if self.kernel is None:
            raise CompileError(
                f"{s.buffer.name} is memory of a warp, but stands outside of kernels"
            )
        self._check_width(s.buffer)
        if const_int(s.buffer.shape[0]) is None:
            raise _fail(s.buffer, f"its size {s.buffer.shape[0]} is not a constant")
        spread = _Spread(s.buffer, self._run(s), self.width)
        self.spread[s.buffer.data] = spread
        return S.Allocate(spread.local, self.stmt(s.body), s.annotations)

    def _check_width(self, b: Buffer) -> None:
        if self.warp <= 1 and self.width > 1:
            raise _fail(
                b,
                f"threads of target {self.target} cannot read each other's registers; use scope "
                "'shared' there",
            )
        if self.warp % self.width != 0:
            raise _fail(
                b,
                f"threadIdx.x has {self.width} threads; warp memory takes at most a warp of "
                f"{self.warp}, and a divisor of it; split the axis that is bound to threadIdx.x "
                "by such a factor, or use scope 'shared'",
            )

    def _run(self, s: S.Allocate) -> int:
        """How many consecutive elements belong to one lane, by the stores."""
        found: set[int] = set()
        for x in walk_stmts(s.body):
            if type(x) is S.BufferStore and x.buffer.data is s.buffer.data:
                found.add(self._step_of_lane(x, s.buffer))
        if len(found) > 1:
            raise _fail(s.buffer, f"its stores give a lane {sorted(found)} elements in turn")
        return found.pop() if found else 1

    def _step_of_lane(self, s: S.BufferStore, b: Buffer) -> int:
        index = substitute(s.indices[0], self.lets)
        lanes = parse(index.dtype).lanes
        base = index.base if type(index) is E.Ramp else index
        if self.lane is None:
            return max(1, lanes)
        var = self.lane.var
        step = const_int(self.analyzer.simplify(substitute(base, {var: var + 1}) - base))
        if step is None or step < 1 or step % lanes:
            raise _fail(b, f"the index {index} of a store is no multiple of threadIdx.x plus more")
        return step

    def buffer(self, b: Buffer) -> Buffer:
        spread = self.spread.get(b.data)
        if spread is None:
            return b
        view = self.views.get(b)
        if view is None:
            local = spread.local
            same = b.dtype == local.dtype
            view = local if same else b.with_(data=local.data, shape=local.shape, scope="local")
            self.views[b] = view
        return view

    # -- accesses

    def _place(self, b: Buffer, index: Any, s: _Spread) -> tuple[Any, Any]:
        """Lane and register of an element, or of the first one of a vector in one run."""
        index = substitute(index, self.lets)
        base = index.base if type(index) is E.Ramp else index
        simplify = self.analyzer.simplify
        lane, register = simplify(s.lane(base)), simplify(s.register(base))
        if type(index) is not E.Ramp:
            return lane, register
        if const_int(index.stride) != 1 or s.run % index.lanes:
            raise _fail(b, f"a vector at {index} does not lie in the registers of one lane")
        return lane, E.Ramp(register, const(1), index.lanes)

    def _own(self, lane: Any) -> bool:
        if self.lane is None:
            return True
        return bool(self.analyzer.can_prove_equal(lane, self.lane.var))

    @handles(S.BufferStore)
    def _store(self, s: S.BufferStore) -> Any:
        with self._inside(s, False) as frame:
            spread = self.spread.get(s.buffer.data)
            if spread is None:
                return frame.around(super()._store(s))
            lane, register = self._place(s.buffer, s.indices[0], spread)
            if not self._own(lane):
                raise _fail(
                    s.buffer,
                    f"the store at {s.indices[0]} goes to lane {lane}, not to the one that runs it",
                )
            value = self.expr(s.value)
            predicate = None if s.predicate is None else self.expr(s.predicate)
            store = S.BufferStore(self.buffer(s.buffer), value, (register,), predicate)
            return frame.around(store)

    @handles(S.Evaluate)
    def _evaluate(self, s: S.Evaluate) -> Any:
        with self._inside(s, False) as frame:
            return frame.around(super()._evaluate(s))

    @handles(E.BufferLoad)
    def _load(self, e: BufferLoad) -> Any:
        spread = self.spread.get(e.buffer.data)
        if spread is None:
            return super()._load(e)
        lane, register = self._place(e.buffer, self.expr(e.indices[0]), spread)
        value = BufferLoad(self.buffer(e.buffer), (register,), e.predicate)
        if self._own(lane):
            return value
        if self._varies(register):
            raise _fail(
                e.buffer,
                f"lanes read register {register} of lane {lane}, another register in each lane; "
                "a shuffle reads the same one of all",
            )
        axes = self.others
        groups = extent_of(axes)
        mask = lane_mask(index_of(axes), self.width, self.warp, groups)
        return self._moved_out(
            e, tvm_warp_shuffle(mask, value, lane, self.width, self.warp), lane, register
        )

    def _varies(self, e: Any) -> bool:
        """Whether an expression may differ between the lanes of a warp."""
        if self.lane is None:
            return False
        var = self.lane.var
        return bool(uses_var(e, var.same_as)) or any(
            type(x) is BufferLoad and x.buffer.scope_name == "local" for x in walk(e)
        )

    # -- conditions under which lanes part

    @contextmanager
    def _inside(self, s: Any, apart: bool) -> Iterator[_Frame]:
        frame = _Frame(s, apart)
        self.frames.append(frame)
        try:
            yield frame
        finally:
            self.frames.pop()

    def _moved_out(self, e: BufferLoad, shuffle: Any, lane: Any, register: Any) -> Any:
        """A shuffle where all lanes run it."""
        frame = next((f for f in self.frames if f.apart), None)
        if frame is None:
            return shuffle
        names = {*free_vars(lane), *free_vars(register)}
        for x in walk(frame.stmt):
            defined = x.loop_var if type(x) is S.For else x.var if type(x) is S.LetStmt else None
            stored = type(x) is S.BufferStore and x.buffer.data is e.buffer.data
            if stored or (defined is not None and defined in names):
                raise _fail(
                    e.buffer,
                    f"lane {lane} is read under a condition that differs between the lanes, and "
                    "cannot be read before it; let the threads divide the extent of the axis",
                )
        var = E.Var(f"{e.buffer.name}.lane", shuffle.dtype)
        frame.lets.append((var, shuffle))
        return var

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        with self._inside(s, self._varies(s.condition)) as frame:
            return frame.around(super()._if(s))

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        with self._inside(s, self._varies(s.min) or self._varies(s.extent)) as frame:
            return frame.around(super()._for(s))

    @handles(S.While)
    def _while(self, s: S.While) -> Any:
        with self._inside(s, self._varies(s.condition)) as frame:
            return frame.around(super()._while(s))

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        if e.op.name != "tir.if_then_else" or not self.frames or not self._varies(e.args[0]):
            return super()._call(e)
        frame = self.frames[-1]
        kept, frame.apart = frame.apart, True
        result = super()._call(e)
        frame.apart = kept
        return result


def _fail(b: Buffer, text: str) -> CompileError:
    instead = "" if "'shared'" in text else "; scope 'shared' has no such limit"
    return CompileError(f"buffer {b.name} in the memory of a warp: {text}{instead}")
