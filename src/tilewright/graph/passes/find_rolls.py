"""Have what turns a dimension around, written as two slices joined the other way, as one operation.

Windows that are shifted (Swin) roll images by some pixels along two dimensions: four copies of
parts and two of the whole. A roll reads every element where it was, and joins what is read next.
"""

from __future__ import annotations

from ..ir import Graph, Node, Value


def find_rolls(graph: Graph, along_last: bool) -> Graph:
    """Replace concatenations of the end and the start of one value. `along_last`: along the last
    dimension, too, whose elements vectors read and write in order if it is not turned."""

    def instead(node: Node) -> list[Node] | None:
        if node.op != "concat" or len(node.inputs) != 2:
            return None
        axis = node.attrs["axis"] % len(node.output.shape)
        end, start = (_part(v, axis) for v in node.inputs)
        if end is None or start is None or end[0] is not start[0]:
            return None
        source, first, last = end
        if (first, last) != (start[2], source.shape[axis]) or start[1] != 0:
            return None
        if axis == len(source.shape) - 1 and not along_last:
            return None
        return [Node("roll", node.name, [source], node.outputs, {"axis": axis, "first": first})]

    return graph.rewrite(instead)


def _part(v: Value, axis: int) -> tuple[Value, int, int] | None:
    """What a value is a slice of along `axis` alone, step by step, and from where to where."""
    node = v.producer
    if node is None or node.op != "slice":
        return None
    (source,) = node.inputs
    begin, end = list(node.attrs["begin"]), list(node.attrs["end"])
    first, last = begin[axis], end[axis]
    begin[axis], end[axis] = 0, source.shape[axis]
    whole = begin == [0] * len(begin) and tuple(end) == source.shape
    known = all(isinstance(d, int) for d in (first, last, *source.shape))
    if not whole or not known or any(s != 1 for s in node.attrs["strides"]):
        return None
    return source, first, last
