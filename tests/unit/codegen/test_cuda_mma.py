"""Tensor cores and asynchronous copies in CUDA source: what the compilers make of them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.codegen.device_kit import compile_everywhere, kernel, source, thread
from tilewright import te, topi
from tilewright.base.errors import CompileError
from tilewright.codegen import cuda_mma
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer, decl_buffer
from tilewright.loopir.calls import call_intrin
from tilewright.loopir.tensor_core_calls import mma_fill, mma_store, ptx_mma_sp
from tilewright.rt.drivers import nvrtc

TENSOR_CORES = ("sm_80", "sm_90")
LANES = np.arange(32)


def allocate(body: S.Stmt, *buffers: Buffer) -> S.Stmt:
    for b in reversed(buffers):
        body = S.Allocate(b, body)
    return body


def wmma(dtype: str, out: str, shape: tuple[int, int, int], layout_b: str = "col_major") -> str:
    """One product of a warp: D = A B."""
    m, n, k = shape
    a, b = decl_buffer((m * k,), dtype, "A"), decl_buffer((k * n,), dtype, "B")
    d = decl_buffer((m * n,), out, "D")
    fa = decl_buffer((m * k,), dtype, "A_frag", scope="wmma.matrix_a")
    fb = decl_buffer((k * n,), dtype, "B_frag", scope="wmma.matrix_b")
    fd = decl_buffer((m * n,), out, "D_frag", scope="wmma.accumulator")
    zero = E.const(0, out)

    def call(name: str, *args: object) -> S.Stmt:
        return S.Evaluate(call_intrin("handle", f"tir.{name}", *args))

    def move(name: str, f: Buffer, x: Buffer, stride: int, layout: str) -> S.Stmt:
        return call(name, f.data, m, n, k, 0, x.access_ptr("rw"), stride, E.StringImm(layout))

    _, around = thread("threadIdx.x", 32)
    body = S.seq(
        call("tvm_fill_fragment", fd.data, m, n, k, 0, zero),
        move("tvm_load_matrix_sync", fa, a, k, "row_major"),
        move("tvm_load_matrix_sync", fb, b, k if layout_b == "col_major" else n, layout_b),
        call("tvm_mma_sync", fd.data, 0, fa.data, 0, fb.data, 0, fd.data, 0),
        move("tvm_store_matrix_sync", fd, d, n, "row_major"),
    )
    func = kernel("product", around(allocate(body, fa, fb, fd)), [a.data, b.data, d.data])
    return source({"product": func}, "cuda")


@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
@pytest.mark.parametrize(
    ("dtype", "out", "ptx"),
    [
        ("float16", "float32", "f32.f32"),
        ("float16", "float16", "f16.f16"),
        ("bfloat16", "float32", "f32.bf16.bf16.f32"),
        ("int8", "int32", "s32.s8.s8.s32"),
        ("uint8", "int32", "s32.u8.u8.s32"),
    ],
)
def test_wmma_products(dtype: str, out: str, ptx: str, shape: tuple[int, int, int]) -> None:
    text = compile_everywhere(wmma(dtype, out, shape))
    m, n, k = shape
    instruction = f"wmma.mma.sync.aligned.row.col.m{m}n{n}k{k}.{ptx}"
    assert instruction in text["sm_80"] and instruction in text["sm_90"]
    assert (instruction in text["sm_75"]) == (dtype != "bfloat16")


def test_wmma_takes_the_layout_that_a_fragment_was_loaded_with() -> None:
    text = compile_everywhere(wmma("float16", "float32", (16, 16, 16), "row_major"))
    assert "wmma.mma.sync.aligned.row.row.m16n16k16" in text["sm_75"]


def test_float32_operands_become_tf32() -> None:
    text = compile_everywhere(wmma("float32", "float32", (16, 16, 8)))
    assert "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32" in text["sm_80"]
    assert "cvt.rna.tf32.f32" in text["sm_80"]


def test_wmma_reports_shapes_that_tensor_cores_lack() -> None:
    with pytest.raises(CompileError, match="no product of float16 and float16 of shape"):
        wmma("float16", "float32", (16, 16, 8))


def mma(shape: str, types: tuple[str, str, str], names: tuple[str, str, str]) -> str:
    m, n, k = (int(x) for x in shape.replace("n", "m").replace("k", "m").split("m")[1:])
    sizes = [m * k // 32, k * n // 32, m * n // 32]
    registers = [
        decl_buffer((size,), t, f"R{i}", scope="local")
        for i, (size, t) in enumerate(zip(sizes, types))
    ]
    data = [decl_buffer((32 * size,), t, f"G{i}") for i, (size, t) in enumerate(zip(sizes, types))]
    lane, around = thread("threadIdx.x", 32)
    loops = []
    for r, g, size in zip(registers, data, sizes):
        i = E.Var("i", "int32")
        value = E.BufferLoad(g, [lane * size + i])
        loops.append(S.For(i, 0, size, S.ForKind.UNROLLED, S.BufferStore(r, value, [i])))
    pairs = [x for r in registers for x in (r.data, E.const(0))]
    args = [*map(E.StringImm, (shape, "row", "col", *names)), *pairs, E.const(0, "bool")]
    product = S.Evaluate(call_intrin(types[2], "tir.ptx_mma", *args))
    i = E.Var("i", "int32")
    back = S.BufferStore(data[2], E.BufferLoad(registers[2], [i]), [lane * sizes[2] + i])
    body = S.seq(*loops, product, S.For(i, 0, sizes[2], S.ForKind.UNROLLED, back))
    func = kernel("product", around(allocate(body, *registers)), [g.data for g in data])
    return source({"product": func}, "cuda")


@pytest.mark.parametrize(
    ("shape", "types", "names"),
    [
        ("m16n8k16", ("float16", "float16", "float32"), ("fp16", "fp16", "fp32")),
        ("m16n8k8", ("float16", "float16", "float32"), ("fp16", "fp16", "fp32")),
        ("m16n8k16", ("bfloat16", "bfloat16", "float32"), ("bf16", "bf16", "fp32")),
        ("m16n8k8", ("float32", "float32", "float32"), ("tf32", "tf32", "fp32")),
        ("m16n8k32", ("int8", "int8", "int32"), ("int8", "int8", "int32")),
    ],
)
def test_mma_on_registers(
    shape: str, types: tuple[str, str, str], names: tuple[str, str, str]
) -> None:
    text = compile_everywhere(mma(shape, types, names))
    for arch in TENSOR_CORES:
        assert f"mma.sync.aligned.{shape}.row.col" in text[arch]
        assert "ld.local" not in text[arch], "registers must stay registers"


def sparse(shape: str = "m16n8k16", selector: int = 0) -> str:
    a, b = (decl_buffer((4,), "float16", x, scope="local") for x in "ab")
    c = decl_buffer((4,), "float32", "c", scope="local")
    meta = decl_buffer((32,), "uint32", "meta")
    out = decl_buffer((256,), "float32", "G")
    lane, around = thread("threadIdx.x", 32)
    product = ptx_mma_sp(
        "float32", shape, "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, 0, c.data, 0,
        meta.data, lane, selector, False,
    )  # fmt: skip
    zero = mma_fill("float32", 4, c.data, 0)
    i = E.Var("i", "int32")
    ones = [S.For(i, 0, 4, 0, S.BufferStore(x, E.const(1, "float16"), [i])) for x in (a, b)]
    back = S.For(i, 0, 4, 0, S.BufferStore(out, E.BufferLoad(c, [i]), [lane * 4 + i]))
    body = S.seq(*ones, S.Evaluate(zero), S.Evaluate(product), back)
    func = kernel("f", around(allocate(body, a, b, c)), [out.data, meta.data])
    return source({"f": func}, "cuda")


def test_sparse_mma_takes_which_elements_there_are() -> None:
    if nvrtc.why_missing():
        pytest.skip(nvrtc.why_missing())
    for arch in TENSOR_CORES:
        ptx, log = nvrtc.compile_cuda(sparse(selector=1), arch)
        assert b"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx and b", 0x1;" in ptx
        # newer assemblers ask for metadata in order, which TVM's instruction does not promise
        assert all("Advisory: Modifier" in line for line in log.splitlines())
    with pytest.raises(CompileError, match="sparse selector is 0 to 3, got 5"):
        sparse(selector=5)


def tile_store(m: int = 16) -> str:
    c = decl_buffer((8,), "float32", "c", scope="local")
    out = decl_buffer((320,), "float32", "G")
    lane, around = thread("threadIdx.x", 32)
    i = E.Var("i", "int32")
    numbered = S.BufferStore(c, (lane * 8 + i).astype("float32"), [i])
    store = mma_store("float32", m, 16, out.access_ptr("w"), c.data, 0, 20)
    clear = mma_fill("float32", 8, c.data, 0)
    body = S.seq(S.Evaluate(clear), S.For(i, 0, 8, 0, numbered), S.Evaluate(store))
    func = kernel("f", around(allocate(body, c)), [out.data])
    return source({"f": func}, "cuda")


def test_registers_of_products_are_stored_as_a_tile() -> None:
    """The loop that is written, run here for every lane, against the PTX ISA's table: element i of
    a lane's eight of C (two products of m16n8k16 beside each other)."""
    text = tile_store()
    compile_everywhere(text)
    line = next(x.strip() for x in text.splitlines() if "threadIdx.x % 32" in x)
    index = line[line.index("[") + 1 : line.index("] =")].replace("/", "//")
    for lane in range(32):
        for i in range(8):
            half, part = divmod(i, 4)
            row, column = lane // 4 + (8 if part >= 2 else 0), lane % 4 * 2 + i % 2 + 8 * half
            known = {"threadIdx": SimpleNamespace(x=lane), "tw_i": i}
            assert eval(index, known) == row * 20 + column
    with pytest.raises(CompileError, match="mma_store stores tiles of 16 x 16, not 8 x 16"):
        tile_store(8)


def test_ldmatrix() -> None:
    shared = decl_buffer((256,), "float16", "S", scope="shared")
    registers = decl_buffer((8,), "float16", "R", scope="local")
    out = decl_buffer((256,), "float16", "G")
    lane, around = thread("threadIdx.x", 32)
    i, j = E.Var("i", "int32"), E.Var("j", "int32")
    fill = S.BufferStore(shared, E.BufferLoad(out, [lane * 8 + i]), [lane * 8 + i])
    sync = S.Evaluate(call_intrin("int32", "tir.tvm_storage_sync", E.StringImm("shared")))
    args = (E.const(1, "bool"), 4, E.StringImm(".b16"), registers.data, 0, shared.data)
    load = S.Evaluate(call_intrin("float16", "tir.ptx_ldmatrix", *args, lane * 8))
    store = S.BufferStore(out, E.BufferLoad(registers, [j]), [lane * 8 + j])
    body = S.seq(
        S.For(i, 0, 8, S.ForKind.SERIAL, fill), sync, load,
        S.For(j, 0, 8, S.ForKind.UNROLLED, store),
    )  # fmt: skip
    func = kernel("f", around(allocate(body, shared, registers)), [out.data])
    text = compile_everywhere(source({"f": func}, "cuda"))
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in text["sm_75"]


def test_asynchronous_copies_fall_back_before_sm_80() -> None:
    shared = decl_buffer((256,), "float32", "S", scope="shared")
    a, b = decl_buffer((256,), "float32", "A"), decl_buffer((256,), "float32", "B")
    lane, around = thread("threadIdx.x", 64)
    copy = call_intrin(
        "float32", "tir.ptx_cp_async", shared.data, lane * 4, a.data, lane * 4, 16, lane < 60
    )
    body = S.seq(
        S.Evaluate(copy),
        S.Evaluate(call_intrin("int32", "tir.ptx_commit_group")),
        S.Evaluate(call_intrin("int32", "tir.ptx_wait_group", 0)),
        S.Evaluate(call_intrin("int32", "tir.tvm_storage_sync", E.StringImm("shared"))),
        S.BufferStore(b, E.BufferLoad(shared, [lane]), [lane]),
    )
    func = kernel("f", around(allocate(body, shared)), [a.data, b.data], [a.data])
    text = compile_everywhere(source({"f": func}, "cuda"))
    for arch in ("sm_80", "sm_90"):
        assert "cp.async.cg.shared.global" in text[arch]
        assert "cp.async.commit_group" in text[arch]
        assert "cp.async.wait_group" in text[arch]
    assert "cp.async" not in text["sm_75"].replace("tw_cp_async", "")


def _places(shape: str, which: str, per: int) -> Any:
    """Of each lane, register and part of it the row and the column: PTX ISA, "Matrix Fragments"."""
    m, _, k = map(int, re.findall(r"\d+", shape))
    group, member, step = LANES // 4, LANES % 4, 4 * per
    if which == "b":
        return [
            [(member * per + h + r * step, group) for h in range(per)] for r in range(k // step)
        ]
    upper = m // 8
    if which == "d":
        return [
            [
                (group + r // (2 // per) * 8, member * 2 + (h if per == 2 else r % 2))
                for h in range(per)
            ]
            for r in range(upper * 2 // per)
        ]
    return [
        [(group + r % upper * 8, member * per + h + r // upper * step) for h in range(per)]
        for r in range(upper * k // step)
    ]


@pytest.mark.parametrize(
    ("shape", "kind", "per", "sums"),
    [
        ("m16n8k16", "f16", 2, 1),
        ("m16n8k16", "f16", 2, 2),
        ("m16n8k8", "f16", 2, 1),
        ("m16n8k32", "s8", 4, 1),
        ("m16n8k32", "u8", 4, 1),
    ],
)
def test_smaller_instructions_give_the_product_of_a_larger_one(
    shape: str, kind: str, per: int, sums: int
) -> None:
    """Fragments of lanes, multiplied piece by piece as sm_75 does; `sums` in a register."""
    m, n, k = map(int, re.findall(r"\d+", shape))
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-9, 9, size) for size in ((m, k), (k, n), (m, n)))
    parts = {"a": (a, per), "b": (b, per), "d": (c, sums)}
    registers = {
        name: [[matrix[at].copy() for at in register] for register in _places(shape, name, each)]
        for name, (matrix, each) in parts.items()
    }
    smaller, pieces = cuda_mma._OLDER[shape, kind]
    low = [int(x) for x in re.findall(r"\d+", smaller)]
    sizes = {"a": (low[0], low[2]), "b": (low[2], low[1]), "d": (low[0], low[1])}
    counts = [len(registers[name]) for name in "dab"]
    for piece in pieces(*counts):
        matrices = {}
        for name, first, count in piece:
            places = _places(smaller, name, parts[name][1])
            assert len(places) == count
            matrices[name] = np.full(sizes[name], 10**6)
            for register, at in zip(registers[name][first : first + count], places):
                for held, place in zip(register, at):
                    matrices[name][place] = held
        total = matrices["d"] + matrices["a"] @ matrices["b"]
        (_, first, _), places = piece[0], _places(smaller, "d", sums)
        for number, at in enumerate(places):
            registers["d"][first + number] = [total[place] for place in at]
    found = np.zeros((m, n), int)
    for register, at in zip(registers["d"], _places(shape, "d", sums)):
        for held, place in zip(register, at):
            found[place] = held
    np.testing.assert_array_equal(found, c + a @ b)


@pytest.mark.parametrize(
    ("dtype", "out", "instruction"),
    [("float16", "float32", "HMMA.1688.F32"), ("int8", "int32", "IMMA.8816.S8.S8")],
)
def test_turing_has_the_fragments_of_later_architectures(
    dtype: str, out: str, instruction: str
) -> None:
    target = tw.Target("cuda -arch=sm_75")
    a, b = te.placeholder((256, 128), dtype, "a"), te.placeholder((192, 128), dtype, "b")
    c = topi.nn.dense(a, b, out_dtype=out)
    f = tw.build(topi.default_schedule(c, target), [a, b, c], target, name="f")
    source = f.imported_modules[0].get_source()
    image, _ = nvrtc.compile_cuda(source, "sm_75", "cubin")
    code = nvrtc.disassemble(image)
    assert instruction in code and "LDSM.16.M88.4" in code and "BPT.TRAP" not in code
