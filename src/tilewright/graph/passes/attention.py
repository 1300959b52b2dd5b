"""Find attention: a softmax between two products, and what is done to the scores in between.

Exporters write it with copies of queries, keys and values whose heads stand apart, and scale and
mask in many ways. Here the softmax is the anchor. Upwards from it element-wise operations on scores
lead to the first product; downwards reshapes lead to the second. What the products read is followed
to arrays that can be read in place, and what reads the result to the order that it is wanted in.

Networks in half precision convert scores for the softmax, or round them at every step. In between
nothing is rounded here: conversions from one of these types to another are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ...target.target import Target
from ...topi.nn.attention import MASKED, NUMBERS, PLAIN, Sizes
from ...topi.nn.attention_in_one import takes
from ...topi.nn.warp_registers import OPERANDS
from ...topi.schedules.attention import keys_at_once
from ...topi.schedules.machine import Machine
from ..ir import Graph, Node, Value, constant
from ..ops import ELEMWISE, OPS, infer
from .attention_window import window_of, without_masks
from .strided import Digit, Dimension, Strided, after, cut, reading, refined, strided, whole

MOST_STEPS = 24  # between the products
SOFTMAX = {"softmax": PLAIN, "masked_softmax": MASKED}
PRODUCTS = ("batch_matmul", "matmul")
FLOATS = ("float32", *OPERANDS)
Readers = dict[Value, list[Node]]


@dataclass(frozen=True)
class _Found:
    """The nodes of one attention: `steps` lead from `scores`, which are those of the product times
    `scale`, to what the softmax reads."""

    product: Node
    scores: Value
    scale: float
    steps: list[Node]
    second: Node
    empty: str


def fuse_attention(graph: Graph, target: Target, dtype: str = "float32") -> Graph:
    """Compute each attention as one node, where its arrays can be read as they lie; of many keys as
    many at a time as `target` has room for. On devices those that one kernel computes, of values of
    half precision, or of float32, which will be of `dtype`."""
    readers, outputs = graph.consumers(), set(graph.outputs)
    instead: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        if node.op in SOFTMAX:
            found = _around(node, readers, outputs)
            made = None if found is None else _attention(found, readers, outputs, target)
            if made is not None and all(_is_taken(n, target, dtype) for n in made):
                instead[made[-1].output] = [_of_part(n, target) for n in made]
    if instead:
        graph.nodes = [n for node in graph.nodes for n in instead.get(node.output, [node])]
        graph.drop_dead_nodes()
    return graph


def _is_taken(node: Node, target: Target, dtype: str) -> bool:
    if node.op != "attention" or "gpu" not in target.keys:
        return True
    a, own = node.attrs, node.inputs[0].dtype
    sizes = Sizes(a["batch"], a["rows"], a["keys"], a["size"], a["last"])
    return takes(sizes, dtype if own == "float32" else own, target)


def _of_part(node: Node, target: Target) -> Node:
    """Attention of a part of the keys at a time."""
    if node.op != "attention":
        return node
    if "gpu" in target.keys:
        beside, steps = node.inputs[3:], node.attrs["steps"]
        window = node.attrs["window"] = window_of(beside, steps)
        left = None if window is None else without_masks(beside, steps, window)
        if left is not None:
            node.inputs[3:], node.attrs["steps"] = left
            node.attrs["cut"] = True
    else:
        rows, keys = node.attrs["rows"], node.attrs["keys"]
        node.attrs["block"] = keys_at_once(rows, keys, node.output.dtype, Machine.of(target))
    return node


def _around(softmax: Node, readers: Readers, outputs: set[Value]) -> _Found | None:
    """What stands before and behind a softmax of scores; None where it is of others."""
    x = softmax.inputs[0]
    last = len(x.shape) - 1
    if softmax.attrs["axis"] % len(x.shape) != last or x.dtype not in FLOATS or 0 in x.shape:
        return None
    above = _scores(softmax, readers, outputs)
    if above is None:
        return None
    v, empty = softmax.output, SOFTMAX[softmax.op]
    while v not in outputs:
        zeroed = _without_nan(v, readers)
        if zeroed is not None and empty == PLAIN:
            v, empty = zeroed, NUMBERS
            continue
        if len(readers.get(v, ())) != 1:
            return None
        (reader,) = readers[v]
        if _is_product(reader) and reader.inputs[0] is v and reader.inputs[1] is not v:
            if v.shape[-1] != x.shape[-1]:
                return None
            product, steps = above
            return _Found(product, *_scaled(product.output, steps, readers), reader, empty)
        if reader.op != "reshape" and not _only_rounds(reader):
            return None
        v = reader.output
    return None


def _is_product(node: Node) -> bool:
    return node.op in PRODUCTS


def _only_rounds(node: Node) -> bool:
    """Whether a node converts a float to another one."""
    return node.op == "cast" and {node.inputs[0].dtype, node.output.dtype} <= set(FLOATS)


def _exact(node: Node) -> Value | None:
    """What a node converts to a wider type."""
    widens = _only_rounds(node) and node.output.dtype == "float32"
    return node.inputs[0] if widens else None


def _scores(softmax: Node, readers: Readers, outputs: set[Value]) -> tuple[Node, list[Node]] | None:
    """The product before a softmax and the nodes in between, in order; None where others read
    them, or there are several products."""
    size = prod(softmax.inputs[0].shape)
    products: list[Node] = []
    steps: dict[Node, None] = {}
    depends: dict[Value, bool] = {}

    def visit(v: Value, depth: int) -> bool:
        node = v.producer
        if v in depends:
            return depends[v]
        depends[v] = False
        if node is None or prod(v.shape) != size or depth > MOST_STEPS:
            return False
        if _is_product(node):
            products.extend([] if node in products else [node])
            depends[v] = True
        elif node.op == "reshape" or _is_pointwise(node):
            for u in node.inputs:
                depends[v] |= visit(u, depth + 1)
            if depends[v]:
                steps[node] = None
        return depends[v]

    visit(softmax.inputs[0], 0)
    inner = {*steps, softmax}
    if len(products) != 1 or len(steps) > MOST_STEPS:
        return None
    for node in (products[0], *steps):
        v = node.output
        if v in outputs or not inner.issuperset(readers[v]) or len(node.outputs) > 1:
            return None
    # the last dimension stays the keys
    keys = products[0].output.shape[-1]
    if any(node.output.shape[-1:] != (keys,) for node in steps):
        return None
    return products[0], list(steps)


def _scaled(scores: Value, steps: list[Node], readers: Readers) -> tuple[Value, float, list[Node]]:
    """What the first of the steps only scale the scores to, by how much, and the other steps."""
    scale = 1.0
    for n, node in enumerate(steps):
        by = _is_scaled(node)
        moves = node.op == "reshape" or _only_rounds(node)
        if set(readers[scores]) != {node} or not (moves or (by and scores in node.inputs)):
            return scores, scale, steps[n:]
        scores, scale = node.output, scale * (by or 1.0)
    return scores, scale, []


def _is_pointwise(node: Node) -> bool:
    """Whether an element depends on the same elements of what is read, and not on where it is."""
    return OPS[node.op].kind == ELEMWISE and "axis" not in node.attrs and node.op != "trilu"


def _without_nan(v: Value, readers: Readers) -> Value | None:
    """where(isnan(v), 0, v), if that is all that becomes of v."""
    found = {node.op: node for node in readers.get(v, ())}
    test, choice = found.get("isnan"), found.get("where")
    if len(found) != 2 or len(readers[v]) != 2 or test is None or choice is None:
        return None
    first, zero, other = choice.inputs
    known = zero.data is not None and zero.data.size == 1 and not zero.data.any()
    return choice.output if known and first is test.output and other is v else None


def _is_scaled(node: Node) -> float | None:
    """By which number a node multiplies its input 0 or 1; None where it does something else."""
    if node.op not in ("multiply", "divide"):
        return None
    for x, c in (node.inputs, node.inputs[::-1]):
        if c.data is not None and c.data.size == 1 and x.shape == node.output.shape:
            value = float(c.data.reshape(()))
            if node.op == "multiply":
                return value
            return 1 / value if c is node.inputs[1] and value else None
    return None


def _attention(
    found: _Found, readers: Readers, outputs: set[Value], target: Target
) -> list[Node] | None:
    """The nodes that compute what is found; the last one's output is that of the last of those that
    they stand for. None where the arrays cannot be read as they lie, nor after a copy, or are of
    several types."""
    values = [*found.product.inputs, found.second.inputs[1]]
    if any(0 in v.shape for v in (*values, found.second.output)):
        return None
    dtype = found.second.output.dtype
    narrow = "gpu" in target.keys and dtype in OPERANDS

    def before(node: Node) -> Value | None:
        return _unscaled(node) or (_exact(node) if narrow else None)

    scale = 1.0
    views = []
    for v in values:
        view, passed = strided(v, before if v is not values[2] else lambda node: None)
        views.append(view)
        for factor in map(_is_scaled, passed):
            scale *= 1.0 if factor is None else factor
    if any(view.source.dtype != dtype for view in views) or not (narrow or dtype == "float32"):
        return None
    ends = _ends(found.second.output, readers, outputs)
    for end in reversed(ends):
        made = _made(found, views, scale, end)
        if made is not None:
            return made
    if any(v.dtype != dtype for v in values):
        return None
    return _made(found, [whole(v) for v in values], 1.0, ends[0])


def _unscaled(node: Node) -> Value | None:
    if _is_scaled(node) is None:
        return None
    return next(v for v in node.inputs if v.data is None or v.data.size != 1)


def _ends(v: Value, readers: Readers, outputs: set[Value]) -> list[Strided]:
    """What reshapes and transposes make of the result, each value with its elements as those of
    the result; `source` is the value itself."""
    found = [whole(v)]
    view = found[0]
    while v not in outputs and len(readers.get(v, ())) == 1:
        (node,) = readers[v]
        moved = after(node, view) if node.op in ("reshape", "transpose") else None
        if moved is None:
            break
        view, v = moved, node.output
        found.append(Strided(v, view.dims))
    return found


def _in_three(view: Strided, batch: int) -> tuple[Dimension, Dimension, Dimension]:
    """The dimensions of a product's side, its batch first."""
    dims = view.dims if len(view.dims) == 3 else ((), *view.dims)
    first, *rest = dims
    first = first if first or batch == 1 else ((batch, 0),)
    return (first, rest[0], rest[1])


def _made(found: _Found, views: list[Strided], scale: float, end: Strided) -> list[Node] | None:
    """The nodes for operands that are read as `views`, and a result in the order of `end`."""
    result, scores = found.second.output, found.product.output
    scale *= found.scale
    keys, last, size = scores.shape[-1], result.shape[-1], found.product.inputs[0].shape[-1]
    batch = prod(scores.shape[:-2])
    q, k, v = (_in_three(view, batch) for view in views)
    digits = sorted((d for dim in end.dims for d in dim), key=lambda d: -d[1])
    apart = refined(*([n for n, _ in side[0]] for side in (q, k, v)))
    if apart is None:
        return None
    both = refined([*apart, *(n for n, _ in q[1]), last], [n for n, _ in digits])
    if both is None or (last > 1 and both.pop() != last):
        return None
    outer = _first(both, batch)
    if outer is None:
        return None
    rows = both[len(outer) :] or [1]
    order = _order(end, [*outer, *rows, last])
    axes = [
        _axes(q, (outer, rows, [size])),
        _axes((k[0], k[2], k[1]), (outer, [keys], [size])),
        _axes(v, (outer, [keys], [last])),
    ]
    if order is None or not all(axes):
        return None
    own = len(outer)  # heads at the end of the batch may have the same keys and values: as rows do
    while own and not axes[1][own - 1][1] and not axes[2][own - 1][1]:
        own -= 1
    for shared in axes[1:]:
        del shared[own : len(outer)]
    readings = [reading(prod(view.source.shape), a, view.offset) for a, view in zip(axes, views)]
    if None in readings:
        return None
    extents = (*outer, *rows, keys)
    attrs: dict[str, Any] = {
        "batch": tuple(outer[:own]),
        "rows": (*outer[own:], *rows),
        "keys": keys,
        "size": size,
        "last": last,
        "scale": scale,
        "empty": found.empty,
        "order": tuple(order),
        "reads": tuple(how.places for how in readings if how),
    }
    name = result.name
    nodes: list[Node] = []
    inputs: list[Value] = []
    for n, (view, how) in enumerate(zip(views, readings)):
        assert how is not None
        inputs.append(_reshaped(view.source, how.shape, f"{name}.in{n}", nodes))
    beside = _steps(found, extents, name, nodes)
    if beside is None:
        return None
    more, steps = beside
    shape, dtype = infer("attention", [*inputs, *more], {**attrs, "steps": steps})
    out = Value(name + ".attended", shape, dtype)
    nodes.append(Node("attention", name, [*inputs, *more], [out], {**attrs, "steps": steps}))
    target = end.source
    nodes.append(Node("reshape", target.name + ".shape", [out], [target], {"shape": target.shape}))
    return nodes


def _reshaped(v: Value, shape: tuple[int, ...], name: str, nodes: list[Node]) -> Value:
    if v.shape == shape:
        return v
    if v.data is not None:
        return constant(name, v.data.reshape(shape))
    out = Value(name, shape, v.dtype)
    nodes.append(Node("reshape", name, [v], [out], {"shape": shape}))
    return out


def _first(extents: list[int], product: int) -> list[int] | None:
    """Those at the beginning that have a product."""
    n = 0
    while prod(extents[:n]) < product:
        n += 1
    return extents[:n] if prod(extents[:n]) == product else None


def _axes(dims: tuple[Dimension, ...], extents: tuple[list[int], ...]) -> list[Digit]:
    """Extents with strides, of dimensions cut into digits of these extents; empty where one cannot
    be."""
    found: list[Digit] = []
    for dim, wanted in zip(dims, extents):
        strides = cut(dim, [n for n in wanted if n > 1])
        if strides is None:
            return []
        left = iter(strides)
        found += [(n, next(left) if n > 1 else 0) for n in wanted]
    return found


def _order(end: Strided, extents: list[int]) -> list[int] | None:
    """The axes of the result in the order of `end`; None where the last one is not the last."""
    steps = [prod(extents[d + 1 :]) for d in range(len(extents))]
    ones = [d for d, n in enumerate(extents) if n == 1]
    found = [d for d in ones if d != len(extents) - 1]
    for extent, step in (d for dim in end.dims for d in dim):
        found += [d for d, s in enumerate(steps) if step <= s < step * extent and extents[d] > 1]
    if extents[-1] == 1:
        found.append(len(extents) - 1)
    return found if found[-1] == len(extents) - 1 else None


def _steps(
    found: _Found, extents: tuple[int, ...], name: str, nodes: list[Node]
) -> tuple[list[Value], tuple[Any, ...]] | None:
    """What the steps between the products read beside the scores, shaped as scores of these extents
    are (by `nodes`, which are added), and the steps themselves, see ops.attention. None where a
    dimension of a step is no run of these."""
    number = {found.scores: 0}
    more: dict[tuple[Value, tuple[int, ...]], int] = {}
    made: list[tuple[Node, list[Any]]] = []
    inner = {found.scores, *(node.output for node in found.steps)}
    for node in found.steps:
        inputs: list[Any] = []
        for v in node.inputs:
            if v in inner:
                inputs.append(v)
                continue
            shape = _beside(v.shape, node.output.shape, extents)
            if shape is None:
                return None
            inputs.append(more.setdefault((v, shape), len(more) + 1))
        made.append((node, inputs))
    steps: list[Any] = []
    for node, inputs in made:
        if node.op == "reshape" or _only_rounds(node):  # scores stay where, and what, they are
            number[node.output] = number[node.inputs[0]]
            continue
        numbers = tuple(n if isinstance(n, int) else number[n] for n in inputs)
        number[node.output] = len(more) + len(steps) + 1
        steps.append((node.op, numbers, tuple(sorted(node.attrs.items()))))
    values = [_reshaped(v, shape, f"{name}.beside{n}", nodes) for (v, shape), n in more.items()]
    return values, tuple(steps)


def _beside(
    shape: tuple[int, ...], whole: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The shape of an operand of scores in shape `whole`, where these have other `extents`."""
    if prod(shape) == 1:
        return ()
    sizes = (*[1] * (len(whole) - len(shape)), *shape)
    found: list[int] = []
    rest = list(extents)
    for size, extent in zip(sizes, whole):
        while extent > 1:
            n = rest.pop(0)
            if extent % n:
                return None
            extent //= n
            found.append(n if size > 1 else 1)
    return (*found, *rest)
