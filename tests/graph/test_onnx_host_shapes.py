"""Host operators that move elements and whose extents are data, at shapes and values that the
suite has not; sequences and optional values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.host import check_like_reference, check_same, host
from tilewright.base import config
from tilewright.base.errors import TilewrightError
from tilewright.graph.onnx.host import HOST, HostNode

WORDS = np.array([["a", "", "ÿ"], ["日本", "a b", "ß"]], object)
NUMBERS = np.arange(6, dtype=np.int32).reshape(2, 3)
EMPTY = np.zeros((0, 3), np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def scalar(value: Any, dtype: Any = np.int64) -> Any:
    return np.array(value, dtype)


MOVES = [
    ("Identity", [], {}),
    ("Reshape", [ints(3, -1)], {}),
    ("Reshape", [ints(0, 1, -1)], {}),
    ("Flatten", [], {"axis": 0}),
    ("Flatten", [], {"axis": 2}),
    ("Flatten", [], {"axis": -1}),
    ("Unsqueeze", [ints(-1, 0)], {}),
    ("Squeeze", [], {}),
    ("Transpose", [], {}),
    ("Transpose", [], {"perm": [1, 0]}),
    ("Gather", [ints(1, -1)], {}),
    ("Gather", [scalar(-1, np.int32)], {"axis": 1}),
    ("Gather", [np.zeros((2, 0), np.int64)], {"axis": 1}),
    ("GatherElements", [np.array([[0, -1], [1, 2]])], {"axis": 1}),
    ("GatherND", [np.array([[0, 1], [-1, -1]])], {}),
    ("GatherND", [np.array([[2], [0]])], {"batch_dims": 1}),
    ("GatherND", [ints(1, 2)], {}),
    ("Slice", [ints(2), ints(-9), ints(1), ints(-2)], {}),
    ("Slice", [ints(-1), ints(99)], {}),
    ("Slice", [ints(0, 3), ints(1, 1), ints(0, 1), ints(1, 1)], {}),
    ("Tile", [ints(2, 0)], {}),
    ("Tile", [ints(1, 3)], {}),
    ("Expand", [ints(2, 1, 3)], {}),
    ("Pad", [ints(0, -1, 2, 1)], {}),
    ("Shape", [], {"start": 1}),
    ("Shape", [], {"start": -1, "end": -9}),
    ("Size", [], {}),
    ("Compress", [np.array([True, False, True, True])], {}),
    ("Compress", [np.array([False, True])], {"axis": -1}),
]


@pytest.mark.parametrize("x", [WORDS, NUMBERS], ids=["strings", "numbers"])
@pytest.mark.parametrize(("kind", "more", "attrs"), MOVES)
def test_movement(kind: str, more: Any, attrs: Any, x: Any) -> None:
    """Strings move as the numbers of their places do."""
    flat = x.reshape(-1)
    (places,) = host(kind, np.arange(1, 7).reshape(2, 3), *more, **attrs)
    (got,) = host(kind, x, *more, **attrs)
    if kind in ("Shape", "Size"):
        check_same(got, places)
        return
    fill = "" if x.dtype == object else 0
    wanted = np.array([fill if k == 0 else flat[k - 1] for k in places.reshape(-1)], x.dtype)
    check_same(got, wanted.reshape(places.shape))


GATHERS = ("Gather", "GatherElements", "GatherND")


@pytest.mark.parametrize("x", [NUMBERS, EMPTY])
@pytest.mark.parametrize(("kind", "more", "attrs"), MOVES)
def test_movement_like_the_reference(kind: str, more: Any, attrs: Any, x: Any) -> None:
    if kind == "Pad" or (not x.size and kind in ("Reshape", "Flatten", "Compress", *GATHERS)):
        return  # it refuses negative pads, and with nothing in x it or NumPy gives up
    check_like_reference(kind, x, *more, **attrs)


def test_joining_and_choosing_strings() -> None:
    check_like_reference("Concat", WORDS, WORDS[:, :1], WORDS[:, :0], axis=-1)
    check_like_reference("Where", np.array([[True], [False]]), WORDS, np.array("z", object))
    check_like_reference("Equal", WORDS, np.array(["a", "a b", "ß"], object))
    (same,) = host("Equal", np.array("ß", object), np.array("ß", object))
    assert same.shape == () and same.dtype == bool and same
    for part, right in zip(host("Split", WORDS, ints(0, 3, 0), outputs=3, axis=1),
                           (WORDS[:, :0], WORDS, WORDS[:, 3:])):  # fmt: skip
        check_same(part, right)
    padded = host("Pad", WORDS, ints(0, 1, 0, 0), np.array("-", object))[0]
    assert padded.tolist() == [["-", "a", "", "ÿ"], ["-", "日本", "a b", "ß"]]
    spots = host("OneHot", ints(1, -1, 7), scalar(2), np.array(["off", "on"], object))[0]
    assert spots.tolist() == [["off", "on"], ["off", "on"], ["off", "off"]]
    assert host("Trilu", WORDS)[0].tolist() == [["a", "", "ÿ"], ["", "a b", "ß"]]
    (turned,) = host("ReverseSequence", WORDS, ints(2, 3), batch_axis=0, time_axis=1)
    assert turned.tolist() == [["", "a", "ÿ"], ["ß", "a b", "日本"]]
    blocks = np.array([f"{k}" for k in range(8)], object).reshape(1, 4, 1, 2)
    (spread,) = host("DepthToSpace", blocks, blocksize=2)
    (back,) = host("SpaceToDepth", spread, blocksize=2)
    check_same(back, blocks)


def test_putting_strings() -> None:
    got = host("ScatterElements", WORDS, np.array([[0, 2]]), np.array([["x", "y"]], object), axis=1)
    assert got[0].tolist() == [["x", "", "y"], ["日本", "a b", "ß"]]
    got = host("ScatterND", WORDS, np.array([[-1]]), np.array([["p", "q", "r"]], object))
    assert got[0].tolist() == [["a", "", "ÿ"], ["p", "q", "r"]]
    got = host("TensorScatter", WORDS[..., None], np.array([[["x"]], [["y"]]], object), ints(2, 1))
    assert got[0][..., 0].tolist() == [["a", "", "x"], ["日本", "y", "ß"]]


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_reduces_what_meets(reduction: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    updates = np.array([[5, -2, 3], [7, 1, -1]], np.float32)
    indices = (
        np.array([[0, 1, 0], [2, 1, -1]])
        if reduction != "none"
        else np.array([[0, 1, 0], [2, 2, -3]])
    )
    check_like_reference("ScatterElements", x, indices, updates, axis=0, reduction=reduction)
    rows = np.array([[0], [2]]) if reduction == "none" else np.array([[2], [2]])
    check_like_reference("ScatterND", x, rows, np.ones((2, 4), np.float32) * 3, reduction=reduction)


def test_forms_of_old_operator_sets() -> None:
    x = WORDS
    check_same(host("Reshape", x, opset=1, shape=[3, 2])[0], x.reshape(3, 2))
    check_same(host("Squeeze", x[None], opset=1, axes=[0])[0], x)
    check_same(host("Unsqueeze", x, opset=11, axes=[0, 3])[0], x[None, :, :, None])
    check_same(host("Slice", x, opset=1, starts=[1], ends=[9], axes=[1])[0], x[:, 1:])
    for opset, more in ((1, {"split": [1, 1]}), (2, {"split": [1, 1]}), (2, {}), (18, {})):
        first, second = host("Split", x, opset=opset, outputs=2, **more)
        check_same(first, x[:1])
        check_same(second, x[1:])
    parts = host("Split", x, opset=1, outputs=2)
    assert len(parts) == 2
    check_same(host("Split", x, ints(1, 2), opset=1, outputs=2, axis=1)[1], x[:, 1:])
    check_same(host("Tile", x, scalar(2), scalar(1), opset=1)[0], np.tile(x, (1, 2)))
    check_same(host("Concat", x, x, opset=1)[0], np.concatenate([x, x], 1))
    numbers = NUMBERS.astype(np.float32)
    wanted = np.pad(numbers, ((1, 0), (0, 0)), constant_values=2)
    check_same(host("Pad", numbers, opset=2, pads=[1, 0, 0, 0], value=2.0)[0], wanted)
    check_same(host("Pad", numbers, opset=1, paddings=[1, 0, 0, 0], value=2.0)[0], wanted)
    top, places = host("TopK", numbers, opset=1, outputs=2, k=2)
    assert top.tolist() == [[2, 1], [5, 4]] and places.tolist() == [[2, 1], [2, 1]]


def test_uneven_parts() -> None:
    parts = host("Split", np.arange(7), outputs=4, num_outputs=4)
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3], [4, 5], [6]]
    parts = host("Split", np.arange(5), outputs=4, num_outputs=4)
    assert [p.size for p in parts] == [2, 2, 1, 0]


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (5, 1, 3, 7), (0, 9, 1, 0)])
def test_padding_many_times_around(mode: str, pads: tuple[int, ...]) -> None:
    how: Any = mode
    wanted = np.pad(NUMBERS, ((pads[0], pads[2]), (pads[1], pads[3])), mode=how)
    check_same(host("Pad", NUMBERS, ints(*pads), mode=mode)[0], wanted)
    single = host("Pad", NUMBERS[:1], ints(pads[0], pads[2]), None, ints(0), mode=mode)[0]
    check_same(single, np.repeat(NUMBERS[:1], 1 + pads[0] + pads[2], 0))


def test_padding_what_is_cut() -> None:
    got = host("Pad", np.arange(5), ints(-1, 2), mode="reflect")[0]
    assert got.tolist() == [1, 2, 3, 4, 3, 2]
    got = host("Pad", np.arange(5), ints(-1, 2), scalar(9))[0]
    assert got.tolist() == [1, 2, 3, 4, 9, 9]
    got = host("Pad", NUMBERS, ints(1, 1), None, ints(-1))[0]
    assert got.shape == (2, 5)


def test_slices_backwards_begin_with_the_first() -> None:
    """As the standard says; NumPy finds nothing there."""
    x = np.arange(5)
    assert host("Slice", x, ints(-99), ints(-99), ints(0), ints(-1))[0].tolist() == [0]
    assert host("Slice", x, ints(99), ints(-99), ints(0), ints(-2))[0].tolist() == [4, 2, 0]
    assert host("Slice", x, ints(4), ints(-1), ints(0), ints(-1))[0].tolist() == []
    assert host("Slice", x[:0], ints(4), ints(-9), ints(0), ints(-1))[0].tolist() == []
    least = np.iinfo(np.int64).min
    assert host("Slice", x, ints(-1), ints(least), ints(0), ints(-1))[0].tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("span", [(0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 5, -1), (-7, 8, 4)])
def test_range(dtype: Any, span: tuple[int, ...]) -> None:
    check_like_reference("Range", *(np.array(n, dtype) for n in span))


def test_ranges_in_half_precision() -> None:
    ends = [np.array(n, np.float16) for n in (0, 3000, 1.5)]
    (long,) = host("Range", *ends)
    check_same(long, (np.arange(2000) * 1.5).astype(np.float16))
    (coarse,) = host("Range", *ends, stash_type=TensorProto.FLOAT16)
    assert coarse.dtype == np.float16 and coarse.size == 2000


@pytest.mark.parametrize("value", [None, np.array([True]), np.array(["ü"], object)])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 1)])
def test_constant_of_shape(shape: tuple[int, ...], value: Any) -> None:
    attrs = {} if value is None else {"value": value}
    node = HostNode("ConstantOfShape", "n", [ints(*shape)], ["y"], attrs, 25)
    (got,) = HOST["ConstantOfShape"](node)
    check_same(got, np.full(shape, np.float32(0) if value is None else value[0]))


@pytest.mark.parametrize("axis", [0, 1, -1, -3, 2])
def test_one_hot(axis: int) -> None:
    values = np.array([2, 5], np.float32)
    indices = np.array([[0, -1, 3], [2, 4, 1]], np.int32)
    check_like_reference("OneHot", np.abs(indices) % 4, scalar(4), values, axis=axis)
    (got,) = host("OneHot", indices.astype(np.float32) + 0.5, ints(4), values, axis=axis)
    # -0.5 is cast to 0; 4.5 lies outside
    (wanted,) = host("OneHot", np.trunc(indices + 0.5).astype(np.int64), ints(4), values, axis=axis)
    check_same(got, wanted)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -9, -1, 0, 2, 9])
def test_triangles(upper: int, k: int | None) -> None:
    x = np.arange(24).reshape(2, 3, 4) + 1
    more = [] if k is None else [scalar(k)]
    check_like_reference("Trilu", x, *more, upper=upper)
    check_like_reference("Trilu", x[:, :0], *more, upper=upper)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_top_k(axis: int, largest: int) -> None:
    x = np.array([[3, 1, 3, 2, 1], [0, 0, 0, 0, 0], [-1, 5, -1, 5, 5]], np.float32)
    for k in (0, 1, 3):
        values, places = host("TopK", x, ints(k), outputs=2, axis=axis, largest=largest)
        keyed = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
        sign = -1 if largest else 1
        order = [sorted(range(len(r)), key=lambda j: (sign * r[j], j))[:k] for r in keyed]
        assert np.moveaxis(places, axis, -1).reshape(len(keyed), -1).tolist() == order
        check_same(values, np.take_along_axis(x, places, axis))
    whole = np.array([0, 200, 255, 1], np.uint8)
    assert host("TopK", whole, ints(2), largest=largest)[0].tolist() == (
        [255, 200] if largest else [0, 1]
    )


@pytest.mark.parametrize("x", [np.float32(3), np.float32(0), EMPTY, NUMBERS, WORDS, WORDS == "a",
                               np.array([0, np.nan, -0.0]), np.array("", object)])  # fmt: skip
def test_non_zero(x: Any) -> None:
    x = np.asarray(x)
    (got,) = host("NonZero", x)
    wanted = [i for i in np.ndindex(x.shape) if x[i]]
    assert got.dtype == np.int64 and got.shape == (x.ndim, len(wanted))
    assert [tuple(c) for c in got.T] == wanted or not x.ndim


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_unique(axis: int | None, ordered: int) -> None:
    numbers = np.array([[3, 1, 3], [0, 1, 0], [3, 1, 3], [0, 0, 0]], np.int32)
    names = np.array(["a", "b", "ß", "日"], object)
    attrs = {"sorted": ordered} if axis is None else {"sorted": ordered, "axis": axis}
    for x in (numbers, numbers.astype(np.float32), numbers[:, :0], numbers[:0], names[numbers]):
        rows = list(x.reshape(-1)) if axis is None else list(np.moveaxis(x, axis, 0))
        keys = [tuple(np.asarray(r).reshape(-1).tolist()) for r in rows]
        order = list(dict.fromkeys(keys))
        if ordered:
            order.sort()
        found, first, inverse, counts = host("Unique", x, outputs=4, **attrs)
        assert first.tolist() == [keys.index(k) for k in order]
        assert inverse.tolist() == [order.index(k) for k in keys]
        assert counts.tolist() == [keys.count(k) for k in order]
        check_same(found, x.reshape(-1)[first] if axis is None else np.take(x, first, axis))


def test_non_max_suppression() -> None:
    rng = np.random.default_rng(3)
    limits = [(3, 0.5, 0.3), (20, 0.1, 0.0), (20, 0.7, 0.95), (0, 0.5, 0.0), (1 << 40, 0.9, 0.0)]
    for count in (20, 75):  # in a vector, and in several
        corners = rng.random((2, count, 2), np.float32)
        boxes = np.concatenate([corners, corners + rng.random((2, count, 2), np.float32)], -1)
        scores = np.round(rng.random((2, 3, count), np.float32), 1)  # some are equal
        for most, overlap, least in limits:
            given = [ints(most), *np.array([[overlap], [least]], np.float32)]
            check_like_reference("NonMaxSuppression", boxes, scores, *given)
    far = np.arange(24, dtype=np.float32).reshape(1, 6, 4) * 10  # none overlaps another
    odd = np.array([[[np.nan, 1, -np.inf, 2, np.nan, 2]]], np.float32)  # no numbers come last
    everything = host("NonMaxSuppression", far, odd, ints(9))[0]
    assert everything[:, 2].tolist() == [3, 5, 1, 2, 0, 4]
    assert host("NonMaxSuppression", boxes, scores)[0].shape == (0, 3)
    assert host("NonMaxSuppression", boxes[:, :0], scores[..., :0], scalar(4))[0].shape == (0, 3)


def test_sequences() -> None:
    a, b, c = WORDS, WORDS[:1], WORDS[:0]
    (items,) = host("SequenceConstruct", a, b)
    (more,) = host("SequenceInsert", items, c, scalar(-2))
    assert len(items) == 2 and [x.shape[0] for x in more] == [0, 2, 1]
    (more,) = host("SequenceInsert", more, c, scalar(3, np.int32))
    assert [x.shape[0] for x in more] == [0, 2, 1, 0]
    assert host("SequenceLength", more)[0].tolist() == 4
    check_same(host("SequenceAt", more, scalar(-3))[0], more[1])
    assert [x.shape[0] for x in host("SequenceErase", more)[0]] == [0, 2, 1]
    assert [x.shape[0] for x in host("SequenceErase", more, ints(-4))[0]] == [2, 1, 0]
    check_same(host("ConcatFromSequence", more, axis=0)[0], np.concatenate(more))
    check_same(host("ConcatFromSequence", [a, a], axis=-1, new_axis=1)[0], np.stack([a, a], -1))
    (nothing,) = host("SequenceEmpty")
    assert nothing == [] and host("SequenceLength", nothing)[0] == 0
    assert host("SequenceErase", [a])[0] == []


@pytest.mark.parametrize("x", [WORDS, NUMBERS])
def test_splitting_to_sequences(x: Any) -> None:
    def parts(*split: Any, **attrs: Any) -> Any:
        return [p.tolist() for p in host("SplitToSequence", x, *split, **attrs)[0]]

    rows = x.tolist()
    assert parts() == [[row] for row in rows]
    assert parts(keepdims=0) == rows
    assert parts(axis=-1, keepdims=0) == x.T.tolist()
    assert parts(scalar(2), axis=1) == [x[:, :2].tolist(), x[:, 2:].tolist()]
    assert parts(scalar(9), axis=1, keepdims=0) == [rows]
    assert parts(ints(0, 2, 1), axis=1) == [x[:, :0].tolist(), x[:, :2].tolist(), x[:, 2:].tolist()]
    assert host("SplitToSequence", x[:0])[0] == []
    assert host("SplitToSequence", x[:0], scalar(3))[0] == []


def test_optional_values() -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    assert host("Optional", type=kind) == [None]
    assert host("Optional", NUMBERS)[0].tolist() == NUMBERS.tolist()
    assert host("Identity", None) == [None]
    for given, there in (([None], False), ([], False), ([NUMBERS], True), ([[]], True)):
        (found,) = host("OptionalHasElement", *given)
        assert found.dtype == bool and found.shape == () and found == there
    assert host("OptionalGetElement", [WORDS])[0][0].tolist() == WORDS.tolist()


def test_constants() -> None:
    for attrs, wanted in (
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": [0.5, 1]}, np.array([0.5, 1], np.float32)),
        ({"value_int": 3}, scalar(3)),
        ({"value_ints": [3, 4]}, ints(3, 4)),
        ({"value_string": "ß"}, np.array("ß", object)),
        ({"value_strings": ["a", "日"]}, np.array(["a", "日"], object)),
    ):
        check_same(host("Constant", **attrs)[0], np.asarray(wanted))


MISTAKES = [
    ("Reshape", [WORDS, ints(4, -1)], {}, "an array of shape [2, 3] cannot get shape [4, -1]"),
    ("Reshape", [WORDS, ints(-1, -1)], {}, "shape [-1, -1] for an array of shape [2, 3]"),
    ("Reshape", [EMPTY, ints(0, -1)], {}, "an array of shape [0, 3] cannot get shape [0, -1]"),
    ("Reshape", [EMPTY, ints(0, -1)], {"allowzero": 1}, "shape [0, -1] for an array"),
    ("Reshape", [WORDS, scalar(6)], {}, "input 1 must be a list of numbers, got 6"),
    ("Squeeze", [WORDS, ints(0)], {}, "axes [0] of shape [2, 3] are not all of extent 1"),
    ("Unsqueeze", [WORDS, ints(0, -4)], {}, "axes [0, -4] name a dimension of 4 twice"),
    ("Transpose", [WORDS], {"perm": [0, 0]}, "perm [0, 0] of 2 dimensions"),
    ("Concat", [WORDS, WORDS[:, :2]], {"axis": 0}, "shapes [2, 3], [2, 2] cannot be joined"),
    ("Concat", [WORDS, WORDS], {"axis": 2}, "axis 2 of 2 dimensions"),
    ("Split", [WORDS, ints(1, 2)], {}, "extent 2 cannot be divided into 1 parts of [1, 2]"),
    ("Expand", [WORDS, ints(2)], {}, "shape [2, 3] cannot be stretched to [2]"),
    ("Tile", [WORDS, ints(1, -1)], {}, "repeats must not be negative, got [1, -1]"),
    ("Where", [np.array([True, False]), WORDS, WORDS], {}, "shapes [2], [2, 3], [2, 3] do not"),
    ("Gather", [WORDS, ints(-3)], {}, "index -3 is out of range, the extent is 2"),
    ("GatherElements", [WORDS, ints(0)], {}, "indices of shape [1] do not fit data of"),
    ("GatherND", [WORDS, ints(0, 0, 0)], {}, "rows of 3 indices for data of shape [2, 3]"),
    ("ScatterND", [WORDS, np.array([[0]]), WORDS], {}, "updates of shape [2, 3], expected [1, 3]"),
    ("ScatterElements", [WORDS, np.array([[0]]), WORDS[:1, :1]], {"reduction": "sub"},
     "reduction 'sub'; there are none, add, mul, max, min"),
    ("Slice", [WORDS, ints(0), ints(1), ints(0), ints(0)], {}, "steps [0]"),
    ("Compress", [WORDS, WORDS == ""], {}, "the condition must be a list, got shape [2, 3]"),
    ("Range", [scalar(0), scalar(5), scalar(0)], {}, "delta is 0"),
    ("Range", [np.float32(0), np.float32(np.nan), np.float32(1)], {}, "no number of steps"),
    ("ConstantOfShape", [ints(2, -1)], {}, "the result would have shape [2, -1]"),
    ("OneHot", [ints(1), scalar(0), ints(0, 1)], {}, "depth 0, values of shape [2]"),
    ("Pad", [NUMBERS, ints(1, 1)], {}, "input 1 must be a list of 4, got [1, 1]"),
    ("Pad", [NUMBERS, ints(-5, 0, 1, 0)], {}, "the result would have shape [-2, 3]"),
    ("Pad", [EMPTY, ints(1, 0, 0, 0)], {"mode": "edge"}, "nothing to pad with"),
    ("Pad", [NUMBERS, ints(1, 0, 0, 0)], {"mode": "mirror"}, "mode 'mirror'; there are constant"),
    ("Trilu", [ints(1)], {}, "shape [1] has no matrices"),
    ("TopK", [NUMBERS, ints(4)], {}, "4 of 3 elements"),
    ("NonMaxSuppression", [EMPTY, EMPTY], {}, "boxes of shape [0, 3] and scores of shape [0, 3]"),
    ("SequenceAt", [[WORDS], scalar(1)], {}, "position 1 in a sequence of 1"),
    ("SequenceInsert", [[WORDS], WORDS, scalar(-2)], {}, "position -2 in a sequence of 1"),
    ("SequenceErase", [[]], {}, "the sequence is empty"),
    ("SequenceLength", [WORDS], {}, "input 0 is no sequence"),
    ("ConcatFromSequence", [[]], {"axis": 0}, "the sequence is empty"),
    ("ConcatFromSequence", [[WORDS, EMPTY]], {"axis": 0, "new_axis": 1}, "cannot be stacked"),
    ("SplitToSequence", [WORDS, ints(1, 2)], {}, "extent 2 cannot be divided into parts of [1, 2]"),
    ("SplitToSequence", [WORDS, scalar(0)], {}, "parts of 0 elements"),
    ("OptionalGetElement", [None], {}, "the optional value is empty"),
    ("Constant", [], {}, "it has no value"),
    ("DepthToSpace", [WORDS], {"blocksize": 2}, "it takes 4 dimensions, blocks of at least 1"),
    ("ReverseSequence", [WORDS, ints(1, 9)], {"batch_axis": 0, "time_axis": 1},
     "lengths [1, 9] of sequences of 3"),
    ("TensorScatter", [WORDS, WORDS], {"axis": 0}, "a cache of shape [2, 3], an update"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "attrs", "text"), MISTAKES)
def test_mistakes(kind: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        host(kind, *inputs, **attrs)
    assert str(caught.value).startswith(f"{kind} node 'n': ")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("Range", [scalar(0), scalar(2**62), scalar(1)]),
        ("ConstantOfShape", [ints(2**40, 2**40)]),
        ("Expand", [NUMBERS, ints(2**40, 1, 1)]),
        ("Tile", [NUMBERS, ints(2**40, 1)]),
        ("Pad", [NUMBERS, ints(2**40, 0, 0, 0)]),
        ("OneHot", [ints(1), scalar(2**40), ints(0, 1)]),
    ],
)
def test_what_would_take_all_memory(kind: str, inputs: Any) -> None:
    with config.scoped(network_memory=64), pytest.raises(TilewrightError, match="network_memory"):
        host(kind, *inputs)
