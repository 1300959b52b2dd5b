"""compile: from a graph to an executable."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import numpy as np

from ..base.errors import CompileError
from ..driver.network import KernelCall, Place, emit_entry, symbol_of
from ..rt import threads
from ..target.target import Target
from .executable import Executable, Kernel
from .ir import Graph, Node, Value
from .kernel import compile_group, describe
from .passes.block_channels import block_channels
from .passes.fuse import Group, fuse_nodes
from .passes.memory import plan_memory
from .passes.pack_dense import pack_dense
from .passes.simplify import drop_identities, fold_batch_norm, fold_constants
from .passes.to_half import to_half

Progress = Callable[[int, int, str], None]


def optimize(graph: Graph, target: Target, dtype: str = "float32") -> Graph:
    """The passes that come before kernels are made; works on a copy."""
    graph = copy_graph(graph)
    fold_constants(graph)
    drop_identities(graph)
    fold_batch_norm(graph)
    if dtype == "float16":
        to_half(graph)
    lanes = max(4, target.vector_bytes // 4)
    block_channels(graph, lanes)
    pack_dense(graph, lanes)
    fold_constants(graph)
    drop_identities(graph)
    graph.drop_dead_nodes()
    return graph


def copy_graph(graph: Graph) -> Graph:
    """The same network in new objects; constants share their data."""
    table: dict[Value, Value] = {}

    def twin(v: Value) -> Value:
        if v not in table:
            table[v] = Value(v.name, v.shape, v.dtype, v.data)
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
    progress: Progress | None = None,
) -> Executable:
    """Compile a network for a CPU target.

    `dtype` "float16" keeps weights and intermediate values in half precision (see passes/to_half);
    inputs and outputs keep their types.

    Kernels are compiled in parallel, each once however often it occurs; `progress(done, total,
    name)` is called after each. Raises CompileError with the node's name where one cannot be
    compiled.
    """
    chosen = Target(target)
    if chosen.kind.name != "llvm":
        raise CompileError(f"networks are compiled for 'llvm' targets, not {str(chosen)!r}")
    if dtype not in ("float32", "float16"):
        raise CompileError(f"networks are compiled in float32 or float16, not {dtype!r}")
    original = graph
    graph = optimize(graph, chosen, dtype)
    _copy_trivial_outputs(graph)
    groups = fuse_nodes(graph)
    kernels, which = _compile_kernels(groups, chosen, progress)
    offsets, size = plan_memory(graph, groups)
    constants = graph.constants()
    slots: dict[Value, Place] = {}
    for k, v in enumerate([*graph.inputs, *graph.outputs, *constants]):
        slots.setdefault(v, Place(k))
    workspace = len(graph.inputs) + len(graph.outputs) + len(constants)
    for v, at in offsets.items():
        slots[v] = Place(workspace, at)
    calls = [
        KernelCall(which[k], tuple(slots[v] for v in (*group.inputs, group.output)))
        for k, group in enumerate(groups)
    ]
    data = [np.ascontiguousarray(v.data) for v in constants]
    names = [v.name for v in original.outputs]
    return Executable(
        original.name, graph.inputs, graph.outputs, names, data, size, kernels, calls,
        emit_entry(calls, chosen), chosen, [[n.name for n in g.nodes] for g in groups],
    )  # fmt: skip


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


def _compile_kernels(
    groups: Sequence[Group], target: Target, progress: Progress | None
) -> tuple[list[Kernel], list[int]]:
    """Distinct kernels, and which of them each group is."""
    number: dict[str, int] = {}
    which: list[int] = []
    distinct: list[Group] = []
    for group in groups:
        text = describe(group)
        if text not in number:
            number[text] = len(distinct)
            distinct.append(group)
        which.append(number[text])
    workers = max(1, threads.num_threads())
    done = 0
    with ThreadPoolExecutor(workers) as pool:
        jobs = [
            pool.submit(copy_context().run, compile_group, g, target, symbol_of(k))
            for k, g in enumerate(distinct)
        ]
        kernels = []
        for k, (g, job) in enumerate(zip(distinct, jobs)):
            kernels.append(Kernel(symbol_of(k), g.name, job.result()))
            done += 1
            if progress is not None:
                progress(done, len(distinct), g.name)
    return kernels, which


def flops(graph: Graph) -> int:
    """Multiplications and additions of the convolutions and products of a network."""

    total = 0
    for n in graph.nodes:
        out = int(np.prod(n.output.shape))
        if n.op == "conv2d":
            total += 2 * out * int(np.prod(n.inputs[1].shape[1:]))
        elif n.op in ("dense", "matmul", "batch_matmul"):
            total += 2 * out * n.inputs[0].shape[-1]
    return total
