"""Searching on GPUs: many threads put what they find where running sums say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.devices import device
from tests.unit.topi import launches
from tilewright import te, topi
from tilewright.base.dtype import parse

Array = np.ndarray[Any, Any]


def results(make: Any, arrays: list[Array], target: str = "cuda") -> tuple[list[Array], Any]:
    """What all outputs come to, 77 where nothing was written, and blocks and threads of kernels."""
    name = launches.SM80 if target == "cuda" else target
    ins = [te.placeholder(a.shape, str(a.dtype), f"in{n}") for n, a in enumerate(arrays)]
    with tw.target.Target(name):
        outs = list(make(*ins))
        f = tw.build(topi.default_schedule(outs, name), [*ins, *outs], name)
    empty = [np.full([int(d) for d in t.shape], 77, parse(t.dtype).numpy) for t in outs]
    if name.startswith("cuda"):
        reports = f.run_simt(*arrays, *empty)
        assert not any(report.findings for report in reports.values())
        host: Any = f.entry_func
        sizes = [(int(s[0]), int(s[3])) for s in launches.LAUNCH.findall(host.text)]
        return empty, sizes
    dev = device(target)
    there = [tw.nd.array(a, dev) for a in (*arrays, *empty)]
    f(*there)
    return [a.numpy() for a in there[len(arrays) :]], []


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((1,), "cuda"),
        ((33,), "cuda"),
        ((3, 5, 70), "cuda"),
        ((7001,), "cuda"),
        ((331, 303), "opencl"),
    ],
)
def test_argwhere(shape: tuple[int, ...], target: str) -> None:
    rng = np.random.default_rng(0)
    for x in (rng.integers(0, 3, shape).astype("int32"), np.ones(shape, "int32")):
        rows = np.argwhere(x)
        room = np.zeros((max(1, x.size), x.ndim), "int32")
        (out,), _ = results(lambda r, c: [topi.argwhere(r, c)], [room, x], target)
        np.testing.assert_array_equal(out[: len(rows)], rows)
        assert (out[len(rows) :] == 77).all()


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize(
    ("n", "most", "target"),
    [
        (1, 1, "cuda"),
        (33, 5, "cuda"),
        (1025, 1, "cuda"),
        (4099, 500, "cuda"),
        (100003, 9000, "opencl"),
    ],
)
def test_unique(n: int, most: int, target: str, is_sorted: bool) -> None:
    x = np.random.default_rng(1).integers(-most, most, n).astype("float32")
    x[::7] *= -0.0  # zeros of both signs are one
    (values, first, inverse, total, counts), _ = results(
        lambda t: topi.unique(t, is_sorted, return_counts=True), [x], target
    )
    want, at, back, many = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    back = back.reshape(-1)
    if not is_sorted:
        order = np.argsort(at)
        want, at, many = want[order], at[order], many[order]
        back = np.argsort(order)[back]
    assert total[0] == len(want)
    for got, expected in ((values, want), (first, at), (counts, many)):
        np.testing.assert_array_equal(got[: len(want)], expected)
    np.testing.assert_array_equal(inverse, back)


def test_what_is_not_a_number_is_no_other() -> None:
    x = np.array([np.nan, 1, np.nan, 1], np.float32)
    (_, first, inverse, total, counts), _ = results(lambda t: topi.unique(t, True, True), [x])
    assert total[0] == 3 and list(first[:3]) == [1, 0, 2] and list(counts[:3]) == [2, 1, 1]
    np.testing.assert_array_equal(inverse, [1, 0, 2, 0])


@pytest.mark.parametrize("make", [lambda r, c: [topi.argwhere(r, c)], lambda r, c: topi.unique(c)])
def test_long_tensors_have_many_blocks(make: Any) -> None:
    n = 1 << 20
    ins = [te.placeholder((n, 1), "int32", "r"), te.placeholder((n,), "int32", "c")]
    with tw.target.Target(launches.SM80):
        outs = make(*ins)
        outs = list(outs)
        f = tw.build(topi.default_schedule(outs, launches.SM80), [*ins, *outs], launches.SM80)
    host: Any = f.entry_func
    sizes = [int(s[0]) * int(s[3]) for s in launches.LAUNCH.findall(host.text)]
    # all but one have 2^15 threads or more: that joins what the parts of running sums come to
    assert sorted(sizes)[0] == 64 and sorted(sizes)[1] >= 1 << 15


@pytest.mark.parametrize(("n", "target"), [(1, "cuda"), (40, "cuda"), (300, "opencl")])
def test_sparse_matrices_are_turned(n: int, target: str) -> None:
    rng = np.random.default_rng(6)
    dense = rng.integers(1, 9, (n, n)) * (rng.random((n, n)) < 0.2)
    dense[0, 0] = 1
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(n + 1)).astype("int32")
    parts = [dense[rows, columns].astype("float32"), columns.astype("int32"), starts]
    (values, places, begins), _ = results(topi.nn.sparse_transpose, parts, target)
    rows, columns = np.nonzero(dense.T)
    np.testing.assert_array_equal(begins, np.searchsorted(rows, np.arange(n + 1)))
    np.testing.assert_array_equal(places, columns)
    np.testing.assert_array_equal(values, dense.T[rows, columns])


def test_indices_of_sparse_tensors_get_another_shape() -> None:
    rng = np.random.default_rng(7)
    flat = np.sort(rng.choice(6 * 70, 100, replace=False))
    indices = np.stack(np.unravel_index(flat, (6, 70)), 1).astype("int64")
    arrays = [indices, np.array([6, 70], "int64"), np.array([4, -1, 7], "int64")]
    (out, shape), sizes = results(
        lambda a, b, c: topi.sparse_reshape(a, b, c, (100, 3), (3,)), arrays
    )
    assert list(shape) == [4, 15, 7] and (2, 64) in sizes
    np.testing.assert_array_equal(out, np.stack(np.unravel_index(flat, (4, 15, 7)), 1))
