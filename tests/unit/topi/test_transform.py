"""Operations that move elements, and reductions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.topi.run import check, floats, ints
from tilewright import te, topi
from tilewright.base.errors import TilewrightError


@pytest.mark.parametrize(
    "shape, new", [((2, 3, 5), (6, 5)), ((7,), (7, 1)), ((4, 6), (-1,)), ((1, 1), ()),
                   ((3, 35), (5, -1, 7)), ((16, 3), (3, 16))],
)  # fmt: skip
def test_reshape(shape: Any, new: Any) -> None:
    x = floats(*shape)
    check(lambda t: topi.reshape(t, new), [x], x.reshape(new))


def test_transpose() -> None:
    x = floats(3, 5, 17)
    for axes in (None, (0, 2, 1), (2, 1, 0), (-1, 0, 1)):
        check(lambda t, a=axes: topi.transpose(t, a), [x], np.transpose(x, axes))


def test_dimensions_of_extent_one() -> None:
    x = floats(1, 3, 1, 5)
    check(topi.squeeze, [x], x.squeeze())
    check(lambda t: topi.squeeze(t, [-2]), [x], x.squeeze(2))
    check(lambda t: topi.expand_dims(t, 1), [x], x[:, None])
    check(lambda t: topi.expand_dims(t, -1, 2), [x], x[..., None, None])
    check(topi.flatten, [x], x.reshape(1, 15))
    check(lambda t: topi.flatten(t, 2), [x], x.reshape(3, 5))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate(axis: int) -> None:
    parts = []
    for n in (1, 4, 3):
        shape = [2, 3, 17]
        shape[axis] = n
        parts.append(floats(*shape))
    check(lambda *t: topi.concatenate(t, axis), parts, np.concatenate(parts, axis))
    check(lambda *t: topi.concatenate(t, axis), parts[:1], parts[0])


@pytest.mark.parametrize(
    "begin, end, step",
    [((0, 0), (5, 7), (1, 1)), ((1, 2), (4, 100), (1, 2)), ((4, 6), (-1, 0), (-1, -3)),
     ((2, 3), (2, 7), (1, 1)), ((-3, -4), (-1, -2), (1, 1)), ((-1, 5), (-9, -6), (-1, -2))],
)  # fmt: skip
def test_strided_slice(begin: Any, end: Any, step: Any) -> None:
    x = floats(5, 7)
    where = tuple(slice(b, e, s) for b, e, s in zip(begin, end, step))
    check(lambda t: topi.strided_slice(t, begin, end, step), [x], x[where])
    check(lambda t: topi.strided_slice(t, [1], [3]), [x], x[1:3])
    check(lambda t: topi.strided_slice(t, [1], [-1], axes=[-1]), [x], x[:, 1:-1])
    sizes = lambda t: topi.strided_slice(t, [1, -3], [2, -1], [9, 9], slice_mode="size")  # noqa: E731
    check(sizes, [x], x[1:3, -3:])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("mode", ["clip", "wrap", "from_end"])
def test_take(mode: str, axis: int | None, dtype: str) -> None:
    x, i = floats(3, 4, 5), ints(2, 6, dtype=dtype, low=0 if dtype == "uint8" else -9, high=9)
    size = x.size if axis is None else x.shape[axis]
    at = np.where(i < 0, i.astype("int64") + size, i) if mode == "from_end" else i
    wanted = np.take(x, at, axis, mode="wrap" if mode == "wrap" else "clip")
    check(lambda t, k: topi.take(t, k, axis, mode=mode), [x, i], wanted)


def test_take_without_a_look_and_in_batches() -> None:
    x, i = floats(3, 4, 5), ints(3, 2, low=0, high=4)
    check(lambda t, k: topi.take(t, k, mode="fast"), [x, i], x.ravel()[i])
    wanted = np.stack([x[b][i[b]] for b in range(3)])
    check(lambda t, k: topi.take(t, k, 1, 1), [x, i], wanted)


def test_broadcast_to_and_pad() -> None:
    x = floats(3, 1, 5)
    check(lambda t: topi.broadcast_to(t, (2, 3, 4, 5)), [x], np.broadcast_to(x, (2, 3, 4, 5)))
    widths = [(1, 2), (0, 3), (4, 0)]
    before, after = zip(*widths)
    check(lambda t: topi.pad(t, before, after, 1.5), [x], np.pad(x, widths, constant_values=1.5))
    check(lambda t: topi.pad(t, [0] * 3, [0] * 3), [x], x)
    check(lambda t: topi.nn.pad(t, [1, 0, 2]), [x], np.pad(x, [(1, 1), (0, 0), (2, 2)]))


def test_channel_blocks() -> None:
    x = floats(2, 12, 3, 5)
    packed = x.reshape(2, 3, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    check(lambda t: topi.pack_channels(t, 4), [x], packed)
    check(topi.unpack_channels, [np.ascontiguousarray(packed)], x)
    check(lambda t: topi.unpack_channels(t, 10), [np.ascontiguousarray(packed)], x[:, :10])


REDUCE: dict[str, Any] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCE)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 1, 130), (130, 2, 1)])
def test_reduce(name: str, shape: Any, keep: bool) -> None:
    x = floats(*shape, low=0.9, high=1.1)
    for axis in (None, 0, 1, 2, -1, (0, 2), (1, 2), (0, 1)):
        expected = REDUCE[name](x.astype(np.float64), axis=axis, keepdims=keep)
        check(
            lambda t, a=axis: getattr(topi, name)(t, a, keep), [x], np.float32(expected), rtol=1e-4
        )


def test_reduce_of_integers() -> None:
    x = ints(4, 37)
    check(lambda t: topi.sum(t, 1), [x], x.sum(1, dtype=np.int32))
    check(lambda t: topi.max(t, 0), [x], x.max(0))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_arg_reduce_finds_the_first(name: str, axis: int) -> None:
    x = ints(5, 17, low=0, high=4).astype(np.float32)
    expected = getattr(np, name)(x, axis).astype(np.int32)
    check(lambda t: getattr(topi, name)(t, axis), [x], expected)
    check(lambda t: getattr(topi, name)(t, axis, True), [x], np.expand_dims(expected, axis))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("n", [3, 4, 7, 12, 16, 37, 200, 1000])
def test_arg_reduce_of_rows_of_any_length(name: str, n: int) -> None:
    """Ties go to the first, a NaN is above all, whichever lane of a vector has it."""
    x = ints(9, n, low=0, high=3).astype(np.float32)
    x[4, n // 2] = x[5, n - 1] = x[5, n // 3] = np.nan
    x[6] = np.inf if name == "argmin" else -np.inf
    check(lambda t: getattr(topi, name)(t, 1), [x], getattr(np, name)(x, 1).astype(np.int32))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, (0, 2), (1, 2)])
def test_arg_reduce_of_several_dimensions(name: str, axis: Any) -> None:
    x = ints(3, 4, 5, low=0, high=9)
    axes = (0, 1, 2) if axis is None else axis
    rest = [d for d in range(3) if d not in axes]
    rows = x.transpose(*rest, *axes).reshape(*(x.shape[d] for d in rest), -1)
    find = getattr(np, name)
    check(lambda t: getattr(topi, name)(t, axis), [x], find(rows, -1).astype("int32"))
    last = rows.shape[-1] - 1 - find(rows[..., ::-1], -1)
    how = lambda t: getattr(topi, name)(t, axis, False, True)  # noqa: E731
    check(how, [x], last.astype("int32"))


def test_errors() -> None:
    x = te.placeholder((4, 6), "float32", "x")
    cases: list[tuple[Any, str]] = [
        (lambda: topi.reshape(x, (5, 5)), "reshape of 24 elements to 25"),
        (lambda: topi.reshape(x, (-1, -1)), "at most one extent may be -1"),
        (lambda: topi.transpose(x, (0, 0)), "are no permutation of 2 dimensions"),
        (lambda: topi.strided_slice(x, [0], [2], [0]), "strided_slice: "),
        (lambda: topi.strided_slice(x, [0], [2], slice_mode="x"), "is 'end' or 'size'"),
        (lambda: topi.squeeze(x, 1), "dimension 1 of .* is not of extent 1"),
        (lambda: topi.take(x, x, mode="raise"), "mode is clip, wrap, fast or from_end"),
        (lambda: topi.pad(x, (1,)), "pad dimensions mismatch"),
        (lambda: topi.broadcast_to(x, (4, 5)), "does not fit shape"),
        (lambda: topi.broadcast_to(x, (6,)), "does not fit shape"),
    ]
    for make, text in cases:
        with pytest.raises(TilewrightError, match=text):
            make()
