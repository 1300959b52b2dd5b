"""The passes of lowering, in order, each with the reason for its place.

`run_pipeline` takes what loop_nest makes (or any PrimFunc) to what the code generators take: flat
buffers, vectors, no guards in hot loops, simplified indices.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ..base import config
from ..base.deep import deep_call
from ..base.errors import CompileError
from ..loopir.stmt import PrimFunc
from ..loopir.verify import Verified, verify
from .blend_stores import blend_stores
from .check_bounds import check_bounds
from .eliminate_common import eliminate_common
from .flatten_buffers import flatten_buffers
from .hoist_conditions import hoist_conditions
from .inject_double_buffer import inject_double_buffer
from .inject_prefetch import inject_prefetch
from .inject_rolling_buffer import inject_rolling_buffer
from .inject_virtual_threads import inject_virtual_threads
from .interleave_stores import interleave_stores
from .narrow_types import narrow_types
from .options import LowerOptions
from .partition_loops import partition_loops
from .promote_accumulators import promote_accumulators
from .remove_no_ops import remove_no_ops
from .rewrite_storage import rewrite_storage
from .rewrite_unsafe_select import rewrite_unsafe_select
from .simplify_statements import simplify_statements
from .specialize_strides import specialize_strides
from .tree_reduce import tree_reduce
from .turn_loads import turn_loads
from .unroll_loops import unroll_loops
from .vectorize_loops import vectorize_loops
from .widen_indices import widen_indices

Pass = Callable[[PrimFunc, LowerOptions], PrimFunc]
Watcher = Callable[[str, PrimFunc, LowerOptions], None]

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("tilewright_watchers", default=())

# user's passes of phase 0 see the loop nest itself, those of phase 1 flat buffers in loops that are
# still marked, those of phase 2 the loops as they will run, those of phase 3 the final expressions
PHASES: tuple[tuple[Pass, ...], ...] = (
    (),  # 0: as the schedule or the user made it
    (  # 1: what the schedule asked for by attributes, and flat buffers
        rewrite_unsafe_select,  # first: all others may evaluate both sides of a Select
        check_bounds,  # while accesses are as the user wrote them
        inject_rolling_buffer,  # before prefetch, which asks for what is computed then
        inject_prefetch,  # regions have dimensions
        flatten_buffers,  # one index an access, for all that follows
        specialize_strides,  # both versions then go through everything
        narrow_types,  # before indices take their normal form
        simplify_statements,  # indices in normal form, provable guards gone
    ),
    (  # 2: loops
        hoist_conditions,  # guards as far out as they go, so that loops can be cut short
        partition_loops,  # hot parts without guards, before vectors make predicates of them
        tree_reduce,  # its levels are loops of vectors
        vectorize_loops,  # before what counts statements or looks at lifetimes
        inject_virtual_threads,  # repeats vector code, enlarges buffers
        inject_double_buffer,  # doubles the buffers in their final size
        rewrite_storage,  # lifetimes of final sizes; once, before unrolling repeats allocations
        unroll_loops,  # last of the loops: what it copies is done
    ),
    (  # 3: expressions
        simplify_statements,  # the constants that unrolling and partitioning made
        remove_no_ops,  # what simplification emptied
        blend_stores,  # vectors of register tiles at constant places
        promote_accumulators,  # register tiles are unrolled, indices comparable
        turn_loads,  # stores are side by side, indices comparable
        interleave_stores,  # as turn_loads, which looks at the same stores
    ),
    (  # the form for printing and code generation
        eliminate_common,  # names hide what an index is made of
        widen_indices,  # last: all before it take index arithmetic as exact
    ),
)


# TVM's names of passes, which `disabled_pass` takes too
TVM_NAMES: dict[str, Pass] = {
    "tir.CommonSubexprElimTIR": eliminate_common,
    "tir.HoistIfThenElse": hoist_conditions,
    "tir.InjectDoubleBuffer": inject_double_buffer,
    "tir.InjectPrefetch": inject_prefetch,
    "tir.InjectRollingBuffer": inject_rolling_buffer,
    "tir.InjectVirtualThread": inject_virtual_threads,
    "tir.InstrumentBoundCheckers": check_bounds,
    "tir.LoopPartition": partition_loops,
    "tir.NarrowDataType": narrow_types,
    "tir.RemoveNoOp": remove_no_ops,
    "tir.RewriteUnsafeSelect": rewrite_unsafe_select,
    "tir.Simplify": simplify_statements,
    "tir.StorageFlatten": flatten_buffers,
    "tir.StorageRewrite": rewrite_storage,
    "tir.UnrollLoop": unroll_loops,
    "tir.VectorizeLoop": vectorize_loops,
}


def run_pipeline(func: PrimFunc, options: LowerOptions, dump: Path | None = None) -> PrimFunc:
    """`func` after all passes.

    `options.user_passes` run at the end of their phase, in order. With `options.verify` the
    function is verified after each pass; passes named in `options.disabled_pass` (by TVM's
    names too) are left out.
    `dump` is a folder for the function's text after each pass, `NN_<pass>.txt`; without it, the
    option `dump_dir` gives a folder in which each function gets one of its own.
    """
    stage = _Stages(func, options, dump or _dump_folder(func))
    disabled = {_find_pass(name) for name in options.disabled_pass}
    for number, phase in enumerate(PHASES):
        for one in phase:
            if one not in disabled:
                func = stage.done(one.__name__, deep_call(one, func, options))
        for at, user_pass in options.user_passes:
            if at == number:
                func = stage.done(_name(user_pass), _checked(user_pass, func))
    return func


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call `watcher(name, func, options)` for each function that is lowered in the body of the
    `with`, first with the name "loop_nest" and the function before all passes, then after each
    pass with its name."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def _find_pass(name: str) -> Pass:
    known = {p.__name__: p for phase in PHASES for p in phase}
    found = known.get(name) or TVM_NAMES.get(name)
    if found is None:
        names = ", ".join(sorted(known))
        raise CompileError(f"disabled_pass: there is no pass {name!r}; there are {names}")
    return found


_numbers = itertools.count()


def _dump_folder(func: PrimFunc) -> Path | None:
    folder: Path | None = config.get("dump_dir")
    if folder is None:
        return None
    name = re.sub(r"[^\w.-]", "_", func.name)
    return folder / f"{next(_numbers):04d}-{name}.passes"


def _name(user_pass: object) -> str:
    return str(getattr(user_pass, "__name__", type(user_pass).__name__))


def _checked(user_pass: Callable[[PrimFunc], PrimFunc], func: PrimFunc) -> PrimFunc:
    result = user_pass(func)
    if not isinstance(result, PrimFunc):
        raise CompileError(
            f"the pass {_name(user_pass)} must return a PrimFunc, got {type(result).__name__}"
        )
    return result


class _Stages:
    """Writes and verifies what each pass gives."""

    def __init__(self, func: PrimFunc, options: LowerOptions, dump: Path | None) -> None:
        self.options = options
        self.dump = dump
        self.count = 0
        self.verified = Verified()
        if dump is not None:
            dump.mkdir(parents=True, exist_ok=True)
        self.done("loop_nest", func)

    def done(self, name: str, func: PrimFunc) -> PrimFunc:
        if self.dump is not None:
            (self.dump / f"{self.count:02}_{name}.txt").write_text(f"{func}\n", encoding="utf-8")
        self.count += 1
        for watcher in _watchers.get():
            watcher(name, func, self.options)
        if self.options.verify:
            verify(func, name, self.verified)
        return func
