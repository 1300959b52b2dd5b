"""Networks whose sizes come with their inputs: one compilation, any sizes, never a wrong result."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

import tilewright
from tests.graph.ort import reference
from tests.narrow import as_a
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.driver.c_library import write_library
from tilewright.graph.device import DeviceExecutable
from tilewright.graph.open import OpenExecutable
from tilewright.graph.shapes import broadcast_shapes
from tilewright.graph.sizes import Symbols, same
from tilewright.rt.network import Executable, load_network
from tilewright.rt.places import places_of
from tilewright.rt.signature import dim_value

RNG = np.random.default_rng(12)
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(text: str, **weights: Any) -> Any:
    model = parser.parse_model(HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(w, n) for n, w in weights.items())
    return model


def check(
    model: Any, *calls: dict[str, Any], target: str = "llvm", precision: str = "float32"
) -> OpenExecutable:
    """A network that is compiled once, and right on each of the calls; CUDA is interpreted."""
    net = tilewright.compile(model, target, precision=precision)
    assert isinstance(net, OpenExecutable) and net.whole is not None
    if isinstance(net.whole, DeviceExecutable) and target.startswith("cuda"):
        net.whole.device = tilewright.simt(0)
    off = 2e-5 if precision == "float32" else 2e-2
    for inputs in calls:
        got, want = net.run(inputs), reference(model, inputs)
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=off, atol=off)
            assert got[name].shape == value.shape
    assert not net._made, "no shape was compiled by itself"
    return net


DENSE = """
net (float[batch, seq, 24] x) => (float[batch, seq, 40] y) {
    a = MatMul (x, w)
    b = Add (a, bias)
    y = Relu (b)
}
"""

RECURRENT = """
net (float[seq, batch, 6] x) => (float[seq, 2, batch, 20] y, float[2, batch, 20] last) {
    y, last = %s <hidden_size = 20, direction = "bidirectional"> (x, w, r, b)
}
"""

ATTENTION = """
net (float[batch, seq, 24] x, int64[batch, seq] mask) => (float[batch, seq, 24] y) {
    shape = Shape (x)
    first = Constant <value_ints = [0]> ()
    second = Constant <value_ints = [1]> ()
    batch = Gather (shape, first)
    seq = Gather (shape, second)
    heads = Constant <value_ints = [3, 8]> ()
    split = Concat <axis = 0> (batch, seq, heads)
    places = Slice (table, first, seq, second)
    z = Add (x, places)
    q = MatMul (z, w)
    r = Reshape (q, split)
    s = Transpose <perm = [0, 2, 1, 3]> (r)
    t = Transpose <perm = [0, 2, 3, 1]> (r)
    scores = MatMul (s, t)
    wide = Unsqueeze (mask, middle)
    kept = Cast <to = 9> (wide)
    low = Constant <value_float = -10000.0> ()
    masked = Where (kept, scores, low)
    soft = Softmax <axis = -1> (masked)
    mixed = MatMul (soft, s)
    back = Transpose <perm = [0, 2, 1, 3]> (mixed)
    end = Constant <value_ints = [-1]> ()
    flat = Concat <axis = 0> (batch, seq, end)
    y = Reshape (back, flat)
}
"""


def attention() -> Any:
    weights = floats(24, 24) / 5  # so that float32 tells scores apart as exp does
    middle = np.array([1, 2], np.int64)
    return model_of(ATTENTION, table=floats(1, 64, 24), w=weights, middle=middle)


def attended(batch: int, seq: int) -> dict[str, Any]:
    return {"x": floats(batch, seq, 24), "mask": RNG.integers(0, 2, (batch, seq))}


def test_a_dense_layer_takes_any_number_of_rows(tmp_path: Path) -> None:
    model = model_of(DENSE, w=floats(24, 40), bias=floats(40))
    calls = [{"x": floats(*s, 24)} for s in ((1, 1), (2, 5), (3, 17), (1, 64), (7, 131))]
    net = check(model, *calls)
    assert net.whole is not None and "batch, seq, 24" in repr(net)
    net.save(tmp_path / "net")
    saved = load_network(tmp_path / "net")
    for inputs in calls:
        np.testing.assert_array_equal(saved.run(inputs)["y"], net.run(inputs)["y"])
    out = np.empty((2, 5, 40), np.float32)
    assert net.run(calls[1], {"y": out})["y"] is out
    assert len(net.profile(calls[2], 1)) == len(net.whole.calls)
    net.prepare(calls[0])()
    with pytest.raises(tilewright.TilewrightError, match="libraries hold networks of fixed sizes"):
        write_library(as_a(Executable, net.whole), tmp_path / "net.so")


def test_attention_with_shapes_computed_in_the_graph() -> None:
    net = check(attention(), *(attended(*s) for s in ((2, 16), (1, 1), (3, 37), (5, 64))))
    assert net.whole is not None and net.whole.sizes is not None
    assert net.whole.sizes.conditions == [(("sub", "seq", 64), "<=", True)]


def test_sizes_that_contradict_each_other_are_named() -> None:
    net = tilewright.compile(attention())
    given = {"x": floats(2, 9, 24), "mask": np.ones((2, 8), np.int64)}
    text = r"dimension 1 of input 'mask', seq, is 8, but seq is 9 in input 'x'"
    with pytest.raises(ArgumentError, match=text):
        net.run(given)
    with pytest.raises(
        ArgumentError, match=r"'x' has shape \(2, 9, 23\), expected \(batch, seq, 24\)"
    ):
        net.run({"x": floats(2, 9, 23), "mask": np.ones((2, 9), np.int64)})
    with pytest.raises(ArgumentError, match="'mask' is missing"):
        net.run({"x": floats(2, 9, 24)})


def test_sizes_outside_of_the_conditions_get_a_network_of_their_own() -> None:
    """What a minimum is depends on the size: one answer is compiled for all, the other when met."""
    model = model_of(
        """
        net (float[n, 4] x) => (float[m, 4] y) {
            y = Slice (x, start, end, start)
        }
        """,
        start=np.array([0], np.int64),
        end=np.array([9], np.int64),
    )
    net = tilewright.compile(model)
    assert isinstance(net, OpenExecutable)
    for n in (12, 5, 9, 5):
        x = floats(n, 4)
        np.testing.assert_array_equal(net.run({"x": x})["y"], x[:9])
    assert net.whole is not None and len(net._made) >= 1
    assert net.run({"x": floats(0, 4)})["y"].shape == (0, 4)


def test_what_takes_no_such_sizes_is_compiled_for_each_shape(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    model = model_of("net (float[n] x) => (int64[1, k] y) {\n    y = NonZero (x)\n}")
    with caplog.at_level(logging.WARNING):
        net = tilewright.compile(model)
    assert isinstance(net, OpenExecutable) and net.whole is None
    assert "NonZero" in caplog.text
    for n in (3, 6):
        x = np.arange(n).astype(np.float32) % 2
        np.testing.assert_array_equal(net.run({"x": x})["y"], np.stack(np.nonzero(x)))
    with pytest.raises(tilewright.TilewrightError, match="cannot be saved"):
        net.save(tmp_path / "net")


@pytest.mark.parametrize("sizes", ["batch", "batch, height and width"])
def test_a_convolutional_network(sizes: str) -> None:
    model, shapes = convolutional(sizes)
    check(model, *({"x": floats(n, 3, h, w)} for n, h, w in shapes))


def convolutional(sizes: str) -> tuple[Any, list[tuple[int, int, int]]]:
    """A network of images whose batch, or all of whose extents, are open; and some of these."""
    extents = "n, 3, 12, 12" if sizes == "batch" else "n, 3, h, w"
    model = model_of(
        f"net (float[{extents}] x) => (float[n, 16, 1, 1] y) {{"
        """
            a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1)
            b = Relu (a)
            c = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (b)
            d = Conv <pads = [1, 1, 1, 1]> (c, w2)
            e = Add (c, d)
            y = GlobalAveragePool (e)
        }""",
        w1=floats(16, 3, 3, 3),
        w2=floats(16, 16, 3, 3) / 8,
    )
    shapes = [(1, 12, 12), (3, 12, 12), (5, 12, 12)]
    if sizes != "batch":
        shapes += [(2, 17, 9), (1, 24, 31)]
    return model, shapes


def test_sizes_are_outputs() -> None:
    model = model_of(
        """
        net (float[batch, 3] x) =>
        (int64[2] shape, int64[2] more, int64 rows, float[batch, 3] y, int32[2] narrow) {
            shape = Shape (x)
            cast = Cast <to = 6> (shape)
            narrow = Add (cast, cast)
            more = Add (shape, shape)
            first = Constant <value_int = 0> ()
            rows = Gather (shape, first)
            y = Relu (x)
        }
        """
    )
    check(model, {"x": floats(2, 3)}, {"x": floats(5, 3)})


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_borders_of_any_size(mode: str) -> None:
    model = model_of(
        f"""
        net (float[batch, wide] x) => (float[batch, wider] y) {{
            pads = Constant <value_ints = [1, 2, 0, 1]> ()
            y = Pad <mode = "{mode}"> (x, pads)
        }}
        """
    )
    if mode == "wrap":
        model.opset_import[0].version = 19
    check(model, {"x": floats(2, 3)}, {"x": floats(5, 4)}, {"x": floats(3, 9)})


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_last_windows_that_begin_behind_the_data_are_left_out(kind: str) -> None:
    """Of some sizes of the data there is one, of others there is not."""
    model = model_of(
        f"""
        net (float[batch, 2, high, wide] x) => (float[batch, 2, rows, columns] y) {{
            y = {kind} <kernel_shape = [1, 3], strides = [1, 3], pads = [0, 1, 0, 2],
                ceil_mode = 1> (x)
        }}
        """
    )
    net = tilewright.compile(model)
    for wide in range(2, 9):
        x = floats(1, 2, 2, wide)
        (wanted,) = reference(model, {"x": x}).values()
        np.testing.assert_allclose(net(x), wanted, 1e-5, 1e-6)


def test_products_of_sizes_with_other_names() -> None:
    model = model_of("net (float[n, k] a, float[j, m] b) => (float[n, m] y) { y = MatMul (a, b) }")
    check(model, *({"a": floats(2, k), "b": floats(k, 4)} for k in (3, 5)))
    with pytest.raises(TilewrightError, match=r"rows of a.* are not as long as the columns of b"):
        tilewright.compile(model)(floats(2, 3), floats(2, 3))


@pytest.mark.parametrize("rows", ["2", "n"])
def test_a_reshape_whose_rest_is_no_whole_number_is_refused(rows: str) -> None:
    model = model_of(f"""
    net (float[{rows}, 3] x) => (float[more, 7] y) {{
        shape = Constant <value_ints = [-1, 7]> ()
        y = Reshape (x, shape)
    }}
    """)
    with pytest.raises(TilewrightError, match=r"reshape of 6 elements to \[-1, 7\]"):
        tilewright.compile(model)(floats(2, 3))


def test_arithmetic_of_sizes() -> None:
    """Equal by arithmetic is equal; what it cannot decide is asked, and kept as a condition."""
    symbols = Symbols()
    b, s = symbols.size("b", 4), symbols.size("s", 128)
    assert b * s * 768 // (b * 12 * 64) == s and (b * s) % s == 0
    assert (b + s) * (b + 1) // (b + s) == b + 1
    assert (4 * s + 3) // 2 == 2 * s + 1 and s - s == 0 and s // -1 == -s
    assert b != s and s + 1 > 1 and -s < 0 and s != 0 and s >= 1
    assert repr(b * s + 2) and hash(b * s) == hash(s * b)
    value = (s * 3 + b + 5) // 4 - (b + 7) % 3
    assert value.likely == (128 * 3 + 4 + 5) // 4 - 11 % 3
    assert symbols.of_expr(value.expr) == value
    assert broadcast_shapes((b, 1), (s,), (1, 1)) == (b, s)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        broadcast_shapes((b,), (s,))
    with pytest.raises(TypeError, match="depends on the shape"):
        bool(s > 5)
    takers: list[Any] = [int, range, np.zeros]
    for refused in takers:
        with pytest.raises(TypeError):
            refused(s)
    with symbols.asking():
        assert s > 5 and not same(b, s) and not same(s, 1)
    assert [(r, h) for _, r, h in symbols.conditions] == [
        ("<=", False), ("==", False), ("==", False),
    ]  # fmt: skip


def test_places_overlap_only_in_time_apart() -> None:
    sizes = [int(n) for n in RNG.integers(1, 900, 40)]
    born = [int(n) for n in RNG.permutation(60)[:40]]
    last = [b + int(n) for b, n in zip(born, RNG.integers(0, 9, 40))]
    at, total = places_of(sizes, born, last, 64)
    for i in range(40):
        assert at[i] % 64 == 0 and at[i] + sizes[i] <= total
        for j in range(i):
            if born[i] <= last[j] and born[j] <= last[i]:
                assert at[i] + sizes[i] <= at[j] or at[j] + sizes[j] <= at[i]


def test_images_are_resized_in_batches_of_any_size() -> None:
    """Dimensions that keep their size need not be known."""
    text = """
    net (float[batch, 3, 4, 5] x) => (float[batch, 3, 8, 10] y) {
        s = Shape (x)
        n = Slice (s, zero, one)
        sizes = Concat <axis = 0> (n, rest)
        y = Resize <mode = "linear"> (x, , , sizes)
    }
    """
    known = {"zero": [0], "one": [1], "rest": [3, 8, 10]}
    model = model_of(text, **{name: np.array(data) for name, data in known.items()})
    check(model, *({"x": floats(n, 3, 4, 5)} for n in (1, 2, 5)))


def test_convolutions_in_batches_of_any_size() -> None:
    """Those that minimal filtering would compute at known sizes are direct."""
    text = """
    net (float[batch, 64, 28, 28] x) => (float[batch, 64, 28, 28] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        y = Relu (a)
    }
    """
    model = model_of(text, w=floats(64, 64, 3, 3) / 24)
    check(model, *({"x": floats(n, 64, 28, 28)} for n in (1, 3)))


def test_ranges_whose_count_is_a_quotient() -> None:
    """-((1 - n) // 2) is no number below 1, though 1 - n is."""
    text = """
    net (float[n, 4] x) => (int64[m] y, float[n, 4] z) {
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        y = Range (one, n, two)
        z = CumSum (x, zero)
    }
    """
    numbers = {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2)}
    model = model_of(text, **{k: np.asarray(v) for k, v in numbers.items()})
    check(model, *({"x": floats(n, 4)} for n in (4, 7, 2, 30)))


def test_quotients_have_one_form_and_bounds() -> None:
    symbols = Symbols()
    n = symbols.size("n", 5)
    assert -((1 - n) // 2) == n // 2
    assert -(-n // 4) == (n + 3) // 4
    with symbols.asking():
        assert -((1 - n) // 2) > 0
    for value in range(1, 20):
        for size, wanted in (((3 - 2 * n) // 5, (3 - 2 * value) // 5), (-n % 3, -value % 3)):
            assert dim_value(size.dim, {"n": value}) == wanted


def test_a_reshape_that_loses_elements_is_refused() -> None:
    """Of open sizes, too, where it was taken for one that reads fewer."""
    model = model_of("""
    net (float[batch, seq, 4] x) => (float[batch] y) {
        size = Shape (x)
        zero = Constant <value_ints = [0]> ()
        flat = Gather <axis = 0> (size, zero)
        y = Reshape (x, flat)
    }
    """)
    net = tilewright.compile(model)
    with pytest.raises(TilewrightError, match=r"reshape of 24 elements to \[2\]"):
        net.run({"x": floats(2, 3, 4)})


@pytest.mark.parametrize("kind, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_of_any_length(kind: str, gates: int) -> None:
    rows = gates * 20
    weights = {"w": floats(2, rows, 6), "r": 0.2 * floats(2, rows, 20), "b": floats(2, 2 * rows)}
    model = model_of(RECURRENT % kind, **{k: v.astype(np.float32) for k, v in weights.items()})
    check(model, *({"x": floats(*n, 6)} for n in ((4, 3), (9, 1), (1, 7), (31, 4), (130, 2))))


@pytest.mark.parametrize("start, end, step", [
    (-1, -(2**63), -1), (2**62, -(2**62), -3), (-2, 1, -1), (1, -(2**31) + 1, -2), (1, -1, 2),
])  # fmt: skip
def test_slices_of_open_dimensions_in_both_directions(start: int, end: int, step: int) -> None:
    text = "net (float[n, 3] x) => (float[m, 3] y) { y = Slice (x, start, end, axis, step) }"
    ends = {"start": start, "end": end, "axis": 0, "step": step}
    model = model_of(text, **{k: np.array([v], np.int64) for k, v in ends.items()})
    check(model, *({"x": floats(n, 3)} for n in (64, 7, 8, 200)))


def test_records_say_nothing_of_what_is_empty(tmp_path: Path) -> None:
    records = tmp_path / "records.json"
    records.write_text("")
    model = model_of("net (float[0, 4] x, float[4, 3] w) => (float[0, 3] y) { y = MatMul (x, w) }")
    net = tilewright.compile(model, records=str(records))
    assert net(np.ones((0, 4), np.float32), np.ones((4, 3), np.float32)).shape == (0, 3)
