"""What users read where a device cannot do what they ask: sizes, memory, types, architectures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.gpu_kernels import bound, by_hand
from tests.narrow import as_a
from tilewright import te, tir
from tilewright.base.errors import ArgumentError, CompileError, TilewrightError
from tilewright.rt.checker import make_checker
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.device_module import DeviceFunction

# -- threads and blocks


def test_product_of_two_thread_axes() -> None:
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.y"))
    s[b].bind(b.op.axis[1], te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match=r"4096 a block \(threadIdx.x = 64, threadIdx.y = 64\)"):
        tw.build(s, [a, b], "cuda")


def test_virtual_threads_are_no_threads() -> None:
    a = te.placeholder((4096,), name="A")
    b = te.compute((4096,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], nparts=64)
    s[b].bind(outer, te.thread_axis("vthread"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    text = tw.build(s, [a, b], "cuda").imported_modules[0].get_source()
    assert "__launch_bounds__(64)" in text


@pytest.mark.parametrize("tag", ["y", "z"])
def test_too_many_blocks(tag: str) -> None:
    a = te.placeholder((70000,), name="A")
    b = te.compute((70000,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis(f"blockIdx.{tag}"))
    expected = rf"too many blocks along blockIdx.{tag}: 70000, but CUDA has at most 65535; bind the"
    with pytest.raises(CompileError, match=expected):
        tw.build(s, [a, b], "cuda")
    tw.build(s, [a, b], "opencl")


def in_clusters(value: Any, n: Any = 1024, target: str = "cuda -arch=sm_90", at: int = 0) -> Any:
    """Blocks of 64, the pragma on the axis of blocks or on one inside."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    axes = s[b].split(b.op.axis[0], 64)
    s[b].bind(axes[0], te.thread_axis("blockIdx.x"))
    s[b].bind(axes[1], te.thread_axis("threadIdx.x"))
    s[b].pragma(axes[at], "cluster_dims", value)
    return tw.build(s, [a, b], target)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("value", [1, 2, 4, 8])
def test_clusters_of_blocks(value: int, at: int) -> None:
    built = in_clusters(value, at=at)
    text = built.imported_modules[0].get_source()
    assert (f"void __cluster_dims__({value}, 1, 1) __launch_bounds__(64) " in text) == (value > 1)
    x, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    built.run_simt(x, out)
    assert (out == x).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"value": 0}, "a cluster is of 1 to 8 blocks, which the pragma .*; got 0"),
        ({"value": 9}, "a cluster is of 1 to 8 blocks, which the pragma .*; got 9"),
        ({"value": -2}, "a cluster is of 1 to 8 blocks"),
        ({"value": "two"}, 'a cluster is of 1 to 8 blocks, .* as a constant; got "two"'),
        ({"value": 3}, "clusters of 3 blocks along blockIdx.x, but 16 blocks there, which .*split"),
        ({"value": 2, "n": 64}, "clusters of 2 blocks along blockIdx.x, but 1 blocks there"),
        ({"value": 2, "target": "cuda -arch=sm_80"}, "began with sm_90, .*build for 'cuda -arch"),
        ({"value": 2, "target": "opencl"}, "which CUDA has alone, .*; leave out the pragma"),
        ({"value": 2, "target": "llvm"}, "pragma 'cluster_dims' is for other targets"),
    ],
)
def test_clusters_that_there_are_not(how: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        in_clusters(**how)


def test_a_pragma_of_the_kernel_on_the_axis_of_its_blocks_is_not_lost() -> None:
    a = te.placeholder((1024,), name="A")
    b = te.compute((1024,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    s[b].pragma(s[b].leaf_iter_vars[0], "launch_bounds_min_blocks", 3)
    text = tw.build(s, [a, b], "cuda").imported_modules[0].get_source()
    assert "__launch_bounds__(64, 3)" in text


def test_a_kernel_has_clusters_of_one_size() -> None:
    a = te.placeholder((1024,), name="A")
    b = te.compute((1024,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    for axis, value in zip(s[b].leaf_iter_vars, (2, 4)):
        s[b].pragma(axis, "cluster_dims", value)
    with pytest.raises(CompileError, match="clusters of 2 and of 4 blocks; give the pragma"):
        tw.build(s, [a, b], "cuda -arch=sm_90")


def test_clusters_in_a_grid_that_a_call_asks_for() -> None:
    built = in_clusters(2, te.var("n"))
    for size in (128, 65, 1024):
        x, out = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
        built.run_simt(x, out)
        assert (out == x).all()
    with pytest.raises(TilewrightError, match=r"clusters of 2 blocks .* do not divide the 3 that"):
        built.run_simt(np.zeros(130, np.float32), np.zeros(130, np.float32))
    built.run_simt(np.zeros(0, np.float32), np.zeros(0, np.float32))  # no blocks at all


def test_blocks_that_a_call_asks_for() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[0], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.y"))
    f = tw.build(s, [a, b], "cuda")
    x = np.zeros(70000, "float32")
    with pytest.raises(TilewrightError, match=r"70000 blocks along blockIdx.y.*at most 65535"):
        f.run_simt(x, x.copy())


@pytest.mark.parametrize("threads", [0, -3])
def test_a_kernel_without_threads_does_nothing(threads: int) -> None:
    def write(ib: Any, a: Any, t: Any) -> None:
        a[t] = 1.0

    x = np.zeros(64, "float32")
    tw.build(by_hand(threads, write), target="cuda").run_simt(x)
    assert not x.any()


# -- memory


def test_shared_memory_of_unknown_size() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + a[n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    bound(s, b)
    s[shared].compute_at(s[b], s[b].leaf_iter_vars[0])
    with pytest.raises(CompileError, match=r"A\.shared in shared memory.* constant size") as found:
        tw.build(s, [a, b], "cuda")
    assert "compute_at" in str(found.value)


def test_too_much_local_memory() -> None:
    n = 1 << 20
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + a[n - 1 - i], name="B")
    s = te.create_schedule(b.op)
    local = s.cache_read(a, "local", [b])
    bound(s, b)
    s[local].compute_at(s[b], s[b].leaf_iter_vars[1])
    expected = (
        r"too much local memory: 4194304 bytes a thread \(A.local 4194304\).* CUDA has 524288"
    )
    with pytest.raises(CompileError, match=expected):
        tw.build(s, [a, b], "cuda")


def test_shared_memory_outside_of_kernels() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[63 - i], name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    bound(s, b)
    s[shared].bind(s[shared].op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(CompileError, match=r"scope shared \(A\.shared\).*one kernel; compute A"):
        tw.build(s, [a, b], "cuda")


def test_memory_that_a_language_lacks() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    tile = s.cache_read(a, "wmma.matrix_a", [b])
    bound(s, b)
    s[tile].compute_at(s[b], s[b].leaf_iter_vars[0])
    with pytest.raises(CompileError, match=r"OpenCL has no memory 'wmma.matrix_a'.*'shared' or"):
        tw.build(s, [a, b], "opencl")


def test_memory_of_a_warp() -> None:
    def write(ib: Any, a: Any, t: Any) -> None:
        w = ib.allocate("float32", (48,), name="W", scope="warp")
        w[t] = a[t]
        a[t] = w[47 - t]

    with pytest.raises(CompileError, match=r"has 48 threads; .* divisor of it; split .*'shared'"):
        tw.build(by_hand(48, write), target="cuda")
    with pytest.raises(CompileError, match=r"opencl cannot read each other's.*use scope 'shared'"):
        tw.build(by_hand(32, write), target="opencl")


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize(
    ("scope", "help_text"),
    [("global", "two kernels"), ("shraed", "the scopes of barriers are 'shared' and 'warp'")],
)
def test_barriers_of_other_scopes(target: str, scope: str, help_text: str) -> None:
    def write(ib: Any, a: Any, t: Any) -> None:
        ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", tir.StringImm(scope)))
        a[t] = 1.0

    with pytest.raises(CompileError, match=f"no barrier of scope '{scope}'.*{help_text}"):
        tw.build(by_hand(64, write), target=target)


# -- indices


def pretended(shape: tuple[int, ...], steps: tuple[int, ...] | None = None) -> Any:
    """An array on simt of any size, with no memory behind it."""
    x = tw.nd.empty((1,) * len(shape), "int8", tw.simt(0))
    x.shape, x._strides, x._address = shape, steps, 1 << 50
    return x


def test_more_elements_than_int32_counts() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int8", name="A")
    b = te.compute((n,), lambda i: a[i, 0], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    function = as_a(DeviceFunction, tw.build(s, [a, b], "cuda").entry_func).simt()
    check = make_checker(function.info)
    small = tw.nd.empty((1 << 16,), "int8", tw.simt(0))
    assert type(small) is DeviceArray
    check(pretended((1 << 16, (1 << 15) - 1)), small)
    expected = r"argument 0 \(A\): shape \(65536, 32768\) spans 2147483648 elements.*'int64'"
    with pytest.raises(ArgumentError, match=expected):
        check(pretended((1 << 16, 1 << 15)), small)
    with pytest.raises(ArgumentError, match=r"spans 3221176321 elements"):
        check(pretended((1 << 16, 1), (49152, 1)), small)


def test_int64_shapes_count_further() -> None:
    n, m = te.var("n", "int64"), te.var("m", "int64")
    assert not any(a.narrow for a in info_of(n, m).args)
    assert not any(a.narrow for a in info_of(128, 64).args)
    assert all(a.narrow for a in info_of(te.var("n"), 4).args)


def info_of(n: Any, m: Any, target: str = "cuda") -> Any:
    a = te.placeholder((n, m), "int8", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    return tw.build(s, [a, b], target).entry_func.info


def test_constant_shapes_beyond_int32_have_wide_indices() -> None:
    a = te.placeholder((1 << 20, 1 << 13), "int8", name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    j, k = s[b].split(b.op.axis[1], 256)
    s[b].bind(j, te.thread_axis("blockIdx.y"))
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    text = tw.build(s, [a, b], "cuda").imported_modules[0].get_source()
    assert "((long long)((int)blockIdx.x)) * 8192LL" in text


def test_limits_of_blocks_are_not_cut_to_int32() -> None:
    n = te.var("n", "int64")
    a = te.placeholder((n,), "int8", name="A")
    b = te.compute((n,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    bound(s, b)
    text = tw.build(s, [a, b], "cuda").imported_modules[0].get_source()
    assert "(int)n" not in text and "(n >> 6LL)" in text


def test_temporaries_of_more_elements_than_int32_counts() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    t = te.compute((n, n), lambda i, j: a[i] * a[j], name="T")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n,), lambda i: te.sum(t[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    for stage in (t, c):
        s[stage].bind(stage.op.axis[0], te.thread_axis("blockIdx.x"))
    f = tw.build(s, [a, c], "cuda")
    x = np.zeros(70000, "float32")
    with pytest.raises(TilewrightError, match=r"temporary T would have 4900000000 elements.*int64"):
        f.run_simt(x, x.copy())
