"""One kernel of a network: from a group of nodes to object code."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .. import topi
from ..base import config
from ..base.errors import CompileError, TilewrightError
from ..base.fingerprint import compiler_fingerprint
from ..driver.build_module import build_lowered
from ..driver.lower import lower
from ..loopir.stmt import IRModule
from ..rt import cache as disk
from ..target.target import Target
from ..tensor.compute import placeholder
from ..tensor.tensor import Tensor
from .ir import Value
from .ops import OPS
from .passes.fuse import Group


def describe(group: Group) -> str:
    """Text that is equal for groups whose kernels are the same code."""
    number = {v: k for k, v in enumerate(group.inputs)}
    rows: list[Any] = [[v.shape, v.dtype] for v in group.inputs]
    for node in group.nodes:
        reads = [number[v] for v in node.inputs]
        number[node.output] = len(number)
        rows.append([node.op, reads, sorted(node.attrs.items()), node.output.shape])
    return json.dumps(rows, default=str)


def tensors(group: Group) -> tuple[list[Tensor], Tensor]:
    """The group as tensor expressions: inputs and output."""
    table: dict[Value, Tensor] = {}
    inputs = []
    for k, v in enumerate(group.inputs):
        table[v] = placeholder(v.shape, v.dtype, f"p{k}")
        inputs.append(table[v])
    for node in group.nodes:
        table[node.output] = OPS[node.op].compute([table[v] for v in node.inputs], node.attrs)
    return inputs, table[group.output]


def lower_group(group: Group, target: Target, name: str) -> IRModule:
    """The loop IR of a group under its default schedule."""
    with target:
        inputs, out = tensors(group)
        s = topi.default_schedule(out, target)
        return lower(s, [*inputs, out], name=name)


def lower_named(group: Group, target: Target, name: str) -> IRModule:
    """As lower_group; errors name the group's nodes."""
    try:
        return lower_group(group, target, name)
    except TilewrightError as error:
        raise _in_group(group, error) from error


def _in_group(group: Group, error: TilewrightError) -> CompileError:
    return CompileError(f"kernel of {', '.join(n.name for n in group.nodes)}: {error}")


def compile_group(group: Group, target: Target, name: str) -> bytes:
    """Object code of a group's kernel, from the compile cache where it has it."""
    options = [repr(config.get(o.name)) for o in config.options() if o.code]
    key = (
        "kernel|"
        + "|".join([compiler_fingerprint(), target.fingerprint(), *options])
        + hashlib.sha256(f"{name}|{describe(group)}".encode()).hexdigest()
    )
    found = disk.get(key)
    if found is not None:
        return found
    try:
        module = build_lowered(lower_group(group, target, name), target)
    except TilewrightError as error:
        raise _in_group(group, error) from error
    obj = module.object_code
    assert obj is not None
    disk.put(key, obj)
    return obj
