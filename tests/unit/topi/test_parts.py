"""Plans for more cores than this machine has: how evenly threads share the work, and that parts of
long sums give what the whole does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.loopir import stmt as S
from tilewright.loopir.expr import BufferLoad, Ramp, const_int
from tilewright.loopir.visit import nodes
from tilewright.rt import threads
from tilewright.topi.nn.attention import PLAIN, Sizes, attention
from tilewright.topi.nn.blocked import conv_nchwc
from tilewright.topi.schedules.cuts import _counts
from tilewright.topi.schedules.machine import UNEVEN, Machine
from tilewright.topi.schedules.parts import PRODUCTS, STEPS, parts_of
from tilewright.topi.schedules.recurrent import recurrent_tile

from .pieces import CPU, made_plan

RNG = np.random.default_rng(9)
ENOUGH = 20_000  # nanoseconds of work for each core, that all of them are to have a part of
Made = Callable[[], list[Any]]


def data(*shape: int, name: str = "x", dtype: str = "float32") -> Any:
    return te.placeholder(shape, dtype, name)


def turned(k: int, m: int, n: int, dtype: str = "float32") -> Made:
    """x^T y of tall sides, as in the gradient of weights."""

    def make() -> list[Any]:
        x, y = data(k, m, dtype=dtype), data(k, n, name="y", dtype=dtype)
        r = te.reduce_axis((0, k), "k")
        sums = lambda i, j: te.sum(x[r, i] * y[r, j], axis=r)  # noqa: E731
        return [x, y, te.compute((m, n), sums, name="xty")]

    return make


def product(m: int, n: int, k: int, columns: bool = False, dtype: str = "float32") -> Made:
    def make() -> list[Any]:
        x, y = data(m, k, dtype=dtype), data(*((n, k) if columns else (k, n)), dtype=dtype)
        return [x, y, topi.matmul(x, y, False, columns)]

    return make


def reduced(reduce: Any, axis: Any, *shape: int, dtype: str = "float32") -> Made:
    def make() -> list[Any]:
        x = data(*shape, dtype=dtype)
        return [x, reduce(x, axis)]

    return make


def squares(axis: Any, *shape: int) -> Made:
    def make() -> list[Any]:
        x = data(*shape)
        return [x, topi.sqrt(topi.sum(topi.multiply(x, x), axis))]

    return make


def attended(heads: int, group: int, rows: int, keys: int, size: int) -> Made:
    def make() -> list[Any]:
        q = data(heads, group, rows, size, name="q")
        k, v = (data(heads, keys, size, name=n) for n in "kv")
        out = attention(
            Sizes((heads,), (group, rows), keys, size, size),
            lambda outer, i, d: q(*outer, i, d),
            lambda outer, t, d: k(*outer, t, d),
            lambda outer, t, e: v(*outer, t, e),
            "float32",
            lambda x: topi.multiply(x, tw.tir.const(size**-0.5, "float32")),
            PLAIN,
        )
        return [q, k, v, out]

    return make


def blocked(blocks: int, side: int) -> Made:
    def make() -> list[Any]:
        x = data(1, blocks, side, side, 16)
        w = data(blocks, blocks, 3, 3, 16, 16, name="w")
        return [x, w, conv_nchwc(x, w, (1, 1), (1, 1, 1, 1))]

    return make


def dense_packed(rows: int, columns: int, k: int) -> Made:
    def make() -> list[Any]:
        x, w = data(rows, k), data(columns // 16, k, 16, name="w")
        return [x, w, topi.nn.dense_pack(x, w)]

    return make


def softmax(axis: int, *shape: int) -> Made:
    def make() -> list[Any]:
        x = data(*shape)
        return [x, topi.nn.softmax(x, axis)]

    return make


def pooled(blocks: int, side: int) -> Made:
    def make() -> list[Any]:
        x = data(1, blocks, side, side, 16)
        return [x, topi.nn.global_pool(x, "avg", layout="NCHW16c")]

    return make


PLANS = {
    "x^T x": turned(1_000_000, 16, 16),
    "weights of a layer": turned(4096, 768, 768),
    "weights of a small layer": turned(65536, 32, 32),
    "tall product": turned(50_000, 3, 64),
    "row times a tall matrix": product(1, 64, 200_000),
    "few dot products": product(4, 16, 200_000, columns=True),
    "three dot products": product(3, 1, 2_000_000),
    "square": product(509, 509, 509),
    "few rows": product(8, 1000, 1000),
    "a row": product(1, 4096, 4096),
    "sum of all": reduced(topi.sum, None, 1000, 10_000),
    "place of the largest": reduced(topi.argmax, None, 1000, 10_000),
    "places of the largest": reduced(topi.argmax, 0, 100_000, 37),
    "sums of columns": reduced(topi.sum, 0, 40_960, 768),
    "sums of few columns": reduced(topi.sum, 0, 1_000_000, 7),
    "norms of few columns": squares(0, 200_000, 70),
    "sums of channels": reduced(topi.sum, (0, 2, 3), 64, 13, 56, 56),
    "one query": attended(8, 1, 1, 32768, 128),
    "queries of a group": attended(2, 4, 1, 16384, 128),
    "queries of a picture": attended(12, 1, 197, 197, 64),
    "blocks of channels": blocked(16, 14),
    "blocks of a small image": blocked(32, 7),
    "packed weights": dense_packed(1000, 64, 512),
    "long rows": softmax(-1, 20, 50_000),
    "long columns": softmax(0, 100_000, 20),
    "mean of an image": pooled(4, 448),
}


@pytest.mark.parametrize("cores", [3, 6, 16, 32, 64])
@pytest.mark.parametrize("name", PLANS)
def test_threads_share_work_evenly(name: str, cores: int) -> None:
    """No thread works for a quarter longer than all do on average."""
    plan = made_plan(PLANS[name], cores)
    if plan.work >= cores * ENOUGH:
        assert plan.loops and plan.stretch <= UNEVEN, plan


SMALL = [turned(1000, 4, 16), product(4, 8, 900), reduced(topi.sum, None, 9, 999)]


@pytest.mark.parametrize("make", SMALL)
def test_little_work_is_not_cut(make: Made) -> None:
    assert not made_plan(make, 16).loops


EXACT = {
    "sums in memory": turned(50_021, 5, 23),
    "sums in registers": turned(50_021, 3, 32),
    "panels": turned(20_011, 67, 45),
    "dot products": product(3, 7, 70_001, columns=True),
    "lanes": product(37, 3, 30_011),
    "doubles": turned(30_011, 5, 8, "float64"),
    "integers": turned(30_011, 17, 21, "int32"),
    "all": reduced(topi.sum, None, 101, 3001),
    "columns": reduced(topi.sum, 0, 30_011, 37),
    "images": reduced(topi.sum, (0, 2), 41, 3, 3001),
    "runs": reduced(topi.max, (1, 2), 3, 101, 1009),
    "place": reduced(topi.argmax, None, 97, 5003),
    "places in columns": reduced(topi.argmin, 0, 20_011, 13),
    "places in rows": reduced(topi.argmax, 1, 3, 200_003),
}


@pytest.mark.parametrize("cores", [2, 5])
@pytest.mark.parametrize("name", EXACT)
def test_parts_give_what_the_whole_does(name: str, cores: int) -> None:
    """Of whole numbers, on which all sums are exact."""
    target = tw.target.Target(f"llvm -num-cores={cores}")
    with target:
        *inputs, out = EXACT[name]()
        s = topi.default_schedule(out, target)
    assert any(".rf" in stage.op.name for stage in s.stages)
    plain = te.create_schedule(out.op)
    shapes = [[int(d) for d in t.shape] for t in inputs]
    arrays = [RNG.integers(-3, 4, s).astype(t.dtype) for s, t in zip(shapes, inputs)]
    results = []
    for schedule in (s, plain):
        y = np.full([int(d) for d in out.shape], 77, out.dtype)
        tw.build(schedule, [*inputs, out], target)(*arrays, y)
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("make", [turned(60_013, 5, 23), reduced(topi.sum, 0, 60_013, 7)])
def test_results_do_not_depend_on_threads(make: Made) -> None:
    target = tw.target.Target("llvm -num-cores=6")
    with target:
        *inputs, out = make()
        f = tw.build(topi.default_schedule(out, target), [*inputs, out], target)
    shapes = [[int(d) for d in t.shape] for t in inputs]
    arrays = [RNG.standard_normal(s).astype("float32") for s in shapes]
    before, found = threads.num_threads(), []
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            found.append(np.zeros([int(d) for d in out.shape], out.dtype))
            f(*arrays, found[-1])
    finally:
        threads.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_long_sums_are_near_the_exact_ones() -> None:
    """A million numbers, all of one sign: one after the other would be off by 1e-4 and more."""
    x = RNG.uniform(0, 1, (1_000_003, 3)).astype("float32")
    *inputs, out = turned(1_000_003, 3, 3)()
    f = tw.build(topi.default_schedule(out, "llvm -num-cores=8"), [*inputs, out], "llvm")
    y = np.zeros((3, 3), "float32")
    f(x, x, y)
    np.testing.assert_allclose(y, x.astype("float64").T @ x.astype("float64"), rtol=2e-5)


@pytest.mark.parametrize(("heads", "group", "keys"), [(3, 1, 5003), (1, 4, 3001)])
def test_keys_are_shared_where_heads_are_few(heads: int, group: int, keys: int) -> None:
    target = tw.target.Target("llvm -num-cores=8")
    with target:
        *inputs, out = attended(heads, group, 1, keys, 48)()
        s = topi.default_schedule(out, target)
    assert any(x.op.name == "T_attended.rf" for x in s.stages)
    arrays = [RNG.standard_normal([int(d) for d in t.shape]).astype("float32") for t in inputs]
    y = np.zeros([int(d) for d in out.shape], "float32")
    tw.build(s, [*inputs, out], target)(*arrays, y)
    q, k, v = (a.astype("float64") for a in arrays)
    scores = np.einsum("hgid,htd->hgit", q, k) * 48**-0.5
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("hgit,hte->hgie", powers / powers.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_a_reduction_goes_along_the_memory_behind_what_is_inlined() -> None:
    """Rows of a transposed matrix are its columns: vectors are of neighbours."""
    x = data(300, 500)
    out = topi.sum(topi.transpose(x), -1)
    body = tw.lower(topi.default_schedule(out, CPU), [x, out])["main"].body
    ramps = [i for e in nodes(body) if isinstance(e, BufferLoad) for i in e.indices]
    steps = {const_int(i.stride) for i in ramps if isinstance(i, Ramp)}
    assert steps == {1}


def test_numbers_of_parts() -> None:
    machine = Machine.of(tw.target.Target(f"{CPU} -num-cores=16"))
    long = 1 << 26
    assert parts_of(1, long, long, 1, STEPS, machine) >= 16
    assert parts_of(32, long, 32 * long, 32, STEPS, machine) == 1  # even shares as they are
    assert parts_of(1, 4096, 4096, 1, STEPS, machine) == 1  # too little to share
    assert parts_of(0, 0, 0, 0, STEPS, machine) == 1  # nothing is known
    # as many results as terms: parts of them cost more than they save
    assert parts_of(12, 64, 64 * 1_000_000, 1_000_000, PRODUCTS, machine) == 1


@pytest.mark.parametrize("most", [1, 9, 33, 129, 385])
def test_counts_of_pieces(most: int) -> None:
    """All few ones, and of many one near each."""
    found = _counts(most)
    assert found[:16] == list(range(1, min(most, 16) + 1)) and found[-1] == most
    assert all(a < b <= max(a + 1, a * 9 / 8) for a, b in pairwise(found))


@pytest.mark.parametrize(("cores", "columns"), [(2, 64), (4, 64), (8, 32), (16, 16)])
def test_columns_of_a_recurrent_layer(cores: int, columns: int) -> None:
    machine = Machine.of(tw.target.Target(f"{CPU} -num-cores={cores}"))
    assert recurrent_tile(1, 256, 4, "float32", machine) == (1, columns)


def test_parallel_loops_of_parts_are_two() -> None:
    """The parts, and what they give together, where that is much."""
    x, y, out = turned(60_000, 128, 128)()
    s = topi.default_schedule(out, f"{CPU} -num-cores=48")
    body = tw.lower(s, [x, y, out])["main"].body
    kinds = [e.kind for e in nodes(body) if isinstance(e, S.For)]
    assert kinds.count(S.ForKind.PARALLEL) == 2
