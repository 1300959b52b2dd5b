"""Branches and loops: Python runs them, their bodies are programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...base.errors import TilewrightError
from .model import Pending
from .repeat import Body, Turns


class Run(Protocol):
    """Runs the subgraphs that attributes hold."""

    def __call__(self, part: str, given: Sequence[Any]) -> list[Any]:
        """The outputs of one, on values for its inputs."""

    def body(self, part: str, given: Sequence[Any]) -> Body | None:
        """How it runs on values of these types, where that is one graph and nothing else."""


Control = Callable[[Pending, Sequence[Any], Run], list[Any]]


def if_(p: Pending, inputs: Sequence[Any], run: Run) -> list[Any]:
    return run("then_branch" if _truth(p, inputs[0]) else "else_branch", ())


def loop(p: Pending, inputs: Sequence[Any], run: Run) -> list[Any]:
    """Carried values are replaced by each iteration; what is put out beside them is stacked."""
    count, going, *carried = [*inputs, None, None][: max(2, len(inputs))]
    most = None if count is None else int(np.asarray(count).reshape(()))
    going = np.asarray(True) if going is None else going
    parts: list[list[Any]] = [[] for _ in p.graphs["body"].output[1 + len(carried) :]]
    declared = p.graphs["body"].output[1 + len(carried) :]
    number = 0
    if (most is None or most > 0) and _truth(p, going):
        body = run.body("body", [np.asarray(0, np.int64), going, *carried])
        turns = Turns(most, list(carried), condition=np.asarray(going))
        if body is not None and turns.run(body):
            return [*turns.carried, *(_joined(blocks) for blocks in turns.put_out)]
    while (most is None or number < most) and _truth(p, going):
        going, *results = run("body", [np.asarray(number, np.int64), going, *carried])
        carried = results[: len(carried)]
        for part, value in zip(parts, results[len(carried) :]):
            part.append(value)
        number += 1
    return [*carried, *(_stacked(p, part, item, 0) for part, item in zip(parts, declared))]


def scan(p: Pending, inputs: Sequence[Any], run: Run) -> list[Any]:
    """Operator set 8 has batches in front and lengths of sequences; later ones have axes."""
    if p.opset >= 9:
        return _scan(p, inputs, run, p.attributes, None)
    attrs = p.attributes
    lengths, *values = inputs
    extent = np.asarray(values[0]).shape[0]
    count = attrs["num_scan_inputs"]
    ways = {
        "num_scan_inputs": count,
        "scan_input_directions": attrs.get("directions", [0] * count),
    }
    runs = []
    for b in range(extent):
        length = None if lengths is None else int(lengths[b])
        runs.append(_scan(p, [v[b] for v in values], run, ways, length))
    longest = max((len(x) for one in runs for x in one[len(values) - count :]), default=0)
    first = len(values) - count
    joined = []
    for k, results in enumerate(zip(*runs)):
        if k >= first:  # shorter sequences are followed by zeros
            results = tuple(_padded(x, longest) for x in results)
        joined.append(np.stack(results))
    return joined


def _padded(x: Any, length: int) -> Any:
    return np.pad(x, [(0, length - len(x)), *[(0, 0)] * (x.ndim - 1)])


def _scan(p: Pending, inputs: Sequence[Any], run: Run, attrs: Any, length: int | None) -> list[Any]:
    body = p.graphs["body"]
    count = attrs["num_scan_inputs"]
    states, scanned = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outputs = len(body.output) - len(states)
    axes = attrs.get("scan_input_axes") or [0] * count
    ways = attrs.get("scan_input_directions") or [0] * count
    extents = {np.shape(x)[a] for x, a in zip(scanned, axes)}
    if len(extents) != 1:
        raise TilewrightError(
            f"Scan node {p.name!r}: the scanned inputs have extents {sorted(extents)} along their "
            "axes, they must have one"
        )
    steps = extents.pop() if length is None else length
    rows = [
        np.moveaxis(np.asarray(x), a, 0)[:steps][:: -1 if way else 1]
        for x, a, way in zip(scanned, axes, ways)
    ]
    out_axes = attrs.get("scan_output_axes") or [0] * outputs
    out_ways = attrs.get("scan_output_directions") or [0] * outputs
    if steps:
        body_of = run.body("body", [*states, *(np.asarray(row[0]) for row in rows)])
        turns = Turns(steps, list(states), rows)
        if body_of is not None and turns.run(body_of):
            found = [
                np.ascontiguousarray(np.moveaxis(x[::-1] if way else x, 0, axis))
                for x, axis, way in zip(map(_joined, turns.put_out), out_axes, out_ways)
            ]
            return [*turns.carried, *found]
    parts: list[list[Any]] = [[] for _ in range(outputs)]
    for k in range(steps):
        results = run("body", [*states, *(np.asarray(row[k], order="C") for row in rows)])
        states = results[: len(states)]
        for part, value in zip(parts, results[len(states) :]):
            part.append(value)
    stacked = [
        _stacked(p, part[::-1] if way else part, item, axis)
        for part, item, axis, way in zip(parts, body.output[len(states) :], out_axes, out_ways)
    ]
    return [*states, *stacked]


def _joined(blocks: Sequence[Any]) -> Any:
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _stacked(p: Pending, parts: Sequence[Any], declared: Any, axis: int) -> Any:
    """The values of all iterations, along a new axis; of none, with the declared extents."""
    if not parts:
        kind = declared.type.tensor_type
        dtype = p.model.onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim]
        axis = axis % (len(shape) + 1)
        return np.zeros([*shape[:axis], 0, *shape[axis:]], dtype)
    try:
        return np.ascontiguousarray(np.stack([np.asarray(x) for x in parts], axis))
    except ValueError:
        shapes = [list(np.shape(x)) for x in parts]
        raise TilewrightError(
            f"{p.kind} node {p.name!r}: iterations put out {declared.name!r} of different shapes, "
            f"{shapes[0]} and {next(s for s in shapes if s != shapes[0])}"
        ) from None


def _truth(p: Pending, value: Any) -> bool:
    if type(value) is np.ndarray and value.size == 1:
        return bool(value.item())
    if np.size(value) != 1:
        raise TilewrightError(
            f"{p.kind} node {p.name!r}: a condition is one truth value, got shape "
            f"{list(np.shape(value))}"
        )
    return bool(np.asarray(value).reshape(()))


CONTROL: dict[str, Control] = {"If": if_, "Loop": loop, "Scan": scan}
