"""Barriers that every block reaches, whatever its index and the sizes of arrays."""

from __future__ import annotations

from typing import Any

from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.rewrite import OverStatements, handles
from ..loopir.visit import children
from ..target.target import Target
from .bounded import BoundedRewriter
from .spread_conditions import Spreader, Uniformity, reads_memory
from .statement_accesses import is_barrier


def even_barriers(func: S.PrimFunc, target: Target) -> S.PrimFunc:
    """Take barriers out of branches, and out of loops that may run not once, for OpenCL.

    All threads of a block take the same way to a barrier already (sync_threads), so that OpenCL
    allows both. PoCL 3.1 compiles them wrongly: it runs the threads of a block in loops between
    barriers, and where one of two ways has a barrier, statements of the other one get lost or use
    values of another thread. Branches move into the parts around barriers; a loop with barriers
    runs at least once, as its bounds say, without doing anything else where it would not. A branch
    that cannot be moved (a while loop, bounds that are read from memory) stays.

    Stands after all that adds barriers. For CUDA nothing changes.
    """
    if target.kind.name != "opencl":
        return func
    return func.with_body(_Even(func).stmt(func.body))


class _Same(Uniformity):
    """All conditions are to be moved, none differs between the threads of a block."""

    def __init__(self) -> None:
        self.threads = []
        self.varying = set()

    def __call__(self, e: Any) -> bool:
        return False

    def loop(self, s: S.For) -> bool:
        return not reads_memory(s.extent) and not reads_memory(s.min)


class _Even(OverStatements, BoundedRewriter):
    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.known: dict[int, tuple[Any, bool]] = {}
        self.spreader = Spreader(_Same(), func.name, self.waits)

    def waits(self, s: Any) -> bool:
        """Whether a statement has a barrier."""
        found = self.known.get(id(s))
        if found is None:
            below = (c for c in children(s) if isinstance(c, S.Stmt))
            found = self.known[id(s)] = (s, is_barrier(s) or any(map(self.waits, below)))
        return found[1]

    def stmt(self, s: Any) -> Any:
        return super().stmt(s) if self.waits(s) else s

    @handles(S.IfThenElse)
    def _if(self, s: S.IfThenElse) -> Any:
        try:
            spread = self.spreader.spread(s)
        except CompileError:
            return super()._if(s)
        return self.stmt(spread)

    @handles(S.For)
    def _for(self, s: S.For) -> Any:
        if E.const_int(s.extent) is not None and self.analyzer.can_prove(s.extent >= 1):
            return super()._for(s)
        if not self.spreader.uniform.loop(s):
            return super()._for(s)
        body = s.body
        if not self.analyzer.can_prove(s.extent >= 1):
            try:
                body = self.spreader.under(s.loop_var < s.min + s.extent, body)
            except CompileError:
                return super()._for(s)
        # said even where it is known: the device's compiler must see it
        once = E.Max(s.extent, E.const(1, s.extent.dtype))
        return super()._for(s.with_parts(extent=once, body=body, thread_binding=None))
