"""Races: each kind by a kernel that has it, and by its mended twin that has not."""

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import kinds, make_kernel, numbers, problems, sync, zeros
from tilewright import tir
from tilewright.interp.simt import Thread, run_kernel


def reverse(barrier, scope="shared"):
    def write(ib, k):
        s = ib.allocate("float32", (64,), "s", scope="shared")
        s[k.tx] = k.A[k.tx]
        if barrier:
            sync(ib, scope)
        k.B[k.tx] = s[63 - k.tx]

    return make_kernel(write, {"A": ("float32", 64), "B": ("float32", 64)}, (64,))


def test_read_after_write_needs_a_barrier():
    a, b = numbers(64), zeros(64)
    report = run_kernel(reverse(True), None, (a, b))
    assert report.barriers == 1 and report.findings == []
    np.testing.assert_array_equal(b, a[::-1])
    error = problems(reverse(False), a, b)
    (found,) = error.findings
    assert (found.kind, found.buffer, found.count) == ("race", "s", 64)
    assert found.threads == (Thread((0, 0, 0), (0, 0, 0)), Thread((0, 0, 0), (63, 0, 0)))
    assert found.index == 63
    assert "s_1[63 - tx]" in found.line and "s_1[tx] = A_1[tx]" in found.other_line
    assert "no barrier between" in str(error) and "# <-- [1]" in str(error)


def test_a_warp_barrier_orders_one_warp_only():
    a, b = numbers(64), zeros(64)
    assert kinds(reverse(True, "warp"), a, b) == ["race"]

    def write(ib, k):
        s = ib.allocate("float32", (64,), "s", scope="shared")
        s[k.tx] = k.A[k.tx]
        sync(ib, "warp")
        k.B[k.tx] = s[tir.bitwise_xor(k.tx, 31)]

    kernel = make_kernel(write, {"A": ("float32", 64), "B": ("float32", 64)}, (64,))
    assert run_kernel(kernel, None, (a, b)).warp_barriers == 2
    np.testing.assert_array_equal(b, a.reshape(2, 32)[:, ::-1].reshape(-1))


def test_lanes_of_one_warp_are_not_exempt():
    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        s[k.tx] = k.A[k.tx]
        k.A[k.tx] = s[31 - k.tx]

    assert kinds(make_kernel(write, {"A": ("float32", 32)}), numbers(32)) == ["race"]


@pytest.mark.parametrize("barrier", [False, True])
def test_write_after_read(barrier):
    def write(ib, k):
        s = ib.allocate("float32", (64,), "s", scope="shared")
        v = ib.allocate("float32", (1,), "v", scope="local")
        s[k.tx] = k.A[k.tx]
        sync(ib)
        v[0] = s[(k.tx + 1) % 64]
        if barrier:
            sync(ib)
        s[k.tx] = v[0] * 2.0
        sync(ib)
        k.A[k.tx] = s[k.tx]

    a = numbers(64)
    kernel = make_kernel(write, {"A": ("float32", 64)}, (64,))
    found = kinds(kernel, a)
    assert found == ([] if barrier else ["race"])
    if barrier:
        np.testing.assert_array_equal(a, np.roll(numbers(64), -1) * 2)


def test_a_read_and_a_write_in_one_statement():
    def write(ib, k):
        k.A[k.tx] = k.A[k.tx + 1]

    (found,) = problems(make_kernel(write, {"A": ("float32", 33)}), numbers(33)).findings
    assert found.kind == "race" and "read" in found.message


def test_one_reader_among_many_is_remembered():
    """All read an element, then the one that reads it once more writes it."""

    def write(ib, k):
        s = ib.allocate("float32", (1,), "s", scope="shared")
        v = ib.allocate("float32", (2,), "v", scope="local")
        with ib.if_scope(k.tx == 0):
            s[0] = k.A[0]
        sync(ib)
        v[0] = s[0]
        with ib.if_scope(k.tx == 7):
            v[1] = s[0]
            s[0] = v[1] + 1.0
        k.A[k.tx] = v[0]

    assert kinds(make_kernel(write, {"A": ("float32", 32)}), numbers(32)) == ["race"]


def test_two_threads_write_different_values():
    def write(ib, k):
        k.A[k.tx // 2] = tir.Cast("float32", k.tx)

    error = problems(make_kernel(write, {"A": ("float32", 16)}), zeros(16))
    (found,) = error.findings
    assert found.kind == "race" and found.count == 16 and "wrote" in found.message


def test_the_same_value_is_benign_and_counted():
    def write(ib, k):
        k.A[k.tx // 2] = tir.Cast("float32", k.tx // 2)

    report = run_kernel(make_kernel(write, {"A": ("float32", 16)}), None, [zeros(16)])
    assert report.findings == [] and report.benign_writes == 16
    assert "16 writes of a value that another thread wrote too" in str(report)


def test_the_same_value_by_two_statements_is_benign():
    def write(ib, k):
        with ib.if_scope(k.tx == 0):
            k.A[0] = 5.0
        with ib.if_scope(k.tx == 1):
            k.A[0] = k.B[0]

    kernel = make_kernel(write, {"A": ("float32", 1), "B": ("float32", 1)})
    assert kinds(kernel, zeros(1), np.full(1, 5, "float32")) == []
    assert kinds(kernel, zeros(1), np.full(1, 6, "float32")) == ["race"]
    # zeros of two signs are two values
    assert kinds(kernel, zeros(1), np.full(1, -0.0, "float32")) == ["race"]


def test_a_thread_alone_needs_no_barrier():
    def write(ib, k):
        with ib.for_range(0, 4, name="i"):
            k.A[k.tx] = k.A[k.tx] + 1.0

    a = zeros(32)
    run_kernel(make_kernel(write, {"A": ("float32", 32)}), None, [a])
    assert (a == 4).all()


@pytest.mark.parametrize("own", [True, False])
def test_blocks_have_no_order(own):
    def write(ib, k):
        k.A[k.bx * 32 + k.tx] = 1.0
        sync(ib)
        k.B[k.bx * 32 + k.tx] = k.A[((k.bx + (0 if own else 1)) % 4) * 32 + k.tx]

    arrays = {"A": ("float32", 128), "B": ("float32", 128)}
    kernel = make_kernel(write, arrays, (32,), (4,))
    found = kinds(kernel, zeros(128), zeros(128))
    assert found == ([] if own else ["race between blocks"])


def test_blocks_that_read_before_another_writes():
    def write(ib, k):
        k.B[k.bx * 32 + k.tx] = k.A[k.tx]
        with ib.if_scope(k.bx == 2):
            k.A[k.tx] = 0.0

    arrays = {"A": ("float32", 32), "B": ("float32", 128)}
    (found,) = problems(make_kernel(write, arrays, (32,), (4,)), zeros(32), zeros(128)).findings
    assert found.kind == "race between blocks"
    assert found.threads[0].block == (2, 0, 0) and found.threads[1].block != (2, 0, 0)


def test_blocks_that_write_one_element():
    def write(ib, k):
        with ib.if_scope(k.tx == 0):
            k.A[0] = tir.Cast("float32", k.bx)

    kernel = make_kernel(write, {"A": ("float32", 1)}, (32,), (3, 2))
    assert kinds(kernel, zeros(1)) == ["race between blocks"]


def test_races_between_batches_of_blocks():
    """More blocks than run together at one time."""

    def write(ib, k):
        k.A[(k.bx // 200) * 1024 + k.tx] = tir.Cast("float32", k.bx)

    kernel = make_kernel(write, {"A": ("float32", 2048)}, (1024,), (400,))
    assert kinds(kernel, zeros(2048)) == ["race between blocks"]


def test_a_barrier_of_the_grid_orders_blocks():
    def write(ib, k):
        k.A[k.bx * 32 + k.tx] = 1.0
        sync(ib, "global")
        k.B[k.bx * 32 + k.tx] = k.A[(3 - k.bx) * 32 + k.tx] + 1.0

    b = zeros(128)
    arrays = {"A": ("float32", 128), "B": ("float32", 128)}
    run_kernel(make_kernel(write, arrays, (32,), (4,)), None, [zeros(128), b])
    assert (b == 2).all()


def test_a_barrier_of_another_block_does_not_help():
    """Blocks of even numbers have the barrier, the others do not."""

    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        s[k.tx] = k.A[k.tx]
        with ib.if_scope(k.bx % 2 == 0):
            sync(ib)
        k.B[k.bx * 32 + k.tx] = s[31 - k.tx]

    arrays = {"A": ("float32", 32), "B": ("float32", 128)}
    error = problems(make_kernel(write, arrays, (32,), (4,)), numbers(32), zeros(128))
    (found,) = error.findings
    assert found.count == 64 and found.threads[0].block == (1, 0, 0)


def test_memory_used_again_by_the_next_iteration():
    """A buffer allocated in a loop is the same memory each time round."""

    def write(barrier):
        def body(ib, k):
            with ib.for_range(0, 3, name="i") as i:
                s = ib.allocate("float32", (32,), "s", scope="shared")
                s[k.tx] = k.A[i * 32 + k.tx]
                sync(ib)
                k.B[i * 32 + k.tx] = s[31 - k.tx]
                if barrier:
                    sync(ib)

        return make_kernel(body, {"A": ("float32", 96), "B": ("float32", 96)})

    assert kinds(write(True), numbers(96), zeros(96)) == []
    assert kinds(write(False), numbers(96), zeros(96)) == ["race"]


def test_views_of_another_type_share_shadow_memory():
    """Bytes of a float32 are the float32's."""

    def write(barrier):
        def body(ib, k):
            s = ib.allocate("float32", (32,), "s", scope="shared")
            data = s.asobject().data
            as_bytes = tir.decl_buffer((128,), "uint8", name="s8", data=data, scope="shared")
            b = ib.buffer_ptr(as_bytes)
            s[k.tx] = k.A[k.tx]
            if barrier:
                sync(ib)
            k.B[k.tx] = b[124 - k.tx * 4]

        return make_kernel(body, {"A": ("float32", 32), "B": ("uint8", 32)})

    a, b = numbers(32), zeros(32, "uint8")
    assert kinds(write(False), a, b) == ["race"]
    run_kernel(write(True), None, [a, b])
    np.testing.assert_array_equal(b, a[::-1].copy().view("uint8")[::4])


def test_findings_of_one_place_are_one():
    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        with ib.for_range(0, 5, name="i"):
            s[k.tx] = k.A[k.tx]
            k.A[k.tx] = s[31 - k.tx]

    error = problems(make_kernel(write, {"A": ("float32", 32)}), numbers(32))
    assert [f.kind for f in error.findings] == ["race", "race"]  # either side may come first
    assert error.findings[0].count == 5 * 32
    assert str(error).startswith("simt found 2 problems in kernel\n[1] race: thread (0, 0, 0)")


def test_kernels_of_thousands_of_statements():
    """Statements have numbers in shadow memory, of which there are 2047."""

    def write(ib, k):
        s = ib.allocate("float32", (32,), "s", scope="shared")
        for n in range(2100):
            k.B[k.tx] = k.B[k.tx] + float(n % 3)
        s[k.tx] = k.A[k.tx]
        k.A[k.tx] = s[31 - k.tx]

    kernel = make_kernel(write, {"A": ("float32", 32), "B": ("float32", 32)})
    (found,) = problems(kernel, numbers(32), zeros(32)).findings
    assert found.line == "A_1[tx] = s_1[31 - tx]" and found.other is None


def test_large_launches():
    def write(ib, k):
        i = k.bx * 256 + k.tx
        k.B[i] = k.A[i] * 2.0

    n = 1 << 20
    kernel = make_kernel(write, {"A": ("float32", n), "B": ("float32", n)}, (256,), (n // 256,))
    a, b = numbers(n), zeros(n)
    report = run_kernel(kernel, None, [a, b])
    np.testing.assert_array_equal(b, a * 2)
    assert report.scope("global").stores == n and report.coalescing == 1.0
