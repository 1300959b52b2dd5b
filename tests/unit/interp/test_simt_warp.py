"""Shuffles, votes, memory of a warp."""

import numpy as np
import pytest

from tests.unit.interp.simt_kernels import kinds, make_kernel, numbers, problems, sync, zeros
from tilewright import tir
from tilewright.base.errors import TilewrightError
from tilewright.interp.simt import run_kernel
from tilewright.loopir.calls import (
    call_extern,
    call_intrin,
    call_pure_extern,
    tvm_warp_activemask,
    tvm_warp_shuffle,
    tvm_warp_shuffle_down,
    tvm_warp_shuffle_up,
)

ALL = tir.const(0xFFFFFFFF, "uint32")
I64 = ("int32", 64)


def shuffled(make, width=32, block=64):
    def write(ib, k):
        k.B[k.tx] = make(k.A[k.tx], k)

    a, b = numbers(block, "int32") * 10, zeros(block, "int32")
    arrays = {"A": ("int32", block), "B": ("int32", block)}
    report = run_kernel(make_kernel(write, arrays, (block,)), None, [a, b])
    assert report.shuffles == block
    return b // 10 - 1


@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles(width):
    t = np.arange(64)
    start, own = t // width * width, t % width
    up = shuffled(lambda v, k: tvm_warp_shuffle_up(ALL, v, 3, width, 32))
    np.testing.assert_array_equal(up, np.where(own >= 3, t - 3, t))
    down = shuffled(lambda v, k: tvm_warp_shuffle_down(ALL, v, 3, width, 32))
    np.testing.assert_array_equal(down, np.where(own + 3 < width, t + 3, t))
    one = shuffled(lambda v, k: tvm_warp_shuffle(ALL, v, 5, width, 32))
    np.testing.assert_array_equal(one, start + 5)
    each = shuffled(lambda v, k: tvm_warp_shuffle(ALL, v, k.tx * 7, width, 32))
    np.testing.assert_array_equal(each, start + t * 7 % width)
    xor = shuffled(lambda v, k: call_intrin("int32", "tir.tvm_warp_shuffle_xor", ALL, v, 6, width))
    np.testing.assert_array_equal(xor, start + (own ^ 6))
    named = shuffled(lambda v, k: call_extern("int32", "__shfl_xor_sync", ALL, v, 1))
    np.testing.assert_array_equal(named, t ^ 1)


def test_a_sum_by_shuffles():
    def write(ib, k):
        v = ib.allocate("float32", (1,), "v", scope="local")
        v[0] = k.A[k.bx * 32 + k.tx]
        for offset in (16, 8, 4, 2, 1):
            v[0] = v[0] + tvm_warp_shuffle_down(tvm_warp_activemask(), v[0], offset, 32, 32)
        with ib.if_scope(k.tx == 0):
            k.B[k.bx] = v[0]

    a, b = numbers(96), zeros(3)
    kernel = make_kernel(write, {"A": ("float32", 96), "B": ("float32", 3)}, (32,), (3,))
    report = run_kernel(kernel, None, [a, b])
    np.testing.assert_array_equal(b, a.reshape(3, 32).sum(axis=1))
    assert report.barriers == 0


@pytest.mark.parametrize("used", [True, False])
def test_lanes_that_do_not_run(used):
    """Lanes 8 to 15 get garbage from 16 to 23; told of only if it is stored."""

    def write(ib, k):
        v = ib.allocate("int32", (1,), "v", scope="local")
        with ib.if_scope(k.tx < 16):
            v[0] = tvm_warp_shuffle_down(ALL, k.A[k.tx], 8, 32, 32) + 1
            with ib.if_scope(k.tx < (16 if used else 8)):
                k.B[k.tx] = v[0]

    a, b = numbers(32, "int32"), zeros(32, "int32")
    kernel = make_kernel(write, {"A": ("int32", 32), "B": ("int32", 32)})
    if not used:
        run_kernel(kernel, None, [a, b])
        np.testing.assert_array_equal(b[:8], a[8:16] + 1)
        return
    (found,) = problems(kernel, a, b).findings
    assert found.kind == "shuffle from an inactive lane" and found.count == 8
    assert found.threads[0].thread == (8, 0, 0) and found.index == 16
    assert "shuffle_down" in found.line and found.other_line == "B_1[tx] = v_1[0]"


def test_garbage_goes_through_further_shuffles():
    def write(ib, k):
        v = ib.allocate("int32", (1,), "v", scope="local")
        v[0] = k.A[k.tx]
        v[0] = v[0] + tvm_warp_shuffle_down(ALL, v[0], 16, 32, 32)
        v[0] = v[0] + tvm_warp_shuffle_down(ALL, v[0], 8, 32, 32)
        with ib.if_scope(k.tx == 0):
            k.B[0] = v[0]

    arrays = {"A": ("int32", 32), "B": ("int32", 1)}
    # of 24 lanes, lane 0 gets 8, which got 24, which is not there
    error = problems(make_kernel(write, arrays, (24,)), numbers(32, "int32"), zeros(1, "int32"))
    assert error.findings[0].kind == "shuffle from an inactive lane"
    assert kinds(make_kernel(write, arrays, (32,)), numbers(32, "int32"), zeros(1, "int32")) == []


def test_lanes_that_the_mask_does_not_name():
    def write(mask):
        def body(ib, k):
            k.A[k.tx] = tvm_warp_shuffle(tir.const(mask, "uint32"), k.A[k.tx], 9, 32, 32)

        return make_kernel(body, {"A": ("int32", 32)})

    assert kinds(write(0xFFFFFFFF), zeros(32, "int32")) == []
    assert kinds(write(0xFFFFFDFF), zeros(32, "int32")) == ["shuffle from an inactive lane"]


def test_active_lanes_and_votes():
    def write(ib, k):
        with ib.if_scope(k.tx % 3 == 0):
            k.A[k.tx] = tvm_warp_activemask()
            big = call_extern("uint32", "__ballot_sync", ALL, k.tx >= 40)
            k.B[k.tx] = big
            k.C[k.tx] = call_extern("int32", "__any_sync", ALL, k.tx >= 40)
            k.D[k.tx] = call_extern("int32", "__all_sync", ALL, k.tx < 40)

    arrays = {"A": ("uint32", 64), "B": ("uint32", 64), "C": I64, "D": I64}
    a, b = zeros(64, "uint32"), zeros(64, "uint32")
    c, d = zeros(64, "int32"), zeros(64, "int32")
    run_kernel(make_kernel(write, arrays, (64,)), None, [a, b, c, d])
    runs = np.arange(64) % 3 == 0
    bits = [sum(1 << i for i in range(32) if (w * 32 + i) % 3 == 0) for w in (0, 1)]
    np.testing.assert_array_equal(a[runs], np.repeat(bits, 32)[runs])
    high = sum(1 << i for i in range(8, 32) if (32 + i) % 3 == 0)
    np.testing.assert_array_equal(b[runs], np.repeat([0, high], 32)[runs])
    np.testing.assert_array_equal(c[runs], np.repeat([0, 1], 32)[runs])
    np.testing.assert_array_equal(d[runs], np.repeat([1, 0], 32)[runs])
    assert not a[~runs].any()


@pytest.mark.parametrize("barrier", [True, False])
def test_memory_of_a_warp(barrier):
    def write(ib, k):
        w = ib.allocate("int32", (32,), "w", scope="warp")
        w[k.tx % 32] = k.A[k.tx]
        if barrier:
            sync(ib, "warp")
        k.A[k.tx] = w[31 - k.tx % 32]

    a = numbers(64, "int32")
    kernel = make_kernel(write, {"A": I64}, (64,))
    found = kinds(kernel, a)
    assert found == ([] if barrier else ["race"])
    if barrier:
        expected = numbers(64, "int32").reshape(2, 32)[:, ::-1].reshape(-1)
        np.testing.assert_array_equal(a, expected)


def test_warps_of_another_size():
    a, b = numbers(64, "int32"), zeros(64, "int32")

    def write(ib, k):
        k.B[k.tx] = tvm_warp_shuffle_down(ALL, k.A[k.tx], 40, 64, 64)

    mask = (1 << 64) - 1
    assert mask
    kernel = make_kernel(write, {"A": I64, "B": I64}, (64,))
    report = run_kernel(kernel, None, [a, b], check=False, warp_size=64)
    np.testing.assert_array_equal(b[:24], a[40:])
    # the mask has 32 bits only
    assert [f.kind for f in report.findings] == ["shuffle from an inactive lane"]


def test_barriers_by_their_names_in_cuda():
    def write(ib, k):
        s = ib.allocate("int32", (64,), "s", scope="shared")
        s[k.tx] = k.A[k.tx]
        ib.emit(call_extern("int32", "__syncthreads"))
        k.A[k.tx] = s[63 - k.tx]
        ib.emit(call_extern("int32", "__syncwarp"))

    report = run_kernel(make_kernel(write, {"A": I64}, (64,)), None, [zeros(64, "int32")])
    assert (report.barriers, report.warp_barriers) == (1, 2)


def test_unknown_barriers_and_functions():
    with pytest.raises(TilewrightError, match='not "texture"'):
        kinds(make_kernel(lambda ib, k: sync(ib, "texture"), {"A": I64}), zeros(64, "int32"))

    def write(ib, k):
        k.A[k.tx] = call_pure_extern("int32", "mystery", k.A[k.tx])

    with pytest.raises(TilewrightError, match=r"register_simt\('mystery', lambda"):
        kinds(make_kernel(write, {"A": I64}), zeros(64, "int32"))
