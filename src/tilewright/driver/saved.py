"""Anything of a program as JSON text, and back: `ir.save_json`, `ir.load_json`.

Expressions, statements, functions and modules are saved as loopir/serial.py says, tensors and
operations as tensor/serial.py does, schedules as their tensors and the primitives applied to
them, targets as their attributes, arrays as their values; lists and dicts hold one text for each.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..loopir import serial as loop_serial
from ..schedule.api import Schedule, load_schedule
from ..target.target import Target
from ..tensor import serial as tensor_serial
from ..tensor.op import Operation
from ..tensor.tensor import Tensor

KIND = "tilewright object"
VERSION = 1


def save_json(node: Any) -> str:
    """Text that `load_json` reads: of parts of programs, schedules, targets, and lists and dicts of
    them. TilewrightError for what cannot be saved."""
    found = _encode(node)
    if found is None:
        return loop_serial.save_json(node)
    return json.dumps({"kind": KIND, "version": VERSION, **found})


def _encode(node: Any) -> dict[str, Any] | None:
    if isinstance(node, Schedule):
        outputs = [node.by_id[i].origin_op.output(0) for i in node.output_ids]
        return {
            "what": "schedule",
            "tensors": tensor_serial.save_json(outputs),
            "trace": node.save_json(),
        }
    if isinstance(node, Tensor):
        return {"what": "tensor", "tensors": tensor_serial.save_json(node)}
    if isinstance(node, Operation):
        return {"what": "operation", "tensors": tensor_serial.save_json(node.output(0))}
    if isinstance(node, Target):
        return {"what": "target", "target": node.to_json()}
    if hasattr(node, "numpy") and hasattr(node, "shape"):
        values = np.ascontiguousarray(node.numpy())
        data = base64.b64encode(values.tobytes()).decode()
        shape = list(values.shape)
        return {"what": "array", "dtype": node.dtype, "shape": shape, "data": data}
    if isinstance(node, (list, tuple)):
        return {"what": "list", "items": [save_json(x) for x in node]} if _mixed(node) else None
    if isinstance(node, Mapping):
        items = {str(k): save_json(v) for k, v in node.items()}
        return {"what": "dict", "items": items} if _mixed(node.values()) else None
    return None


def _mixed(items: Any) -> bool:
    """Whether some of the items are no part of the loop IR."""
    return any(_encode(x) is not None for x in items)


def load_json(json_str: str) -> Any:
    """What `save_json` wrote, as new objects; TilewrightError for text that is damaged."""
    try:
        data = json.loads(json_str)
        known = isinstance(data, dict) and data.get("kind") == KIND
    except (ValueError, TypeError, RecursionError):
        known = False
    if not known:
        return loop_serial.load_json(json_str)
    try:
        if data["version"] != VERSION:
            raise ValueError(f"it has version {data['version']!r}, this is {VERSION}")
        return _decode(data)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise TilewrightError(f"this is no object saved as JSON: {error}") from error


def _decode(data: Mapping[str, Any]) -> Any:
    what = data["what"]
    if what == "list":
        return [load_json(x) for x in data["items"]]
    if what == "dict":
        return {k: load_json(v) for k, v in data["items"].items()}
    if what == "target":
        return Target.from_json(data["target"])
    if what == "array":
        from ..rt.array import array, empty

        made = empty(data["shape"], data["dtype"])
        raw = np.frombuffer(base64.b64decode(data["data"]), made.numpy().dtype)
        return made.copyfrom(array(raw.reshape(data["shape"])))
    tensors = tensor_serial.load_json(data["tensors"])
    if what == "schedule":
        return load_schedule(data["trace"], [t.op for t in tensors])
    if what in ("tensor", "operation"):
        return tensors[0] if what == "tensor" else tensors[0].op
    raise ValueError(f"unknown object {what!r}")
