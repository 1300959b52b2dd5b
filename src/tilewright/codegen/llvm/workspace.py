"""Where a function's allocations live: on the stack, in a workspace taken at entry, or on the heap.

Small ones of constant size are stack slots, the smallest first, which LLVM turns into registers
where it can: of memory that the caller knows it would keep the last values, too, and registers for
these. Others whose size is known at entry share one block of memory, taken there; those inside a
parallel loop have a slice of it for each thread. What depends on a loop variable is taken and freed
where it stands.

The C library gives the memory of large blocks back to the system when they are freed, and each call
would touch every page of its workspace for the first time, which takes longer than many a kernel:
one large block is kept in the process (`tw_workspace`, see rt/workspace.py), with its size in front
of it. Whoever takes it leaves nothing there, so that calls at the same time have their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...base.aligned import ALIGNMENT
from ...base.dtype import parse
from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.visit import free_vars
from .emitter import Emitter
from .index import add64, index, mul64

STACK_BYTES = 64 << 10
KEPT_FROM, KEPT_TO = 4 << 20, 512 << 20
DECLARE_TAKE = "declare noalias ptr @aligned_alloc(i64 allocalign, i64)"
WORKSPACE, SLICE, THREADS = (
    E.Var("workspace", "handle"),
    E.Var("slice", "int64"),
    E.Var("threads", "int32"),
)


@dataclass
class Plan:
    """The allocations of one function by place; `regions` by the id of the parallel loop. `bytes`:
    the operand that says how large the workspace is."""

    stack: set[E.Var] = field(default_factory=set)
    serial: dict[E.Var, S.Allocate] = field(default_factory=dict)
    regions: dict[int, dict[E.Var, S.Allocate]] = field(default_factory=dict)
    offsets: dict[tuple[int, E.Var], str | E.Var] = field(default_factory=dict)
    has_parallel: bool = False
    bytes: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.serial and not any(self.regions.values())


def runs_parallel(s: S.For) -> bool:
    """Whether a loop is worth threads: parallel, and not known to have one step at most."""
    return s.kind == S.ForKind.PARALLEL and not (
        isinstance(s.extent, E.IntImm) and s.extent.value <= 1
    )


def make_plan(body: S.Stmt, known: set[E.Var], limit: int = STACK_BYTES) -> Plan:
    """Decide for each allocation of a function; `known`: variables that have values at entry."""
    plan = Plan()
    found: list[tuple[S.Allocate, int]] = []
    stack: list[tuple[S.Stmt, int]] = [(body, 0)]
    while stack:
        s, region = stack.pop()
        if isinstance(s, S.For):
            if region == 0 and runs_parallel(s):
                region = id(s)
                plan.has_parallel = True
                plan.regions.setdefault(region, {})
            stack.append((s.body, region))
        elif isinstance(s, S.Allocate):
            found.append((s, region))
            stack.append((s.body, region))
        elif isinstance(s, S.SeqStmt):
            stack.extend((x, region) for x in reversed(s.seq))
        elif isinstance(s, S.IfThenElse):
            stack.append((s.then_case, region))
            if s.else_case is not None:
                stack.append((s.else_case, region))
        elif isinstance(s, (S.LetStmt, S.AttrStmt, S.AssertStmt, S.While)):
            stack.append((s.body, region))
    _place(plan, found, known, limit)
    return plan


def constant_bytes(s: S.Allocate) -> int | None:
    """Bytes of an allocation, None if they are not constant."""
    t = parse(s.buffer.dtype)
    total = t.nbytes * t.lanes
    for extent in s.buffer.shape:
        if not isinstance(extent, E.IntImm):
            return None
        total *= max(extent.value, 0)
    return total


def _place(plan: Plan, found: list[tuple[S.Allocate, int]], known: set[E.Var], limit: int) -> None:
    """Allocations, each with its parallel loop (0: none), on the stack or in the workspace."""
    used: dict[int, int] = {}
    sized = [(size, s, region) for s, region in found if (size := constant_bytes(s)) is not None]
    for size, s, region in sorted(sized, key=lambda one: one[0]):
        used[region] = used.get(region, 0) + size
        if used[region] <= limit:
            plan.stack.add(s.buffer.data)
    for s, region in found:
        data = s.buffer.data
        if data not in plan.stack and all(v in known for e in s.buffer.shape for v in free_vars(e)):
            (plan.regions[region] if region else plan.serial)[data] = s


def emit_bytes(f: Emitter, s: S.Allocate) -> str:
    """Bytes of an allocation, rounded up to the alignment, as an i64 operand."""
    size = constant_bytes(s)
    if size is not None:
        return str(-(-max(size, 1) // ALIGNMENT) * ALIGNMENT)
    t = parse(s.buffer.dtype)
    total = str(t.nbytes * t.lanes)
    for extent in s.buffer.shape:
        total = mul64(f, total, index(f, extent))
    f.module.declare("declare i64 @llvm.smax.i64(i64, i64)")
    total = f.op(f"call i64 @llvm.smax.i64(i64 {total}, i64 1)")
    return f.op(f"and i64 {add64(f, total, str(ALIGNMENT - 1))}, {-ALIGNMENT}")


def take_workspace(f: Emitter, plan: Plan) -> str:
    """In the entry function: allocate, give each serial allocation its pointer and each of a
    thread's slice its offset (both in `f.env`); returns the block's pointer, empty if none is
    needed."""
    if plan.is_empty:
        return ""
    serial: list[tuple[E.Var, str]] = []
    total = "0"
    for data, s in plan.serial.items():
        serial.append((data, total))
        total = add64(f, total, emit_bytes(f, s))
    slice_bytes = "0"
    for region, slots in plan.regions.items():
        end = "0"
        for data, s in slots.items():
            plan.offsets[region, data] = _as_offset(f, end)
            end = add64(f, end, emit_bytes(f, s))
        slice_bytes = _larger(f, slice_bytes, end)
    whole = total
    if slice_bytes != "0":
        whole = add64(f, total, mul64(f, slice_bytes, f.extend(f.env[THREADS], "int32")))
    block = _take_kept(f, whole)
    for data, offset in serial:
        f.env[data] = f.op(f"getelementptr inbounds i8, ptr {block}, i64 {offset}")
        f.align[data] = ALIGNMENT
    if slice_bytes != "0":
        f.env[WORKSPACE] = f.op(f"getelementptr inbounds i8, ptr {block}, i64 {total}")
        f.wide[SLICE] = slice_bytes
    plan.bytes = whole
    return block


_TAKE = f"""define internal noalias ptr @tw.take(i64 %size) noinline nounwind {{
  %above = icmp ugt i64 %size, {KEPT_FROM}
  %below = icmp ule i64 %size, {KEPT_TO}
  %large = and i1 %above, %below
  br i1 %large, label %kept, label %plain
plain:
  %small = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 %size)
  ret ptr %small
kept:
  %cell = load ptr, ptr @tw_workspace
  %old = atomicrmw xchg ptr %cell, ptr null acquire
  %none = icmp eq ptr %old, null
  br i1 %none, label %new, label %look
look:
  %room = load i64, ptr %old
  %fits = icmp uge i64 %room, %size
  br i1 %fits, label %found, label %drop
drop:
  call void @free(ptr %old)
  br label %new
new:
  %whole = add i64 %size, {ALIGNMENT}
  %made = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 %whole)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %nothing, label %note
nothing:
  ret ptr null
note:
  store i64 %size, ptr %made
  br label %found
found:
  %block = phi ptr [ %old, %look ], [ %made, %note ]
  %start = getelementptr inbounds i8, ptr %block, i64 {ALIGNMENT}
  ret ptr %start
}}"""
_GIVE = f"""define internal void @tw.give(ptr %start, i64 %size) noinline nounwind {{
  %none = icmp eq ptr %start, null
  br i1 %none, label %end, label %given
given:
  %above = icmp ugt i64 %size, {KEPT_FROM}
  %below = icmp ule i64 %size, {KEPT_TO}
  %large = and i1 %above, %below
  br i1 %large, label %kept, label %plain
plain:
  call void @free(ptr %start)
  ret void
kept:
  %cell = load ptr, ptr @tw_workspace
  %block = getelementptr inbounds i8, ptr %start, i64 -{ALIGNMENT}
  %old = atomicrmw xchg ptr %cell, ptr %block acq_rel
  call void @free(ptr %old)
  br label %end
end:
  ret void
}}"""


def _take_kept(f: Emitter, size: str) -> str:
    """A block of `size` bytes, perhaps the one that is kept; the function fails without."""
    for text in (
        DECLARE_TAKE,
        "declare void @free(ptr)",
        "@tw_workspace = external global ptr",
    ):
        f.module.declarations[text] = None
    f.module.definitions += [x for x in (_TAKE, _GIVE) if x not in f.module.definitions]
    return _checked(f, f"call noalias align {ALIGNMENT} ptr @tw.take(i64 {size})")


def give(f: Emitter, block: str, size: str, code: str) -> None:
    """What `take_workspace` took goes back, unless the code to return says that a Python function
    keeps a view of it."""
    block = f.unless_kept(block, code)
    f.line(f"call void @tw.give(ptr {block}, i64 {size})")


def take(f: Emitter, size: str) -> str:
    """A new block of `size` bytes (a multiple of the alignment); the function fails without."""
    f.module.declare(DECLARE_TAKE)
    return _checked(
        f, f"call noalias align {ALIGNMENT} ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {size})"
    )


def _checked(f: Emitter, call: str) -> str:
    block = f.effect(call)
    failed, fine = f.label("nomem"), f.label("taken")
    f.branch_if(f.op(f"icmp eq ptr {block}, null"), failed, fine)
    f.block(failed)
    f.leave(str(f.module.message("out of memory: the workspace of a compiled function") + 1))
    f.block(fine)
    return block


def slot_pointers(f: Emitter, plan: Plan, region: int, thread: str) -> list[tuple[E.Var, str]]:
    """Pointers of a parallel loop's allocations in the slice of a thread (an i64 operand)."""
    slots = plan.regions.get(region)
    if not slots:
        return []
    start = mul64(f, f.wide[SLICE], thread)
    base = f.op(f"getelementptr inbounds i8, ptr {f.env[WORKSPACE]}, i64 {start}")
    pointers = []
    for data in slots:
        offset = plan.offsets[region, data]
        at = offset if isinstance(offset, str) else f.wide[offset]
        pointers.append((data, f.op(f"getelementptr inbounds i8, ptr {base}, i64 {at}")))
    return pointers


def slot_variables(plan: Plan, region: int) -> list[E.Var]:
    """What a thread needs to find its slice."""
    if not plan.regions.get(region):
        return []
    offsets = (plan.offsets[region, data] for data in plan.regions[region])
    return [WORKSPACE, SLICE, *(v for v in offsets if isinstance(v, E.Var))]


def _as_offset(f: Emitter, operand: str) -> str | E.Var:
    if operand[0] != "%":
        return operand
    var = E.Var("offset", "int64")
    f.wide[var] = operand
    return var


def _larger(f: Emitter, a: str, b: str) -> str:
    if a[0] != "%" and b[0] != "%":
        return str(max(int(a), int(b)))
    f.module.declare("declare i64 @llvm.smax.i64(i64, i64)")
    return f.op(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")
