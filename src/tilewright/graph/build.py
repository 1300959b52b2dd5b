"""compile: from a graph to an executable."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ..auto_scheduler.history import ApplyHistoryBest, DispatchContext, FallbackContext
from ..base import config
from ..base.aligned import ALIGNMENT, Array, is_aligned
from ..base.errors import CompileError
from ..base.mapped import compact
from ..driver.build_device import join_units
from ..driver.build_module import BACKENDS
from ..driver.network import emit_entry
from ..rt.network import Executable
from ..rt.network_code import ObjectCode
from ..rt.open_sizes import OpenSizes, element_count
from ..rt.plan import KernelCall, Place, Tensor, Work, tensors
from ..target.target import Target
from ..topi.schedules.few_columns import most_columns
from ..topi.schedules.gpu.machine import LEAST_SIDE
from .compile_kernels import Progress, compile_kernels, compile_units
from .device import DeviceExecutable
from .ir import Graph, Node, Value
from .kernel import describe, symbols_of
from .limits import require
from .open import OpenExecutable
from .passes.attention import fuse_attention
from .passes.block_channels import block_channels
from .passes.channels_last import channels_last
from .passes.find_rolls import find_rolls
from .passes.fuse import Group, fuse_nodes
from .passes.fuse_rows import fuse_rows
from .passes.join_moves import join_moves
from .passes.known_divisors import know_divisors
from .passes.memory import DEVICE_ALIGN, Parts, Starts, lifetimes, plan_memory, views
from .passes.multiply_whole import multiply_whole
from .passes.narrow_floats import narrow_floats
from .passes.pack_dense import pack_dense
from .passes.pool_first import pool_first
from .passes.recurrent import recurrent
from .passes.reshapes import narrow_first, sink_reshapes
from .passes.siblings import merge_siblings
from .passes.simplify import (
    drop_identities,
    fold_batch_norm,
    fold_constants,
    merge_equal,
    multiply_powers,
    quantize_by_reciprocals,
)
from .passes.turn_products import turn_products
from .passes.whole_images import multiply_whole_images
from .passes.widen_floats import narrow_weights, widen_floats
from .passes.winograd import winograd
from .sizes import Symbols, dim_of
from .staged import StagedExecutable
from .team import Team
from .tuned import Layouts, Tuned, find_tuned, in_panels
from .work import LOOKS_UP, work_of

Network = Executable | DeviceExecutable | StagedExecutable | OpenExecutable
"""What a network is compiled to."""
PRECISIONS = ("float32", "float16", "bfloat16")


def optimize(graph: Graph, target: Target, dtype: str = "float32") -> Graph:
    """The passes that come before kernels are made; works on a copy."""
    graph = copy_graph(graph)
    fold_constants(graph)
    drop_identities(graph)
    merge_equal(graph)
    find_rolls(graph, along_last=_is_device(target))
    multiply_whole(graph)
    wide = _computed_wide(target)
    if dtype in wide:
        narrow_weights(graph, dtype)
    widen_floats(graph, wide)
    drop_identities(graph)
    fold_batch_norm(graph)
    pool_first(graph)
    multiply_whole_images(graph, not _is_device(target) or dtype != "float32")
    turn_products(graph)
    recurrent(graph, target)
    if _is_device(target) and graph.symbols is None:  # plans and clocks are those of known sizes
        merge_siblings(graph, target, dtype)
        fuse_attention(graph, target, dtype)
    fuse_rows(graph)
    if dtype != "float32" and dtype not in wide:
        narrow_floats(graph, dtype)
        narrow_first(graph)
    lanes = _block(target, dtype)
    if _is_device(target):
        channels_last(graph, target.capabilities.matrix_products)
        block_channels(graph, lanes, least=LEAST_SIDE if target.thread_warp_size > 1 else 0)
    else:
        block_channels(graph, lanes, target.dots, most_columns(lanes))
    if dtype == "float32" and not _is_device(target) and config.get("winograd"):
        winograd(graph)
    if _is_device(target) and target.thread_warp_size == 1:
        pack_dense(graph, lanes)  # warps reduce rows of weights together, CPUs read panels
    fold_constants(graph)
    multiply_powers(graph)
    if target.has_fma:
        quantize_by_reciprocals(graph)
    if not _is_device(target) and graph.symbols is None:  # its tiles are cut for known sizes
        fuse_attention(graph, target)
    know_divisors(graph)
    join_moves(graph)
    sink_reshapes(graph)
    drop_identities(graph)
    graph.drop_dead_nodes()
    return graph


def _computed_wide(target: Target) -> tuple[str, ...]:
    """Narrow floats that a target only converts, or computes with no faster than with float32: all
    of CPUs but what their instructions multiply."""
    if _is_device(target):
        return ()
    known = {dot.row for dot in target.dots}
    return tuple(t for t in PRECISIONS if t != "float32" and t not in known)


def _is_device(target: Target) -> bool:
    return "gpu" in target.keys


def _block(target: Target, dtype: str) -> int:
    """Channels of a block: a vector register of a CPU, the widest load of a GPU."""
    if _is_device(target):
        return 4 if dtype == "float32" else 8
    return max(4, target.vector_bytes // 4)


def copy_graph(graph: Graph) -> Graph:
    """The same network in new objects; constants share their data."""
    table: dict[Value, Value] = {}

    def twin(v: Value) -> Value:
        if v not in table:
            table[v] = Value(v.name, v.shape, v.dtype, v.data)
            table[v].recipe, table[v].default = v.recipe, v.default
        return table[v]

    inputs = [twin(v) for v in graph.inputs]
    nodes = [
        Node(
            n.op,
            n.name,
            [twin(v) for v in n.inputs],
            [twin(v) for v in n.outputs],
            copy.copy(n.attrs),
        )
        for n in graph.nodes
    ]
    return Graph(graph.name, inputs, [twin(v) for v in graph.outputs], nodes)


def compile(
    graph: Graph,
    target: Any = "llvm",
    *,
    dtype: str = "float32",
    records: Any = None,
    progress: Progress | None = None,
) -> Network:
    """Compile a network for a CPU ("llvm") or a device ("cuda", "opencl").

    `dtype` "float16" or "bfloat16" keeps weights in such numbers, and where the target multiplies
    them intermediate values, too (passes/widen_floats, passes/narrow_floats); inputs and outputs
    keep their types.

    `records`: a file that `tilewright tune` or a TaskScheduler wrote (or an ApplyHistoryBest; an
    active one if None). Kernels whose task it has get the fastest schedule recorded, others, and
    those for which none was faster, their default one.

    What of a network is only known while it runs is compiled then (staged.py).

    Kernels are compiled each once however often it occurs, many of them in several processes;
    `progress(done, total, name)` is called after each. Raises CompileError with the node's name
    where one cannot be compiled. Raises TargetError where `target` is no target, as text, dict or
    Target.
    """
    if not isinstance(graph, Graph):
        raise CompileError(
            f"graph.compile takes a Graph, which load_onnx or from_torch gives, not "
            f"{type(graph).__name__}; tilewright.compile takes models"
        )
    chosen = target_for(target, dtype)
    if graph.rest is not None:
        return StagedExecutable(graph, chosen, dtype, records, progress, compile)
    with Team(chosen) as team:
        team.expect(graph)
        return _compiled(graph, dtype, records, progress, team)


def _compiled(
    graph: Graph, dtype: str, records: Any, progress: Progress | None, team: Team
) -> Executable | DeviceExecutable:
    chosen, original = team.target, graph
    graph, groups = prepare(graph, chosen, dtype)
    groups, same = views(graph, groups, Starts.of(chosen))
    distinct, which = distinct_groups(groups)
    symbols = graph.symbols
    if symbols is not None:
        planned = (graph, original, symbols, groups, same, distinct, which)
        return _open_executable(*planned, team, progress)
    tuned = find_schedules(distinct, chosen, records)
    align = DEVICE_ALIGN if _is_device(chosen) else ALIGNMENT
    offsets, size = plan_memory(graph, groups, align, same)
    if offsets:
        largest = max(offsets, key=lambda v: v.nbytes)
        what = f"{original.name}: the workspace (its largest array is {largest!r})"
        require(size, what, CompileError)
    layouts = Layouts()
    reads = [layouts.inputs(group, tuned[which[k]]) for k, group in enumerate(groups)]
    constants = list(dict.fromkeys(v for values in reads for v in values if v.is_constant))
    slots = _slots([*graph.inputs, *graph.outputs, *constants], offsets)
    slots |= _parts_of(slots, same)
    calls = [
        KernelCall(which[k], tuple(slots[v] for v in (*reads[k], group.output)))
        for k, group in enumerate(groups)
    ]
    data = _placed(constants, groups)
    outputs = [Tensor(v.name, v.shape, v.dtype) for v in original.outputs]
    nodes = [[n.name for n in g.nodes] for g in groups]
    signature = (original.name, tensors(graph.inputs), outputs, data, size)

    def work() -> list[Work]:
        each = [work_of(group) for group in distinct]
        return [each[call.kernel] for call in calls]

    if _is_device(chosen):
        with chosen:
            module = join_units(compile_units(distinct, tuned, team, progress), chosen)
        recorded = [_recorded(t) for t in tuned]
        return DeviceExecutable(*signature, module, calls, chosen, nodes, recorded, work)
    kernels = compile_kernels(distinct, tuned, team, progress)
    code = ObjectCode(kernels, emit_entry(calls, chosen), chosen)
    return Executable(*signature, code, calls, chosen, nodes, work)


def _open_executable(
    graph: Graph,
    original: Graph,
    symbols: Symbols,
    groups: Sequence[Group],
    same: Parts,
    distinct: Sequence[Group],
    which: Sequence[int],
    team: Team,
    progress: Progress | None,
) -> Executable | DeviceExecutable:
    """A network whose sizes are known at each call only (rt/open_sizes.py): slots of inputs,
    outputs, constants, symbols, and of each value between kernels."""
    target = team.target
    tuned = [in_panels(g, target) for g in distinct]
    layouts = Layouts()
    reads = [layouts.inputs(group, tuned[which[k]]) for k, group in enumerate(groups)]
    constants = list(dict.fromkeys(v for values in reads for v in values if v.is_constant))
    lives = lifetimes(graph, groups, same)
    names = sorted(symbols.likely)
    arrays = [*graph.inputs, *graph.outputs, *constants]
    slots = {v: Place(k) for k, v in reversed(list(enumerate(arrays)))}
    at = {name: Place(len(arrays) + k) for k, name in enumerate(names)}
    slots |= {v: Place(len(arrays) + len(names) + k) for k, v in enumerate(lives)}
    slots |= _parts_of(slots, same)
    calls = []
    for k, group in enumerate(groups):
        mine = [at[v.name] for v in symbols_of(group)]
        places = (*(slots[v] for v in (*reads[k], group.output)), *mine)
        calls.append(KernelCall(which[k], places))

    def plain(values: Sequence[Value]) -> list[Tensor]:
        return [Tensor(v.name, tuple(map(dim_of, v.shape)), v.dtype, v.default) for v in values]

    made = [*graph.inputs, *(n.output for g in groups for n in g.nodes)]
    counts = dict.fromkeys(element_count(v.shape) for v in plain(made))
    sizes = OpenSizes(
        names,
        list(symbols.conditions),
        [d for d in counts if not isinstance(d, int)],
        [(dim_of(v.nbytes), *life) for v, life in lives.items()],
        DEVICE_ALIGN if _is_device(target) else ALIGNMENT,
    )
    data = _placed(constants, groups)
    nodes = [[n.name for n in g.nodes] for g in groups]
    signature = (original.name, plain(graph.inputs), plain(original.outputs), data, 0)
    if _is_device(target):
        with target:
            module = join_units(compile_units(distinct, tuned, team, progress), target)
        recorded = [_recorded(t) for t in tuned]
        return DeviceExecutable(*signature, module, calls, target, nodes, recorded, sizes=sizes)
    kernels = compile_kernels(distinct, tuned, team, progress)
    code = ObjectCode(kernels, emit_entry(calls, target), target)
    return Executable(*signature, code, calls, target, nodes, sizes=sizes)


def _placed(constants: Sequence[Value], groups: Sequence[Group]) -> list[Array]:
    """The data of constants as vector code reads it. Of a table in which rows are looked up, which
    may be large and lie in a file, few are read: it stays where it is, if its elements are in
    order."""
    nodes = [n for g in groups for n in g.nodes]
    tables = {n.inputs[0] for n in nodes if n.op in LOOKS_UP}
    tables -= {v for n in nodes if n.op not in LOOKS_UP for v in n.inputs}
    found = []
    for v in constants:
        assert v.data is not None
        flags = v.data.flags
        stays = v in tables and flags.c_contiguous and flags.aligned
        found.append(v.data if stays or is_aligned(v.data) else compact(v.data))
    return found


def target_for(given: Any, dtype: str) -> Target:
    """The target of a network; CompileError where none is compiled for it, or in `dtype`."""
    target = Target(given)
    if target.kind.name not in BACKENDS:
        raise CompileError(
            f"networks are compiled for {', '.join(map(repr, BACKENDS))} targets, not "
            f"{str(target)!r}"
        )
    if dtype not in PRECISIONS:
        raise CompileError(f"networks are compiled in {', '.join(PRECISIONS)}, not {dtype!r}")
    return target


def _slots(arrays: Sequence[Value], offsets: Mapping[Value, int]) -> dict[Value, Place]:
    """Where each value is: an array of its own, or a place in the workspace, which comes last."""
    slots: dict[Value, Place] = {}
    for k, v in enumerate(arrays):
        slots.setdefault(v, Place(k))
    return slots | {v: Place(len(arrays), at) for v, at in offsets.items()}


def _parts_of(slots: Mapping[Value, Place], same: Parts) -> dict[Value, Place]:
    """Where the values are that are parts of others."""
    return {v: Place(slots[p.of].slot, slots[p.of].offset + p.at) for v, p in same.items()}


def prepare(graph: Graph, target: Target, dtype: str = "float32") -> tuple[Graph, list[Group]]:
    """The graph after all passes (a copy), and its groups in the order in which they run."""
    graph = optimize(graph, target, dtype)
    _copy_trivial_outputs(graph)
    return graph, fuse_nodes(graph)


def find_schedules(distinct: Sequence[Group], target: Target, records: Any) -> list[Tuned | None]:
    """What the records have for each group; of others, those that read weights in panels."""
    if records is None:
        history = DispatchContext.current
    else:
        given = isinstance(records, DispatchContext)
        history = records if given else ApplyHistoryBest(records)
    if type(history) is FallbackContext:  # knows nothing
        return [in_panels(g, target) for g in distinct]
    found = [find_tuned(g, target, history) for g in distinct]
    return [in_panels(g, target) if t is None else t for g, t in zip(distinct, found)]


def _recorded(tuned: Tuned | None) -> bool:
    return tuned is not None and tuned.recorded


def _copy_trivial_outputs(graph: Graph) -> None:
    """Outputs that are inputs, constants or each other get a node that copies them."""
    seen: set[Value] = set(graph.inputs)
    outputs = []
    for v in graph.outputs:
        if v in seen or v.is_constant:
            out = Value(v.name + ".copy", v.shape, v.dtype)
            graph.nodes.append(Node("identity", out.name, [v], [out]))
            v = out
        seen.add(v)
        outputs.append(v)
    graph.outputs = outputs


def distinct_groups(groups: Sequence[Group]) -> tuple[list[Group], list[int]]:
    """Groups whose kernels differ, and which of them each group is like."""
    number: dict[str, int] = {}
    which: list[int] = []
    distinct: list[Group] = []
    for group in groups:
        text = describe(group)
        if text not in number:
            number[text] = len(distinct)
            distinct.append(group)
        which.append(number[text])
    return distinct, which


def flops(graph: Graph) -> int:
    """Multiplications and additions of the convolutions and products of a network."""

    total = 0
    for n in graph.nodes:
        out = prod(n.output.shape)
        if n.op in ("conv2d", "conv_nd"):
            total += 2 * out * prod(n.inputs[1].shape[1:])
        elif n.op in ("dense", "matmul", "batch_matmul"):
            total += 2 * out * n.inputs[0].shape[-1]
    return total
