"""Reductions whose axis is bound to threads: every thread reduces its part, then all parts meet.

    launch the threads:
        acc = identity                                  # only if serial reduction loops are left
        for the serial reduction loops: acc = combine(acc, source)
        AttrStmt(reducer, "reduce_scope"):
            tvm_thread_allreduce(count, acc, condition, reduce_temp, threads)
        if the store predicate: B[...] = reduce_temp

Every thread of the block comes to the allreduce, whatever guards its data has: a thread outside of
the data contributes the identity. lower_thread_allreduce makes shuffles or shared memory of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import ScheduleError
from ..loopir.buffer import Buffer
from ..loopir.calls import tvm_thread_allreduce
from ..loopir.copies import strip_likely
from ..loopir.expr import BufferLoad, PrimExpr, Var, const, convert, is_const
from ..loopir.iter import IterVar, Reduce
from ..loopir.op import if_then_else
from ..loopir.operators import logical_and
from ..loopir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, IfThenElse, Stmt, seq
from ..loopir.subst import substitute
from ..loopir.visit import walk
from ..schedule.placement import reduction_axes
from ..schedule.state import StageState
from .stage_body import reader_of, update_body
from .stage_guards import stage_guards


def reduces_across_threads(stage: StageState, reduction: frozenset[IterVar]) -> bool:
    """Whether a reduction axis is bound to threads; ScheduleError where that cannot be done."""
    bound = [leaf for leaf in stage.leaf_iter_vars if leaf in reduction and _tag(stage, leaf)]
    for leaf in bound:
        if not _tag(stage, leaf).startswith("threadIdx"):
            raise _fail(
                stage,
                f"reduction axis {leaf.var.name} is bound to {_tag(stage, leaf)}, but only "
                "threads of one block can reduce together; bind it to threadIdx.x, or use "
                "rfactor and bind the new data axis",
            )
    if bound and any(stage.attr(a).tensor_intrin is not None for a in stage.leaf_iter_vars):
        raise _fail(
            stage,
            "Cannot mix cross thread reduction with Tensorize; tensorize what is left of the "
            "reduction after rfactor",
        )
    return bool(bound)


def _tag(stage: StageState, leaf: IterVar) -> str:
    """The real thread axis that a leaf is bound to, or nothing."""
    thread = stage.attr(leaf).bind_thread
    tag = "" if thread is None else thread.thread_tag
    return "" if tag.startswith(("vthread", "cthread")) else tag


def _fail(stage: StageState, text: str) -> ScheduleError:
    return ScheduleError(f"bind on stage {stage.name}: {text}\n{stage.describe()}")


def cross_thread_body(
    builder: Any, stage: StageState, common: Sequence[IterVar], rest: Sequence[IterVar]
) -> Stmt:
    """The nest of a stage with a reduction axis bound to threads.

    `rest` are the loops from the first reduction axis inwards, all of the reduction.
    """
    return _CrossThread(builder, stage, common, rest).body()


class _CrossThread:
    def __init__(
        self, builder: Any, stage: StageState, common: Sequence[IterVar], rest: Sequence[IterVar]
    ) -> None:
        self.builder, self.stage, self.common, self.rest = builder, stage, common, rest
        self.mine = builder.bounds[stage]
        self.reduction = reduction_axes(stage)
        swapped = next((a for a in rest if a not in self.reduction), None)
        if swapped is not None:
            raise _fail(
                stage,
                "Cross thread reduce cannot swap with normal data axis: "
                f"{swapped.var.name} stands inside of the reduction; reorder it outwards",
            )
        self.reduce: Reduce = stage.op.body[0]
        self.values = builder.values(stage)
        self.missing = builder.threads.missing(stage)
        self.read = reader_of(builder.bounds, builder.memory, self.values)

    def body(self) -> Stmt:
        builder, stage = self.builder, self.stage
        results = self._buffers("reduce_temp")
        conditions = self._conditions(frozenset())
        if all(_tag(stage, leaf) for leaf in self.rest):
            final = seq(self._allreduce(self._sources(conditions), results), self._store(results))
            body = self._attached(final)
        else:
            parts = self._buffers("normal_reduce_temp")
            loads = [_first(b) for b in parts]
            reducing = self._allreduce((loads, const(1, "bool")), results)
            body = seq(self._partial(parts, conditions), reducing, self._store(results))
            for b in reversed(parts):
                body = Allocate(b, body)
        for b in reversed(results):
            body = Allocate(b, body)
        for leaf in reversed(self.rest):
            if _tag(stage, leaf):
                body = builder.wrap(stage, leaf, body)
        whole: Stmt = builder.nest(stage, self.common, body)
        return whole

    # -- the parts

    def _buffers(self, name: str) -> list[Buffer]:
        return [
            Buffer((1,), e.dtype, f"{name}{i}", scope="local")
            for i, e in enumerate(self.reduce.source)
        ]

    def _conditions(self, skip: frozenset[IterVar]) -> list[PrimExpr]:
        """What must hold for an element to count, without `likely`."""
        builder, stage = self.builder, self.stage
        found = stage_guards(builder.bounds, stage, self.values, skip)
        return [*self.missing, *(strip_likely(c) for c in found)]

    def _sources(self, conditions: list[PrimExpr]) -> tuple[list[Any], PrimExpr]:
        """What this thread contributes, and when."""
        own = self.read.expr(self.reduce.condition)
        if not is_const(own, 1):
            conditions = [*conditions, own]
        values = [self.read.expr(e) for e in self.reduce.source]
        true = const(1, "bool")
        if not conditions:
            return values, true
        both: PrimExpr = conditions[0]
        for c in conditions[1:]:
            both = logical_and(both, c)
        if all(_readable(v) for v in values):
            return values, both
        # what is read may not exist where the condition fails
        pairs = zip(values, self.reduce.combiner.identity_element)
        return [if_then_else(both, v, i) for v, i in pairs], true

    def _partial(self, parts: list[Buffer], conditions: list[PrimExpr]) -> Stmt:
        """The serial loops of the reduction, into a thread's own accumulators."""
        identity = self.reduce.combiner.identity_element
        zero = [const(0)]
        start = seq([BufferStore(b, e, zero) for b, e in zip(parts, identity)])
        update = update_body(self.reduce, [(b, zero) for b in parts], self.read)
        skip: frozenset[IterVar] = frozenset()
        guards = [*self.missing]
        guards += stage_guards(self.builder.bounds, self.stage, self.values, skip)
        for condition in reversed(guards):
            update = IfThenElse(condition, update)
        return seq(start, self._attached(update))

    def _attached(self, body: Stmt) -> Stmt:
        """`body` in the serial loops of the reduction, with the stages attached in them."""
        builder, stage = self.builder, self.stage
        for leaf in reversed(self.rest):
            body = builder.attach(stage, leaf, body)
            if not _tag(stage, leaf):
                body = builder.wrap(stage, leaf, body)
        return body

    def _allreduce(self, sources: tuple[list[Any], PrimExpr], results: list[Buffer]) -> Stmt:
        values, condition = sources
        threads = [self.mine.var[leaf] for leaf in self.rest if _tag(self.stage, leaf)]
        count = const(len(values), "uint32")
        call = tvm_thread_allreduce(
            count, *values, condition, *[_first(b) for b in results], *threads
        )
        return AttrStmt(self.reduce.combiner, "reduce_scope", 0, Evaluate(call))

    def _store(self, results: list[Buffer]) -> Stmt:
        """The stores of the results, by the threads that the predicate names.

        Without a predicate one thread stores to memory that others see too.
        """
        stage, builder = self.stage, self.builder
        point = [self.values[a] for a in stage.op.axis]
        simplify = builder.bounds.analyzer.simplify
        loads: list[Any] = [_first(b) for b in results]
        if self.reduce.init:
            loads = self._with_initial(loads)
        stores: list[Stmt] = []
        private = True
        for t, value in zip(stage.op.outputs, loads):
            buffer, indices = builder.memory.locate(t, point)
            private = private and buffer.scope_name in ("local", "warp")
            stores.append(BufferStore(buffer, value, [simplify(i) for i in indices]))
        body = seq(stores)
        predicate = builder.store_predicate(stage, self.values)
        if predicate is None and not private:
            predicate = self._first_thread()
        if predicate is not None:
            body = IfThenElse(convert(predicate), body)
        for condition in reversed(stage_guards(builder.bounds, stage, self.values, self.reduction)):
            body = IfThenElse(condition, body)
        for condition in reversed(self.missing):
            if not _uses(condition, self._threads()):
                body = IfThenElse(condition, body)
        return body

    def _with_initial(self, loads: list[Any]) -> list[Any]:
        """combine(init, reduced) for reductions that start from other values than the identity."""
        combiner = self.reduce.combiner
        table: dict[Var, Any] = dict(zip(combiner.lhs, map(self.read.expr, self.reduce.init)))
        table.update(zip(combiner.rhs, loads))
        return [substitute(e, table) for e in combiner.result]

    def _threads(self) -> set[Var]:
        return {self.mine.var[leaf] for leaf in self.rest if _tag(self.stage, leaf)}

    def _first_thread(self) -> PrimExpr:
        condition: Any = None
        for leaf in self.rest:
            if _tag(self.stage, leaf):
                var = self.mine.var[leaf]
                own = var.equal(const(0, var.dtype))
                condition = own if condition is None else logical_and(condition, own)
        first: PrimExpr = condition
        return first


def _first(buffer: Buffer) -> BufferLoad:
    return BufferLoad(buffer, [const(0)])


def _readable(value: Any) -> bool:
    """Whether a value may be computed by every thread: it reads nothing but registers."""
    return not any(
        type(x) is BufferLoad and not (x.buffer.scope_name == "local" and parse(x.dtype).lanes == 1)
        for x in walk(value)
    )


def _uses(e: Any, variables: set[Var]) -> bool:
    return any(isinstance(x, Var) and x in variables for x in walk(e))
