"""The features of one finished candidate, read from its loop nest statement by statement.

This is the oracle for tilewright.auto_scheduler.features: it lowers the schedule to loops (before
any pass), walks them, and takes every box by trying all iterations. Nothing is shared with the
product but the order of the columns, which is written out here once more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.base.dtype import parse
from tilewright.driver.lower import schedule_to_func
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.copies import is_likely
from tilewright.loopir.effects import CallEffectKind, effect_of
from tilewright.loopir.iter import IterVar

OPS = [
    *(f"float_{k}" for k in ("mad", "addsub", "mul", "divmod", "cmp", "math_func", "other_func")),
    *(f"int_{k}" for k in ("mad", "addsub", "mul", "divmod", "cmp", "math_func", "other_func")),
    "bool_op",
    "select_op",
]
THREADS = [f"{kind}.{d}" for kind in ("blockIdx", "threadIdx") for d in "xyz"]
LINE = 64


class Loop:
    def __init__(self, var: Any, extent: int, kind: str, tag: str = "") -> None:
        self.var, self.extent, self.kind, self.tag = var, extent, kind, tag


class Store:
    def __init__(self, walker: Walker, s: S.BufferStore) -> None:
        self.buffer = s.buffer
        self.indices = s.indices
        self.value = s.value
        self.lets = dict(walker.lets)
        self.limits = dict(walker.limits)
        self.loops = [x for x in walker.loops if x.extent > 1]
        self.gpu = any(x.tag for x in walker.loops)
        self.step = walker.steps[-1] if walker.steps else 0


class Walker:
    """Collects stores with the loops around them."""

    def __init__(self) -> None:
        self.loops: list[Loop] = []
        self.steps: list[int] = []
        self.lets: dict[Any, Any] = {}
        self.limits: dict[Any, int] = {}
        self.stores: list[Store] = []
        self.allocated: dict[Any, list[Loop]] = {}

    def walk(self, s: Any) -> None:
        getattr(self, f"on_{type(s).__name__}", self.other)(s)

    def other(self, s: Any) -> None:
        if not isinstance(s, S.Evaluate):
            raise AssertionError(f"the oracle does not know {type(s).__name__}")

    def on_SeqStmt(self, s: Any) -> None:
        for part in s.seq:
            self.walk(part)

    def on_For(self, s: Any) -> None:
        self.inside(Loop(s.loop_var, number(s.extent), S.FOR_KINDS[s.kind]), s.body)

    def inside(self, loop: Loop, body: Any) -> None:
        self.loops.append(loop)
        self.walk(body)
        self.loops.pop()

    def on_AttrStmt(self, s: Any) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread"):
            tag = s.node.thread_tag if s.attr_key == "thread_extent" else "vthread"
            assert isinstance(s.node, IterVar)
            self.inside(Loop(s.node.var, number(s.value), "thread", tag), s.body)
        elif s.attr_key == "pragma_auto_unroll_max_step":
            self.steps.append(number(s.value))
            self.walk(s.body)
            self.steps.pop()
        else:
            self.walk(s.body)

    def on_Allocate(self, s: Any) -> None:
        self.allocated[s.buffer] = [x for x in self.loops if x.extent > 1]
        self.walk(s.body)

    def on_LetStmt(self, s: Any) -> None:
        self.lets[s.var] = s.value
        self.walk(s.body)

    def on_IfThenElse(self, s: Any) -> None:
        """Threads that a condition keeps out touch nothing."""
        before = dict(self.limits)
        c = s.condition
        if isinstance(c, E.LT) and any(x.var is c.a and x.tag for x in self.loops):
            self.limits[c.a] = number(c.b)
        self.walk(s.then_case)
        self.limits = before
        if s.else_case is not None and not is_likely(s.condition):  # else zeros beyond an edge
            self.walk(s.else_case)

    def on_BufferStore(self, s: Any) -> None:
        self.stores.append(Store(self, s))


def number(e: Any) -> int:
    """The value of an extent where all loops stand at 0."""
    return int(evaluate(e, {}))


BINARY = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
    E.Div: lambda a, b: a // b,
    E.Mod: lambda a, b: a % b,
    E.Min: np.minimum,
    E.Max: np.maximum,
}


class NoSum(Exception):
    """An index that depends on data."""


def evaluate(e: Any, values: dict[Any, Any]) -> Any:
    if isinstance(e, E.IntImm):
        return e.value
    if isinstance(e, E.Var):
        return values.get(e, 0)
    if isinstance(e, E.Cast):
        return evaluate(e.value, values)
    rule: Any = BINARY.get(type(e))
    if rule is None:
        raise NoSum
    return rule(evaluate(e.a, values), evaluate(e.b, values))


def variables(e: Any) -> set[Any]:
    if isinstance(e, E.Var):
        return {e}
    parts = e.args if isinstance(e, E.Call) else e.indices if isinstance(e, E.BufferLoad) else ()
    for name in ("a", "b", "value", "condition", "true_value", "false_value"):
        if hasattr(e, name) and isinstance(getattr(e, name), E.PrimExpr):
            parts = (*parts, getattr(e, name))
    return set().union(*(variables(p) for p in parts)) if parts else set()


# -- operations


def loads_in(e: Any, lets: dict[Any, Any]) -> bool:
    if isinstance(e, E.BufferLoad):
        return True
    return any(loads_in(p, lets) for p in below(e, lets))


def below(e: Any, lets: dict[Any, Any]) -> tuple[Any, ...]:
    if isinstance(e, E.Var):
        return (lets[e],) if e in lets else ()
    if isinstance(e, E.Call):
        return e.args
    if isinstance(e, (E.Select,)):
        return (e.condition, e.true_value, e.false_value)
    if isinstance(e, E.Cast):
        return (e.value,)
    if isinstance(e, E.Not):
        return (e.a,)
    return (e.a, e.b) if hasattr(e, "b") else ()


def count(e: Any, lets: dict[Any, Any], ops: dict[str, int], loads: list[Any]) -> None:
    if isinstance(e, E.BufferLoad):
        for index in e.indices:
            count(index, lets, dict(ops), loads)
        loads.append(e)
        return
    is_float = parse(e.dtype).is_float
    number = "float" if is_float else "int"
    if isinstance(e, (E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max)):
        if is_float or loads_in(e, lets):
            kind = "divmod"
            if isinstance(e, (E.Add, E.Sub)):
                kind = "addsub"
            elif isinstance(e, E.Mul):
                kind = "mul"
            elif isinstance(e, (E.Min, E.Max)):
                kind = "cmp"
            ops[f"{number}_{kind}"] += 1
    elif isinstance(e, (E.And, E.Or, E.Not)):
        ops["bool_op"] += 1
    elif isinstance(e, E.CmpOp):
        ops["float_cmp" if parse(e.a.dtype).is_float else "int_cmp"] += 1
    elif isinstance(e, E.Select) or (isinstance(e, E.Call) and e.op.name == "tir.if_then_else"):
        ops["select_op"] += 1
    elif isinstance(e, E.Call) and e.op.name != "tir.likely":
        kind = "math" if effect_of(e.op) <= CallEffectKind.Pure else "other"
        ops[f"{number}_{kind}_func"] += 1
    for part in below(e, lets):
        count(part, lets, ops, loads)


# -- accesses


class Access:
    def __init__(self, buffer: Any, kind: str) -> None:
        self.buffer, self.kind = buffer, kind
        self.tuples: list[Any] = []
        self.element = max(1, parse(buffer.dtype).bits * parse(buffer.dtype).lanes // 8)
        self.shape = [number(d) for d in buffer.shape]


class Row:
    """One statement and what is found out about it."""

    def __init__(self, store: Store, walker: Walker, packed: set[str]) -> None:
        self.store, self.loops, self.packed = store, store.loops, packed
        self.ops = dict.fromkeys(OPS, 0)
        loads: list[Any] = []
        count(store.value, store.lets, self.ops, loads)
        self.accesses: list[Access] = []
        self.touch(store.buffer, "write", store.indices)
        for load in loads:
            self.touch(load.buffer, "read", load.indices)
        self.walker = walker
        self.boxes = {a.buffer: self.box_sizes(a) for a in self.accesses}

    def touch(self, buffer: Any, kind: str, indices: Any) -> None:
        access = next((a for a in self.accesses if a.buffer is buffer), None)
        if access is None:
            access = Access(buffer, kind)
            self.accesses.append(access)
        if access.kind != kind:
            access.kind = "read_write"
        access.tuples.append(indices)

    def held(self, buffer: Any) -> set[Any]:
        """Variables of loops outside of the memory's life."""
        outer = self.walker.allocated.get(buffer, [])
        return {x.var for x in outer if not sees(buffer.scope_name, x)}

    def box_sizes(self, access: Access) -> list[list[int]]:
        """The size of the box in each dimension, for each level (the last: no loop)."""
        held = self.held(access.buffer)
        result = []
        for level in range(len(self.loops) + 1):
            moving = [x for x in self.loops[level:] if x.var not in held]
            result.append([self.size(access, d, moving) for d in range(len(access.shape))])
        return result

    def size(self, access: Access, d: int, moving: list[Loop]) -> int:
        low, high = math.inf, -math.inf
        for indices in access.tuples:
            used = variables(indices[d])
            grid = {}
            active = [x for x in moving if x.var in used]
            for k, loop in enumerate(active):
                shape = [1] * len(active)
                runs = min(loop.extent, self.store.limits.get(loop.var, loop.extent))
                shape[k] = runs
                grid[loop.var] = np.arange(runs).reshape(shape)
            try:
                values = np.asarray(evaluate(indices[d], grid))
            except NoSum:
                return access.shape[d]
            low, high = min(low, int(values.min())), max(high, int(values.max()))
        return min(int(high - low + 1), access.shape[d])

    def touched(self, access: Access, level: int) -> int:
        return math.prod(self.boxes[access.buffer][level])

    def bytes_at(self, level: int) -> int:
        return sum(self.touched(a, level) * a.element for a in self.accesses)

    def trips(self, level: int = 0) -> int:
        return math.prod(x.extent for x in self.loops[level:])

    def level_of(self, loop: Loop) -> int | None:
        return next((k for k, x in enumerate(self.loops) if x is loop), None)


def sees(scope: str, loop: Loop) -> bool:
    """Whether threads of a loop share memory of a scope."""
    rank = {"global": 0, "shared": 1, "warp": 2, "local": 3}[scope.split(".")[0]]
    return bool(loop.tag) and rank <= (0 if loop.tag.startswith("blockIdx") else 1)


# -- columns


def slow_features(
    sch: Any,
    args: Any,
    packed: set[str] = frozenset(),  # type: ignore[assignment]
) -> tuple[np.ndarray, list[str]]:
    """Feature rows (S, 164) of a finished schedule, and the names of the buffers stored to.

    packed: names of buffers whose elements lie in the order of the loops that read them.
    """
    walker = Walker()
    walker.walk(schedule_to_func(sch, args).body)
    last = {store.buffer: store for store in walker.stores}
    kept = [s for s in walker.stores if last[s.buffer] is s]
    rows = [Row(s, walker, packed) for s in kept]
    columns = [row_columns(row, rows[:k]) for k, row in enumerate(rows)]
    table = np.array([[math.log2(v + 1) for v in c] for c in columns])
    return table, [r.store.buffer.name for r in rows]


def row_columns(row: Row, earlier: list[Row]) -> list[float]:
    total = row.trips()
    columns = [row.ops[name] * float(total) for name in OPS]
    for kind in ("vectorized", "unroll", "parallel"):
        extents = [x.extent for x in row.loops if x.kind == kind]
        columns += [len(extents), math.prod(extents) if extents else 0]
        columns += [extents[-1] if extents else 0]
        columns += [0 if extents else 1, 0, 0, 0, 0, 0, 0, 1 if extents else 0]
    columns.append(row.store.gpu)
    for tag in [*THREADS, "vthread"]:
        columns.append(math.prod(x.extent for x in row.loops if x.tag == tag))
    columns += buffer_columns(row, earlier)
    columns += intensity(row)
    columns += allocation(row)
    columns += [total, len(row.loops), row.store.step]
    assert len(columns) == 164
    return [float(c) for c in columns]


def buffer_columns(row: Row, earlier: list[Row]) -> list[float]:
    found = [access_columns(row, a, earlier) for a in row.accesses]
    found.sort(key=lambda c: (-c[5], -c[3]))
    flat = [v for c in found[:5] for v in c]
    return flat + [0.0] * (90 - len(flat))


def access_columns(row: Row, access: Access, earlier: list[Row]) -> list[float]:
    loops, boxes = row.loops, row.boxes[access.buffer]
    total = row.trips()
    packed = access.buffer.name in row.packed
    sizes = [row.touched(access, k) for k in range(len(loops) + 1)]
    stride, inner, at_end = 0.0, 1, True
    for k in reversed(range(len(loops))):
        if sizes[k] > sizes[k + 1]:
            pace = offset(boxes[k], access.shape) - offset(boxes[k + 1], access.shape)
            if packed:
                pace = sizes[k] - sizes[k + 1]
            stride, inner = pace / (loops[k].extent - 1), row.trips(k + 1)
            at_end = k == len(loops) - 1
            break
    lines = max(1.0, total / inner * min(1.0, stride * access.element / LINE))
    unique = sizes[0] * access.element
    run = 1
    for size, extent in reversed(list(zip(boxes[0], access.shape))):
        run *= size
        if size < extent:
            break
    if packed:
        run = sizes[0]
    unique_lines = max(1.0, unique / min(run * access.element, LINE))
    kind, distance, spread, times = reuse(row, access, sizes, earlier)
    by = 1 / times if times > 0.5 else 2.0
    base = [total * access.element, unique, lines, unique_lines]
    return [
        *(float(access.kind == k) for k in ("read", "write", "read_write")),
        *base,
        *(float(kind == k) for k in ("loop", "serial", "none")),
        distance,
        spread,
        times,
        *(v * by for v in base),
        stride if at_end else 0.0,
    ]


def offset(box: list[int], shape: list[int]) -> int:
    """How far the last element of a box lies behind its first in memory."""
    flat = 0
    for size, extent in zip(box, shape):
        flat = flat * extent + (size - 1)
    return flat


def reuse(
    row: Row, access: Access, sizes: list[int], earlier: list[Row]
) -> tuple[str, float, float, float]:
    loops = row.loops
    for k in reversed(range(len(loops))):
        beside = [(r, level) for r in earlier if (level := r.level_of(loops[k])) is not None]
        same = [
            (r.touched(a, level), a)
            for r, level in beside
            for a in r.accesses
            if a.buffer is access.buffer
        ]
        if sizes[k] == sizes[k + 1]:
            return "loop", row.trips(k + 1), around(row, earlier, k + 1), loops[k].extent
        if same:
            least = min([sizes[k], *(size for size, _ in same)])
            extent = loops[k].extent
            return "serial", least / extent, around(row, earlier, k) / extent, len(same)
    return "none", 0.0, 0.0, 0.0


def around(row: Row, earlier: list[Row], level: int) -> int:
    """Bytes that run through at a level, by statements up to this one."""
    total = row.bytes_at(level)
    if level < len(row.loops):
        for other in earlier:
            there = other.level_of(row.loops[level])
            if there is not None:
                total += other.bytes_at(there)
    return total


def intensity(row: Row) -> list[float]:
    flops = sum(row.ops[name] for name in OPS[:7])
    if flops == 0:
        return [0.0] * 10
    levels = range(len(row.loops), -1, -1)
    x = [math.log2(flops * row.trips(k)) for k in levels]
    y = [ops / math.log2(row.bytes_at(k) + 1) for ops, k in zip(x, levels)]
    return [float(np.interp(x[-1] * (k + 1) / 10, x, y)) for k in range(10)]


def allocation(row: Row) -> list[float]:
    buffer = row.store.buffer
    if buffer not in row.walker.allocated:
        return [0.0] * 4
    outer = math.prod(x.extent for x in row.walker.allocated[buffer])
    elements = math.prod(number(d) for d in buffer.shape)
    element = max(1, parse(buffer.dtype).bits * parse(buffer.dtype).lanes // 8)
    return [elements * element, outer, row.trips() / outer, elements * outer]
