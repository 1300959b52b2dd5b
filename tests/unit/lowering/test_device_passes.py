"""split_host_device, merge_shared, verify_gpu_code and the text of host functions."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tests.golden import gpu_schedules as gpu
from tests.narrow import int_of
from tilewright import te, tir, topi
from tilewright.base.errors import CompileError
from tilewright.codegen.host_python import generate_host
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.verify import verify
from tilewright.loopir.visit import walk
from tilewright.lowering.device_pipeline import run_device_pipeline
from tilewright.lowering.merge_shared import merge_shared
from tilewright.lowering.split_host_device import DeviceProgram, launch_extents
from tilewright.lowering.unify_threads import unify_threads
from tilewright.lowering.verify_gpu_code import gpu_usage, verify_gpu_code
from tilewright.rt.device_module import Launcher, host_function
from tilewright.target.target import Target

CUDA = Target("cuda")


def lowered(case: gpu.Case) -> S.PrimFunc:
    with CUDA:
        return tw.lower(case[0], case[1], name="f")["f"]


def program(func: S.PrimFunc) -> DeviceProgram:
    return run_device_pipeline(func, CUDA, check=True)


def rows(a: Any) -> tuple[Any, Any]:
    """Sums of rows, of a matrix of symbolic size, and a schedule with a block each."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    y = te.compute((n,), lambda i: te.sum(x[i, k] * a, axis=k), name="B")
    s = te.create_schedule(y.op)
    s[y].bind(y.op.axis[0], te.thread_axis("blockIdx.x"))
    return s, [x, y]


# -- split_host_device


def test_parameters_of_a_kernel() -> None:
    scale = te.var("scale", "float32")
    s, args = rows(scale)
    func = tw.lower(s, [*args, scale], name="rows")["rows"]
    (kernel,) = program(func).kernels.values()
    names = [p.name for p in kernel.params]
    assert names == ["A", "B", "m", "n", "scale", "stride", "stride_1", "stride_2"]
    assert kernel.attrs["tir.kernel_params_access"] == ("r", "rw", *["scalar"] * 6)
    assert kernel.attrs["global_symbol"] == "rows_kernel" and not kernel.buffer_map
    assert kernel.attrs["tir.kernel_launch_params"] == ("blockIdx.x",)
    (extent,) = launch_extents(kernel.body).values()
    assert extent is kernel.params[names.index("n")]
    verify(kernel)


def test_host_launches_by_name_and_extent() -> None:
    host = program(lowered(gpu.transpose(size=50))).host
    (call,) = [x for x in walk(host.body) if type(x) is E.Call]
    text = 'T.call_intrin("int32", "tir.call_kernel", "f_kernel", A, B, 4, 4, 16, 16)'
    assert str(call) == text
    verify(host)


def test_kernels_are_numbered() -> None:
    a = te.placeholder((64,), name="A")
    stages = [a]
    for k in range(3):
        previous = stages[-1]
        stages.append(te.compute((64,), lambda i, p=previous: p[63 - i] + 1.0, name=f"T{k}"))
    s = te.create_schedule(stages[-1].op)
    for t in stages[1:]:
        s[t].bind(t.op.axis[0], te.thread_axis("threadIdx.x"))
    made = program(tw.lower(s, [a, stages[-1]], name="f")["f"])
    assert list(made.kernels) == ["f_kernel", "f_kernel_1", "f_kernel_2"]
    memory = [x.buffer.name for x in walk(made.host.body) if type(x) is S.Allocate]
    assert memory == ["T0", "T1"]
    middle = made.kernels["f_kernel_1"]
    assert [p.name for p in middle.params] == ["T0", "T1"]
    assert middle.attrs["tir.kernel_params_access"] == ("r", "w")


# -- merge_shared


def shared_sizes(func: S.PrimFunc) -> list[int]:
    return [
        int_of(x.buffer.shape[0])
        for x in walk(func.body)
        if type(x) is S.Allocate and x.buffer.scope() == "shared"
    ]


def test_copies_of_an_array_share_its_place() -> None:
    before = unify_threads(lowered(gpu.matmul(size=50)))
    after = merge_shared(before)
    verify(after)
    assert len(shared_sizes(before)) > 2 and shared_sizes(after) == [128, 128]


def test_arrays_that_live_together_stay_apart() -> None:
    func = unify_threads(lowered(gpu.matmul(size=64)))
    assert merge_shared(func).body is func.body


def test_arrays_of_two_stages_stay_apart() -> None:
    func = unify_threads(lowered(gpu.softmax()))
    assert shared_sizes(merge_shared(func)) == shared_sizes(func)


@pytest.mark.parametrize(("side", "after"), [(256, 2), (32, 3)])
def test_large_arrays_that_follow_each_other_share_a_place(side: int, after: int) -> None:
    """What a product's results pass through lies where its tiles were, where those are large: a
    barrier more is put up with for more blocks then."""
    target = Target("cuda -arch=sm_80")
    a, b = (te.placeholder((side, 2 * side), "float16", name) for name in "ab")
    c = topi.nn.dense(a, b, out_dtype="float32")
    with target:
        func = tw.lower(topi.default_schedule(c, target), [a, b, c], name="f")["f"]
    func = unify_threads(func)
    assert len(shared_sizes(func)) == 3
    merged = merge_shared(func)
    verify(merged)
    assert len(shared_sizes(merged)) == after


# -- verify_gpu_code


def test_usage() -> None:
    (usage,) = gpu_usage(lowered(gpu.matmul(vector=4, tile=32, inner=4)))
    assert usage.threads == {"x": 8, "y": 8} and usage.threads_per_block == 64
    assert usage.shared_bytes == 2 * 32 * 8 * 4 and usage.local_bytes == 16 * 4
    assert usage.vector_bytes == 16


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("max_threads_per_block", 64),
        ("max_thread_x", 8),
        ("max_thread_y", 8),
        ("max_shared_memory_per_block", 2048),
        ("max_local_memory_per_block", 64),
        ("max_vector_bytes", 16),
        ("max_kernels", 1),
    ],
)
def test_limits(name: str, limit: int) -> None:
    func = lowered(gpu.matmul(vector=4, tile=32, inner=4))
    assert verify_gpu_code(func, {name: limit})
    assert not verify_gpu_code(func, {name: limit - 1})


def test_usage_is_the_same_after_the_split() -> None:
    func = lowered(gpu.matmul(vector=4, tile=32, inner=4))
    (kernel,) = program(func).kernels.values()
    (before,), (after,) = gpu_usage(func), gpu_usage(kernel)
    assert (before.threads, before.shared_bytes) == (after.threads, after.shared_bytes)


# -- host code


class Recorder:
    """Stands for a Launcher; collects what the host does."""

    truncdiv = staticmethod(Launcher.truncdiv)
    failed = staticmethod(Launcher.failed)

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def launch(self, *args: Any) -> None:
        self.launches.append(args)


def host_run(extent: Any, *scalars: E.Var, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Launches of a host function with a kernel of `extent` blocks."""
    buffer = tir.decl_buffer((64,), "float32", name="A")
    block = te.thread_axis("blockIdx.x")
    store = S.BufferStore(buffer, 1.0, [block.var])
    body = S.AttrStmt(block, "thread_extent", extent, store)
    func = S.PrimFunc(
        [buffer.data, *scalars], body, None, {buffer.data: buffer}, {"global_symbol": "f"}
    )
    made = program(func)
    code = generate_host(made.host, made.kernels)
    assert not code.symbols
    recorder = Recorder()
    host_function(code.text, code.name)(recorder, "stream", "A", *values)
    return recorder.launches


N, M = te.var("n"), te.var("m")


@pytest.mark.parametrize(
    ("extent", "values", "expected"),
    [
        ((N + 31) // 32, (65, 0), 3),
        (te.max(N, M) - te.min(N, M), (3, 10), 7),
        (te.truncdiv(N, M), (-7, 2), -3),
        (te.truncmod(N, M), (-7, 2), -1),
        (te.floordiv(N, M), (-7, 2), -4),
        (te.floormod(N, M), (-7, 2), 1),
        (tir.Select(tir.all(N > 2, M < 5), N, M), (3, 4), 3),
        (tir.if_then_else(tir.any(N > 2, tir.Not(M < 5)), N << 1, M >> 1), (1, 4), 2),
        ((N & 6) | (M ^ 1), (7, 8), 15),
    ],
)
def test_host_arithmetic(extent: Any, values: tuple[int, int], expected: int) -> None:
    (launch,) = host_run(extent, N, M, values=values)
    name, grid, threads, _, stream = launch
    assert (name, grid, threads, stream) == (
        "f_kernel",
        (expected, 1, 1),
        (1, 1, 1),
        "stream",
    )


def test_host_function_with_a_name_python_reserves() -> None:
    s, args = rows(2.0)
    made = program(tw.lower(s, args, name="lambda")["lambda"])
    code = generate_host(made.host, made.kernels)
    assert code.name == "_lambda" and host_function(code.text, code.name) is not None


def test_host_cannot_read_arrays() -> None:
    buffer = tir.decl_buffer((64,), "int32", name="A")
    block = te.thread_axis("blockIdx.x")
    store = S.BufferStore(buffer, 1, [block.var])
    launch = S.AttrStmt(block, "thread_extent", 64, store)
    func = S.PrimFunc(
        [buffer.data],
        S.IfThenElse(buffer[0] > 0, launch),
        None,
        {buffer.data: buffer},
        {"global_symbol": "f"},
    )
    with pytest.raises(CompileError, match="A is accessed on the host"):
        program(func)
