"""Default schedules of element-wise work: loops that are one run, transposes, short rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.run import check, floats, ints
from tilewright import te, topi
from tilewright.interp.te_eval import te_eval
from tilewright.topi.joined import joined


def text_of(function: Any, *shapes: Any, dtype: str = "float32") -> str:
    tensors = [te.placeholder(s, dtype, f"p{k}") for k, s in enumerate(shapes)]
    out = function(*tensors)
    # one CPU wherever this runs: with 16 lanes the guard of 120 elements keeps a division
    with tw.target.Target("llvm -mcpu=haswell") as target:
        return str(tw.lower(topi.default_schedule(out, target), [*tensors, out]))


@pytest.mark.parametrize(
    "shape", [(5, 2, 12), (4, 64, 7, 7), (7, 3, 100), (9, 1, 17), (1,), (3, 1)]
)
def test_neighbouring_axes_are_one_loop(shape: Any) -> None:
    x, y = floats(*shape), floats(*shape)
    check(topi.add, [x, y], x + y)
    text = text_of(topi.add, shape, shape)
    assert "%" not in text and "//" not in text and "truncmod" not in text


def test_axes_of_which_one_is_in_a_condition_stay_apart() -> None:
    def lower(x: Any) -> Any:
        i = lambda a, b: te.if_then_else(b <= a, x[a, b], 0.0)  # noqa: E731
        return te.compute(x.shape, i, "lower", "elemwise")

    x = floats(40, 33)
    check(lower, [x], np.tril(x))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8"])
@pytest.mark.parametrize(
    "shape, axes",
    [((197, 64), (1, 0)), ((3, 17, 2, 12), (3, 1, 0, 2)), ((2, 5, 40, 40), (0, 2, 3, 1)),
     ((1, 40, 33, 3), (0, 3, 1, 2)), ((29, 1, 2, 12, 16), (1, 4, 0, 2, 3)), ((64, 64), (1, 0)),
     ((7, 7), (1, 0)), ((600, 40), (1, 0)), ((4, 9, 1, 16), (2, 3, 1, 0))],
)  # fmt: skip
def test_transposes(shape: Any, axes: Any, dtype: str) -> None:
    x = ints(*shape, dtype=dtype)
    check(lambda t: topi.transpose(t, axes), [x], x.transpose(axes))


def test_transposes_with_what_is_around_them() -> None:
    x, y = floats(33, 40), floats(40, 33)
    check(lambda a, b: topi.add(topi.transpose(topi.exp(a), (1, 0)), b), [x, y], np.exp(x).T + y)
    assert "_turned" in text_of(
        lambda a, b: topi.add(topi.transpose(a, (1, 0)), b), (64, 64), (64, 64)
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(
    "channels, block, size",
    [(64, 16, (14, 14)), (30, 16, (9, 8)), (21, 8, (40, 33)), (48, 48, (70,)), (70, 32, (3, 5, 7)),
     (16, 16, (1, 3)), (5, 8, (33, 9))],
)  # fmt: skip
def test_blocks_of_channels_to_planes(
    channels: int, block: int, size: tuple[int, ...], dtype: str
) -> None:
    x = ints(2, -(-channels // block), *size, block, dtype=dtype)
    planes = np.moveaxis(x, -1, 2).reshape(2, -1, *size)[:, :channels]
    check(lambda t: topi.unpack_channels(t, channels), [x], planes)
    flat = planes.reshape(2, channels, -1)
    check(lambda t: topi.reshape(topi.unpack_channels(t, channels), flat.shape), [x], flat)


def test_blocks_of_channels_are_turned_in_registers() -> None:
    def planes(t: Any) -> Any:
        return topi.unpack_channels(t, 64)

    assert "_turned" in text_of(planes, (1, 4, 14, 14, 16))
    assert "_turned" in text_of(lambda t: topi.reshape(planes(t), (1, 64, 196)), (1, 4, 14, 14, 16))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "int64"])
@pytest.mark.parametrize("rows", [3, 5, 8, 16, 17, 31])
def test_transposes_to_short_rows(dtype: str, rows: int) -> None:
    for size in (40, 129):
        x = ints(2, rows, size, dtype=dtype)
        check(lambda t: topi.transpose(t, (0, 2, 1)), [x], x.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype, block", [("uint8", 16), ("int8", 24), ("int16", 8)])
def test_rows_shorter_than_a_vector_are_turned_in_registers(dtype: str, block: int) -> None:
    def packed(t: Any) -> Any:
        return topi.pack_channels(t, block)

    assert "_turned" in text_of(packed, (1, 2 * block, 14, 14), dtype=dtype)
    x = ints(1, 2 * block, 9, 11, dtype=dtype)
    check(packed, [x], np.moveaxis(x.reshape(1, 2, block, 9, 11), 2, -1))


def test_short_vectors_of_many_rows_ask_for_no_digits() -> None:
    """Where neighbouring axes are no run, the inner one is a loop in those that threads share."""
    places = te.placeholder((112,), "int32", "places")
    x = te.placeholder((160, 56, 16), "float32", "x")
    with tw.target.Target("llvm -mcpu=skylake-avx512") as target:
        out = topi.take(x, places, 1)
        text = str(tw.lower(topi.default_schedule(out, target), [x, places, out]))
    assert "%" not in text and "//" not in text and "in range(112)" in text


def test_other_digits_of_an_axis() -> None:
    """Channels that are dealt out, in two steps too, and by digits that do not divide."""
    x, y, z = floats(2, 60, 40), floats(2, 40, 60), floats(2, 40, 70)

    def read(made: Any) -> Any:
        return lambda t: te.compute(x.shape, lambda *i: made(t, *i), tag="injective")

    dealt = x.reshape(2, 4, 15, 40).swapaxes(1, 2).reshape(2, 60, 40)
    check(read(lambda t, n, c, i: t[n, c % 4 * 15 + c // 4, i]), [x], dealt)
    turned = y.reshape(2, 40, 3, 4, 5).transpose(0, 4, 3, 2, 1).reshape(2, 60, 40)
    check(read(lambda t, n, c, i: t[n, i, c % 3 * 20 + c // 3 % 4 * 5 + c // 12]), [y], turned)
    c = np.arange(60)
    mixed = z[:, :, c % 7 * 10 + c // 7] + z[:, :, c % 5]
    two = read(lambda t, n, c, i: t[n, i, c % 7 * 10 + c // 7] + t[n, i, c % 5])
    check(two, [z], mixed.swapaxes(1, 2))


@pytest.mark.parametrize("inner", [1, 2, 3, 5, 7, 9])
def test_short_rows_are_repeated_in_whole_vectors(inner: int) -> None:
    x = floats(29, 1, inner)
    wide = np.broadcast_to(x, (29, 21, inner))
    check(lambda t: topi.broadcast_to(t, wide.shape), [x], wide)


@pytest.mark.parametrize("shape", [(1, 40009), (3, 20011), (2, 16384)])
def test_few_long_rows_are_shared_between_threads(shape: Any) -> None:
    x, y = floats(*shape), floats(shape[0], 1)
    check(topi.add, [x, y], x + y)
    e = np.exp(x.astype("float64") - x.max(1, keepdims=True))
    check(topi.nn.softmax, [x], (e / e.sum(1, keepdims=True)).astype("float32"))
    logs = x - x.max(1, keepdims=True) - np.log(e.sum(1, keepdims=True))
    check(topi.nn.log_softmax, [x], logs.astype("float32"))


@pytest.mark.parametrize(
    "shape, axis", [((3, 200), 1), ((40, 3, 33), 0), ((5, 41, 8), 1), ((7, 9), 1), ((6, 80, 1), 1)]
)
@pytest.mark.parametrize("last", [False, True])
def test_places_of_the_largest_among_equals(shape: Any, axis: int, last: bool) -> None:
    x = ints(*shape, dtype="float32", low=0, high=3)
    x[..., -1] = np.where(x[..., -1] > 1, np.nan, x[..., -1])
    for name, find in (("argmax", np.argmax), ("argmin", np.argmin)):
        back = np.flip(x, axis) if last else x
        wanted = find(back, axis)
        wanted = shape[axis] - 1 - wanted if last else wanted
        made = getattr(topi, name)
        check(lambda t, m=made: m(t, axis, False, last), [x], wanted.astype("int32"))


@pytest.mark.parametrize("k", [1, 2, 16, 17])
@pytest.mark.parametrize("data", ["rising", "falling", "few", "nan"])
def test_the_first_of_lines_in_every_order(k: int, data: str) -> None:
    x = np.arange(3 * 50, dtype="float32").reshape(3, 50)
    x = {"rising": x, "falling": -x, "few": x % 4, "nan": np.where(x % 7 == 3, np.nan, x)}[data]
    key = np.where(np.isnan(x), -np.inf, -x)
    wanted = np.argsort(key, 1, kind="stable")[:, :k]
    check(lambda t: topi.topk(t, k, 1, "indices"), [x], wanted)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize(
    "shapes, axis",
    [([(5, 37), (5, 8), (5, 1)], 1), ([(3, 4, 2), (3, 1, 2)], 1), ([(40000,), (3,)], 0),
     ([(2, 20000, 1), (2, 7, 1)], 1), ([(3, 0), (3, 4)], 1), ([(2, 3, 70), (2, 1, 70)], 1)],
)  # fmt: skip
def test_tensors_one_after_another(shapes: Any, axis: int, dtype: str) -> None:
    given = [ints(*s, low=0, high=2).astype(dtype) for s in shapes]
    check(lambda *t: joined(t, axis), given, np.concatenate(given, axis))


def test_joined_tensors_are_those_of_the_definition() -> None:
    a, b = te.placeholder((4, 3)), te.placeholder((4, 2))
    x, y = floats(4, 3), floats(4, 2)
    (found,) = te_eval(joined([a, b], -1), {a: x, b: y})
    np.testing.assert_array_equal(found, np.concatenate([x, y], 1))
