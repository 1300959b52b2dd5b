"""Passes that users run by TVM's names, on loops: what each does, and that results stay."""

import numpy as np
import pytest

import tilewright as tvm
from tests.unit.driver.pass_kit import nodes, run
from tilewright import te, tir
from tilewright.base.errors import TilewrightError, UsageError
from tilewright.ir import structural_equal
from tilewright.script import tir as T
from tilewright.tir.transform import HoistedConditionals as Conditions
from tilewright.tir.transform import HoistedLetBindings as Lets

K = tir.ForKind


def with_options(name, func, **options):
    with tvm.transform.PassContext(config={f"tir.{name}": options}):
        return getattr(tir.transform, name)()(func)


# -- phases


def test_phases_see_what_is_done_before_them():
    a = te.placeholder((8, 16), name="a")
    b = te.compute((8, 16), lambda i, j: a[i, j] + 1, name="b")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[1])
    seen = []

    def look(phase):
        def user_pass(func):
            store = nodes(func.body, tir.BufferStore)[0]
            vectorised = any(x.kind == K.VECTORIZED for x in nodes(func.body, tir.For))
            seen.append((phase, len(store.indices), vectorised))
            return func

        return phase, user_pass

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [look(p) for p in range(4)]}):
        tvm.lower(s, [a, b])
    assert seen == [(0, 2, True), (1, 1, True), (2, 1, False), (3, 1, False)]


def test_a_loop_marked_in_phase_1_becomes_a_vector():
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] * 2, name="b")

    def mark(func):
        loop = nodes(func.body, tir.For)[0]
        marked = tir.For(loop.loop_var, loop.min, loop.extent, K.VECTORIZED, loop.body)
        return func.with_body(marked)

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, mark)]}):
        func = tvm.lower(te.create_schedule(b.op), [a, b])["main"]
    assert nodes(func.body, tir.Ramp)


# -- widths


@pytest.mark.parametrize(
    ("rows", "columns", "bits", "dtype"),
    [(4, 5, 32, "int32"), (4, 5, 16, "int16"), (300, 300, 16, "int64"), (4, 5, 64, "int64")],
)
def test_loops_are_as_narrow_as_all_that_is_made_of_them(rows, columns, bits, dtype):
    @T.prim_func
    def func(b: T.Buffer((rows * columns,), "float32")):
        for i in T.serial(T.int64(rows)):
            for j in T.serial(T.int64(columns)):
                b[i * T.int64(columns) + j] = T.float32(1)

    body = tir.transform.NarrowDataType(bits)(func).body
    assert body.loop_var.dtype == body.body.loop_var.dtype == dtype


def test_a_loop_stays_wide_for_one_access_that_needs_it():
    @T.prim_func
    def func(a: T.Buffer((8,), "float32"), b: T.Buffer((1 << 33,), "float32")):
        for i in T.serial(T.int64(8)):
            a[i] = b[i * T.int64(1 << 30)]

    body = tir.transform.NarrowDataType(32)(func).body
    assert body.loop_var.dtype == "int64"
    with pytest.raises(UsageError, match="8, 16 or 32"):
        tir.transform.NarrowDataType(12)(func)


# -- unrolling


def counted(extent, scope="local"):
    @T.prim_func
    def func(b: T.Buffer((64,), "float32")):
        data = T.allocate([4], "float32", scope)
        own = T.Buffer((4,), "float32", data=data, scope=scope)
        for i in range(extent):
            own[i] = T.float32(i)
        b[0] = own[0]

    return func


def test_loops_over_local_memory_are_unrolled_on_request():
    def loops(func, **options):
        unrolled = with_options("UnrollLoop", func, auto_max_depth=0, **options)
        return len(nodes(unrolled.body, tir.For))

    assert loops(counted(4)) == 1
    assert loops(counted(4), unroll_local_access=True) == 0
    assert loops(counted(4, "shared"), unroll_local_access=True) == 1
    assert loops(counted(1), auto_max_extent=1, explicit_unroll=False) == 0


# -- hoisting


@T.prim_func
def guarded(a: T.Buffer((4, 4), "float32"), n: T.int32):
    for i in range(4):
        for j in range(4):
            x: T.bool = n < i
            if x:
                a[i, j] = a[i, j] + 1.0
            else:
                a[i, j] = T.if_then_else(n > 1, 5.0, 6.0)


def outer_loops(func, kind):
    """Loops with a statement of a kind directly below them."""
    return sum(type(x.body) is kind for x in nodes(func.body, tir.For))


def test_hoisting_moves_the_kinds_that_are_asked_for():
    def hoisted(conditions, lets):
        return with_options(
            "HoistExpression",
            guarded,
            hoisted_conditionals=conditions.value,
            hoisted_let_bindings=lets.value,
        )

    stays = hoisted(Conditions.Never, Lets.Never)
    assert type(stays.body.body.body) is tir.LetStmt
    moved = hoisted(Conditions.IfElseStmt, Lets.All)
    assert type(moved.body.body) is tir.LetStmt and type(moved.body.body.body) is tir.IfThenElse
    assert nodes(moved.body, tir.Call)  # the expression stays
    everything = hoisted(Conditions.All, Lets.All)
    assert type(everything.body) is tir.IfThenElse and not nodes(everything.body, tir.Call)
    start = np.arange(16, dtype="float32").reshape(4, 4)
    for n in (0, 1, 3):
        want = run_with(guarded, start, n)
        for func in (moved, everything):
            np.testing.assert_array_equal(run_with(func, start, n), want)


def run_with(func, start, n):
    array = tvm.nd.array(start)
    tvm.build(func)(array, n)
    return array.numpy()


def test_conditions_on_threads_move_on_request():
    @T.prim_func
    def func(a: T.Buffer((32, 4), "float32")):
        t = T.launch_thread("threadIdx.x", 32)
        for j in range(4):
            if t < 7:
                a[t, j] = T.float32(0)

    hoist = "HoistIfThenElse"
    assert type(with_options(hoist, func).body.body) is tir.For
    moved = with_options(hoist, func, support_block_scope_hosting=True)
    assert type(moved.body.body) is tir.IfThenElse
    with pytest.raises(UsageError, match="variants"):
        tir.transform.HoistIfThenElse("other")
    with pytest.raises(TilewrightError, match="no option 'support'"):
        with_options(hoist, func, support=True)


def test_what_may_divide_by_zero_stays_in_its_loop():
    @T.prim_func
    def func(a: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
        for i in range(n):
            if 8 // m == 2:
                a[i] = 1

    assert type(tir.transform.HoistIfThenElse()(func).body) is tir.For


# -- what does nothing


def without_dead_stores(func):
    return with_options("RemoveNoOp", func, use_dataflow_analysis=True)


def test_stores_that_are_overwritten_go():
    @T.prim_func
    def func(a: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32")):
        for i in range(2, 9):
            if i < 8:
                a[i] = 100
        for i in range(16):
            b[i] = 7
        for i in range(16):
            if i // 4 < 2:
                a[i] = i
        a[3] = 3

    kept = without_dead_stores(func)
    assert len(nodes(kept.body, tir.BufferStore)) == 2
    assert len(nodes(tir.transform.RemoveNoOp()(func).body, tir.BufferStore)) == 4
    start = np.full(16, -1, "int32")
    for x, y in zip(run(func, start, start), run(kept, start, start), strict=True):
        np.testing.assert_array_equal(x, y)


@T.prim_func
def read_between(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32")):
    for i in range(4):
        a[i] = 1
    b[0] = a[3]
    for i in range(4):
        a[i] = 2


@T.prim_func
def one_short(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32")):
    for i in range(4):
        a[i] = 1
    for i in range(3):
        a[i] = 2


@T.prim_func
def decided_by_data(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32")):
    for i in range(4):
        a[i] = 1
    for i in range(4):
        if b[i] > 0:
            a[i] = 2


@T.prim_func
def last_step_counts(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32")):
    for i in range(4):
        for k in range(3):
            a[i] = k
    for i in range(4):
        a[i] = 0


@pytest.mark.parametrize("func", [read_between, one_short, decided_by_data])
def test_stores_that_are_seen_stay(func):
    assert structural_equal(without_dead_stores(func), func)


def test_of_several_steps_the_last_one_is_compared():
    kept = without_dead_stores(last_step_counts)
    np.testing.assert_array_equal(run(kept, *np.ones((2, 4), "int32"))[0], np.zeros(4))


def test_values_with_effects_are_still_evaluated():
    @T.prim_func
    def func(a: T.Buffer((1,), "int32")):
        x: T.int32 = T.call_extern("int32", "unused")  # noqa: F841
        a[0] = T.call_extern("int32", "dead")
        a[0] = 1

    kept = without_dead_stores(func)
    assert [type(s) for s in kept.body.seq] == [tir.Evaluate, tir.Evaluate, tir.BufferStore]


def test_indices_are_proved_equal():
    @T.prim_func
    def func(a: T.Buffer((16,), "int32")):
        for i, j in T.grid(4, 4):
            if i == 0:
                a[j] = a[i * 4 + j]
        for i in range(4):
            for j in range(i - 4):
                a[j] = 3

    assert type(tir.transform.RemoveNoOp()(func).body) is tir.Evaluate


# -- hints where to split


@T.prim_func
def two_parts(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
    for i in T.serial(11, annotations={"pragma_loop_partition_hint": 1, "kept": 2}):
        for j in T.serial(11):
            if i + j < 11:
                B[j] = B[j] + A[i + j]
            if j < 4:
                A[j] = A[j] + B[i]


def test_a_loop_with_a_hint_is_split_at_conditions_that_are_not_likely():
    split = tir.transform.LoopPartition()(two_parts)
    loops = [s for s in nodes(split.body, tir.For) if "kept" in s.annotations]
    assert len(loops) > 1 and not any(len(s.annotations) > 1 for s in loops)
    conditions = [str(s.condition) for s in nodes(split.body, tir.IfThenElse)]
    assert "j < 4" in conditions  # of another loop, which has no hint
    rng = np.random.default_rng(5)
    given = [rng.integers(-3, 4, 11).astype("float32") for _ in range(2)]
    for one, other in zip(run(two_parts, *given), run(split, *given)):
        np.testing.assert_array_equal(one, other)
    fields = ("loop_var", "min", "extent", "kind", "body")
    unmarked = two_parts.with_body(tir.For(*[getattr(two_parts.body, k) for k in fields]))
    assert structural_equal(tir.transform.LoopPartition()(unmarked), unmarked)
