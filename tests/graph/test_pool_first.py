"""Averages before convolutions of single elements: where, and that results stay."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import numpy_helper, parser

from tests.graph.test_passes_shapes import HEAD, check, floats
from tilewright import graph
from tilewright.graph.passes.pool_first import pool_first

HALF = "AveragePool <kernel_shape = [2, 2], strides = [2, 2]{}>"
COUNTED = HALF.format(", pads = [1, 1, 1, 1], count_include_pad = 1")
SMALL, LARGE, WHOLE = "[1, 8, 4, 3]", "[1, 8, 5, 4]", "[1, 8, 1, 1]"


def model_of(pool: str, out: str, bias: bool, conv: str = "group = 1", between: str = "c") -> Any:
    """An activation, a convolution, something `between`, and a pooling."""
    text = f"""
    net (float[1, 16, 9, 7] x) => (float{out} y) {{
        r = Relu (x)
        c = Conv <{conv}> (r, w{", b" if bias else ""})
        d = {"Identity" if between == "c" else between} (c)
        y = {pool} (d)
    }}
    """
    model = parser.parse_model(HEAD + text)
    weights = {"w": floats(8, 16 // (2 if conv == "group = 2" else 1), 1, 1)}
    weights |= {"b": floats(8)} if bias else {}
    model.graph.initializer.extend(numpy_helper.from_array(w, n) for n, w in weights.items())
    return model


def order(model: Any) -> list[str]:
    """Convolution and pooling in the order in which the pass leaves them."""
    net = pool_first(graph.load_onnx(model))
    return [n.op for n in net.nodes if "pool" in n.op or n.op in ("conv2d", "bias_add")]


@pytest.mark.parametrize("conv", ["group = 1", "group = 2"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "pool, out",
    [
        (HALF.format(""), SMALL),
        (HALF.format(", ceil_mode = 1"), LARGE),
        (HALF.format(", pads = [1, 1, 1, 1]"), LARGE),
        ("GlobalAveragePool", WHOLE),
    ],
)
def test_an_average_comes_first(pool: str, out: str, bias: bool, conv: str) -> None:
    model = model_of(pool, out, bias, conv)
    assert order(model)[0].endswith(("pool", "pool2d"))
    assert order(model)[1:] == (["conv2d", "bias_add"] if bias else ["conv2d"])
    check(model, x=floats(1, 16, 9, 7))


def test_padding_that_counts_goes_with_a_product_only() -> None:
    """A bias would be averaged with the zeros of the border."""
    assert order(model_of(COUNTED, LARGE, False))[0] == "pool2d"
    assert order(model_of(COUNTED, LARGE, True))[-1] == "pool2d"
    for bias in (False, True):
        check(model_of(COUNTED, LARGE, bias), x=floats(1, 16, 9, 7))


@pytest.mark.parametrize(
    "pool, out, conv, between",
    [
        ("MaxPool <kernel_shape = [2, 2], strides = [2, 2]>", SMALL, "group = 1", "c"),
        (HALF.format(""), SMALL, "group = 1", "Relu"),
        (HALF.format(""), "[1, 8, 2, 2]", "strides = [2, 2]", "c"),
        (
            "AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]>",
            "[1, 8, 9, 7]",
            "group = 1",
            "c",
        ),
    ],
)
def test_others_stay_where_they_are(pool: str, out: str, conv: str, between: str) -> None:
    """Maxima, what is not linear, convolutions that leave places out, averages of every place."""
    model = model_of(pool, out, True, conv, between)
    assert order(model)[0] == "conv2d"
    check(model, x=floats(1, 16, 9, 7))


def test_what_others_read_stays() -> None:
    model = model_of(HALF.format(""), SMALL, True)
    model.graph.output.append(type(model.graph.output[0])())
    model.graph.output[-1].CopyFrom(model.graph.output[0])
    model.graph.output[-1].name = "c"
    for dim, extent in zip(model.graph.output[-1].type.tensor_type.shape.dim, (1, 8, 9, 7)):
        dim.dim_value = extent
    assert order(model)[0] == "conv2d"
    check(model, x=floats(1, 16, 9, 7))
