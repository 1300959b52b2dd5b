"""Statements that OpenCL writes its own way: loops around barriers."""

from __future__ import annotations

from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import const_int
from ..loopir.visit import nodes
from .c_stmt import STMTS

LOOP_END = "TW_LOOP_END"


def _loop(p: Any, s: Any) -> S.Stmt | None:
    """A loop; what follows one with barriers is cut off from it for PoCL.

    PoCL 3.1 makes a loop over work-items of what stands between barriers, after LLVM has moved code
    across the end of a loop of the kernel; it then stops the process with "Incoming edges to
    non-entry block!". No code moves across another barrier. Every thread of the block comes to the
    end of such a loop, so that one may stand there.
    """
    rest = STMTS[type(s)](p, s)
    extent = None if type(s) is S.While else const_int(s.extent)
    if (extent is None or extent > 1) and any(_is_barrier(x) for x in nodes(s.body)):
        p.line(f"{p.need(LOOP_END)};")
    return rest


def _is_barrier(x: Any) -> bool:
    return type(x) is E.Call and bool(x.op.name == "tir.tvm_storage_sync")


OPENCL_STMTS = {S.For: _loop, S.While: _loop}
