"""Functions: those that a model defines itself, and the operators that ONNX defines by others.

The nodes that take a call's place are run by ONNX's reference evaluator, so that what is tested is
the replacing alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator

from tests.graph.conformance import node_cases
from tilewright.graph.limits import Budget
from tilewright.graph.onnx import bodies
from tilewright.graph.onnx.functions import Body, standard_body
from tilewright.graph.onnx.model import Model, Pending

Array = np.ndarray[Any, Any]


def with_nodes(model: onnx.ModelProto, nodes: list[Any], opsets: dict[str, int]) -> Any:
    """The model with other nodes, and without functions."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:], copy.functions[:], copy.opset_import[:]
    copy.graph.node.extend(nodes)
    copy.opset_import.extend(helper.make_opsetid(*pair) for pair in opsets.items())
    return copy


def expanded(model: Model, nodes: Any) -> list[Any]:
    """Nodes without calls of the model's functions, in their graphs too."""
    found = []
    pending = [Pending(model, n, model.opsets) for n in reversed(nodes)]
    while pending:
        p = pending.pop()
        if model.function(p.node):
            body = bodies.body_of(p, [])
            assert body is not None
            pending += reversed(body)
            continue
        copy = onnx.NodeProto()
        copy.CopyFrom(p.node)
        for a in copy.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                inner = expanded(model, a.g.node)
                del a.g.node[:]
                a.g.node.extend(inner)
        found.append(copy)
    return found


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    before = model.SerializeToString(deterministic=True)
    of = Model(onnx, model, None, Budget(model.ByteSize()))
    nodes = expanded(of, model.graph.node)
    assert model.SerializeToString(deterministic=True) == before
    return with_nodes(model, nodes, {o.domain: o.version for o in model.opset_import})


def evaluate(model: onnx.ModelProto, **inputs: Any) -> list[Any]:
    return list(ReferenceEvaluator(model).run(None, inputs))


def same_after_inlining(text: str, **inputs: Any) -> onnx.ModelProto:
    model = parser.parse_model(text)
    flat = inlined(model)
    expected = evaluate(onnx.inliner.inline_local_functions(model), **inputs)
    for got, wanted in zip(evaluate(flat, **inputs), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    return flat


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2

HEAD = '<ir_version: 8, opset_import: ["" : 17, "my" : 1, "your" : 1]>\n'
LOCAL = '<domain: "my", opset_import: ["" : 17, "my" : 1, "your" : 1]>\n'


def test_branches_of_a_function_read_what_stands_around_them() -> None:
    # t, c and y are names of the caller too, with other values
    text = (
        HEAD
        + """
        net (float[2, 3] x) => (float[2, 3] y) {
            t = Neg (x)
            c = my.Pick (t)
            again = my.Pick (x)
            y = Sub (c, again)
        }
        """
        + LOCAL
        + """
        Pick (a) => (b) {
            two = Constant <value_float = 2.0> ()
            t = Mul (a, two)
            s = ReduceSum <keepdims = 0> (a)
            zero = Constant <value_float = 0.0> ()
            c = Greater (s, zero)
            b = If (c) <
                then_branch = g1 () => (y) {
                    u = Add (t, a)
                    d = Less (s, two)
                    y = If (d) <
                        then_branch = g2 () => (y2) { y2 = Add (u, t) },
                        else_branch = g3 () => (y3) { y3 = Identity (u) }
                    >
                },
                else_branch = g4 () => (y) { u = Sub (t, two) y = Abs (u) }
            >
        }
        """
    )
    for x in (X, X + 3, X - 1):
        flat = same_after_inlining(text, x=x)
    assert {n.op_type for n in flat.graph.node} == {
        "Neg", "Constant", "Mul", "ReduceSum", "Greater", "If", "Sub"
    }  # fmt: skip


def test_loops_and_scans_of_a_function() -> None:
    same_after_inlining(
        HEAD
        + """
        net (float[2, 3] x) => (float[2, 3] y, float[k, 2, 3] all) {
            state = my.Many (x)
            y, all = my.Repeat <steps = 3> (state)
        }
        """
        + LOCAL
        + """
        Repeat <steps> (a) => (last, all) {
            n = Constant <value_int: int = @steps> ()
            one = Constant <value_float = 1.0> ()
            yes = Cast <to = 9> (one)
            last, all = Loop (n, yes, a) <
                body = g (int64 i, bool go, float[2, 3] state)
                    => (bool on, float[2, 3] next, float[2, 3] seen)
                {
                    on = Identity (go)
                    f = Cast <to = 1> (i)
                    k = Add (f, one)
                    next = Add (state, k)
                    seen = my.Many (next)
                }
            >
        }
        """
        + LOCAL
        + """
        Many (a) => (b) {
            first = ReduceMax <axes = [0], keepdims = 0> (a)
            last, b = Scan (first, a) <
                num_scan_inputs = 1,
                body = g (float[3] s, float[3] row) => (float[3] s2, float[3] out)
                {
                    s2 = Add (s, row)
                    out = Sub (s2, first)
                }
            >
        }
        """,
        x=X,
    )


def test_calls_in_branches_of_the_graph() -> None:
    flat = same_after_inlining(
        HEAD
        + """
        net (float[2, 3] x, bool c) => (float[2, 3] y) {
            k = Neg (x)
            y = If (c) <
                then_branch = g1 () => (p) { p = my.Twice (k) },
                else_branch = g2 () => (q) { r = my.Twice (x) q = my.Twice (r) }
            >
        }
        """
        + LOCAL
        + "Twice (a) => (b) { b = your.Plus (a, a) }\n"
        + LOCAL.replace("my", "your", 1)
        + "Plus (a, k) => (b) { b = Add (a, k) }",
        x=X,
        c=np.array(False),
    )
    branches = [a.g for a in flat.graph.node[1].attribute]
    assert sorted(len(g.node) for g in branches) == [1, 2]


def attribute_of(node: Any, name: str) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), None)


def test_attributes_of_calls() -> None:
    text = (
        HEAD
        + """
        net (float[2, 3] x) => (float[2, 3] a, float[2, 3] b, float[2, 3] c) {
            a = my.Leak (x)
            b = my.Leak <slope = 0.5> (x)
            c = my.Outer <s = 0.25> (x)
        }
        """
        + LOCAL
        + "Leak <slope: float = 0.125> (a) => (b) { b = LeakyRelu <alpha: float = @slope> (a) }\n"
        + LOCAL
        + "Outer <s> (a) => (b) { b = my.Leak <slope: float = @s> (a) }"
    )
    flat = inlined(parser.parse_model(text))
    assert [attribute_of(n, "alpha") for n in flat.graph.node] == [0.125, 0.5, 0.25]
    without = parser.parse_model(text.replace(": float = 0.125", "").replace("<s = 0.25>", ""))
    found = [attribute_of(n, "alpha") for n in inlined(without).graph.node]
    assert found == [None, 0.5, None]  # where none is given, the operator's own default


def test_graphs_given_as_attributes_are_the_callers() -> None:
    """A function may hand a graph of its caller to an If of its own; that reads the caller's t."""
    graphs = parser.parse_model(
        HEAD
        + """
        net (float[2, 3] x, bool c) => (float[2, 3] y) {
            t = Neg (x)
            y = If (c) <then_branch = g1 () => (p) { p = Abs (t) },
                        else_branch = g2 () => (q) { q = Identity (t) }>
        }
        """
    )
    plain = evaluate(graphs, x=X, c=np.array(True))
    call = graphs.graph.node[1]
    call.op_type, call.domain = "Choose", "my"
    inner = helper.make_node("If", ["t"], ["out"], name="inner")
    for name in ("then_branch", "else_branch"):
        inner.attribute.add(name=name, type=onnx.AttributeProto.GRAPH, ref_attr_name=name)
    same = helper.make_node("Identity", ["c"], ["t"])
    sets = [helper.make_opsetid("", 17)]
    made = helper.make_function(
        "my", "Choose", ["c"], ["out"], [same, inner], sets, ["then_branch", "else_branch"]
    )
    graphs.functions.append(made)
    np.testing.assert_array_equal(evaluate(inlined(graphs), x=X, c=np.array(True)), plain)


def test_overloads() -> None:
    nodes = [
        helper.make_node("F", ["x"], ["p"], domain="my", overload="neg"),
        helper.make_node("F", ["p"], ["y"], domain="my"),
        helper.make_node("F", ["p"], ["z"], domain="my", overload="none"),
    ]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = [
        helper.make_function(
            "my", "F", ["a"], ["b"], [helper.make_node(kind, ["a"], ["b"])], sets, overload=overload
        )
        for kind, overload in (("Neg", "neg"), ("Abs", ""))
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))
    body = helper.make_graph(nodes, "net", [x], [y])
    model = helper.make_model(body, opset_imports=sets, ir_version=10, functions=functions)
    assert [n.op_type for n in inlined(model).graph.node] == ["Neg", "Abs", "F"]


def test_results_that_have_names_already() -> None:
    model = parser.parse_model(
        HEAD
        + """
        net (float[2, 3] x) => (float[2, 3] p, float[2, 3] q, float[2, 3] r) {
            p, q, r = my.F (x)
        }
        """
        + LOCAL
        + "F (a) => (t, a, t) { t = Neg (a) }"
    )
    flat = inlined(model)
    assert [n.op_type for n in flat.graph.node] == ["Neg", "Identity", "Identity"]
    for got, wanted in zip(evaluate(flat, x=X), [-X, X, -X], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_function_sees_nothing_of_its_caller() -> None:
    model = parser.parse_model(
        HEAD
        + "net (float[2, 3] x) => (float[2, 3] y) { t = Neg (x) y = my.F (x) }\n"
        + LOCAL
        + "F (a) => (b) { b = Add (a, t) }"
    )
    (_, add) = inlined(model).graph.node
    assert add.input[0] == "x"
    assert add.input[1] not in {"t", "x"}


def test_operators_of_other_sets_in_branches_of_functions() -> None:
    model = parser.parse_model(
        HEAD
        + "net (float[2, 3] x, bool c) => (float[2, 3] y) { y = my.F (x, c) }\n"
        + LOCAL.replace("17", "18")
        + """
        F (a, c) => (b) {
            b = If (c) <then_branch = g1 () => (p) { p = ReduceMax (a) },
                        else_branch = g2 () => (q) { q = Neg (a) }>
        }
        """
    )
    of = Model(onnx, model, None, Budget(model.ByteSize()))
    found = bodies.body_of(Pending(of, model.graph.node[0], of.opsets), [])
    assert found is not None
    assert [p.opsets[""] for p in found] == [18]


# Operators that ONNX defines by others


def body_of(model: onnx.ModelProto, opset: int | None = None) -> Body | None:
    """The definition of the one node of a model."""
    (node,) = model.graph.node
    types = {i.name: i.type for i in model.graph.input}
    opsets = {o.domain: o.version for o in model.opset_import}
    if opset is not None:
        opsets[""] = opset
    return standard_body(onnx, node, opsets, [types.get(name) for name in node.input])


def defined() -> set[str]:
    """Operators that have a definition in some operator set."""
    schemas: Any = onnx.defs.get_all_schemas_with_history()
    return {s.name for s in schemas if s.has_function or s.has_context_dependent_function}


def single(operator: str) -> list[Any]:
    """The suite's cases of one node of that operator which has a definition."""
    return [
        case
        for case in node_cases().values()
        if [n.op_type for n in case.model.graph.node] == [operator]
        and body_of(case.model) is not None
    ]


def check_case(operator: str, case: Any) -> None:
    found = body_of(case.model)
    assert found is not None
    model = with_nodes(case.model, found.nodes, found.opsets)
    for inputs, outputs in case.data:
        given = {i.name: x for i, x in zip(model.graph.input, inputs)}
        with np.errstate(all="ignore"):
            results = evaluate(model, **given)
        for got, wanted in zip(results, outputs, strict=True):
            if operator == "Bernoulli":  # whose numbers are random
                assert got.shape == wanted.shape and set(np.unique(got)) <= {0, 1}
                continue
            if operator == "Range":  # the evaluator's Loop makes columns of scalars
                got = got.reshape(-1)
            pairs = zip(got, wanted, strict=True) if isinstance(wanted, list) else [(got, wanted)]
            for mine, right in pairs:
                assert mine.dtype == right.dtype
                np.testing.assert_allclose(
                    mine.astype(np.float64), right.astype(np.float64), rtol=1e-3, atol=1e-7
                )


@pytest.mark.parametrize("operator", sorted(defined()))
def test_definition(operator: str) -> None:
    """The nodes compute what the suite says that the operator computes."""
    cases = single(operator)
    assert cases, "the suite has cases for every operator that has a definition"
    failures = []
    for case in cases:
        try:
            check_case(operator, case)
        except Exception as error:
            failures.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def test_every_case_of_a_function_has_a_definition() -> None:
    """Where the suite has the expanded form of a case, the operator has one here too."""
    names = node_cases()
    expanded = [n.removesuffix("_expanded") for n in names if n.endswith("_expanded")]
    assert len(expanded) > 250
    assert not [n for n in expanded if n in names and body_of(names[n].model) is None]


def single_node(kind: str, inputs: str, outputs: str, opset: int, **attrs: Any) -> Any:
    """A model of one node, inputs of floats."""
    node = helper.make_node(kind, inputs.split(","), outputs.split(","), **attrs)
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 3)) for n in node.input if n]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output if n]
    body = helper.make_graph([node], "net", given, made)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.parametrize(
    ("kind", "opset", "used"),
    [("Elu", 6, 18), ("Elu", 17, 18), ("Elu", 22, 18), ("Softmax", 13, 13), ("Softmax", 25, 18),
     ("LayerNormalization", 17, 17), ("LayerNormalization", 20, 18), ("Celu", 28, 28)],
)  # fmt: skip
def test_operator_sets_of_definitions(kind: str, opset: int, used: int) -> None:
    inputs = "x,s" if kind == "LayerNormalization" else "x"
    model = single_node(kind, inputs, "y", opset)
    found = body_of(model)
    assert found is not None and found.opsets == {"": used}
    scale = np.ones(3, np.float32)
    given = {"x": X, "s": scale} if kind == "LayerNormalization" else {"x": X}
    got = evaluate(with_nodes(model, found.nodes, found.opsets), **given)
    (wanted,) = evaluate(model, **given)
    np.testing.assert_allclose(got[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "opset"),
    [("Softmax", 12), ("Add", 17), ("Clip", 12), ("Upsample", 10), ("NoSuchOperator", 17)],
)
def test_operators_without_a_definition(kind: str, opset: int) -> None:
    assert body_of(single_node(kind, "x", "y", opset)) is None


def test_a_definition_that_needs_types_it_has_not() -> None:
    (node,) = single_node("LayerNormalization", "x,s", "y", 17).graph.node
    assert standard_body(onnx, node, {"": 17}, [None, None]) is None


def test_definitions_fill_in_what_is_left_out() -> None:
    default = body_of(single_node("ThresholdedRelu", "x", "y", 22))
    given = body_of(single_node("ThresholdedRelu", "x", "y", 22, alpha=3.0))
    assert default is not None and given is not None
    for found, alpha in ((default, 1.0), (given, 3.0)):
        constant = next(n for n in found.nodes if n.op_type == "Constant")
        assert attribute_of(constant, "value_float") == alpha
    (clip,) = single_node("Clip", "x,,top", "y", 13).graph.node
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3))
    half = standard_body(onnx, clip, {"": 13}, [kind, None, kind])
    assert half is not None
    assert [n.op_type for n in half.nodes] == ["Less", "Where"]
    assert {i for n in half.nodes for i in n.input} == {"x", "top", half.nodes[0].output[0]}


def test_names_of_definitions_are_their_own() -> None:
    first = body_of(single_node("Gelu", "x", "y", 20))
    second = body_of(single_node("Gelu", "x", "z", 20))
    assert first is not None and second is not None
    names = [{o for n in b.nodes for o in n.output} for b in (first, second)]
    assert not names[0] & names[1]
    assert "y" in names[0] and "z" in names[1]


def test_graphs_of_a_node_read_what_stands_around_it() -> None:
    """SequenceMap's graph reads values with the names that its definition uses."""
    outer = ["input_sequence", "SequenceMap_input_sequence_seqlen", "k"]
    body = helper.make_graph(
        [helper.make_node("Sum", ["a", *outer], ["k2"]), helper.make_node("Abs", ["k2"], ["out"])],
        "body",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, (2, 3))],
    )
    made = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        *(helper.make_node("Mul", ["x", "x"], [name]) for name in outer),
        helper.make_node("SequenceMap", ["s"], ["t"], body=body),
        helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xy"]
    sets = [helper.make_opsetid("", 20)]
    model = helper.make_model(helper.make_graph(made, "net", values[:1], values[1:]),
                              opset_imports=sets)  # fmt: skip
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3)))
    found = standard_body(onnx, made[4], {"": 20}, [kind])
    assert found is not None and found.opsets == {"": 20}
    flat = with_nodes(model, [*made[:4], *found.nodes, made[5]], found.opsets)
    (got,) = evaluate(flat, x=X)
    np.testing.assert_array_equal(got, np.tile(np.abs(X + 3 * X * X), (2, 1)))
