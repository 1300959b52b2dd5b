"""Mistakes in the passes over loops, memory and expressions that all targets go through."""

from __future__ import annotations

from typing import Any

from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.lowering import (
    eliminate_common,
    inject_double_buffer,
    inject_rolling_buffer,
    inject_virtual_threads,
    interleave_stores,
    lower_division,
    narrow_types,
    partition_loops,
    promote_accumulators,
    rewrite_storage,
    specialize_strides,
    turn_loads,
    unroll_loops,
    vectorize_loops,
)

from .mutant_kit import catalogue, replaced

# ---- loops


def main_part_too_long() -> Any:
    """The part of a loop without guards has one step too many."""

    def make(old: Any) -> Any:
        def main_range(self: Any, s: Any, guards: Any) -> Any:
            low, high, solved = old(self, s, guards)
            return low, None if high is None else high + 1, solved

        return main_range

    return replaced(partition_loops._Partitioner, "_main_range", make)


def loop_cut_too_short() -> Any:
    """A loop that is cut where its guard fails loses its last step."""

    def make(old: Any) -> Any:
        def cut(self: Any, s: Any) -> Any:
            new = old(self, s)
            if new is s:
                return s
            return S.For(new.loop_var, new.min, new.extent - 1, new.kind, new.body)

        return cut

    return replaced(partition_loops._Partitioner, "_cut_short", make)


def rest_of_loop_forgotten() -> Any:
    """What is left behind the part without guards is not run."""

    def make(old: Any) -> Any:
        def part(self: Any, s: Any, start: Any, end: Any) -> Any:
            return old(self, s, start, end) if start is s.min else S.no_op()

        return part

    return replaced(partition_loops._Partitioner, "_part", make)


def masks_forgotten() -> Any:
    """Statements under a condition run for all lanes of a vector."""
    return replaced(
        vectorize_loops.VectorStmts, "_under", lambda old: lambda self, mask, guard, s: self.stmt(s)
    )


def strides_of_vectors_lost() -> Any:
    """Elements that are apart in memory are accessed as if they followed each other."""

    def make(old: Any) -> Any:
        def index(self: Any, buffer: Any, indices: Any) -> Any:
            found, places = old(self, buffer, indices)
            last = places[-1] if places else None
            if isinstance(last, E.Ramp):
                places = (*places[:-1], E.Ramp(last.base, E.const(1), last.lanes))
            return found, places

        return index

    return replaced(vectorize_loops.VectorStmts, "index", make)


def rest_of_vectors_forgotten() -> Any:
    """A vectorised loop of symbolic extent stops after its last whole vector."""

    def make(old: Any) -> Any:
        def whole(s: Any, body: Any) -> Any:
            found = old(s, body)
            return S.IfThenElse(found.condition, found.then_case.seq[0])

        return whole

    return replaced(vectorize_loops, "_symbolic", make)


def last_copy_forgotten() -> Any:
    """An unrolled loop lacks its last step."""
    return replaced(
        unroll_loops, "_copies", lambda old: lambda s, n, body: old(s, max(n - 1, 1), body)
    )


def unrolled_from_zero() -> Any:
    """An unrolled loop begins at 0, wherever it did before."""

    def make(old: Any) -> Any:
        def copies(s: Any, extent: int, body: Any) -> Any:
            zero = E.const(0, s.loop_var.dtype)
            return old(S.For(s.loop_var, zero, s.extent, s.kind, s.body), extent, body)

        return copies

    return replaced(unroll_loops, "_copies", make)


# ---- memory


def lives_end_within_loops() -> Any:
    """What a loop still needs in its next step may be overwritten at the end of this one."""

    def make(old: Any) -> Any:
        def scan(self: Any, s: Any, owned: bool) -> None:
            if type(s) is S.For:
                self.defined.add(s.loop_var)
            self._scan(s.body, owned and not rewrite_storage._owns_threads(s))

        return scan

    return replaced(rewrite_storage._Plan, "_scan_repeated", make)


def lives_end_too_soon() -> Any:
    """Memory is given to another buffer some statements before its last use."""

    def make(old: Any) -> Any:
        def fits(self: Any, life: Any) -> Any:
            kept, self.last = self.last, self.last - 10
            found = old(self, life)
            self.last = kept
            return found

        return fits

    return replaced(rewrite_storage._Slot, "fits", make)


def slot_keeps_its_size() -> Any:
    """Memory that a larger buffer takes over does not grow."""

    def make(old: Any) -> Any:
        def take(self: Any, life: Any) -> None:
            self.last = life.last

        return take

    return replaced(rewrite_storage._Slot, "take", make)


def accumulators_not_loaded() -> Any:
    """An accumulator does not begin with what its element holds."""

    def make(old: Any) -> Any:
        def guarded(self: Any, g: Any, s: Any) -> Any:
            return S.no_op() if s.buffer is g.local else old(self, g, s)

        return guarded

    return replaced(promote_accumulators._Survey, "guarded", make)


def accumulators_move() -> Any:
    """An element is kept in an accumulator though another one is meant in each step."""
    return replaced(promote_accumulators._Survey, "_fixed", lambda old: lambda *a: True)


def halves_shared() -> Any:
    """A double buffer is filled ahead where it is still read."""

    def make(old: Any) -> Any:
        def init(self: Any, loop: Any, fills: Any) -> None:
            old(self, loop, fills)
            self.half = E.const(0, loop.loop_var.dtype)

        return init

    return replaced(inject_double_buffer._Pipeline, "__init__", make)


def step_filled_twice() -> Any:
    """A double buffer is filled again for the present step, not for the next."""

    def make(old: Any) -> Any:
        def fill(self: Any, f: Any, at: Any) -> Any:
            return old(self, f, self.loop.loop_var if isinstance(at, E.Add) else at)

        return fill

    return replaced(inject_double_buffer._Pipeline, "fill", make)


def virtual_threads_share() -> Any:
    """Virtual threads have one memory."""
    return replaced(inject_virtual_threads._Injector, "_at", lambda old: lambda s, b, i: i)


def virtual_thread_forgotten() -> Any:
    """The last virtual thread does not run."""

    def make(old: Any) -> Any:
        def repeat(self: Any, s: Any) -> Any:
            self.count, kept = max(self.count - 1, 1), self.count
            found = old(self, s)
            self.count = kept
            return found

        return repeat

    return replaced(inject_virtual_threads._Injector, "_repeat", make)


def first_rows_not_computed() -> Any:
    """A rolling buffer begins with its new rows only."""
    return replaced(inject_rolling_buffer, "logical_or", lambda old: lambda a, b: b)


def strides_taken_for_one() -> Any:
    """Rows are read as if their elements lay one behind the other."""
    return replaced(specialize_strides, "likely", lambda old: lambda c: E.const(True))


# ---- expressions


def constants_taken_for_one() -> Any:
    """Subexpressions that differ in a constant only are taken for the same."""

    def make(old: Any) -> Any:
        def key(kind: type, e: Any, below: Any) -> Any:
            return (kind, e.dtype) if kind is E.IntImm else old(kind, e, below)

        return staticmethod(key)

    return replaced(eliminate_common._Graph, "_key", make)


def narrowed_one_step_short() -> Any:
    """A loop that is counted in 32 bits loses its last step."""

    def make(old: Any) -> Any:
        def narrow(self: Any, s: Any, low: Any, extent: Any) -> Any:
            return old(self, s, low, extent - 1)

        return narrow

    return replaced(narrow_types._Narrower, "_narrow_loop", make)


def narrowed_in_the_wrong_order() -> Any:
    """What is computed in 32 bits has its operands exchanged."""

    def make(old: Any) -> Any:
        def short(self: Any, e: Any) -> Any:
            if isinstance(e, (E.Sub, E.FloorDiv, E.FloorMod)) and e.dtype == "int64":
                found = old(self, e)
                return None if found is None else type(found)(found.b, found.a)
            return old(self, e)

        return short

    return replaced(narrow_types._Narrower, "_short", make)


def division_never_corrected() -> Any:
    """Quotients rounded down are computed as if nothing were negative."""

    return replaced(
        lower_division._LowerDivision, "_non_negative", lambda old: lambda self, e: True
    )


def squares_turned_the_other_way() -> Any:
    """Of columns that are read as rows and turned, each store gets that of another."""

    def make(old: Any) -> Any:
        def columns(first: Any, square: Any, names: Any) -> Any:
            return old(first, square[::-1], names)

        return columns

    return replaced(turn_loads, "_columns", make)


def groups_woven_the_other_way() -> Any:
    """Of stores between each other, each gets the place of another."""

    def make(old: Any) -> Any:
        def together(run: Any) -> Any:
            swapped = zip(run, run[::-1])
            return old(
                [S.BufferStore(x.buffer, y.value, x.indices, x.predicate) for x, y in swapped]
            )

        return together

    return replaced(interleave_stores, "_together", make)


PASSES = catalogue(
    main_part_too_long, loop_cut_too_short, rest_of_loop_forgotten, masks_forgotten,
    strides_of_vectors_lost, rest_of_vectors_forgotten, last_copy_forgotten, unrolled_from_zero,
    lives_end_within_loops, lives_end_too_soon, slot_keeps_its_size, accumulators_not_loaded,
    accumulators_move, halves_shared, step_filled_twice, virtual_threads_share,
    virtual_thread_forgotten, first_rows_not_computed, strides_taken_for_one,
    constants_taken_for_one, narrowed_one_step_short, narrowed_in_the_wrong_order,
    division_never_corrected, squares_turned_the_other_way, groups_woven_the_other_way,
)  # fmt: skip
