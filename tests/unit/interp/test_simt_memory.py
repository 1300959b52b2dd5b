"""Bounds, unwritten memory and what undefined values may be used for."""

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import kinds, make_kernel, numbers, problems, sync, zeros
from tilewright import tir
from tilewright.base.errors import ArgumentError
from tilewright.interp.simt import SimtArray, Thread, run_kernel
from tilewright.loopir import stmt as S

F32 = ("float32", 32)


@pytest.mark.parametrize("shift", [-1, 1])
def test_reads_out_of_bounds(shift):
    def write(ib, k):
        k.B[k.tx] = k.A[k.tx + shift]

    b = zeros(32)
    error = problems(make_kernel(write, {"A": F32, "B": F32}), numbers(32), b)
    (found,) = error.findings
    lane = 0 if shift < 0 else 31
    assert (found.kind, found.buffer, found.count) == ("out of bounds", "A", 1)
    assert found.index == lane + shift and found.threads == (Thread((0, 0, 0), (lane, 0, 0)),)
    assert "not in [0, 32)" in found.message
    others = np.delete(np.arange(32), lane)
    np.testing.assert_array_equal(b[others], numbers(32)[others + shift])


def test_writes_out_of_bounds_change_nothing():
    def write(ib, k):
        k.A[k.tx * 2] = 1.0

    a = zeros(32)
    error = problems(make_kernel(write, {"A": F32}), a)
    assert "writes A[32]" in str(error) and a.sum() == 16


def test_the_array_may_be_smaller_than_its_buffer():
    def write(ib, k):
        k.A[k.tx] = 1.0

    kernel = make_kernel(write, {"A": F32})
    assert kinds(kernel, zeros(31)) == ["out of bounds"]
    assert kinds(kernel, zeros(40)) == []


def test_a_buffer_may_be_smaller_than_its_array():
    def write(ib, k):
        view = tir.decl_buffer((31,), "float32", name="V", data=k.A_buffer.data)
        ib.buffer_ptr(view)[k.tx] = 1.0

    assert kinds(make_kernel(write, {"A": F32}), zeros(32)) == ["out of bounds"]


@pytest.mark.parametrize("scope", ["shared", "local", "warp"])
def test_bounds_of_other_scopes(scope):
    def write(index):
        def body(ib, k):
            s = ib.allocate("float32", (32,), "s", scope=scope)
            s[index(k)] = 1.0
            sync(ib)
            k.A[k.tx] = s[index(k)]

        return make_kernel(body, {"A": F32})

    assert kinds(write(lambda k: k.tx), zeros(32)) == []
    assert kinds(write(lambda k: k.tx + 1), zeros(32))[0] == "out of bounds"


def test_a_guarded_access_is_in_bounds():
    def write(ib, k):
        k.B[k.tx] = tir.if_then_else(k.tx < 20, k.A[k.tx], tir.const(0.0, "float32"))
        with ib.if_scope(tir.all(k.tx < 20, k.A[tir.min(k.tx, 19)] > 3.0)):
            k.B[k.tx] = k.A[k.tx] * 2.0

    a, b = numbers(20), zeros(32)
    run_kernel(make_kernel(write, {"A": ("float32", 20), "B": F32}), None, [a, b])
    expected = np.where(a > 3, a * 2, a)
    np.testing.assert_array_equal(b, np.concatenate([expected, zeros(12)]))


def test_a_select_evaluates_both_sides():
    def write(ib, k):
        k.B[k.tx] = tir.Select(k.tx < 20, k.A[k.tx], tir.const(0.0, "float32"))

    kernel = make_kernel(write, {"A": ("float32", 20), "B": F32})
    assert kinds(kernel, numbers(20), zeros(32)) == ["out of bounds"]


def test_the_and_of_a_guard_protects():
    def write(ib, k):
        with ib.if_scope(tir.all(k.tx < 20, k.A[k.tx] > 3.0)):
            k.B[k.tx] = 1.0
        with ib.if_scope(tir.any(k.tx >= 20, k.A[k.tx] > 3.0)):
            k.B[k.tx] = k.B[k.tx] + 1.0

    b = zeros(32)
    run_kernel(make_kernel(write, {"A": ("float32", 20), "B": F32}), None, [numbers(20), b])
    np.testing.assert_array_equal(b, [0] * 3 + [2] * 17 + [1] * 12)


@pytest.mark.parametrize("scope", ["shared", "local", "warp", "shared.dyn"])
@pytest.mark.parametrize("index", ["own", "fixed", "vector"])
def test_unwritten_memory(scope, index):
    def write(count):
        def body(ib, k):
            s = ib.allocate("float32", (32,), "s", scope=scope)
            with ib.if_scope(k.tx < count), ib.for_range(0, 32, name="i") as i:
                s[i] = 1.0
            sync(ib)
            if index == "own":
                k.A[k.tx] = s[k.tx]
            elif index == "fixed":
                k.A[k.tx] = s[5]
            else:
                k.A[tir.Ramp(0, 1, 32)] = s[tir.Ramp(0, 1, 32)]

        return make_kernel(body, {"A": F32})

    a = zeros(32)
    assert kinds(write(32), a) == [] and (a == 1).all()
    (found,) = problems(write(31 if scope == "local" and index != "vector" else 0), a).findings
    assert found.kind == "unwritten memory" and found.buffer == "s"
    assert "nobody has written" in found.message and "store to global memory" in found.message
    assert "A_1[" in found.other_line


def test_undefined_values_may_be_thrown_away():
    """A tile that is not quite filled, of which the rest is not used in the end."""

    def write(used):
        def body(ib, k):
            s = ib.allocate("float32", (32,), "s", scope="shared")
            v = ib.allocate("float32", (2,), "v", scope="local")
            with ib.if_scope(k.tx < 20):
                s[k.tx] = k.A[k.tx]
            sync(ib)
            v[0] = s[k.tx] * 2.0 + 1.0
            w = ib.let("w", v[0] + 1.0)
            v[1] = tir.Select(k.tx < 20, w, tir.const(0.0, "float32"))
            with ib.if_scope(k.tx < used):
                k.B[k.tx] = v[0] + w
            k.C[k.tx] = v[1]

        return make_kernel(body, {"A": ("float32", 20), "B": F32, "C": F32})

    args = numbers(20), zeros(32), zeros(32)
    run_kernel(write(20), None, args)
    np.testing.assert_array_equal(args[1][:20], numbers(20) * 4 + 3)
    np.testing.assert_array_equal(args[2], np.concatenate([numbers(20) * 2 + 2, zeros(12)]))
    (found,) = problems(write(21), *args).findings
    assert found.threads[0].thread == (20, 0, 0)
    assert found.line == "v_1[0] = s_1[tx] * T.float32(2) + T.float32(1)"
    assert found.other_line == "B_1[tx] = v_1[0] + w"


@pytest.mark.parametrize("use", ["condition", "index", "store index", "extent", "while"])
def test_undefined_values_decide_nothing(use):
    def body(ib, k):
        s = ib.allocate("int32", (1,), "s", scope="local")
        if use == "condition":
            with ib.if_scope(s[0] > 0):
                k.A[k.tx] = 1
        elif use == "index":
            k.A[k.tx] = k.A[tir.max(tir.min(s[0], 0), 0) + k.tx]
        elif use == "store index":
            k.A[tir.max(tir.min(s[0], 0), 0) + k.tx] = 1
        elif use == "extent":
            with ib.for_range(0, tir.min(s[0], 1), name="i"):
                k.A[k.tx] = 1
        else:
            with ib.while_loop(s[0] > 0):
                s[0] = 0

    found = kinds(make_kernel(body, {"A": ("int32", 32)}), zeros(32, "int32"))
    assert found == ["unwritten memory"]


def test_undefinedness_goes_through_shared_memory():
    def body(ib, k):
        v = ib.allocate("float32", (1,), "v", scope="local")
        s = ib.allocate("float32", (32,), "s", scope="shared")
        with ib.if_scope(k.tx > 0):
            v[0] = 1.0
        s[k.tx] = v[0]
        sync(ib)
        k.A[k.tx] = s[31 - k.tx]

    (found,) = problems(make_kernel(body, {"A": F32}), zeros(32)).findings
    assert found.line == "s_1[tx] = v_1[0]" and found.threads[0].thread == (0, 0, 0)


def test_defined_again_by_a_write():
    def body(ib, k):
        v = ib.allocate("float32", (1,), "v", scope="local")
        s = ib.allocate("float32", (32,), "s", scope="shared")
        s[k.tx] = v[0]
        sync(ib)
        s[k.tx] = 1.0
        v[0] = 2.0
        k.A[k.tx] = s[k.tx] + v[0]

    a = zeros(32)
    run_kernel(make_kernel(body, {"A": F32}), None, [a])
    assert (a == 3).all()


def test_memory_is_unwritten_each_time_it_is_allocated():
    def body(ib, k):
        with ib.for_range(0, 2, name="i") as i:
            v = ib.allocate("float32", (1,), "v", scope="local")
            with ib.if_scope(i == 0):
                v[0] = 1.0
            k.A[k.tx] = v[0]

    assert kinds(make_kernel(body, {"A": F32}), zeros(32)) == ["unwritten memory"]


def test_memory_that_launches_share_is_written_by_one_of_them():
    def first(ib, k):
        with ib.if_scope(k.tx < 31):
            k.T[k.tx] = 1.0

    def second(ib, k):
        k.A[k.tx] = k.T[k.tx]

    temporary = SimtArray(zeros(32))
    run_kernel(make_kernel(first, {"T": F32}), None, [temporary])
    assert temporary.written.sum() == 31 * 4
    kernel = make_kernel(second, {"T": F32, "A": F32})
    (found,) = problems(kernel, temporary, zeros(32)).findings
    assert found.kind == "unwritten memory" and found.index == 31
    temporary.written[:] = True
    run_kernel(kernel, None, [temporary, zeros(32)])


def test_predicated_vectors():
    def body(ib, k):
        lanes = tir.Ramp(k.tx * 4, 1, 4)
        where = tir.LT(lanes, tir.Broadcast(tir.const(30, "int32"), 4))
        value = tir.BufferLoad(k.A_buffer, [lanes], where)
        ib.emit(S.BufferStore(k.B_buffer, value + tir.const(1.0, "float32x4"), [lanes], where))

    a, b = numbers(30), zeros(30)
    kernel = make_kernel(body, {"A": ("float32", 30), "B": ("float32", 30)}, (8,))
    run_kernel(kernel, None, [a, b])
    np.testing.assert_array_equal(b, a + 1)


def test_arguments_that_do_not_fit():
    kernel = make_kernel(lambda ib, k: None, {"A": F32})
    with pytest.raises(ArgumentError, match=r"takes 1 arguments \(A\), got 0"):
        run_kernel(kernel, None, [])
    with pytest.raises(ArgumentError, match="must be a contiguous NumPy array, got list"):
        run_kernel(kernel, None, [[1.0]])
    with pytest.raises(ArgumentError, match="contiguous"):
        run_kernel(kernel, None, [zeros(64)[::2]])
    with pytest.raises(ArgumentError, match=r"runs with threadIdx\.x = 32, not 16"):
        run_kernel(kernel, {"threadIdx.x": 16}, [zeros(32)])
    with pytest.raises(ArgumentError, match="'threadIdx' is no thread axis"):
        run_kernel(kernel, {"threadIdx": 16}, [zeros(32)])


def test_reading_does_not_make_memory_written():
    """Read in one batch of blocks or launch without use, read and used in a later one."""

    def write(block):
        def body(ib, k):
            v = ib.allocate("float32", (1,), "v", scope="local")
            v[0] = k.W[k.tx] + 1.0
            with ib.if_scope(k.bx == block):
                k.A[k.tx] = v[0]

        arrays = {"W": ("float32", 1024), "A": ("float32", 1024)}
        return make_kernel(body, arrays, (1024,), (100,))

    temporary = SimtArray(zeros(1024))
    run_kernel(write(-1), None, [temporary, zeros(1024)])
    assert not temporary.written.any()
    for block in (0, 99):
        (found,) = problems(write(block), temporary, zeros(1024)).findings
        assert found.kind == "unwritten memory" and found.other is not None
        assert found.line == "v_1[0] = W_1[tx] + T.float32(1)"
