"""Whether what was refused is legal: by dependences, judged without the compiler's own analyses.

Only facts are read that the user wrote: the tensor program (which operation reads which tensor,
where), and what the schedule says (loops and how they were made, where stages are attached, scopes,
bindings). A schedule is legal unless a rule below is broken:

Primitives, where they are called:
- `split`, `tile`, `unroll`, `pragma`, `prefetch`, `vectorize`, `parallel`, `bind`, `tensorize`,
  `reorder`, `fuse`, `rfactor` take loops that are still loops; legal on each such loop, but:
  a loop of which was said how it runs (unrolled, bound, ...) is not split and fused any more;
  `fuse` takes loops that follow each other, of one kind; `reorder` and `fuse` take each loop once;
  `vectorize` and `parallel` take no loop of a reduction, whose steps depend on each other;
  one loop has one binding, and one thread axis one loop of a stage; `rfactor` takes a loop of a
  reduction that mixes no data axes, `tensorize` a loop of a compute operation.
- `compute_at`, `compute_inline`, `double_buffer`, `rolling_buffer` and `set_scope` move and keep
  what is computed for others: no input, no output. `compute_at` takes a loop of another stage of
  its group; `compute_inline` an expression: no reduction, one result, read by compute operations.
- `transform_layout` speaks of the indices of the tensor, before its loops are split, fused or
  reordered, once; a scan's states lie in the scan. `cache_write` and `cache_read` take tensors of
  compute operations, or those read by the given operation. Groups contain each other or are apart.

Whole schedules:
- A stage is computed in a loop that is there, of a stage that is computed; nothing is computed
  within itself; and all that read it stand within that loop (`inside`).
- What an extern operation hands to functions as a whole lies as it was declared, but for strides.
- On devices: a stage is run by threads, its own or those around it; what threads keep for
  themselves ("local", "warp") they compute alone; what a block shares is read in that kernel;
  memory within kernels is not "global". One launch has one number of threads, and of a scan those
  in `env_threads` (one, where it does not say). Blocks do not wait for each other between the steps
  of a scan's kernel: each has the same elements in all of them.

Not decided here, and counted apart: whether an intrinsic fits a stage that was changed after
`tensorize`, what fits the registers of a warp, and sizes of symbolic extents in device memory.
"""

from __future__ import annotations

from typing import Any

from tilewright.base.errors import ScheduleError
from tilewright.loopir.iter import IterVar
from tilewright.tensor.op import ComputeOp, ExternOp, PlaceholderOp, ScanOp

INLINE, SCOPE, SCAN_UPDATE = 2, 4, 5  # how a stage is attached (TVM's numbers)
UNDECIDED = "undecided: "
Call = tuple[str, Any, tuple[Any, ...], dict[str, Any]]


def judging(s: Any, verdicts: list[tuple[str, str | None]]) -> None:
    """From now on each call of a primitive that is refused adds its name to `verdicts`, with the
    rule that it breaks, or None."""
    old = s.record

    def record(name: str, target: Any, function: Any, args: Any, kwargs: Any) -> Any:
        try:
            return old(name, target, function, args, kwargs)
        except ScheduleError:
            verdicts.append((name, broken_by_call(s, (name, target, args, kwargs))))
            raise

    s.record = record


# ---- primitives


def broken_by_call(s: Any, call: Call) -> str | None:
    """The rule that a call of a primitive breaks, or None."""
    name, stage, args, kwargs = call
    if name == "create_group":
        return "groups overlap in part"
    if name in ("cache_read", "cache_write", "rfactor"):
        return _on_tensors(s, name, args, kwargs)
    loops = [a for a in args if isinstance(a, IterVar) and not a.thread_tag]
    if name in ("compute_at", "compute_inline", "compute_root"):
        return _on_place(s, name, stage, args)
    if name in ("double_buffer", "rolling_buffer", "set_scope"):
        plain = isinstance(stage.op, PlaceholderOp) or stage.is_output
        return "only what is computed for others is kept" if plain else None
    if name == "transform_layout":
        return _on_layout(s, stage)
    if name == "storage_align":
        own = any(loops[0] is a for a in stage.op.axis)
        return None if own else "storage_align takes a dimension of the tensor"
    if any(not _is_loop(stage, a) for a in loops):
        return "there is no such loop any more"
    if len({id(a) for a in loops}) < len(loops):
        return "a loop is named twice"
    return _on_loops(stage, name, loops, args)


def _is_loop(stage: Any, axis: Any) -> bool:
    return any(axis is a for a in stage.leaf_iter_vars)


def _on_loops(stage: Any, name: str, loops: list[Any], args: tuple[Any, ...]) -> str | None:
    kinds = {a.iter_type for a in loops}
    if name in ("split", "tile", "fuse") and any(_said(stage, a) for a in loops):
        return "a loop of which was said how it runs stays one"
    if name == "fuse":
        where = [list(stage.leaf_iter_vars).index(a) for a in loops]
        if where != list(range(where[0], where[0] + len(where))) if where else False:
            return "loops that are fused follow each other"
        return "loops that are fused are of one kind" if len(kinds) > 1 else None
    if name in ("vectorize", "parallel", "unroll") and _bound(stage, loops[0]) is not None:
        return "one loop has one binding"
    if name in ("vectorize", "parallel") and IterVar.CommReduce in kinds:
        return "steps of a reduction depend on each other"
    if name == "bind":
        tag = args[1].thread_tag
        tags = [_bound(stage, a) for a in stage.leaf_iter_vars]
        twice = tag in tags and tag not in ("vthread", "cthread")
        if twice or _bound(stage, loops[0]) is not None:
            return "one thread axis has one loop of a stage"
    if name == "tensorize" and not isinstance(stage.op, ComputeOp):
        return "tensorize takes a compute operation"
    return None


def _bound(stage: Any, axis: Any) -> str | None:
    attrs = stage.attrs.get(axis)
    thread = None if attrs is None else attrs.bind_thread
    return None if thread is None else str(thread.thread_tag)


def _said(stage: Any, axis: Any) -> bool:
    """Whether a loop is unrolled, vectorised, parallel, bound or tensorised."""
    attrs = stage.attrs.get(axis)
    if attrs is None:
        return False
    return any(x is not None for x in (attrs.iter_type, attrs.bind_thread, attrs.tensor_intrin))


def _on_tensors(s: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    given = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
    stage = s[given[0]]
    if name == "rfactor":
        axis = args[1]
        if not isinstance(stage.op, ComputeOp) or not stage.op.reduce_axis:
            return "rfactor takes a reduction"
        if axis.iter_type != IterVar.CommReduce or not _is_loop(stage, axis):
            return "rfactor takes a loop of the reduction"
        if any(_mixes(stage, a) for a in stage.leaf_iter_vars):
            return "rfactor takes a loop that mixes no data axes"
        place = args[2] if len(args) > 2 else kwargs.get("factor_axis", 0)
        rank = len(stage.op.axis)
        return None if -rank - 1 <= place <= rank else "there is no such dimension"
    if name == "cache_write" and not isinstance(stage.op, ComputeOp):
        return "cache_write takes a compute operation"
    if name == "cache_write" and len(given) != len(stage.op.outputs):
        return "cache_write takes all results of an operation"
    if stage.layout is not None:
        return "the layout was given to the tensor as it is"
    return None


def _mixes(stage: Any, axis: Any) -> bool:
    made = {id(c): r for r in stage.relations for c in r.children}
    kinds, todo = set(), [axis]
    while todo:
        a = todo.pop()
        relation = made.get(id(a))
        if relation is None:
            kinds.add(a.iter_type)
        else:
            todo.extend(relation.parents)
    return len(kinds) > 1


def _on_place(s: Any, name: str, stage: Any, args: tuple[Any, ...]) -> str | None:
    if not stage.is_group:
        if stage.attach_type == SCAN_UPDATE or _in_scan(s, stage):
            return "the states of a scan are computed in the scan"
        if isinstance(stage.op, PlaceholderOp) or stage.is_output:
            return "inputs and outputs stay where they are"
    if name == "compute_at":
        parent, axis = args[0], args[1]
        if parent is stage or parent.group is not stage.group:
            return "compute_at takes a loop of another stage of the group"
        return None if any(axis is a for a in parent.axes) else "there is no such loop"
    if name == "compute_inline":
        plain = isinstance(stage.op, ComputeOp) and not stage.op.reduce_axis
        readers = [r for t in stage.op.outputs for r in s.consumers().get(t, [])]
        if not plain or len(stage.op.outputs) > 1:
            return "compute_inline takes an expression with one result"
        if not all(isinstance(r.op, ComputeOp) for r in readers):
            return "an expression is put into compute operations"
    return None


def _in_scan(s: Any, stage: Any) -> bool:
    states = [t for x in s.stages if isinstance(x.op, ScanOp) for t in (*x.op.update, *x.op.init)]
    return any(t in states for t in stage.op.outputs)


def _on_layout(s: Any, stage: Any) -> str | None:
    if stage.layout is not None:
        return "the layout is given once"
    if isinstance(stage.op, PlaceholderOp):
        return None
    if not isinstance(stage.op, ComputeOp) or _in_scan(s, stage):
        return "transform_layout takes a compute operation or an input"
    changed = bool(stage.relations) or list(stage.leaf_iter_vars[: len(stage.op.axis)]) != list(
        stage.op.axis
    )
    return "the loops were changed before the layout" if changed else None


# ---- whole schedules


def broken_by_schedule(s: Any, device: str, symbolic: bool) -> str | None:
    """The rule that a schedule breaks, or None; one that begins with UNDECIDED is none."""
    for stage in s.stages:
        broken = _attachment(s, stage) or _extern(s, stage)
        if broken is None and device != "llvm":
            broken = _on_device(s, stage)
        if broken is not None:
            return broken
    if device != "llvm" and (broken := _launches(s)):
        return broken
    if any(a.tensor_intrin is not None for x in s.stages for a in x.attrs.values()):
        return UNDECIDED + "tensorize"
    if device != "llvm" and any(x.scope == "warp" for x in s.stages):
        return UNDECIDED + "memory of a warp"
    if device != "llvm" and symbolic:
        return UNDECIDED + "symbolic sizes in device memory"
    return None


def _placed(stage: Any) -> Any:
    """What says where a stage is computed: itself, or the innermost group around it that does."""
    where = stage
    while where.attach_type not in (SCOPE, INLINE, SCAN_UPDATE) and where.group is not None:
        where = where.group
    return where if where.attach_type == SCOPE else stage


def _path(stage: Any) -> list[tuple[Any, Any]] | None:
    """The loops around a stage, innermost first, with their stages; None where one lacks."""
    found: list[tuple[Any, Any]] = []
    seen: set[int] = set()
    while (stage := _placed(stage)).attach_type == SCOPE:
        holder, axis = stage.attach_stage, stage.attach_ivar
        if holder.id in seen or holder.attach_type == INLINE or not _is_loop(holder, axis):
            return None
        seen.add(holder.id)
        leaves = list(holder.leaf_iter_vars)
        at = next(n for n, a in enumerate(leaves) if a is axis)
        found += [(holder, a) for a in reversed(leaves[: at + 1])]
        stage = holder
    return found


def readers_of(s: Any, stage: Any) -> list[Any]:
    """The stages with loops that read a stage, through inlined ones."""
    table = s.consumers()
    found: dict[int, Any] = {}
    todo = [stage]
    while todo:
        for t in todo.pop().op.outputs:
            for r in table.get(t, []):
                if r.attach_type == INLINE:
                    todo.append(r)
                else:
                    found[r.id] = r
    return list(found.values())


def _attachment(s: Any, stage: Any) -> str | None:
    where = _placed(stage)
    if where.attach_type != SCOPE or stage.op is None:
        return None
    if stage.is_output:
        return "inputs and outputs stay where they are"
    if _path(stage) is None:
        return "computed in a loop that is not there"
    for reader in readers_of(s, stage):
        if not inside(reader, where.attach_stage, where.attach_ivar):
            return "read outside of the loop it is computed in"
    return None


def inside(reader: Any, holder: Any, axis: Any) -> bool:
    """Whether all that a stage reads, it reads within a loop of `holder`."""
    own = [(reader, a) for a in reader.leaf_iter_vars]
    around = [*own, *(_path(reader) or [])]
    if any(h is holder and a is axis for h, a in around):
        return True
    if reader.attach_type == SCAN_UPDATE:
        scan = reader.attach_stage
        return scan is not None and inside(scan, holder, axis)
    return False


def _extern(s: Any, stage: Any) -> str | None:
    if stage.op is None or stage.layout is None:
        return None
    readers = [r.op for r in readers_of(s, stage) if isinstance(r.op, ExternOp)]
    if any("call_packed" in str(op.body) for op in readers):
        return "a function gets its inputs as they were declared"
    return None


def _on_device(s: Any, stage: Any) -> str | None:
    if stage.op is None or stage.attach_type in (INLINE, SCAN_UPDATE):
        return None
    own = {_bound(stage, a) for a in stage.leaf_iter_vars} - {None, "vthread", "cthread"}
    around = {_bound(h, a) for h, a in _path(stage) or []} - {None, "vthread", "cthread"}
    scope = stage.scope.split(".")[0]
    if isinstance(stage.op, ComputeOp) and not own and not around and not _in_scan(s, stage):
        return "a stage that no thread runs"
    if scope in ("shared", "local", "warp") and not around and not _in_scan(s, stage):
        return "memory of a kernel that others read"
    if around and scope == "global":
        return "global memory within a kernel"
    private = scope in ("local", "warp") or (not scope and any("thread" in str(t) for t in around))
    if private and around and own:
        return "what a thread keeps for itself it computes alone"
    return None


def _launches(s: Any) -> str | None:
    """Whether kernels have threads of two numbers, or a scan others than it says. The steps of the
    loops of an attached stage are not counted here."""
    counts: dict[tuple[int, str], list[int]] = {}
    for stage in s.stages:
        if stage.op is None or stage.attach_type == INLINE:
            continue
        path = _path(stage) or []
        root = path[-1][0] if path else stage
        scan = next((x for x in s.stages if _updates(x, stage)), None)
        for axis in stage.leaf_iter_vars:
            tag = _bound(stage, axis)
            if tag is None or tag == "vthread":
                continue
            if scan is not None and scan.threads:
                broken = _of_env_threads(scan, stage, axis, tag)
                if broken is not None:
                    return broken
            count = _count(stage, axis) if stage is root else None
            key = (root.id if scan is None else scan.id, tag)
            counts.setdefault(key, []).append(-1 if count is None else count)
    for scan in s.stages:
        if isinstance(scan.op, ScanOp) and scan.threads and not _blocks_apart(s, scan):
            return "blocks of a scan's kernel do not wait for each other"
    if any(len(set(c) - {-1}) > 1 for c in counts.values()):
        return "one launch has one number of threads"
    unknown = [c for c in counts.values() if len(c) > 1 and -1 in c]
    return UNDECIDED + "numbers of threads" if unknown else None


def _of_env_threads(scan: Any, stage: Any, axis: Any, tag: str) -> str | None:
    """Whether a step of a scan is bound to threads that its kernel does not have."""
    named = [t for t in scan.threads if t.thread_tag == tag]
    if not named:
        return "a thread that env_threads does not name"
    steps, dom = _steps(stage, axis), named[0].dom
    launched = 1 if dom is None else getattr(dom.extent, "value", None)
    if steps is None or launched is None:
        return UNDECIDED + "numbers of threads"
    return "more threads than env_threads says" if steps > launched else None


def _updates(scan: Any, stage: Any) -> bool:
    """Whether a stage computes the steps of a scan."""
    return isinstance(scan.op, ScanOp) and any(t.op is stage.op for t in scan.op.update)


def _blocks_apart(s: Any, scan: Any) -> bool:
    """Whether in all that is computed from a scan's states, each block has the same elements."""
    states = {id(t) for t in scan.op.state_placeholder}
    readers = [x for x in s.stages if x.op and any(id(t) in states for t in x.op.input_tensors)]
    body = [x for x in readers if x.attach_type not in (INLINE, SCOPE)]
    body += [x for x in s.stages if _updates(scan, x)]
    for thread in scan.threads:
        tag = thread.thread_tag
        if tag.startswith("blockIdx"):
            bound = [[a for a in x.leaf_iter_vars if _bound(x, a) == tag] for x in body]
            if len({str([_made(x, a) for a in axes]) for x, axes in zip(body, bound)}) > 1:
                return False
    return True


def _made(stage: Any, axis: Any) -> Any:
    """How a loop was made of the axes of its operation, which have numbers."""
    for relation in stage.relations:
        for part in ("outer", "inner"):
            if hasattr(relation, "parent") and getattr(relation, part, None) is axis:
                how = str(relation.factor), str(relation.nparts)
                return part, *how, _made(stage, relation.parent)
        if getattr(relation, "fused", None) is axis:
            return _made(stage, relation.outer), _made(stage, relation.inner)
    return next((n for n, a in enumerate(stage.op.axis) if a is axis), None)


def _steps(stage: Any, axis: Any) -> int | None:
    """The number of steps of a loop over all of its operation's elements; None if symbolic."""
    for relation in stage.relations:
        if getattr(relation, "fused", None) is axis:
            outer, inner = _steps(stage, relation.outer), _steps(stage, relation.inner)
            return None if outer is None or inner is None else outer * inner
        if hasattr(relation, "parent") and any(axis is x for x in (relation.outer, relation.inner)):
            own = _count(stage, axis)
            other = relation.inner if axis is relation.outer else relation.outer
            whole, by = _steps(stage, relation.parent), _count(stage, other)
            return own or (None if whole is None or by is None else -(-whole // by))
    return getattr(getattr(axis.dom, "extent", None), "value", None)


def _count(stage: Any, axis: Any) -> int | None:
    """The number of steps of a loop, where the split that made it says so."""
    for relation in stage.relations:
        for name, part in (("factor", "inner"), ("nparts", "outer")):
            if getattr(relation, part, None) is axis:
                value = getattr(getattr(relation, name, None), "value", None)
                if value is not None:
                    return int(value)
    return None
