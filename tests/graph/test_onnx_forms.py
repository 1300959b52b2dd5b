"""Forms of models that single operators do not show: functions, old operator sets, budgets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.graph.ort import compare, model_of
from tilewright import graph
from tilewright.base import config
from tilewright.base.dtype import parse
from tilewright.base.errors import CompileError, ImportModelError

FLOAT = TensorProto.FLOAT
Array = np.ndarray[Any, Any]


def floats(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def node(kind: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attrs)


def value(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: Any, inputs: Any, outputs: Any, opset: int = 17, **more: Any) -> Any:
    sets = [helper.make_opsetid("", opset), *more.pop("sets", ())]
    body = helper.make_graph(nodes, "net", inputs, outputs, more.pop("weights", []))
    return helper.make_model(body, opset_imports=sets, ir_version=8, **more)


def run(made: Any, **inputs: Array) -> Array:
    (result,) = graph.compile(graph.load_onnx(made)).run(inputs).values()
    return result


BROADCAST = [  # shapes, axis, the second as NumPy stretches it
    ((2, 2), (2,), 0, (2, 1)),
    ((2, 2), (2,), 1, (2,)),
    ((2, 2), (2,), None, (2,)),
    ((2, 3, 4, 5), (3, 4), 1, (3, 4, 1)),
    ((2, 3, 4, 5), (3, 4), -3, (3, 4, 1)),
    ((2, 3), (), None, ()),
    ((2, 3), (1, 1), None, (1, 1)),
    ((2, 3), (2,), 0, (2, 1)),
]


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater"])
def test_broadcasting_of_old_operator_sets(kind: str) -> None:
    function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
                "Pow": np.power, "Less": np.less, "Greater": np.greater}[kind]  # fmt: skip
    for left, right, axis, stretched in BROADCAST:
        x, b = np.abs(floats(*left)) + 1, np.abs(floats(*right)) + np.float32(1.5)
        attrs = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
        out = value("y", left, TensorProto.BOOL if kind in ("Less", "Greater") else FLOAT)
        made = model([node(kind, "x b", "y", **attrs)], [value("x", left), value("b", right)],
                     [out], 6)  # fmt: skip
        got = run(made, x=x, b=np.asarray(b))
        np.testing.assert_allclose(got, function(x, np.reshape(b, stretched)), rtol=1e-6)


def test_broadcasting_that_old_operator_sets_do_not_have() -> None:
    x, b, y = value("x", (2, 3)), value("b", (3,)), value("y", (2, 3))
    for attrs, text in [({}, "broadcast is not set"), ({"broadcast": 1, "axis": 0}, "stretched")]:
        with pytest.raises(ImportModelError, match=text):
            graph.load_onnx(model([node("Add", "x b", "y", **attrs)], [x, b], [y], 6))


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions_of_scalars(kind: str, keep: int) -> None:
    x = {"x": np.array(2.5, np.float32)}
    compare(model_of([node(kind, "x", "y", keepdims=keep)], x, ["y"], opset=18), x)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("opset", [10, 19, 22])
@pytest.mark.parametrize("size", [9, 10, 11, 12])
@pytest.mark.parametrize("window", [(2, 2, 1), (3, 2, 1), (3, 3, 2), (2, 3, 1), (5, 4, 2)])
def test_pooling_up_to_the_last_element(kind: str, opset: int, size: int, window: Any) -> None:
    kernel, stride, pad = window
    attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    made = node(kind, "x", "p", ceil_mode=1, **attrs)
    x = {"x": floats(1, 2, size, size)}
    whole = model([made, node("Flatten", "p", "y")], [value("x", (1, 2, size, size))],
                  [value("y", None)], opset)  # fmt: skip
    compare(whole, x)


@pytest.mark.parametrize(
    ("kind", "attrs"),
    [
        ("GlobalAveragePool", {}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [1]}),
        ("AveragePool", {"kernel_shape": [2], "dilations": [1, 1]}),
        ("Relu", {"kernel_shape": [2, 2]}),
        ("Conv", {}),
    ],
)
def test_a_ceiling_where_there_are_no_such_windows(kind: str, attrs: Any) -> None:
    """Damaged attributes are the importer's or the checker's to refuse, in the project's words."""
    made = node(kind, "x x" if kind == "Conv" else "x", "y", ceil_mode=1, **attrs)
    whole = model([made], [value("x", (2, 2, 5, 5))], [value("y", None)], 22)
    with pytest.raises(ImportModelError):
        graph.load_onnx(whole)


@pytest.mark.parametrize("base", ["int32", "int64"])
@pytest.mark.parametrize("exponent", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("known", [False, True])
def test_powers_of_integers(base: str, exponent: str, known: bool) -> None:
    """Exact in the bits of the base, whatever the exponent's type."""
    x = np.array([2**31 - 1, 3037000500, 3, -7, 0, -1, 2**62 - 1]).astype(base)
    z = np.array([3, 3, 35, 77, 0, 127, 1]).astype(exponent)
    ins = [value("x", x.shape, helper.np_dtype_to_tensor_dtype(np.dtype(base)))]
    exponents = value("z", z.shape, helper.np_dtype_to_tensor_dtype(np.dtype(exponent)))
    out = value("y", None, helper.np_dtype_to_tensor_dtype(np.dtype(base)))
    more: Any = {"weights": [numpy_helper.from_array(z, "z")]} if known else {}
    made = model([node("Pow", "x z", "y")], ins if known else [*ins, exponents], [out], **more)
    bits = 8 * x.itemsize
    exact = np.array([pow(int(a), int(b), 2**bits) for a, b in zip(x, z)], f"uint{bits}")
    np.testing.assert_array_equal(run(made, x=x, **({} if known else {"z": z})), exact.astype(base))


def test_powers_to_exponents_that_the_base_cannot_hold() -> None:
    x, z = np.array([-1, -1, 1.5], np.float32), np.array([2**24 + 1, 2**24, 3])
    ins = [value("x", (3,)), value("z", (3,), TensorProto.INT64)]
    made = model([node("Pow", "x z", "y")], ins, [value("y", None)])
    np.testing.assert_array_equal(run(made, x=x, z=z), np.array([-1, 1, 3.375], np.float32))
    weights = [numpy_helper.from_array(z, "z")]
    made = model([node("Pow", "x z", "y")], ins[:1], [value("y", None)], weights=weights)
    np.testing.assert_array_equal(run(made, x=x), np.array([-1, 1, 3.375], np.float32))


def gemm(kind: int, **attrs: Any) -> Any:
    ins = [value("a", (2, 4), kind), value("b", (4, 3), kind), value("c", (3,), kind)]
    return model([node("Gemm", "a b c", "y", **attrs)], ins, [value("y", None, kind)])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize(
    "alpha, beta", [(0.5, 1.0), (1.0, 0.5), (0.3, 1.7), (2.0, 0.0), (1.0, 3.0)]
)
def test_factors_of_products_of_integers(dtype: str, alpha: float, beta: float) -> None:
    """As ONNX's reference: in float64, rounded towards zero at the end."""
    draw = np.random.default_rng(3)
    x = {k: draw.integers(0, 50, s).astype(dtype) for k, s in zip("abc", [(2, 4), (4, 3), (3,)])}
    made = gemm(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), alpha=alpha, beta=beta)
    expected: Any = ReferenceEvaluator(made).run(None, x)
    np.testing.assert_array_equal(run(made, **x), expected[0])


def test_what_nothing_comes_of_is_not_added() -> None:
    x = {"a": floats(2, 4), "b": floats(4, 3), "c": np.full(3, np.nan, np.float32)}
    assert np.isfinite(run(gemm(FLOAT, beta=0.0), **x)).all()
    assert np.isnan(run(gemm(FLOAT, beta=0.5), **x)).all()


def function(name: str, ins: str, outs: str, nodes: Any, attrs: Any = (), opset: int = 17) -> Any:
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, ins.split(), outs.split(), nodes, sets, list(attrs))


def call(functions: Any, nodes: Any, shape: Any = (2, 3), **more: Any) -> Any:
    outs = [value("y", None)]
    sets = [helper.make_opsetid("my", 1)]
    return model(nodes, [value("x", shape)], outs, functions=functions, sets=sets, **more)


def test_functions_of_the_model() -> None:
    slope = node("LeakyRelu", "a", "t")
    slope.attribute.add(name="alpha", type=1, ref_attr_name="slope")
    functions = [
        function("Twice", "a", "b", [node("Add", "a a", "b")]),
        function("Leak", "a", "t u", [slope, node("Neg", "t", "u")], ["slope"]),
        function("Both", "a c", "a d", [
            helper.make_node("Twice", ["a"], ["t"], domain="my"),
            helper.make_node("Leak", ["t"], ["", "d"], domain="my", slope=0.5),
        ]),
    ]  # fmt: skip
    nodes = [
        helper.make_node("Both", ["x"], ["p", "q"], domain="my"),
        helper.make_node("Twice", ["q"], ["r"], domain="my", name="again"),
        node("Sub", "p r", "y"),
    ]
    x = floats(2, 3)
    doubled = 2 * x
    leaked = np.where(doubled < 0, doubled * np.float32(0.5), doubled)
    np.testing.assert_allclose(run(call(functions, nodes), x=x), x + 2 * leaked, rtol=1e-6)


def test_functions_that_cannot_be_called() -> None:
    me = function("Me", "a", "b", [helper.make_node("Me", ["a"], ["b"], domain="my")])
    old = function("Old", "a", "b", [node("Softmax", "a", "b")], opset=11)
    one = function("One", "a", "b", [node("Neg", "a", "b")])
    bombs = [function("F0", "a", "b", [node("Neg", "a", "b")])]
    for k in range(40):
        twice = [helper.make_node(f"F{k}", ["a" if j == 0 else "t"], ["t" if j == 0 else "b"],
                                  domain="my") for j in (0, 1)]  # fmt: skip
        bombs.append(function(f"F{k + 1}", "a", "b", twice))
    for functions, name, inputs, text in [
        ([me], "Me", ["x"], "function my.Me calls itself"),
        (bombs, "F40", ["x"], "a call of function F.*options model_growth"),
        ([old], "Old", ["x"], "FunctionOp imports version 11 whereas model imports version 17"),
        ([one], "One", ["x", "x"], "has 2 inputs and 1 outputs, its function 'One' 1 and 1"),
    ]:
        made = call(functions, [helper.make_node(name, inputs, ["y"], domain="my")])
        with config.scoped(network_memory=20), pytest.raises(ImportModelError, match=text):
            graph.load_onnx(made)


def shape(name: str, *extents: int) -> Any:
    return numpy_helper.from_array(np.array(extents, np.int64), name)


DOUBLES = ["d", *(f"d{k}" for k in range(39)), "c"]
BOMBS = {
    "fill": ([node("ConstantOfShape", "s", "c")], [shape("s", 10**9)]),
    "fill a square": ([node("ConstantOfShape", "s", "c")], [shape("s", 2**40, 2**40)]),
    "stretch": ([node("Expand", "k s", "c")], [shape("s", 10**9), shape("k", 1)]),
    "pad": ([node("Pad", "k p", "c")], [shape("k", 1), shape("p", 10**9, 0)]),
    "double": (
        [node("Concat", f"{a} {a}", b, axis=0) for a, b in pairwise(DOUBLES)],
        [shape("d", 1)],
    ),
    "mask": ([node("Dropout", "x", "d c")], []),
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_constants_that_a_small_file_asks_for(name: str) -> None:
    nodes, weights = BOMBS[name]
    ends = [node("Cast", "c", "f", to=1), node("ReduceSum", "f", "r"), node("Add", "x r", "y")]
    inputs = [value("x", (2**20, 2**20) if name == "mask" else (1,))]
    made = model([*nodes, *ends], inputs, [value("y", None)], weights=weights)
    with pytest.raises(ImportModelError, match="network_memory"):
        graph.load_onnx(made)


def test_options_raise_the_limits() -> None:
    nodes = [node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")]
    made = model(nodes, [value("x", (1,))], [value("y", None)], weights=[shape("s", 80 << 20)])
    with pytest.raises(ImportModelError, match=r"'c'.*options model_growth and network_memory"):
        graph.load_onnx(made)
    with config.scoped(model_growth=1 << 22):
        assert graph.load_onnx(made).outputs[0].shape == (80 << 20,)


def test_workspaces_have_a_limit() -> None:
    nodes = [node("Softmax", "x", "a"), node("Softmax", "a", "b", axis=0), node("Neg", "b", "y")]
    net = graph.load_onnx(model(nodes, [value("x", (1024, 1024))], [value("y", None)]))
    with config.scoped(network_memory=7), pytest.raises(CompileError, match="the workspace"):
        graph.compile(net)
    with config.scoped(network_memory=8):
        graph.compile(net)


def test_transposing_a_scalar_that_is_known() -> None:
    weight = numpy_helper.from_array(np.array(2.5, np.float32), "k")
    made = model([node("Transpose", "k", "t"), node("Add", "t x", "y")], [value("x", ())],
                 [value("y", ())], weights=[weight])  # fmt: skip
    assert run(made, x=np.array(1, np.float32)) == 3.5


def test_limits_of_bfloat16() -> None:
    kind = TensorProto.BFLOAT16
    made = model([node("Clip", "x", "y")], [value("x", (3,), kind)], [value("y", (3,), kind)])
    x = np.array([-1.5, 0, 300]).astype(parse("bfloat16").numpy)
    np.testing.assert_array_equal(run(made, x=x), x)


def test_operator_sets_of_absurd_versions() -> None:
    functions = [function("One", "a", "b", [node("Neg", "a", "b")], opset=2**40)]
    made = call(functions, [helper.make_node("One", ["x"], ["y"], domain="my")])
    with pytest.raises(ImportModelError, match="names operator set 1099511627776"):
        graph.load_onnx(made)


def test_empty_arrays_of_absurd_shapes() -> None:
    wide = value("x", (0, 2**62))
    with pytest.raises(ImportModelError, match=r"input x: .* network_memory"):
        graph.load_onnx(model([node("Neg", "x", "y")], [wide], [value("y", None)]))
    fill = model([node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")], [value("x", ())],
                 [value("y", None)], weights=[shape("s", 0, 2**62)])  # fmt: skip
    with pytest.raises(ImportModelError, match="network_memory"):
        graph.load_onnx(fill)


@pytest.mark.parametrize("places, shape", [([1, 5], [2]), ([0, 1, 1, 2], [2, 2])])
def test_sparse_weights(places: Any, shape: Any) -> None:
    """Indices count elements, or give one for each dimension."""
    values = helper.make_tensor("s", FLOAT, [2], [5.0, 7.0])
    indices = helper.make_tensor("i", TensorProto.INT64, shape, places)
    sparse = helper.make_sparse_tensor(values, indices, [2, 3])
    x, dense = floats(2, 3), np.array([[0, 5, 0], [0, 0, 7]], np.float32)
    constant = helper.make_node("Constant", [], ["c"], sparse_value=sparse)
    ins, outs = [value("x", (2, 3))], [value("y", (2, 3))]
    made = model([constant, node("Add", "x c", "y")], ins, outs)
    np.testing.assert_array_equal(run(made, x=x), x + dense)
    made = model([node("Add", "x s", "y")], ins, outs)
    made.graph.sparse_initializer.append(sparse)
    np.testing.assert_array_equal(run(made, x=x), x + dense)
    beyond = helper.make_tensor("i", TensorProto.INT64, shape, [9] * len(places))
    made.graph.sparse_initializer[0].indices.CopyFrom(beyond)
    with pytest.raises(ImportModelError, match=r"sparse tensor 's'"):
        graph.load_onnx(made)
