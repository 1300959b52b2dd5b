"""Small models of many operators, and ways to damage them: what tests/graph/test_bad_models.py
reads, and what `python -m tests.graph.damage FIRST LAST` tries with seeds of that range."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Damage = Callable[[random.Random, onnx.ModelProto], str]
"""Changes a model in place; says what it did, or nothing where the model has no place for it."""


def weight(name: str, *shape: int, seed: int = 3) -> onnx.TensorProto:
    data = np.random.default_rng(seed).standard_normal(shape) * 0.3
    return numpy_helper.from_array(data.astype(np.float32), name)


def whole(name: str, data: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(data, np.int64), name)


def tensor(name: str, shape: Any, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, reads: str, writes: str, **attrs: Any) -> onnx.NodeProto:
    """`reads`, `writes`: names with spaces between them, "-" for one that is left out."""
    inputs, outputs = ([n.replace("-", "") for n in text.split()] for text in (reads, writes))
    return helper.make_node(op, inputs, outputs, f"{op}_{writes.split()[0]}", **attrs)


def model(name: str, nodes: Any, inputs: Any, outputs: Any, weights: Any = ()) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, name, inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pictures() -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w1 b1", "c1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c1 s b1 b1 v", "n1", epsilon=1e-3),
        node("Relu", "n1", "r1"),
        node("MaxPool", "r1", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", "p1 w2", "t1", strides=[2, 2]),
        node("Resize", "t1 - scales", "u1", mode="linear"),
        node("Pad", "u1 pads", "q1", mode="reflect"),
        node("GlobalAveragePool", "q1", "g"),
        node("Flatten", "g", "f", axis=1),
        node("Gemm", "f w3 b3", "y", transB=1, alpha=0.5),
    ]
    weights = [weight("w1", 4, 3, 3, 3), weight("b1", 4), weight("s", 4)]
    weights += [numpy_helper.from_array(np.full(4, 0.5, np.float32), "v")]
    weights += [numpy_helper.from_array(np.array([1, 1, 1.5, 1.5], np.float32), "scales")]
    weights += [whole("pads", [0, 0, 1, 1, 0, 0, 1, 0]), weight("w2", 4, 2, 2, 2)]
    weights += [weight("w3", 5, 2), weight("b3", 5)]
    return model("pictures", nodes, [tensor("x", [1, 3, 6, 6])], [tensor("y", [1, 5])], weights)


def attention() -> onnx.ModelProto:
    nodes = [
        node("Gather", "table ids", "e", axis=0),
        node("LayerNormalization", "e s b", "n", axis=-1),
        node("MatMul", "n wq", "q"),
        node("Shape", "q", "size"),
        node("Slice", "size zero two", "front"),
        node("Concat", "front heads", "shape", axis=0),
        node("Reshape", "q shape", "q4"),
        node("Transpose", "q4", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "q4", "kt", perm=[0, 2, 3, 1]),
        node("MatMul", "qt kt", "scores"),
        node("Softmax", "scores", "p", axis=-1),
        node("Einsum", "p qt", "mixed", equation="bhij,bhjd->bihd"),
        node("Reshape", "mixed same", "y"),
        node("ReduceMean", "y", "mean", axes=[-1], keepdims=0),
        node("ArgMax", "mean", "best", axis=1, keepdims=0),
    ]
    weights = [weight("table", 11, 8), weight("s", 8), weight("b", 8), weight("wq", 8, 8)]
    weights += [whole("zero", [0]), whole("two", [2]), whole("heads", [2, 4])]
    weights += [whole("same", [0, 0, 8])]
    outputs = [tensor("y", [2, 3, 8]), tensor("best", [2], INT64)]
    return model("attention", nodes, [tensor("ids", [2, 3], INT64)], outputs, weights)


def recurrent() -> onnx.ModelProto:
    nodes = [
        node("LSTM", "x w r b", "all last cell", hidden_size=4, direction="bidirectional"),
        node("Transpose", "all", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t flat", "f"),
        node("GRU", "f wg rg", "- y", hidden_size=3),
        node("Squeeze", "y zero", "z"),
    ]
    weights = [weight("w", 2, 16, 5), weight("r", 2, 16, 4), weight("b", 2, 32)]
    weights += [whole("flat", [6, 2, 8]), weight("wg", 1, 9, 8), weight("rg", 1, 9, 3)]
    weights += [whole("zero", [0])]
    outputs = [tensor("z", [2, 3]), tensor("cell", [2, 2, 4])]
    return model("recurrent", nodes, [tensor("x", [6, 2, 5])], outputs, weights)


def control() -> onnx.ModelProto:
    bool_ = TensorProto.BOOL
    then = helper.make_graph([node("Add", "x x", "a")], "then", [], [tensor("a", [2, 3])])
    other = helper.make_graph([node("Mul", "x w", "m")], "other", [], [tensor("m", [2, 3])])
    step = helper.make_graph(
        [node("Add", "v w", "v2"), node("Identity", "go", "go2"), node("Exp", "v2", "scan")],
        "step",
        [tensor("k", [], INT64), tensor("go", [], bool_), tensor("v", [2, 3])],
        [tensor("go2", [], bool_), tensor("v2", [2, 3]), tensor("scan", [2, 3])],
    )
    nodes = [
        node("ReduceSum", "x", "total", keepdims=0),
        node("Greater", "total zero", "cond"),
        node("If", "cond", "i", then_branch=then, else_branch=other),
        node("Loop", "three - i", "end scans", body=step),
        node("NonZero", "end", "places"),
        node("Cast", "places", "found", to=FLOAT),
    ]
    weights = [weight("w", 3), whole("three", 3)]
    weights += [numpy_helper.from_array(np.array(0, np.float32), "zero")]
    outputs = [tensor("scans", [3, 2, 3]), tensor("found", [2, None])]
    return model("control", nodes, [tensor("x", [2, 3])], outputs, weights)


def moves() -> onnx.ModelProto:
    nodes = [
        node("Split", "x halves", "left right", axis=1),
        node("Tile", "left times", "wide"),
        node("GatherND", "x where", "some"),
        node("ScatterND", "x where news", "changed"),
        node("ScatterElements", "changed spots more", "again", axis=1),
        node("GatherElements", "again spots", "picked", axis=1),
        node("Expand", "right wider", "grown"),
        node("Where", "mask grown wide", "chosen"),
        node("TopK", "again k", "top tops", axis=1),
        node("CumSum", "chosen axis", "sums"),
        node("OneHot", "tops depth pair", "hot", axis=-1),
        node("Clip", "sums low", "y"),
        node("Trilu", "again", "tri", upper=0),
        node("DepthToSpace", "space", "deep", blocksize=2),
        node("Unsqueeze", "again one", "more_dims"),
    ]
    weights = [whole("halves", [2, 2]), whole("times", [1, 2]), whole("where", [[0, 1], [2, 3]])]
    weights += [weight("news", 2), whole("spots", [[0, 3], [1, 2], [2, 0]]), weight("more", 3, 2)]
    weights += [whole("wider", [2, 3, 2]), whole("k", [2]), whole("axis", 0), whole("depth", 4)]
    weights += [numpy_helper.from_array(np.array([0, 1], np.float32), "pair"), whole("one", [1])]
    weights += [
        numpy_helper.from_array(np.array(-1, np.float32), "low"),
        weight("space", 1, 8, 2, 2),
    ]
    weights += [numpy_helper.from_array(np.array([True, False]), "mask")]
    names = "some picked y hot tri deep more_dims"
    nodes[7].input[2] = "left"
    outputs = [tensor(n, None) for n in names.split()]
    return model("moves", nodes, [tensor("x", [3, 4])], outputs, weights)


def quantized() -> onnx.ModelProto:
    scale = numpy_helper.from_array(np.array(0.05, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(128, np.uint8), "zero")
    bytes_ = np.random.default_rng(1).integers(-9, 9, (6, 5))
    nodes = [
        node("QuantizeLinear", "x scale zero", "q"),
        node("DequantizeLinear", "q scale zero", "d"),
        node("DequantizeLinear", "w ws", "dw", axis=1),
        node("MatMul", "d dw", "m"),
        node("QuantizeLinear", "m scale zero", "mq"),
        node("DequantizeLinear", "mq scale zero", "y"),
        node("DynamicQuantizeLinear", "m", "dq ds dz"),
        node("MatMulInteger", "dq w dz", "whole"),
    ]
    nodes[-1].input[1] = "w2"
    weights = [scale, zero, numpy_helper.from_array(bytes_.astype(np.int8), "w")]
    weights += [numpy_helper.from_array(bytes_.T.copy().astype(np.int8), "w2")]
    weights += [numpy_helper.from_array(np.full(5, 0.02, np.float32), "ws")]
    outputs = [tensor("y", [2, 5]), tensor("whole", [2, 6], TensorProto.INT32)]
    return model("quantized", nodes, [tensor("x", [2, 6])], outputs, weights)


def functions() -> onnx.ModelProto:
    body = [node("Mul", "a b", "ab"), node("Sigmoid", "ab", "s"), node("Add", "s a", "c")]
    sets = [helper.make_opsetid("", 17)]
    inner = helper.make_function("mine", "Mix", ["a", "b"], ["c"], body, sets)
    nodes = [helper.make_node("Mix", ["x", "w"], ["h"], name="first", domain="mine")]
    nodes += [helper.make_node("Mix", ["h", "x"], ["y"], name="second", domain="mine")]
    graph = helper.make_graph(
        nodes, "functions", [tensor("x", [2, 3])], [tensor("y", [2, 3])], [weight("w", 3)]
    )
    sets = [*sets, helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=sets, functions=[inner], ir_version=8)


def open_sizes() -> onnx.ModelProto:
    nodes = [
        node("MatMul", "x w", "h"),
        node("Add", "h z", "s"),
        node("Shape", "s", "size"),
        node("Gather", "size zero", "batch", axis=0),
        node("Concat", "batch minus", "flat", axis=0),
        node("Reshape", "s flat", "y"),
    ]
    weights = [weight("w", 4, 4), whole("zero", [0]), whole("minus", [-1])]
    inputs = [tensor("x", ["batch", "seq", 4]), tensor("z", ["batch", "seq", 4])]
    return model("open_sizes", nodes, inputs, [tensor("y", ["batch", None])], weights)


def words() -> onnx.ModelProto:
    text = numpy_helper.from_array(np.array(["a b", "c"], object), "text")
    nodes = [
        node("StringSplit", "text", "parts counts", delimiter=" "),
        node("SequenceConstruct", "x x", "both"),
        node("SequenceAt", "both one", "second"),
        node("ConcatFromSequence", "both", "y", axis=0),
        node("Unique", "second", "kinds", sorted=1),
        node("Cast", "counts", "number", to=FLOAT),
    ]
    made = model(
        "words", nodes, [tensor("x", [2, 2])],
        [tensor("y", None), tensor("kinds", None), tensor("number", None)],
        [text, whole("one", 1)],
    )  # fmt: skip
    made.opset_import[0].version = 20
    return made


MODELS = {
    f.__name__: f
    for f in (
        pictures, attention, recurrent, control, moves, quantized, functions, open_sizes, words,
    )
}  # fmt: skip


# -- where a model can be damaged


def _graphs(made: onnx.ModelProto) -> list[Any]:
    found, stack = [], [made.graph]
    while stack:
        graph = stack.pop()
        found.append(graph)
        stack += [a.g for n in graph.node for a in n.attribute if a.type == a.GRAPH]
    return found


def _nodes(made: onnx.ModelProto) -> list[Any]:
    return [n for part in (*_graphs(made), *made.functions) for n in part.node]


def _lists(made: onnx.ModelProto) -> list[Any]:
    return [part.node for part in (*_graphs(made), *made.functions) if len(part.node)]


def _weights(made: onnx.ModelProto) -> list[Any]:
    return [t for g in _graphs(made) for t in g.initializer]


def _infos(made: onnx.ModelProto) -> list[Any]:
    return [v for g in _graphs(made) for v in (*g.input, *g.output)]


def _names(made: onnx.ModelProto) -> list[str]:
    names = [n for x in _nodes(made) for n in (*x.input, *x.output)]
    return sorted({*names, *(t.name for t in _weights(made)), "nowhere", ""})


ODD = [0, -1, 1, 2, 3, 7, -7, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 40]


def _attributes(made: onnx.ModelProto) -> list[tuple[Any, Any]]:
    return [(n, a) for n in _nodes(made) for a in n.attribute]


# -- damages


def drop_input(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice([n for n in _nodes(made) if n.input])
    k = rng.randrange(len(x.input))
    gone = x.input[k]
    if rng.random() < 0.5:
        x.input[k] = ""
    else:
        del x.input[k]
    return f"{x.name} without input {gone}"


def add_input(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice(_nodes(made))
    name = rng.choice(_names(made))
    x.input.insert(rng.randint(0, len(x.input)), name)
    return f"{x.name} reads {name!r} too"


def rename_input(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice([n for n in _nodes(made) if n.input])
    k = rng.randrange(len(x.input))
    old, x.input[k] = x.input[k], rng.choice(_names(made))
    return f"{x.name} reads {x.input[k]!r} for {old!r}"


def rename_output(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice([n for n in _nodes(made) if n.output])
    k = rng.randrange(len(x.output))
    old, x.output[k] = x.output[k], rng.choice(_names(made))
    return f"{x.name} writes {x.output[k]!r} for {old!r}"


def change_outputs(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice(_nodes(made))
    if x.output and rng.random() < 0.5:
        return f"{x.name} without output {x.output.pop()}"
    x.output.append(rng.choice(_names(made)))
    return f"{x.name} writes {x.output[-1]!r} too"


def drop_node(rng: random.Random, made: onnx.ModelProto) -> str:
    part = rng.choice(_lists(made))
    return f"no {part.pop(rng.randrange(len(part))).name}"


def swap_nodes(rng: random.Random, made: onnx.ModelProto) -> str:
    part = rng.choice(_lists(made))
    a, b = rng.randrange(len(part)), rng.randrange(len(part))
    one, two = onnx.NodeProto(), onnx.NodeProto()
    one.CopyFrom(part[a])
    two.CopyFrom(part[b])
    part[a].CopyFrom(two)
    part[b].CopyFrom(one)
    return f"{one.name} and {two.name} swapped"


def repeat_node(rng: random.Random, made: onnx.ModelProto) -> str:
    part = rng.choice(_lists(made))
    part.append(rng.choice(part))
    return f"{part[-1].name} twice"


def change_operator(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice(_nodes(made))
    kinds = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
    old = x.op_type
    x.op_type = rng.choice([*kinds, "NoSuchOperator", ""])
    return f"{old} {x.name} becomes {x.op_type}"


def change_domain(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice(_nodes(made))
    x.domain = rng.choice(["nobody", "com.microsoft", "ai.onnx.ml", "", "ai.onnx", "mine"])
    return f"{x.name} of domain {x.domain!r}"


def change_attribute(rng: random.Random, made: onnx.ModelProto) -> str:
    places = _attributes(made)
    if not places:
        return ""
    x, a = rng.choice(places)
    kind, name = a.type, a.name
    if kind == a.INT:
        a.i = rng.choice(ODD)
    elif kind == a.INTS:
        how = rng.randrange(3)
        if how == 0 and a.ints:
            a.ints[rng.randrange(len(a.ints))] = rng.choice(ODD)
        elif how == 1 and a.ints:
            a.ints.pop()
        else:
            a.ints.append(rng.choice(ODD))
    elif kind == a.FLOAT:
        a.f = rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
    elif kind == a.STRING:
        a.s = rng.choice([b"", b"nonsense", b"\xff\xfe", b"SAME_UPPER", a.s + b"x", a.s[:-1]])
    else:
        return ""
    return f"attribute {name} of {x.name} damaged"


def retype_attribute(rng: random.Random, made: onnx.ModelProto) -> str:
    places = _attributes(made)
    if not places:
        return ""
    x, a = rng.choice(places)
    values: list[Any] = [1, 0.5, "text", [1, 2], [0.5], ["a"], np.zeros(2, np.float32)]
    value = rng.choice(values)
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value, "t")
    a.CopyFrom(helper.make_attribute(a.name, value))
    return f"attribute {a.name} of {x.name} of another type"


def mistype_attribute(rng: random.Random, made: onnx.ModelProto) -> str:
    places = _attributes(made)
    if not places:
        return ""
    x, a = rng.choice(places)
    a.type = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])
    return f"attribute {a.name} of {x.name} says it is of type {a.type}"


def change_attributes(rng: random.Random, made: onnx.ModelProto) -> str:
    x = rng.choice(_nodes(made))
    how = rng.randrange(3)
    if how == 0 and x.attribute:
        return f"{x.name} without attribute {x.attribute.pop().name}"
    if how == 1 and x.attribute:
        x.attribute.append(rng.choice(x.attribute))
        return f"{x.name} with attribute {x.attribute[-1].name} twice"
    names = ["axis", "axes", "keepdims", "to", "nothing", "kernel_shape", "auto_pad", "group"]
    value = rng.choice([0, 1, -3, [1, 2], "text", 0.5])
    x.attribute.append(helper.make_attribute(rng.choice(names), value))
    return f"{x.name} with an attribute {x.attribute[-1].name}"


def change_opset(rng: random.Random, made: onnx.ModelProto) -> str:
    how = rng.randrange(4)
    if how == 0:
        made.opset_import[0].version = rng.choice([*range(1, 30), 0, -1, 1000, 1 << 40])
    elif how == 1:
        del made.opset_import[:]
    elif how == 2:
        made.opset_import.append(helper.make_opsetid(rng.choice(["", "nobody"]), 5))
    else:
        made.ir_version = rng.choice([0, 1, 3, 8, 99, -1])
    return f"opsets {[(o.domain, o.version) for o in made.opset_import]}, IR {made.ir_version}"


def cut_weight(rng: random.Random, made: onnx.ModelProto) -> str:
    places = [t for t in _weights(made) if t.raw_data]
    if not places:
        return ""
    t = rng.choice(places)
    size = rng.randrange(len(t.raw_data))
    t.raw_data = t.raw_data[:size] if rng.random() < 0.7 else t.raw_data + b"\0" * (1 + size)
    return f"{t.name} has {len(t.raw_data)} bytes"


def reshape_weight(rng: random.Random, made: onnx.ModelProto) -> str:
    places = _weights(made)
    if not places:
        return ""
    t = rng.choice(places)
    how = rng.randrange(4)
    if how == 0 and t.dims:
        t.dims[rng.randrange(len(t.dims))] = rng.choice(ODD)
    elif how == 1 and t.dims:
        t.dims.pop()
    elif how == 2:
        t.dims.insert(0, rng.choice([1, 1, 2, 0]))
    elif len(t.dims) > 1:
        t.dims.append(t.dims.pop(0))
    return f"{t.name} of shape {list(t.dims)}"


def retype_weight(rng: random.Random, made: onnx.ModelProto) -> str:
    places = _weights(made)
    if not places:
        return ""
    t = rng.choice(places)
    if rng.random() < 0.4:
        t.data_type = rng.choice([0, *range(1, 30), 99, -1])
        return f"{t.name} says it is of type {t.data_type}"
    kinds = ["float32", "float64", "int32", "int64", "int8", "bool", "float16", "complex64"]
    data = numpy_helper.to_array(t)
    if data.dtype == object:
        return ""
    t.CopyFrom(numpy_helper.from_array(data.astype(rng.choice(kinds)), t.name))
    return f"{t.name} of type {t.data_type}"


def change_numbers(rng: random.Random, made: onnx.ModelProto) -> str:
    """Other numbers where they are shapes, axes and indices."""
    places = [t for t in _weights(made) if t.data_type == INT64 and t.raw_data]
    if not places:
        return ""
    t = rng.choice(places)
    data = numpy_helper.to_array(t).copy()
    if not data.size:
        return ""
    data.reshape(-1)[rng.randrange(data.size)] = rng.choice(ODD)
    t.CopyFrom(numpy_helper.from_array(data, t.name))
    return f"{t.name} is {data.tolist()}"


def weight_elsewhere(rng: random.Random, made: onnx.ModelProto) -> str:
    places = [t for t in _weights(made) if t.raw_data]
    if not places:
        return ""
    t = rng.choice(places)
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    facts = {"location": rng.choice(["none.bin", "", "/etc/passwd", "../x", "short.bin"])}
    facts["offset"] = rng.choice(["0", "-4", "x", "99999999999999999999"])
    for key, value in facts.items():
        t.external_data.add(key=key, value=value)
    return f"{t.name} in {facts}"


def damage_weights(rng: random.Random, made: onnx.ModelProto) -> str:
    g = rng.choice(_graphs(made))
    if not g.initializer:
        return ""
    if rng.random() < 0.5:
        return f"no {g.initializer.pop(rng.randrange(len(g.initializer))).name}"
    g.initializer.append(rng.choice(g.initializer))
    if rng.random() < 0.5:
        g.initializer[-1].name = rng.choice(_names(made))
    return f"another weight {g.initializer[-1].name!r}"


def change_info(rng: random.Random, made: onnx.ModelProto) -> str:
    v = rng.choice(_infos(made))
    shape = v.type.tensor_type.shape.dim
    how = rng.randrange(7)
    if how == 0 and shape:
        shape[rng.randrange(len(shape))].dim_value = rng.choice(ODD)
    elif how == 1 and shape:
        shape[rng.randrange(len(shape))].dim_param = rng.choice(["n", "batch", "", "x y", "-1"])
    elif how == 2 and shape:
        del shape[-1]
    elif how == 3:
        shape.add().dim_value = rng.choice([1, 2, 0, 1 << 40])
    elif how == 4:
        v.type.tensor_type.elem_type = rng.choice([*range(0, 28), 99, -1])
    elif how == 5:
        v.ClearField("type")
    else:
        v.name = rng.choice(_names(made))
    return f"{v.name!r} declared as {str(v.type)[:60]!r}".replace("\\n", " ")


def change_declared(rng: random.Random, made: onnx.ModelProto) -> str:
    g = rng.choice(_graphs(made))
    part = rng.choice([g.input, g.output])
    how = rng.randrange(3)
    if how == 0 and part:
        return f"{part.pop().name} is not declared"
    if how == 1 and part:
        part.append(rng.choice(part))
    else:
        part.append(tensor(rng.choice(_names(made)), [2, 3]))
    return f"{part[-1].name!r} is declared too"


def contradict(rng: random.Random, made: onnx.ModelProto) -> str:
    g = rng.choice(_graphs(made))
    name = rng.choice([n for x in g.node for n in x.output] or ["nowhere"])
    g.value_info.append(tensor(name, [9, 9], rng.choice([FLOAT, INT64])))
    return f"value_info of {name}"


def damage_branch(rng: random.Random, made: onnx.ModelProto) -> str:
    places = [(n, a) for n, a in _attributes(made) if a.type == a.GRAPH]
    if not places:
        return ""
    x, a = rng.choice(places)
    how = rng.randrange(5)
    if how == 0:
        x.attribute.remove(a)
    elif how == 1:
        a.g.Clear()
    elif how == 2:
        del a.g.output[:]
    elif how == 3:
        del a.g.node[:]
    else:
        a.g.input.append(tensor("extra", [1]))
    return f"a part of {x.name} is damaged ({how})"


def damage_function(rng: random.Random, made: onnx.ModelProto) -> str:
    if not made.functions:
        return ""
    f = made.functions[0]
    how = rng.randrange(6)
    if how == 0:
        f.node.append(helper.make_node("Mix", ["a", "b"], ["again"], domain="mine"))
        f.output[0] = "again"
    elif how == 1:
        f.input.pop()
    elif how == 2:
        f.output[0] = "nowhere"
    elif how == 3:
        f.name = "Other"
    elif how == 4:
        del f.opset_import[:]
    else:
        made.functions.append(f)
    return f"function damaged ({how})"


def flip_bytes(rng: random.Random, made: onnx.ModelProto) -> str:
    """Any byte of the file; what is no message any more stays as it was."""
    data = bytearray(made.SerializeToString())
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    other = onnx.ModelProto()
    try:
        other.ParseFromString(bytes(data))
    except Exception:  # google.protobuf's DecodeError
        return ""
    made.CopyFrom(other)
    return "bytes changed"


DAMAGES: list[Damage] = [
    drop_input, add_input, rename_input, rename_output, change_outputs, drop_node, swap_nodes,
    repeat_node, change_operator, change_domain, change_attribute, change_attribute,
    retype_attribute, mistype_attribute, change_attributes, change_opset, cut_weight,
    reshape_weight, retype_weight, change_numbers, change_numbers, weight_elsewhere,
    damage_weights, change_info, change_info, change_declared, contradict, damage_branch,
    damage_function, flip_bytes,
]  # fmt: skip


def damaged(seed: int) -> tuple[str, onnx.ModelProto]:
    """A model with one damage, sometimes two, and what they are."""
    rng = random.Random(seed)
    names = list(MODELS)
    made = MODELS[names[seed % len(names)]]()
    told: list[str] = []
    while not told or rng.random() < 0.15:
        done = rng.choice(DAMAGES)(rng, made)
        told += [done] if done else []
    return f"{names[seed % len(names)]}: {'; '.join(told)}", made
