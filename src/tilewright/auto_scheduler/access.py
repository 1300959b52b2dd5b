"""What sketch rules ask of a computation: who reads whom and how, where data is used again.

`Access` answers for the present operations of a schedule, in which cache_write, rfactor and others
may have put new ones. The predicates are those of Ansor (Zheng et al., OSDI 2020, section 4.1).
Steps of a scan, externs and tensor intrinsics are opaque: no predicate holds for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ..loopir.expr import StringImm
from ..loopir.iter import IterVar
from ..tensor.analysis import scan_body
from ..tensor.op import ComputeOp, Operation, PlaceholderOp, ScanOp
from .op_facts import Facts, facts_of

CONST_TENSOR_ATTR = "auto_scheduler_simplify_const_tensor_indices"
_RFACTOR_SPACE_PER_CORE = 16


class Access:
    """Predicates over operations in the order of computation; `outputs` are those to be kept.

    Operations in `inlined` are looked through where readers and sources are asked for.
    """

    def __init__(
        self,
        ops: Iterable[Operation],
        outputs: Iterable[Operation],
        inlined: Iterable[Operation] = (),
    ) -> None:
        self.ops = list(ops)
        self.outputs = set(outputs)
        self.inlined = set(inlined)
        self._position = {op: n for n, op in enumerate(self.ops)}
        self._readers: dict[Operation, list[Operation]] = {op: [] for op in self.ops}
        for op in self.ops:
            for source in dict.fromkeys(t.op for t in op.input_tensors):
                if source in self._readers:
                    self._readers[source].append(op)
        self._opaque: set[Operation] = set()
        for op in self.ops:
            if isinstance(op, ScanOp):
                self._opaque |= scan_body(op)

    # -- one operation

    def is_placeholder(self, op: Operation) -> bool:
        return isinstance(op, PlaceholderOp)

    def is_compute(self, op: Operation) -> bool:
        """Whether the operation is given element by element, and not as a step of a scan."""
        return isinstance(op, ComputeOp) and op not in self._opaque

    def is_output(self, op: Operation) -> bool:
        """Whether the values are among the results, or nobody reads them."""
        if isinstance(op, PlaceholderOp):
            return False
        return op in self.outputs or not self._readers[op]

    def _facts(self, op: Operation) -> Facts | None:
        return facts_of(op) if isinstance(op, ComputeOp) and op not in self._opaque else None

    def is_simple_access(self, op: Operation) -> bool:
        """Whether all reads are at plain indices."""
        facts = self._facts(op)
        return facts is not None and facts.is_simple

    def is_strictly_inlineable(self, op: Operation) -> bool:
        """Whether computing the elements where they are read costs next to nothing.

        Plain indices, axes in their order and none twice, no reduction, no branch, no expensive
        function (exp and its like). Always so for an operation that reads nothing.
        """
        facts = self._facts(op)
        return facts is not None and facts.is_strict

    def needs_multi_level_tiling(self, op: Operation) -> bool:
        """Whether elements of inputs are used many times: at least two inputs each lack some axis
        of the result (longer than 1), with a reduction at least one."""
        facts = self._facts(op)
        return facts is not None and facts.reuses

    needs_tiling = needs_multi_level_tiling

    def lengths(self, op: Operation) -> tuple[int, int]:
        """Elements of the result, and steps of the reduction behind each (1 without one)."""
        facts = self._facts(op)
        return (0, 0) if facts is None else facts.lengths

    def needs_rfactor(self, op: Operation, cores: int) -> bool:
        """Whether there is more to do in parallel along the reduction than across elements.

        Where data is reused: the reduction is at least as long as there are elements, and those are
        16 a core at most. Elsewhere: it is longer than there are cores.
        """
        space, reduce = self.lengths(op)
        if not getattr(op, "reduce_axis", ()):
            return False
        if self.needs_multi_level_tiling(op):
            return space <= reduce and space <= _RFACTOR_SPACE_PER_CORE * cores
        return reduce > 1 and reduce > cores

    def needs_cross_thread_reduction(
        self, op: Operation, max_threads_per_block: int, warp_size: int
    ) -> bool:
        """Whether the threads of a block should share each reduction.

        Where data is reused: there are fewer elements than steps and at most a block's threads.
        Elsewhere: the reduction is longer than a warp.
        """
        space, reduce = self.lengths(op)
        if not getattr(op, "reduce_axis", ()):
            return False
        if self.needs_multi_level_tiling(op):
            return space <= max_threads_per_block and space < reduce
        return reduce > 1 and reduce > warp_size

    # -- several operations

    def _ordered(self, ops: Collection[Operation]) -> list[Operation]:
        return sorted(ops, key=self._position.__getitem__)

    def get_direct_producers(self, op: Operation) -> list[Operation]:
        """The operations that `op` reads, inlined or not."""
        found = {t.op for t in op.input_tensors}
        return self._ordered([p for p in found if p in self._position])

    def get_direct_consumers(self, op: Operation) -> list[Operation]:
        """The operations that read `op`, inlined or not."""
        return list(self._readers[op])

    def get_producers(self, op: Operation) -> list[Operation]:
        """The operations that `op` reads, with those that inlined ones read in their place."""
        return self._ordered(set(self._through(op, self.get_direct_producers)))

    def get_consumers(self, op: Operation) -> list[Operation]:
        """The operations that read `op`, with the readers of inlined ones in their place."""
        return self._ordered(set(self._through(op, self.get_direct_consumers)))

    def _through(self, op: Operation, step: Any) -> Iterator[Operation]:
        stack, seen = list(step(op)), set()
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            if item in self.inlined:
                stack.extend(step(item))
            else:
                yield item

    def elementwise_match(self, op: Operation, target: Operation) -> bool:
        """Whether `target` reads `op`, alone and perhaps through others, element by element: each
        element of the shape that both have at its own place."""
        while op is not target:
            readers = self._readers[op]
            if len(readers) != 1 or self.is_output(op):
                return False
            facts = self._facts(readers[0])
            if facts is None or not self.is_compute(op) or not facts.reads_elementwise(op):
                return False
            op = readers[0]
        return True

    def get_num_common_outer_iterator(self, op: Operation, target: Operation) -> int:
        """How many outermost axes `op` and `target` have in common along every way from one to the
        other; 0 where there is none."""
        first = len(op.output_shape(0))
        best: dict[Operation, int] = {target: first}
        start = self._position[op]
        for item in reversed(self.ops[start : self._position[target]]):
            found = [
                min(best[reader], facts.common_outer(item)) if (facts := self._facts(reader)) else 0
                for reader in self._readers[item]
                if reader in best
            ]
            if found:
                best[item] = min(found)
        return best.get(op, 0)


def has_cross_thread_reduction(stage: Any) -> bool:
    """Whether a reduction loop of a schedule's stage is bound to threads."""
    return any(
        a.iter_type == IterVar.CommReduce and stage.attr(a).bind_thread is not None
        for a in stage.leaf_iter_vars
    )


def attr_names(op: Operation, key: str) -> tuple[str, ...]:
    """Names of axes that an attribute of the operation lists."""
    value = op.attrs.get(key, ())
    items = [value] if isinstance(value, (str, StringImm)) else value
    return tuple(str(getattr(item, "value", item)) for item in items)


def has_flag(op: Operation, key: str) -> bool:
    """Whether an attribute of the operation is there and not zero or empty."""
    value = op.attrs.get(key, False)
    return bool(getattr(value, "value", value))


def const_tensor_indices(op: Operation) -> tuple[str, ...]:
    """Names of the axes that index constant tensors, as the operation's attribute says."""
    return attr_names(op, CONST_TENSOR_ATTR)
