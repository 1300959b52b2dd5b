"""One kernel of a network: from a group of nodes to object code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

from .. import topi
from ..base import config
from ..base.errors import CompileError, TilewrightError
from ..base.fingerprint import compiler_fingerprint
from ..driver.device_unit import DeviceUnit, build_unit
from ..driver.lower import lower
from ..driver.object_code import generate_code, llvm_version
from ..driver.transform import user_passes
from ..loopir.buffer import Buffer, decl_buffer
from ..loopir.expr import Var
from ..loopir.intrin_rules import user_rules
from ..loopir.module import IRModule
from ..rt import cache as disk
from ..schedule.api import Schedule
from ..target.target import Target
from ..tensor.compute import placeholder
from ..tensor.graph import replace_inputs
from ..tensor.op import ComputeOp
from ..tensor.relayout import LAYOUT_FREE_ATTR
from ..tensor.tensor import Tensor
from ..topi.schedules.machine import likely_sizes
from .ir import Node, Value
from .ops import ANCHOR, OPS
from .passes.fuse import Group
from .shapes import names_of, symbols_in, with_exprs


class Scheduled(Protocol):
    """A schedule found for a group, see tuned.Tuned: `steps` is a text that says which."""

    @property
    def steps(self) -> str: ...
    @property
    def schedule(self) -> Schedule: ...
    @property
    def args(self) -> Sequence[Tensor]: ...


def describe(group: Group) -> str:
    """Text that is equal for groups whose kernels are the same code."""
    number = {v: k for k, v in enumerate(group.inputs)}
    symbols = symbols_of(group)
    rows: list[Any] = [[v.shape, v.dtype, v.is_constant] for v in group.inputs]
    rows += [[number[v], how.strides, how.offset] for v, how in group.lying.items()]
    rows += [[v.name, n] for v, n in sorted(symbols.items(), key=lambda item: item[0].name)]
    for node in group.nodes:
        reads = [number[v] for v in node.inputs]
        number[node.output] = len(number)
        rows.append([node.op, reads, sorted(node.attrs.items()), node.output.shape])
    return json.dumps(rows, default=str)


def symbols_of(group: Group) -> dict[Var, int]:
    """The variables of the sizes that a group's kernel needs, in the order of its arguments, with
    a likely value of each."""
    found = [v.shape for v in group.inputs]
    found += [x for n in group.nodes for x in (n.output.shape, *n.attrs.values())]
    symbols = symbols_in(found)
    if symbols is None:
        return {}
    return {symbols.variable(n): symbols.likely[n] for n in sorted(names_of(found))}


def tensors(group: Group) -> tuple[list[Tensor], Tensor]:
    """The group as tensor expressions: inputs and output. Weights may be laid out anew."""
    table: dict[Value, Tensor] = {}
    inputs: list[Tensor] = []
    for k, v in enumerate(group.inputs):
        table[v] = placeholder(with_exprs(v.shape), v.dtype, f"p{k}")
        inputs.append(table[v])
    for node in group.nodes:
        reads = [table[v] for v in node.inputs]
        attrs = {name: with_exprs(x) for name, x in node.attrs.items()}
        result = OPS[node.op].compute(reads, attrs)
        table[node.output] = _with_free_weights(node, reads, result)
    return inputs, table[group.output]


def _with_free_weights(node: Node, reads: Sequence[Tensor], result: Tensor) -> Tensor:
    """The result of an expensive operation that says which of its inputs are constants."""
    known = [t for v, t in zip(node.inputs, reads) if v.is_constant]
    return _marked(result, known) if OPS[node.op].kind == ANCHOR else result


def _marked(t: Tensor, known: Sequence[Tensor]) -> Tensor:
    """`t` with the operation that reads some of `known` marked, itself or the one it rounds."""
    op = t.op
    names = [k.op.name for k in known if k in op.input_tensors]
    if names and isinstance(op, ComputeOp):
        attrs = {**op.attrs, LAYOUT_FREE_ATTR: names}
        return ComputeOp(op.name, op.tag, attrs, op.axis, op.body).output(t.value_index)
    if len(op.input_tensors) != 1 or op.tag != "elemwise":
        return t
    before = op.input_tensors[0]
    after = _marked(before, known)
    return t if after is before else replace_inputs(op, {before: after}).output(t.value_index)


def lower_group(
    group: Group, target: Target, name: str, tuned: Scheduled | None = None
) -> IRModule:
    """The loop IR of a group, under its default schedule where no other is given."""
    symbols = symbols_of(group)
    with target, likely_sizes(symbols):
        if tuned is not None:
            schedule, args = tuned.schedule, list(tuned.args)
        else:
            inputs, out = tensors(group)
            schedule, args = topi.default_schedule(out, target), [*inputs, out]
        return lower(schedule, [*args, *symbols], name=name, binds=_buffers(group, args))


def _buffers(group: Group, args: Sequence[Tensor]) -> dict[Tensor, Buffer]:
    """The arguments of a group's kernel as they lie in memory, where that has to be said: of parts
    of larger arrays, and of sizes that are not known, which would be taken to have strides, too."""
    made = {}
    if symbols_of(group):
        made = {t: decl_buffer(t.shape, t.dtype, t.name) for t in args}
    for v, t in zip(group.inputs, args):
        how = group.lying.get(v)
        if how is not None:
            steps, first = how.strides, how.offset
            made[t] = decl_buffer(t.shape, t.dtype, t.name, None, steps, first)
    return made


def lower_named(
    group: Group, target: Target, name: str, tuned: Scheduled | None = None
) -> IRModule:
    """As lower_group; errors name the group's nodes."""
    try:
        return lower_group(group, target, name, tuned)
    except TilewrightError as error:
        raise _in_group(group, error) from error


def _in_group(group: Group, error: TilewrightError) -> CompileError:
    return CompileError(f"kernel of {', '.join(n.name for n in group.nodes)}: {error}")


def make_kernel(
    group: Group, target: Target, name: str, tuned: Scheduled | None, key: str
) -> bytes:
    """Object code of a group's kernel, for devices a unit as bytes, which the compile cache does
    not have under its key; without a key it is not kept."""
    if target.kind.name != "llvm":
        return make_unit(group, target, name, tuned, key).to_bytes()
    try:
        return emit_kernel(lower_group(group, target, name, tuned), target, key)
    except TilewrightError as error:
        raise _in_group(group, error) from error


def make_unit(
    group: Group, target: Target, name: str, tuned: Scheduled | None, key: str
) -> DeviceUnit:
    """As make_kernel, for a device."""
    try:
        lowered = lower_group(group, target, name, tuned)
        with target:
            unit = build_unit(lowered, target)
    except TilewrightError as error:
        raise _in_group(group, error) from error
    if key:
        disk.put(key, unit.to_bytes())
    return unit


def emit_kernel(module: IRModule, target: Target, key: str) -> bytes:
    """As make_kernel, of a kernel that is lowered."""
    obj = generate_code(module, target).object_code(cached=False)
    if key:
        disk.put(key, obj)
    return obj


def kept(key: str) -> bytes | None:
    """Object code from the compile cache, where it has it; of no key it has none."""
    return disk.get(key) if key else None


def of_users(target: Target) -> bool:
    """Whether passes or rules of the user's own take part, which neither the cache nor another
    process knows."""
    return bool(user_passes() or user_rules([target.kind.name, "default"]))


def cache_key(group: Group, target: Target, name: str, tuned: Scheduled | None) -> str:
    """Text that differs wherever the object code of a group's kernel may differ; empty where it
    cannot say so."""
    if of_users(target):
        return ""
    steps = "" if tuned is None else tuned.steps
    text = hashlib.sha256(f"{name}|{describe(group)}|{steps}".encode()).hexdigest()
    return f"kernel|{compiler_key(target)}{text}"


def compiler_key(target: Target) -> str:
    """Text that differs wherever the compiler, its options or its target do."""
    options = [repr(config.get(o.name)) for o in config.options() if o.code]
    backend = llvm_version() if target.kind.name == "llvm" else ""
    return "|".join([compiler_fingerprint(), backend, target.fingerprint(), *options])
