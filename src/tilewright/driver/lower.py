"""lower(): from a schedule to loop IR, through every pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import deep_call, roomy
from ..base.errors import CompileError, InternalError
from ..loopir.buffer import Buffer
from ..loopir.expr import StringImm
from ..loopir.module import IRModule
from ..loopir.stmt import AssertStmt, PrimFunc
from ..loopir.verify import verify
from ..lowering.loop_nest import make_loop_nest
from ..lowering.options import LowerOptions
from ..lowering.pipeline import run_pipeline
from ..lowering.plain_statements import make_plain
from ..lowering.thread_loops import launch_thread_loops
from ..schedule.api import Schedule
from ..schedule.bounds import infer_bounds
from ..target.target import Target
from ..tensor.bounds import check_program
from ..tensor.size_checks import size_checks
from .signature import given_variables, require_values
from .transform import user_passes


def schedule_to_func(
    sch: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Any, Buffer] | None = None,
    keep_single: bool = False,
) -> PrimFunc:
    """The loop nest of a schedule before any pass: buffers have all their dimensions.
    `keep_single`: loops of one iteration are loops too."""
    outputs = [stage.origin_op for stage in sch.stages if stage.is_output]
    check_program(outputs)
    normal = sch.normalize()
    bounds = infer_bounds(normal)
    func = make_loop_nest(normal, bounds, args, name, binds, keep_single)
    body = func.body
    repeated = [t for t, b in (binds or {}).items() if b.buffer_kind == "auto_broadcast"]
    for text, condition in size_checks(outputs, given_variables(func), repeated).items():
        body = AssertStmt(condition, StringImm(text), body)
    return func.with_body(body)


@roomy
def lower(
    inp: Any,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Mapping[Any, Buffer] | None = None,
    simple_mode: bool = False,
    options: LowerOptions | None = None,
) -> IRModule:
    """Loop IR of a schedule (with its arguments), a PrimFunc or an IRModule, after all passes.

    `simple_mode` leaves out loop partitioning, for text that is easier to read. Raises CompileError
    where args are missing, the name is not text, or binds is no dictionary, where the program is
    not well formed.
    """
    if options is None:
        options = LowerOptions.current(Target.current(allow_none=True), simple_mode, user_passes())
    if not isinstance(name, str):
        raise CompileError(f"the name of a function must be text, got {name!r}")
    if isinstance(inp, Schedule):
        if not isinstance(args, (list, tuple)):
            raise CompileError(
                f"lower of a schedule needs its arguments: lower(s, [A, B, C]), got {args!r}"
            )
        if binds is not None and not isinstance(binds, Mapping):
            raise CompileError(f"binds is a dictionary of buffers by tensor, got {binds!r}")
        func = deep_call(schedule_to_func, inp, args, name, binds)
        funcs = {name: require_values(func)}
    elif isinstance(inp, PrimFunc):
        funcs = {inp.attrs.get("global_symbol", name): _verified(inp)}
    elif isinstance(inp, IRModule):
        funcs = {key: _verified(func) for key, func in inp.functions.items()}
    else:
        raise CompileError(
            f"lower takes a Schedule, PrimFunc or IRModule, got {type(inp).__name__}; "
            "te.create_schedule(C.op) makes a schedule of a tensor C"
        )
    attrs = inp.attrs if isinstance(inp, IRModule) else None
    return IRModule({key: run_pipeline(func, options) for key, func in funcs.items()}, attrs)


def _verified(func: PrimFunc) -> PrimFunc:
    """A function that users give, which need not be well formed, in basic statements."""
    func = make_plain(func)
    try:
        verify(func)
    except InternalError as error:
        raise CompileError(str(error)) from None
    return launch_thread_loops(func)
