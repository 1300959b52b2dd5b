"""Features of many candidates at once against those of each, read from its loop nest."""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.auto_scheduler import feature_cases as F
from tests.unit.auto_scheduler import feature_cases_gpu as G
from tests.unit.auto_scheduler.slow_features import slow_features
from tilewright import te, tir
from tilewright.auto_scheduler.feature import (
    features_from_primfunc,
    get_per_store_feature_names,
    named_features_from_primfunc,
    unpack_feature,
)
from tilewright.auto_scheduler.features import COUNT, NAMES, Batch, Skeleton, features
from tilewright.auto_scheduler.features.program import Compiled, Program
from tilewright.base.errors import ScheduleError, UsageError
from tilewright.driver.lower import schedule_to_func
from tilewright.script import tir as T

# Statements left out: where threads share out a box whose sides are no multiples of what they fetch
# at a time, some of its loops leave gaps that the product takes for touched.
ROUGH = {"gpu conv window": "P.shared"}


# A statement of whose indices, differences of quotients, bounds say more than is touched.
NO_SUMS = {"transposed at 8": "P"}


def annotate(schedule: Any, batch: Batch, n: int) -> None:
    """Say of a finished schedule what the batch says of candidate n."""
    for ident, flags in batch.vector.items():
        stage = schedule.by_id[ident]
        if flags[n]:
            stage.vectorize(stage.leaf_iter_vars[-1])
    for ident, places in batch.unrolled.items():
        stage = schedule.by_id[ident]
        for place in places:
            stage.unroll(stage.leaf_iter_vars[place])
    for ident, counts in batch.parallel.items():
        stage = schedule.by_id[ident]
        if counts[n] > 1:
            stage.fuse(*stage.leaf_iter_vars[: counts[n]])
        if counts[n] > 0:
            stage.parallel(stage.leaf_iter_vars[0])
    for ident, steps in batch.unroll.items():
        stage = schedule.by_id[ident]
        if steps[n]:
            stage.pragma(stage.leaf_iter_vars[0], "auto_unroll_max_step", int(steps[n]))


def check(case: Any, batch: Batch, skeleton: Skeleton, lengths: F.Lengths, rough: str = "") -> None:
    found, names = features(skeleton, batch)
    assert found.dtype == np.float32
    for n, row in enumerate(batch.factors):
        values = dict(zip(lengths.open, row.tolist()))
        schedule, args = case(F.Lengths(values))
        annotate(schedule, batch, n)
        wanted, stores = slow_features(schedule, args)
        assert names == stores
        close = np.isclose(found[n], wanted, rtol=2e-6, atol=2e-6)
        wrong = [
            f"{stores[s]}.{NAMES[c]}: {found[n, s, c]} instead of {wanted[s, c]}"
            for s, c in np.argwhere(~close)
            if stores[s] != rough
        ]
        assert not wrong, f"{values}\n" + "\n".join(wrong[:20])


def drawn_annotations(skeleton: Skeleton, lengths: Any, seed: int) -> Batch:
    """Random annotations, by stage, of the loops that may have them."""
    rng = np.random.default_rng(seed)
    batch: Any = Batch(lengths, {}, {}, {}, {})
    n = len(lengths)
    attached = {s.nest.stage.attach_stage.id for s in skeleton.statements if s.nest.outside}
    for statement in skeleton.statements:
        stage = statement.nest.stage
        kinds = [axis.iter_type for axis in stage.leaf_iter_vars]
        data = next((k for k, kind in enumerate(kinds) if kind != 0), len(kinds))
        if kinds and kinds[-1] == 0:
            batch.vector[stage.id] = rng.random(n) < 0.7
            data -= data == len(kinds)
        if statement.nest.outside == 0 and data:
            first = data
            for other in skeleton.statements:
                if other.nest.stage.attach_stage is stage and other.nest.outside:
                    place = other.path[other.nest.outside - 1].place
                    first = min(first, place + 1)
            batch.parallel[stage.id] = rng.integers(0, first + 1, n)
        if stage.op.reduce_axis or stage.id in attached:
            batch.unroll[stage.id] = rng.choice([0, 16, 64, 512], n)
        if stage.op.reduce_axis and len(kinds) > 4:
            batch.unrolled[stage.id] = tuple(range(len(kinds) - 3, len(kinds) - 1))
    return batch


def on_gpu(skeleton: Skeleton) -> bool:
    return any(loop.thread is not None for s in skeleton.statements for loop in s.path)


def compare(case: Any, rough: str = "", count: int = 10, dividing: bool = True) -> None:
    state, lengths = F.skeleton_of(case)
    skeleton = Skeleton(state)
    check(case, Batch(F.draw(lengths, count, 1, dividing)), skeleton, lengths, rough)
    if on_gpu(skeleton) or state.packed:
        return  # other loops than before the lengths are known
    batch = drawn_annotations(skeleton, F.draw(lengths, count, 2, dividing), 3)
    check(case, batch, skeleton, lengths)


CASES = {
    "matmul 1": F.matmul(1),
    "matmul 2": F.matmul(2),
    "matmul relu": F.matmul(2, relu=True),
    "conv inline": F.conv2d("inline"),
    "conv root": F.conv2d("root"),
    "conv at E 3": F.conv2d(("E", 3)),
    "conv at E 6": F.conv2d(("E", 6)),
    "conv at C 3": F.conv2d(("C", 3)),
    "conv at C 8": F.conv2d(("C", 8)),
    "conv at C 13": F.conv2d(("C", 13)),
    "conv dilated": F.conv2d(("C", 9), shape=(2, 9, 7, 4, 6, 3, 2, 2, 2), relu=False),
    "conv level 1": F.conv2d(("E", 2), level=1),
    "conv groups": F.conv2d(("E", 3), groups=2),
    "depthwise inline": F.depthwise("inline"),
    "depthwise attached": F.depthwise("attached"),
    "depthwise root": F.depthwise("root"),
    "transposed inline": F.transposed("inline"),
    "transposed root": F.transposed("root"),
    "transposed at 3": F.transposed(3),
    "transposed at 8": F.transposed(8),
    "packed copy": F.packed_matmul(True),
    "packed input": F.packed_matmul(False),
    "softmax": F.softmax,
    "norm": F.norm,
    "elementwise": F.elementwise,
    "gather": F.gather,
    "pair": F.pair,
    "gpu matmul": G.gpu_matmul(),
    "gpu matmul relu": G.gpu_matmul(relu=True),
    "gpu conv": G.gpu_conv((1, 8, 8, 4, 8, 1, 1, 0, 1)),
    "gpu conv window": G.gpu_conv((1, 6, 6, 4, 8, 3, 1, 1, 1)),
    "gpu rows": G.gpu_plain(False),
    "gpu tiles": G.gpu_plain(True),
}


@pytest.mark.parametrize("name", CASES)
def test_as_read_from_the_loops(name: str) -> None:
    compare(CASES[name], ROUGH.get(name, ""))


@pytest.mark.parametrize("name", CASES)
def test_of_a_function_as_read_from_the_loops(name: str) -> None:
    """The same of loops alone, without a schedule; annotated, where that keeps the loops."""
    state, lengths = F.skeleton_of(CASES[name])
    plain = Batch(F.draw(lengths, 4, 1, True))
    batches = [plain]
    if not on_gpu(Skeleton(state)) and not state.packed:
        batches.append(drawn_annotations(Skeleton(state), F.draw(lengths, 4, 2, True), 3))
    for batch in batches:
        for n, row in enumerate(batch.factors):
            schedule, args = CASES[name](F.Lengths(dict(zip(lengths.open, row.tolist()))))
            annotate(schedule, batch, n)
            wanted, stores = slow_features(schedule, args)
            found = features_from_primfunc(schedule_to_func(schedule, args), log_scale=True)
            kept = [k for k, store in enumerate(stores) if store != NO_SUMS.get(name)]
            np.testing.assert_allclose(found[kept], wanted[kept], rtol=2e-6, atol=2e-6)


def test_of_a_function_of_text() -> None:
    """Numbers that a reader can count, of loops over flat memory."""

    @T.prim_func
    def product(
        A: T.Buffer((16384,), "float32"),
        B: T.Buffer((16384,), "float32"),
        C: T.Buffer((16384,), "float32"),
    ) -> None:
        for x in range(128):
            for y in range(128):
                C[x * 128 + y] = T.float32(0)
                for k in range(128):
                    C[x * 128 + y] = C[x * 128 + y] + A[x * 128 + k] * B[y * 128 + k]

    named: Any = named_features_from_primfunc(product)
    assert list(named) == get_per_store_feature_names() and len(named) == 164
    assert named["float_addsub"].tolist() == named["float_mul"].tolist() == [128.0**3]
    assert named["B0.unique_bytes"].tolist() == [65536] and named["outer_prod"].tolist() == [128**3]
    assert sum(named[f"B{k}.acc_type.kReadWrite"][0] for k in range(3)) == 1
    few: Any = named_features_from_primfunc(product, max_n_bufs=2)
    assert list(few) == get_per_store_feature_names(2) and "B2.stride" not in few
    lines = [features_from_primfunc(product, bytes_)[0] for bytes_ in (64, 128)]
    place = list(named).index("B0.unique_lines")
    assert lines[0][place] == 2 * lines[1][place] == 1024
    logs = features_from_primfunc(product, log_scale=True)
    np.testing.assert_allclose(logs, np.log2(lines[0] + 1)[None], rtol=1e-6)

    @T.prim_func
    def nothing(A: T.Buffer((4,), "float32")) -> None:
        T.evaluate(0)

    assert named_features_from_primfunc(nothing) is None
    assert features_from_primfunc(nothing).shape == (0, 164)
    wrong: Any = 7
    with pytest.raises(UsageError, match="takes a PrimFunc, got int"):
        features_from_primfunc(wrong)


def packed(rows: list[Any], speeds: list[float], tasks: list[int]) -> bytes:
    """What TVM's library gives for records."""
    sizes = [len(r) * 164 + 1 if len(r) else 0 for r in rows]
    parts = [np.array([len(rows), *sizes, len(speeds), len(tasks)], np.int32).tobytes()]
    for r in rows:
        if len(r):
            parts += [np.float32(len(r)).tobytes(), np.asarray(r, np.float32).tobytes()]
    return b"".join(
        [*parts, np.array(speeds, np.float32).tobytes(), np.array(tasks, np.int32).tobytes()]
    )


def test_packed_features_are_read() -> None:
    rows: list[Any] = [np.arange(328.0).reshape(2, 164), [], np.ones((1, 164))]
    data = packed(rows, [1.0, 0.0, 0.5], [0, 1, 1])
    features_, speeds, tasks = unpack_feature(bytearray(data))
    assert [f.shape for f in features_] == [(2, 164), (1, 164), (1, 164)]
    assert np.array_equal(features_[0], rows[0]) and not features_[1].any() and features_[2].all()
    assert speeds.tolist() == [1, 0, 0.5] and tasks.tolist() == [0, 1, 1]
    none = unpack_feature(packed([], [], []))
    assert [len(part) for part in none] == [0, 0, 0]
    for wrong in (b"", data[:-4], data[4:], b"\xff" * 12):
        with pytest.raises(ValueError, match="are not"):
            unpack_feature(wrong)


# Lengths that divide nothing: those of threads would not make a program.
RAGGED = [name for name in CASES if not name.startswith("gpu") and not name.startswith("packed")]


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(RAGGED), st.integers(0, 1000), st.booleans())
def test_random_lengths(name: str, seed: int, dividing: bool) -> None:
    case = CASES[name]
    state, lengths = F.skeleton_of(case)
    skeleton = Skeleton(state)
    batch = drawn_annotations(skeleton, F.draw(lengths, 2, seed, dividing), seed)
    check(case, batch, skeleton, lengths)


def test_pieces_of_a_large_batch() -> None:
    state, lengths = F.skeleton_of(F.conv2d(("C", 3)))
    skeleton = Skeleton(state)
    batch = drawn_annotations(skeleton, F.draw(lengths, 600, 5), 6)
    flags = np.arange(600) % 3 == 0
    batch.unrolled = {k: (places, flags) for k, places in batch.unrolled.items()}
    whole, names = features(skeleton, batch)
    assert whole.shape == (600, len(names), COUNT)
    for start in (0, 250, 500):
        part, _ = features(skeleton, batch.part(start, start + 100))
        assert np.array_equal(part, whole[start : start + 100])
    place = NAMES.index("unroll_num")
    unrolled = whole[:, names.index("C"), place]
    assert not unrolled[~flags].any() and unrolled[flags].any()


def test_no_candidates() -> None:
    state, lengths = F.skeleton_of(F.matmul(1))
    rows, names = features(Skeleton(state), Batch(F.draw(lengths, 0, 0)))
    assert rows.shape == (0, 2, COUNT) and names == ["C.local", "C"]


def test_a_scan_is_no_computation_to_search() -> None:
    X = te.placeholder((8, 4), name="X")
    state = te.placeholder((8, 4), name="S")
    first = te.compute((1, 4), lambda _, i: X[0, i], name="first")
    update = te.compute((8, 4), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    total = te.scan(first, update, state)
    schedule = te.create_schedule(total.op)
    with pytest.raises(ScheduleError, match=r"scan operation; the search schedules te\.compute"):
        Skeleton(SimpleNamespace(schedule=schedule, open=[], packed={}))


def test_shapes_have_to_be_constant() -> None:
    n = te.var("n")
    X = te.placeholder((n,), name="X")
    Y = te.compute((n,), lambda i: X[i] + 1.0, name="Y")
    with pytest.raises(ScheduleError, match="the extent n is not known"):
        Skeleton(SimpleNamespace(schedule=te.create_schedule(Y.op), open=[], packed={}))


def test_an_extern_stage_has_no_statement_of_its_own() -> None:
    X = te.placeholder((16,), name="X")
    Y = te.compute((16,), lambda i: X[i] + 1.0, name="Y")

    def body(ins: Any, outs: Any) -> Any:
        return tir.call_packed("some.function", ins[0], outs[0])

    Z = te.extern((16,), [Y], body, name="Z", dtype="float32")
    W = te.compute((16,), lambda i: Z[i] * 2.0, name="W")
    state = SimpleNamespace(schedule=te.create_schedule(W.op), open=[], packed={})
    rows, names = features(Skeleton(state), Batch(np.zeros((1, 0), np.int64)))
    assert names == ["Y", "W"] and rows.shape == (1, 2, COUNT)


def test_formulas_share_slots() -> None:
    p = Program(2)
    a, b = p.input(0), p.input(1)
    assert p.mul(a, b) == p.mul(b, a)
    assert p.mul(a, p.const(1)) == a and p.add(b, p.const(0)) == b
    assert p.value(p.ceildiv(p.const(7), p.const(2))) == 4
    wanted = {
        p.ceildiv(a, b): 4,
        p.floordiv(a, b): 3,
        p.sub(p.max(a, b), p.min(a, b)): 5,
        p.choose(a, b, p.const(10), p.mul(a, b)): 10,
        p.choose(b, a, p.const(10), p.mul(a, b)): 14,
        p.gcd(p.mul(a, b), p.const(6)): 2,
    }
    compiled = Compiled(p)
    values = compiled.run(np.array([[7, 2]]))
    assert {s: values[compiled.place[s], 0] for s in wanted} == wanted
