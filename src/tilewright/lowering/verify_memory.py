"""Device memory is touched by kernels only."""

from __future__ import annotations

from typing import Any

from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.visit import children
from .thread_loops import launch_thread_loops
from .unify_threads import is_launch


def verify_memory(func: S.PrimFunc) -> S.PrimFunc:
    """CompileError where the host accesses an element of an array, which is on the device.

    Needs and guarantees nothing else. Stands early among the device passes: what it says is about
    the schedule as the user wrote it.
    """
    body = launch_thread_loops(func).body
    stack: list[Any] = [(body, body)]
    while stack:
        node, owner = stack.pop()
        kind = type(node)
        if kind is S.BufferStore or kind is E.BufferLoad:
            raise CompileError(_message(func, node.buffer, owner))
        if not is_launch(node):
            stack.extend(
                (c, c if isinstance(c, S.Stmt) else owner) for c in reversed(children(node))
            )
    return func


def _message(func: S.PrimFunc, buffer: Buffer, statement: S.Stmt) -> str:
    name, text = buffer.name, str(statement).strip().splitlines()
    shown = "\n".join(f"    {line}" for line in text[:8])
    return (
        "Memory verification failed with the following errors:\n"
        f"function {func.name}: {name} is accessed on the host, outside of any kernel, but its "
        f"memory is on the device:\n{shown}\n"
        "Did you forget to bind? Bind axes of the stage to threads, as in "
        f's[{name}].bind(axis, te.thread_axis("blockIdx.x")), or compute it inside of a stage '
        "that has threads (compute_at, compute_inline)\n"
        "A stage of te.extern launches threads in its own statements. The library's (topi.sort, "
        "topi.cumsum, ...) do so for the target in whose scope they are called: "
        'with tvm.target.Target("cuda"): topi.sort(x)'
    )
