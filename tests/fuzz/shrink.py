"""Make a failing case small: fewer primitives, fewer stages, smaller extents."""

from __future__ import annotations

import dataclasses

from .built import Built
from .check import Failure, replay_case
from .programs import Input, Program, Spec


def shrink(failure: Failure, attempts: int = 200) -> Failure:
    """A smaller case that still fails (not necessarily in the same way)."""
    best = failure
    budget = attempts
    progress = True
    while progress and budget > 0:
        progress = False
        for candidate in _smaller(best):
            budget -= 1
            if budget <= 0:
                break
            program, steps = candidate
            problem = replay_case(program, steps, best.device)
            if problem is not None:
                best = Failure(best.seed, program, steps, problem, best.device)
                progress = True
                break
    return best


def _smaller(case: Failure):
    steps = case.steps
    for k in reversed(range(len(steps))):
        yield case.program, steps[:k] + steps[k + 1 :]
    if not steps:
        program = case.program
        if len(program.stages) > 1:
            yield dataclasses.replace(program, stages=program.stages[:-1], also=()), steps
    for smaller in _smaller_inputs(case.program):
        yield smaller, steps


def _smaller_inputs(program: Program):
    extents = sorted({d for i in program.inputs for d in i.shape if d > 1}, reverse=True)
    for old in extents:
        for new in (old // 2, old - 1):
            if new < 1:
                continue
            inputs = [
                Input(
                    tuple(new if d == old else d for d in i.shape),
                    i.dtype,
                    new if i.below == old else i.below,
                )
                for i in program.inputs
            ]
            yield dataclasses.replace(program, inputs=inputs)


def text_of(failure: Failure) -> str:
    """A report from which the case can be built again."""
    lines = [
        f"seed {failure.seed}: {failure.problem}",
        f"  mode {failure.program.mode}, symbolic {failure.program.symbolic}, "
        f"int64 extents {failure.program.wide}, "
        f"data seed {failure.program.data_seed}, floats {failure.program.rounding}, "
        f"also outputs {failure.program.also}",
    ]
    lines += [
        f"  input {i.shape} {i.dtype}" + (f" of indices below {i.below}" if i.below else "")
        for i in failure.program.inputs
    ]
    lines += [f"  stage {_spec(s)}" for s in failure.program.stages]
    lines.append("  schedule:")
    lines += ["    " + line for line in _schedule_text(failure).splitlines()]
    device = "" if failure.device == "llvm" else f" --device {failure.device}"
    lines.append(f"  again: python -m tests.fuzz --cases 1 --seed {failure.seed}{device}")
    return "\n".join(lines)


def _spec(s: Spec) -> str:
    return f"{s.kind}{s.reads} {s.params}"


def _schedule_text(failure: Failure) -> str:
    from tilewright import te
    from tilewright.schedule.trace import replay

    try:
        schedule = te.create_schedule([t.op for t in Built(failure.program).outputs])
        replay(schedule, failure.steps)
        return schedule.as_python()
    except Exception as error:  # the report must come whatever is broken
        return f"(cannot be printed: {error})"
