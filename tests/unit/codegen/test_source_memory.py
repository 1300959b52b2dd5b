"""Memory and statements in CUDA and OpenCL source: vectors, strides, predicates, shared arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.device_kit import compile_everywhere, kernel, opencl, source, thread
from tilewright.base.errors import CompileError
from tilewright.codegen.source import generate
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer, decl_buffer
from tilewright.loopir.calls import (
    address_of,
    call_extern,
    call_intrin,
    call_pure_extern,
    storage_sync,
)
from tilewright.target.target import Target


def arrays(*shapes: tuple[str, int]) -> list[Buffer]:
    return [decl_buffer((n,), d, "ABCD"[i]) for i, (d, n) in enumerate(shapes)]


def run(
    body: S.Stmt, buffers: Sequence[Buffer], data: Sequence[np.ndarray], threads: int, blocks: int
) -> list[np.ndarray]:
    """Run a kernel on an OpenCL device, compile it for CUDA; the arrays afterwards."""
    cl, context, queue = opencl()
    func = kernel("f", body, [b.data for b in buffers])
    program = cl.Program(context, source({"f": func}, "opencl")).build()
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = [cl.Buffer(context, flags, hostbuf=x) for x in data]
    program.f(queue, (threads * blocks,), (threads,), *memory)
    out = [np.empty_like(x) for x in data]
    for x, m in zip(out, memory):
        cl.enqueue_copy(queue, x, m)
    compile_everywhere(source({"f": func}, "cuda"))
    return out


def load(b: Buffer, at: Any, predicate: Any = None) -> E.BufferLoad:
    return E.BufferLoad(b, [at], predicate)


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


@pytest.mark.parametrize("stride", [-1, 0, 2, 3])
def test_vectors_with_strides(stride: int) -> None:
    a, b = arrays(("float32", 64), ("float32", 64))
    i, around = thread("threadIdx.x", 4)
    value = load(a, E.Ramp(i * 4 + 12, stride, 4))
    body = around(S.BufferStore(b, value, [E.Ramp(i + 3, 4, 4)]))
    x = floats(64)
    got = run(body, [a, b], [x, np.zeros_like(x)], 4, 1)[1]
    want = np.zeros_like(x)
    for t in range(4):
        want[t + 3 + 4 * np.arange(4)] = x[t * 4 + 12 + stride * np.arange(4)]
    np.testing.assert_array_equal(got, want)


def test_a_store_reads_all_lanes_before_it_writes_the_first() -> None:
    (a,) = arrays(("float32", 16))
    _, around = thread("threadIdx.x", 1)
    reverse = load(a, E.Ramp(E.const(7), -1, 8))
    got = run(around(S.BufferStore(a, reverse, [E.Ramp(0, 1, 8)])), [a], [floats(16)], 1, 1)[0]
    np.testing.assert_array_equal(got[:8], np.arange(7, -1, -1))


def test_gather_and_scatter() -> None:
    a, b, c = arrays(("float32", 64), ("int32", 16), ("float32", 64))
    _, around = thread("threadIdx.x", 1)
    where = load(b, E.Ramp(0, 1, 8))
    body = around(S.BufferStore(c, load(a, where), [where * 2]))
    index = np.array([5, 3, 9, 0, 30, 1, 2, 8] * 2, np.int32)
    got = run(body, [a, b, c], [floats(64), index, np.zeros(64, np.float32)], 1, 1)[2]
    want = np.zeros(64, np.float32)
    want[index[:8] * 2] = index[:8]
    np.testing.assert_array_equal(got, want)


def test_predicates_guard_lanes() -> None:
    a, b = arrays(("float32", 8), ("float32", 16))
    i, around = thread("threadIdx.x", 4)
    at = E.Ramp(i * 4, 1, 4)
    inside = E.LT(at, E.Broadcast(E.const(7), 4))
    store = S.BufferStore(b, load(a, at, inside) + E.const(1.0, "float32x4"), [at], inside)
    got = run(around(store), [a, b], [floats(8), np.full(16, -1, np.float32)], 4, 1)[1]
    np.testing.assert_array_equal(got, [*range(1, 8), *[-1] * 9])


def test_buffers_of_vectors() -> None:
    a, b = decl_buffer((8,), "float32x4", "A"), decl_buffer((8,), "float32x4", "B")
    i, around = thread("threadIdx.x", 8)
    body = around(S.BufferStore(b, load(a, i) * E.const(2.0, "float32x4"), [7 - i]))
    x = floats(32)
    got = run(body, [a, b], [x, np.zeros_like(x)], 8, 1)[1]
    np.testing.assert_array_equal(got.reshape(8, 4)[::-1], 2 * x.reshape(8, 4))


def test_shared_memory_and_barriers() -> None:
    a, b = arrays(("float32", 64), ("float32", 64))
    shared = decl_buffer((32,), "float32", "A.shared", scope="shared")
    block, around_block = thread("blockIdx.x", 2)
    i, around = thread("threadIdx.x", 32)
    steps = S.seq(
        S.BufferStore(shared, load(a, block * 32 + i), [i]),
        S.Evaluate(storage_sync("shared")),
        S.BufferStore(b, load(shared, 31 - i), [block * 32 + i]),
    )
    x = floats(64)
    body = around_block(around(S.Allocate(shared, steps)))
    got = run(body, [a, b], [x, np.zeros_like(x)], 32, 2)[1]
    np.testing.assert_array_equal(got, x.reshape(2, 32)[:, ::-1].reshape(-1))


def test_conditionals_evaluate_one_side() -> None:
    a, b = arrays(("float32", 4), ("float32", 32))
    i, around = thread("threadIdx.x", 8)
    wide = E.Call("float32x4", "tir.if_then_else", (i < 1, load(a, E.Ramp(i * 4, 1, 4)) * 3.0,
                                                  E.const(7.0, "float32x4")))  # fmt: skip
    body = around(S.BufferStore(b, wide, [E.Ramp(i * 4, 1, 4)]))
    got = run(body, [a, b], [floats(4), np.zeros(32, np.float32)], 8, 1)[1]
    np.testing.assert_array_equal(got, [0, 3, 6, 9, *[7] * 28])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_atomic_addition(dtype: str) -> None:
    a, b = arrays((dtype, 64), (dtype, 4))
    i, around = thread("threadIdx.x", 64)
    place = address_of(load(b, E.FloorMod(i, E.const(4))))
    add = call_intrin(dtype, "tir.atomic_add", place, load(a, i))
    x = np.arange(64).astype(dtype)
    got = run(around(S.Evaluate(add)), [a, b], [x, np.zeros(4, dtype)], 64, 1)[1]
    np.testing.assert_array_equal(got, x.reshape(16, 4).sum(axis=0))


def test_loops_lets_and_while() -> None:
    a, b = arrays(("int32", 8), ("int32", 8))
    i, around = thread("threadIdx.x", 8)
    k, v = E.Var("k", "int32"), E.Var("double", "int32")
    total = decl_buffer((1,), "int32", "total", scope="local")
    count = load(total, 0)
    steps = S.seq(
        S.BufferStore(total, E.const(0), [0]),
        # the bound is read once, though the body changes what it is read from
        S.For(k, 0, load(a, i), S.ForKind.SERIAL,
              S.seq(S.BufferStore(a, E.const(100), [i]), S.BufferStore(total, count + k, [0]))),
        S.While(count < 10, S.BufferStore(total, count + 3, [0])),
        S.LetStmt(v, count * 2, S.BufferStore(b, v, [i])),
    )  # fmt: skip
    body = around(S.Allocate(total, steps))
    x = np.arange(8, dtype=np.int32)
    got = run(body, [a, b], [x, np.zeros_like(x)], 8, 1)[1]
    want = []
    for n in range(8):
        s = n * (n - 1) // 2
        while s < 10:
            s += 3
        want.append(2 * s)
    np.testing.assert_array_equal(got, want)


def test_users_source_and_functions() -> None:
    a, b = arrays(("float32", 8), ("float32", 8))
    i, around = thread("threadIdx.x", 8)
    text = {
        "cuda": "__device__ float twice(float x) { return 2.0f * x; }",
        "opencl": "float twice(float x) { return 2.0f * x; }",
    }
    value = E.Call("float32", "tir.call_pure_extern", (E.StringImm("twice"), load(a, i)))
    for target, code in text.items():
        body = S.AttrStmt(
            E.const(0), "pragma_import_c", E.StringImm(code), S.BufferStore(b, value, [i])
        )
        made = source({"f": kernel("f", around(body), [a.data, b.data])}, target)
        assert made.startswith(code)
        if target == "cuda":
            compile_everywhere(made)
        else:
            cl, context, _ = opencl()
            cl.Program(context, made).build()


def test_cuda_takes_halves_from_the_header_that_users_include() -> None:
    a, b = arrays(("float16", 8), ("float16", 8))
    i, around = thread("threadIdx.x", 8)
    value = E.Call("float16", "tir.call_pure_extern", (E.StringImm("hsin"), load(a, i)))
    store = S.BufferStore(b, value + load(a, i) * load(a, i), [i])
    body = S.AttrStmt(E.const(0), "pragma_import_c", E.StringImm("#include <cuda_fp16.h>\n"), store)
    text = source({"f": kernel("f", around(body), [a.data, b.data])}, "cuda")
    assert "struct __align__(2) half" not in text


def test_calls_with_effects_are_statements() -> None:
    (a,) = arrays(("float32", 8))
    _, around = thread("threadIdx.x", 8)
    body = around(S.Evaluate(call_extern("int32", "foo", address_of(load(a, 3)), 5)))
    for target in ("cuda", "opencl"):
        assert "  foo(A + 3, 5);" in source({"f": kernel("f", body, [a.data])}, target)


def vector_copy(dtype: str, lanes: int, scale: int, target: str) -> str:
    n = 256 * lanes
    a, b = arrays((dtype, n), (dtype, n))
    i, around = thread("threadIdx.x", 64)
    at = E.Ramp(i * scale, 1, lanes)
    body = around(S.BufferStore(b, load(a, at), [at]))
    return source({"f": kernel("f", body, [a.data, b.data], [a.data])}, target)


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [("float32", 4), ("float16", 8), ("int8", 16), ("uint8", 16), ("float64", 2), ("int32", 8),
     ("float16", 16)],
)  # fmt: skip
def test_aligned_vectors_are_read_and_written_by_128_bits(dtype: str, lanes: int) -> None:
    ptx = compile_everywhere(vector_copy(dtype, lanes, lanes, "cuda"))
    wide = ("ld.global.nc.v4.", "ld.global.nc.v2.f64", "ld.global.nc.v2.b64")
    assert any(x in ptx["sm_80"] for x in wide)
    stores = [x for x in ptx["sm_80"].splitlines() if "st.global" in x]
    assert all(".v4." in x or ".v2." in x for x in stores) and len(stores) <= 2


def test_vectors_of_unknown_alignment_are_read_by_lanes() -> None:
    text = vector_copy("float32", 4, 3, "cuda")
    assert "*(float4*)" not in text
    assert ".v4" not in compile_everywhere(text)["sm_80"]
    assert "vload4(0, A + (" in vector_copy("float32", 4, 3, "opencl")


def test_half_arithmetic_is_packed() -> None:
    a, b = arrays(("float16", 256), ("float16", 256))
    i, around = thread("threadIdx.x", 32)
    at = E.Ramp(i * 8, 1, 8)
    value = load(a, at) * load(a, at) + load(b, at)
    func = kernel("f", around(S.BufferStore(b, value, [at])), [a.data, b.data])
    ptx = compile_everywhere(source({"f": func}, "cuda"))["sm_80"]
    assert ptx.count("fma.rn.f16x2") == 4


def test_opencl_half_follows_the_device() -> None:
    plain = vector_copy("float16", 4, 4, "opencl")
    assert "vload_half4" in plain and "vstore_half4_rte" in plain and "fp16" not in plain


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_memory_that_a_kernel_cannot_have(target: str) -> None:
    (a,) = arrays(("float32", 8))
    _, around = thread("threadIdx.x", 8)
    n = E.Var("n", "int32")
    for scope, size, message in (
        ("global", 4, "global memory is allocated inside kernel"),
        ("local", n, "needs a constant size"),
        ("texture", 4, "has no memory 'texture'"),
    ):
        x = decl_buffer((size,), "float32", "x", scope=scope)
        body = around(S.Allocate(x, S.BufferStore(a, load(x, 0), [0])))
        with pytest.raises(CompileError, match=message):
            source({"f": kernel("f", body, [a.data, n])}, target)


def test_deep_nests_need_no_recursion() -> None:
    (a,) = arrays(("int32", 8))
    _, around = thread("threadIdx.x", 1)
    body: Any = None
    chain = [E.Var("v", "int32") for _ in range(3000)]
    for v in reversed(chain):
        body = S.LetStmt(v, load(a, 0), body or S.BufferStore(a, chain[0], [0]))
    text = source({"f": kernel("f", around(body), [a.data])}, "cuda")
    assert text.count("int v") == 3000


def test_shared_subexpressions_are_written_once() -> None:
    a, b = arrays(("float32", 8), ("float32", 8))
    i, around = thread("threadIdx.x", 8)
    value: Any = load(a, i)
    for _ in range(60):
        value = value * value + 1.0
    func = kernel("f", around(S.BufferStore(b, value, [i])), [a.data, b.data])
    text = generate({"f": func}, Target("cuda"))
    assert len(text) < 20000
    compile_everywhere(text)


def test_opencl_computes_in_half_where_the_device_does() -> None:
    text = vector_copy("float16", 4, 4, "opencl -fp16=1")
    assert text.startswith("#pragma OPENCL EXTENSION cl_khr_fp16 : enable")
    assert "__global half* restrict B" in text and "vload_half" not in text


def test_shuffles_need_sub_groups() -> None:
    (a,) = arrays(("float32", 32))
    i, around = thread("threadIdx.x", 32)
    mask = E.const(0xFFFFFFFF, "uint32")
    args = (mask, load(a, i), E.const(1), E.const(32), E.const(32))
    value = call_intrin("float32", "tir.tvm_warp_shuffle_down", *args)
    func = kernel("f", around(S.BufferStore(a, value, [i])), [a.data])
    with pytest.raises(CompileError, match="has no sub-groups"):
        source({"f": func}, "opencl")
    assert "__shfl_down_sync(4294967295u, A[" in source({"f": func}, "cuda")


@pytest.mark.parametrize("named", (False, True))
def test_shuffles_bring_their_names_along(named: bool) -> None:
    """Machines before Volta have them without masks; kernels without shuffles need none."""
    (a,) = arrays(("float32", 32))
    i, around = thread("threadIdx.x", 32)
    args = (E.const(0xFFFFFFFF, "uint32"), load(a, i), E.const(1), E.const(32))
    value = (
        call_pure_extern("float32", "__shfl_xor_sync", *args)
        if named
        else call_intrin("float32", "tir.tvm_warp_shuffle_xor", *args, E.const(32))
    )
    text = source({"f": kernel("f", around(S.BufferStore(a, value, [i])), [a.data])}, "cuda")
    assert text.startswith(
        "#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 700)\n#define __shfl_sync"
    )
    assert "#define __shfl_down_sync(mask, var, offset, width) \\\n" in text
    compile_everywhere(text)
    plain = source({"f": kernel("f", around(S.BufferStore(a, load(a, i), [i])), [a.data])}, "cuda")
    assert "shfl" not in plain and not plain.startswith("#")
