"""Functions cut out of a function: its body behind the entry, and the bodies of parallel loops.

A cut-out function takes what it uses as parameters, pointers `noalias`, so that LLVM needs no
metadata to tell arrays apart. A parallel loop's function runs a range of steps; the pool of threads
(rt/pool) decides which thread runs which ranges, and calls a small function with each. A thread's
steps are consecutive (or dealt out in turn, with the pragma parallel_stride_pattern). Under the
pragma parallel_there_and_back a thread runs its steps from the last to the first in every second
step of the loop around, and so begins with the arrays that it used last: the pool deals out its
pieces from the end, and each is run from its end. Under the pragma parallel_rows, whose value is
how many steps a block has, threads have shares of the steps of all blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.visit import nodes
from .emitter import CALL_PACKED, Emitter
from .index import add64, index
from .workspace import THREADS, slot_pointers, slot_variables


def used_variables(f: Emitter, node: Any) -> list[E.Var]:
    """Variables with a value in `f` that a statement uses, in order of first use."""
    found: dict[E.Var, None] = {}
    for x in nodes(node):
        if isinstance(x, E.Var):
            found.setdefault(x)
        elif isinstance(x, (E.BufferLoad, S.BufferStore, S.Prefetch)):
            found.setdefault(x.buffer.data)
    return [v for v in found if v in f.env or v in f.wide]


def outline(
    f: Emitter, name: str, variables: Iterable[E.Var]
) -> tuple[Emitter, list[str], list[str]]:
    """An emitter for a function that gets `variables`: with the texts of its parameters and of the
    arguments that `f` passes. What is constant in `f` is so in the function, without a
    parameter."""
    child = f.child(name)
    child.align = f.align
    child.workspace = f.workspace
    child.in_parallel = f.in_parallel
    params, args = [], []
    for i, var in enumerate(dict.fromkeys(variables)):
        kind, operand, is_wide = variable_value(f, var)
        if operand[0] != "%":
            (child.wide if is_wide else child.env)[var] = operand
            continue
        (child.wide if is_wide else child.env)[var] = f"%p{i}"
        note = f.module.pointer_notes.get(var, "") if kind == "ptr" else ""
        params.append(f"{kind}{note} %p{i}")
        args.append(f"{kind} {operand}")
    return child, params, args


def variable_value(f: Emitter, var: E.Var) -> tuple[str, str, bool]:
    """LLVM type, operand, and whether it is the i64 form, of a variable's value."""
    operand = f.wide.get(var)
    if operand is not None:
        return "i64", operand, True
    return f.type(var.dtype), f.env[var], False


def parallel_loop(f: Emitter, s: S.For, cyclic: bool, rows: E.PrimExpr | None) -> None:
    """Run a loop's steps on threads; on the calling one if there is one only, or one step.
    `cyclic`, and `rows` or None: what its pragmas say."""
    from .stmt import range_loop

    plan, module = f.workspace, f.module
    low, count = index(f, s.min), index(f, s.extent)
    name = module.unique(f"{f.name}.parallel")
    slots = list(plan.regions.get(id(s), ()))
    used = [v for v in used_variables(f, s.body) if v not in slots]
    variables = [v for v in used if variable_value(f, v)[1][0] == "%"]
    for data in slots:  # a slot's pointer is the thread's own: it has a value only when passed
        f.env[data] = "%slot"
        f.align[data] = 64
        module.pointer_notes[data] = " noalias align 64"
    child, params, _ = outline(f, name, [*used, *slots])
    for data in slots:
        del f.env[data]
    child.in_parallel = True
    turned = "" if cyclic else _turned(f)
    range_loop(child, s, "%low", "%high", "1", "%turned" if turned else "")
    child.line("ret i32 0")
    bounds = ["i64 %low", "i64 %high", *["i64 %turned"] * bool(turned)]
    module.add(child.text(f"internal i32 @{name}({', '.join(params + bounds)})", "noinline #0"))
    homes = "1" if cyclic else "0" if rows is None else f.op(f"sub i32 0, {f.expr(rows)}")
    if turned:
        homes = f.op(f"select i1 {f.op(f'icmp ne i64 {turned}, 0')}, i32 2, i32 0")
    code = _call_pool(f, s, name, variables, low, count, homes, turned)
    f.clobber()
    if child.can_fail:
        failed, fine = f.label("failed"), f.label("fine")
        f.branch_if(f.op(f"icmp ne i32 {code}, 0"), failed, fine)
        f.block(failed)
        f.leave(code)
        f.block(fine)


def _turned(f: Emitter) -> str:
    """Under the pragma parallel_there_and_back an operand that is -1 in odd steps of the loop
    around, and 0 in others."""
    if not f.turning or f.around is None:
        return ""
    kind, step, _ = variable_value(f, f.around)
    odd = f.op(f"trunc {kind} {step} to i1")
    return f.op(f"sext i1 {odd} to i64")


def _call_pool(
    f: Emitter,
    s: S.For,
    name: str,
    variables: list[E.Var],
    low: str,
    count: str,
    homes: str,
    turned: str,
) -> str:
    """Store what the threads need, run the loop, and return the error code that it leaves."""
    needed = list(dict.fromkeys([*variables, *slot_variables(f.workspace, id(s))]))
    values = [variable_value(f, v) for v in needed]
    fields = [("i64", low), *((k, v) for k, v, _ in values), ("i32", "0")]
    fields += [("i64", turned)] * bool(turned)
    record = "{ " + ", ".join(k for k, _ in fields) + " }"
    context = f.alloca(f"{record}, align 64")
    for i, (kind, value) in enumerate(fields):
        f.line(f"store {kind} {value}, ptr {_field(f, record, context, i)}")
    task = _task(f, s, name, record, variables, needed, bool(turned))
    site = f"@{name}.time"
    f.module.globals.append(f"{site} = internal global double 0.0")
    f.module.declare("declare i32 @tw_parallel(ptr, ptr, i64, i32, i32, ptr)")
    loop = f"ptr @{task}, ptr {context}, i64 {count}, i32 {f.env[THREADS]}"
    return f.effect(f"call i32 @tw_parallel({loop}, i32 {homes}, ptr {site})")


def _field(f: Emitter, record: str, context: str, number: int) -> str:
    return f.op(f"getelementptr inbounds {record}, ptr {context}, i32 0, i32 {number}")


def _first(t: Emitter, code: str, kept: str) -> str:
    """The code of the step that fails first of all threads' (`kept`, 0 before), where this one has
    failed. What a Python function raised that comes later is dropped."""
    failed, late, out = t.label("failed"), t.label("late"), t.label("out")
    before = t.label("before")
    t.branch(before)
    t.block(before)
    t.branch_if(t.op(f"icmp ne i32 {code}, 0"), failed, out)
    t.block(failed)
    swap = t.effect(f"cmpxchg ptr {kept}, i32 0, i32 {code} monotonic monotonic")
    old = t.op(f"extractvalue {{ i32, i1 }} {swap}, 0")
    t.branch_if(t.op(f"icmp ne i32 {old}, 0"), late, out)
    t.block(late)
    t.line(f"call i32 @tw_call_packed(ptr null, ptr null, i32 {code})")
    t.branch(out)
    t.block(out)
    ways = f"[ {code}, %{before} ], [ {code}, %{failed} ], [ {old}, %{late} ]"
    return t.effect(f"phi i32 {ways}")


def _task(
    f: Emitter,
    s: S.For,
    name: str,
    record: str,
    variables: list[E.Var],
    needed: list[E.Var],
    turns: bool,
) -> str:
    """What the pool calls with a range of steps: read the context, run the steps."""
    module = f.module
    t = f.child(f"{name}.task")
    t.align, t.workspace = f.align, f.workspace
    low = t.effect(f"load i64, ptr {_field(t, record, '%context', 0)}")
    for i, var in enumerate(needed):
        kind, _, is_wide = variable_value(f, var)
        value = t.effect(f"load {kind}, ptr {_field(t, record, '%context', i + 1)}")
        (t.wide if is_wide else t.env)[var] = value
    args = [f"{k} {v}" for k, v, _ in (variable_value(t, x) for x in variables)]
    thread = t.extend("%thread", "int32")
    args += [f"ptr {p}" for _, p in slot_pointers(t, f.workspace, id(s), thread)]
    args += [f"i64 {add64(t, low, x)}" for x in ("%begin", "%end")]
    if turns:
        place = _field(t, record, "%context", len(needed) + 2)
        args.append(f"i64 {t.effect(f'load i64, ptr {place}')}")
    code = t.effect(f"call i32 @{name}({', '.join(args)})")
    if CALL_PACKED in module.declarations:
        code = _first(t, code, _field(t, record, "%context", len(needed) + 1))
    t.line(f"ret i32 {code}")
    params = "ptr %context, i64 %begin, i64 %end, i32 %thread"
    module.add(t.text(f"internal i32 @{t.name}({params})", "#0"))
    return t.name
