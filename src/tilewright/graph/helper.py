"""A process that helps to compile a network: it makes kernels, one message at a time.

    python -m tilewright.graph.helper

Requests (`measure/protocol.py`), by "op": "set" tells when this process has begun; "compile" makes
the object code of a kernel, in base64. Python runs one thread at a time, so that kernels that are
lowered in threads of one process wait for each other.
"""

from __future__ import annotations

import ast
import json
import math
import os
import sys
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..auto_scheduler.lines import rows_from_json
from ..auto_scheduler.state import State
from ..base import config
from ..base.dtype import parse
from ..measure.protocol import Message
from ..measure.serve import serve
from ..target.target import Target
from .ir import Node, Value
from .kernel import describe, make_kernel
from .passes.fuse import Group, Lying
from .shapes import symbols_in
from .sizes import Size, Symbols
from .tuned import Tuned, in_panels, of_state, task_of


def as_data(group: Group, tuned: Tuned | None) -> Message | None:
    """A kernel for `of_data`; None where a part of it is no data."""
    values = list(group.inputs)
    try:
        rows = [_literal([v.shape, v.dtype, v.is_constant]) for v in values]
        nodes = []
        for n in group.nodes:
            reads = [values.index(v) for v in n.inputs]
            values.append(n.output)
            how = [list(n.attrs), list(n.attrs.values())]
            nodes.append(_literal([n.op, reads, *how, n.output.shape, n.output.dtype]))
    except TypeError:
        return None
    steps = tuned.steps if tuned is not None and tuned.recorded else None
    found = symbols_in([[v.shape for v in values], [list(n.attrs.values()) for n in group.nodes]])
    symbols = {} if found is None else found.likely
    lying = [[values.index(v), how.strides, how.offset] for v, how in group.lying.items()]
    data = {"inputs": rows, "nodes": nodes, "steps": steps, "symbols": symbols, "lying": lying}
    return data if describe(_group(data)) == describe(group) else None


def of_data(data: Mapping[str, Any], target: Target) -> tuple[Group, Tuned | None]:
    """The kernel that `as_data` was given; constants are as many zeros."""
    group = _group(data)
    if data["steps"] is None:
        return group, in_panels(group, target)
    task = task_of(group, target)
    rows = rows_from_json(json.loads(data["steps"]))
    return group, of_state(task, State.from_rows(task.compute_dag, rows))


def _group(data: Mapping[str, Any]) -> Group:
    symbols, values = Symbols(), []
    for name, likely in data["symbols"].items():
        symbols.size(name, likely)

    def read(row: str) -> Any:
        return _with_sizes(ast.literal_eval(row), symbols)

    for k, row in enumerate(data["inputs"]):
        shape, dtype, known = read(row)
        zeros = np.broadcast_to(np.zeros((), parse(dtype).numpy), shape) if known else None
        values.append(Value(f"p{k}", shape, dtype, zeros))
    nodes = []
    for k, row in enumerate(data["nodes"]):
        op, reads, names, attrs, shape, dtype = read(row)
        values.append(Value(f"n{k}", shape, dtype))
        nodes.append(
            Node(op, f"n{k}", [values[r] for r in reads], values[-1:], dict(zip(names, attrs)))
        )
    group = Group(nodes)
    for k, strides, offset in data["lying"]:
        group.lying[values[k]] = Lying(tuple(strides), offset)
    return group


def _literal(x: Any) -> str:
    """Text that `ast.literal_eval` reads, a size being a dict of its terms; TypeError for what is
    neither a number, a size, text, nor made of such."""
    if isinstance(x, Size):
        return "{" + ", ".join(f"{_literal(m)}: {c}" for m, c in x.terms.items()) + "}"
    if isinstance(x, list):
        return "[" + ", ".join(map(_literal, x)) + "]"
    if isinstance(x, tuple):
        return "(" + "".join(_literal(v) + ", " for v in x) + ")"
    if type(x) is float and math.isinf(x):
        return "1e999" if x > 0 else "-1e999"
    if x is None or (type(x) in (bool, int, float, str) and x == x):
        return repr(x)
    raise TypeError(f"{type(x).__name__} is no data")


def _with_sizes(x: Any, symbols: Symbols) -> Any:
    """What `_literal` was given, of what was read."""
    if isinstance(x, dict):
        return Size(symbols, x)
    if isinstance(x, (list, tuple)):
        return type(x)(_with_sizes(v, symbols) for v in x)
    return x


def _answer(request: Message) -> Message:
    reply: Message = {"op": request["op"]}
    if request["op"] == "set":
        return reply
    try:
        for name, value in request["options"].items():
            config.set_option(name, value)
        target = Target(request["target"])
        group, tuned = of_data(request["kernel"], target)
        obj = make_kernel(group, target, request["name"], tuned, request["key"])
        reply["object"] = b64encode(obj).decode()
    except Exception as error:  # who asked compiles it himself, and so meets the same
        reply["error"] = f"{type(error).__name__}: {error}"
    return reply


if __name__ == "__main__":
    status = serve(_answer)
    sys.stdout.flush()
    os._exit(status)
