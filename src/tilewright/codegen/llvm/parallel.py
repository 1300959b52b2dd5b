"""Functions cut out of a function: its body behind the entry, and the bodies of parallel loops.

A cut-out function takes what it uses as parameters, pointers `noalias`, so that LLVM needs no
metadata to tell arrays apart. A parallel loop's function runs a range of steps; OpenMP's
`GOMP_parallel` calls a small function on each thread that works out its range. Steps are divided
into one contiguous part a thread (or dealt out in turn, with the pragma parallel_stride_pattern).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.visit import walk
from .emitter import Emitter
from .index import add64, index
from .workspace import THREADS, slot_pointers, slot_variables


def used_variables(f: Emitter, node: Any) -> list[E.Var]:
    """Variables with a value in `f` that a statement uses, in order of first use."""
    found: dict[E.Var, None] = {}
    for x in walk(node):
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
    child = Emitter(f.module, name)
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


def parallel_loop(f: Emitter, s: S.For, cyclic: bool) -> None:
    """Run a loop's steps on threads; on the calling one if there is one only, or one step."""
    from .stmt import range_loop

    plan, module = f.workspace, f.module
    low, count = index(f, s.min), index(f, s.extent)
    name = module.unique(f"{f.name}.parallel")
    slots = list(plan.regions.get(id(s), ()))
    used = [v for v in used_variables(f, s.body) if v not in slots]
    variables = [v for v in used if variable_value(f, v)[1][0] == "%"]
    inner = [*used, *slots]
    for data in slots:  # a slot's pointer is the thread's own: it has a value only when passed
        f.env[data] = "%slot"
        f.align[data] = 64
        module.pointer_notes[data] = " noalias align 64"
    child, params, _ = outline(f, name, inner)
    for data in slots:
        del f.env[data]
    child.in_parallel = True
    bounds = ["i64 %low", "i64 %high", "i64 %step"]
    range_loop(child, s, "%low", "%high", "%step" if cyclic else "1")
    child.line("ret i32 0")
    module.add(child.text(f"internal i32 @{name}({', '.join(params + bounds)})", "noinline #0"))
    _launch(f, s, name, variables, low, count, child.can_fail, cyclic)


def _launch(
    f: Emitter,
    s: S.For,
    name: str,
    variables: list[E.Var],
    low: str,
    count: str,
    can_fail: bool,
    cyclic: bool,
) -> None:
    high = add64(f, low, count)
    several = f.op(f"icmp sgt i32 {f.env[THREADS]}, 1")
    if count[0] == "%":
        several = f.op(f"and i1 {several}, {f.op(f'icmp sgt i64 {count}, 1')}")
    threads, alone, after = f.label("threads"), f.label("alone"), f.label("joined")
    f.branch_if(several, threads, alone)
    f.block(threads)
    with f.scope():
        first = _call_threads(f, s, name, variables, low, high, cyclic)
    f.branch(after)
    f.block(alone)
    with f.scope():
        own = [f"ptr {p}" for _, p in slot_pointers(f, f.workspace, id(s), "0")]
        args = [f"{k} {v}" for k, v, _ in (variable_value(f, x) for x in variables)]
        given = ", ".join([*args, *own, f"i64 {low}", f"i64 {high}", "i64 1"])
        second = f.effect(f"call i32 @{name}({given})")
    f.branch(after)
    f.block(after)
    f.clobber()
    if can_fail:
        code = f.effect(f"phi i32 [ {first}, %{threads} ], [ {second}, %{alone} ]")
        failed, fine = f.label("failed"), f.label("fine")
        f.branch_if(f.op(f"icmp ne i32 {code}, 0"), failed, fine)
        f.block(failed)
        f.leave(code)
        f.block(fine)


def _call_threads(
    f: Emitter, s: S.For, name: str, variables: list[E.Var], low: str, high: str, cyclic: bool
) -> str:
    """Store what the threads need, start them, and return the error code they leave."""
    needed = list(dict.fromkeys([*variables, *slot_variables(f.workspace, id(s))]))
    values = [variable_value(f, v) for v in needed]
    record = "{ " + ", ".join(["i32", "i64", "i64", *(k for k, _, _ in values)]) + " }"
    context = f.alloca(f"{record}, align 64")
    f.line(f"store i32 0, ptr {context}")
    fields = [("i64", low), ("i64", high), *((k, v) for k, v, _ in values)]
    for i, (kind, value) in enumerate(fields):
        f.line(f"store {kind} {value}, ptr {_field(f, record, context, i + 1)}")
    start = _thread_function(f, s, name, record, variables, needed, cyclic)
    f.module.declare("declare void @GOMP_parallel(ptr, ptr, i32, i32)")
    f.line(f"call void @GOMP_parallel(ptr @{start}, ptr {context}, i32 {f.env[THREADS]}, i32 0)")
    return f.effect(f"load i32, ptr {context}")


def _field(f: Emitter, record: str, context: str, number: int) -> str:
    return f.op(f"getelementptr inbounds {record}, ptr {context}, i32 0, i32 {number}")


def _thread_function(
    f: Emitter,
    s: S.For,
    name: str,
    record: str,
    variables: list[E.Var],
    needed: list[E.Var],
    cyclic: bool,
) -> str:
    """What GOMP_parallel calls on each thread: read the context, take a share, run it."""
    module = f.module
    t = Emitter(module, f"{name}.thread")
    t.align, t.workspace = f.align, f.workspace
    low = t.effect(f"load i64, ptr {_field(t, record, '%context', 1)}")
    high = t.effect(f"load i64, ptr {_field(t, record, '%context', 2)}")
    for i, var in enumerate(needed):
        kind, _, is_wide = variable_value(f, var)
        value = t.effect(f"load {kind}, ptr {_field(t, record, '%context', i + 3)}")
        (t.wide if is_wide else t.env)[var] = value
    module.declare("declare i32 @omp_get_thread_num()")
    module.declare("declare i32 @omp_get_num_threads()")
    thread = t.extend(t.effect("call i32 @omp_get_thread_num()"), "int32")
    team = t.extend(t.effect("call i32 @omp_get_num_threads()"), "int32")
    if cyclic:
        begin, end, step = t.op(f"add i64 {low}, {thread}"), high, team
    else:
        begin, end = _share(t, low, high, thread, team)
        step = "1"
    args = [f"{k} {v}" for k, v, _ in (variable_value(t, x) for x in variables)]
    own = [f"ptr {p}" for _, p in slot_pointers(t, f.workspace, id(s), thread)]
    given = ", ".join([*args, *own, f"i64 {begin}", f"i64 {end}", f"i64 {step}"])
    code = t.effect(f"call i32 @{name}({given})")
    failed, fine = t.label("failed"), t.label("fine")
    t.branch_if(t.op(f"icmp ne i32 {code}, 0"), failed, fine)
    t.block(failed)
    t.line(f"%kept = cmpxchg ptr %context, i32 0, i32 {code} monotonic monotonic")
    t.branch(fine)
    t.block(fine)
    t.line("ret void")
    module.add(t.text(f"internal void @{name}.thread(ptr %context)", "#0"))
    return f"{name}.thread"


def _share(t: Emitter, low: str, high: str, thread: str, team: str) -> tuple[str, str]:
    """The part of low..high of a thread: all parts differ by one step at most."""
    count = t.op(f"sub i64 {high}, {low}")
    each = t.op(f"sdiv i64 {count}, {team}")
    rest = t.op(f"srem i64 {count}, {team}")
    t.module.declare("declare i64 @llvm.smin.i64(i64, i64)")
    extra = t.op(f"call i64 @llvm.smin.i64(i64 {thread}, i64 {rest})")
    begin = t.op(f"add i64 {t.op(f'mul i64 {each}, {thread}')}, {extra}")
    begin = t.op(f"add i64 {begin}, {low}")
    one = t.op(f"zext i1 {t.op(f'icmp slt i64 {thread}, {rest}')} to i64")
    end = t.op(f"add i64 {t.op(f'add i64 {begin}, {each}')}, {one}")
    return begin, end
