"""Barriers, copies by tensor maps and products of warp groups in CUDA source: descriptors bit by
bit against the PTX ISA ("Matrix Descriptor Format"), and what compilers make of the rest."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.codegen.device_kit import compile_everywhere, source, thread
from tilewright.base.errors import CompileError, TilewrightError
from tilewright.base.tensor_map import most_offset
from tilewright.codegen.cuda_shared import dynamic_shared
from tilewright.codegen.cuda_wgmma import layout_bits
from tilewright.codegen.source import generate, prepare_kernel
from tilewright.loopir import expr as E
from tilewright.loopir import hopper_calls as H
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer, decl_buffer
from tilewright.loopir.tensor_core_calls import ptx_cp_async_barrier
from tilewright.target.target import Target


def tile(align: int = 1024, size: int = 8192, name: str = "tile") -> Buffer:
    return decl_buffer((size,), "float16", name, None, None, None, "shared", align)


@pytest.mark.parametrize(
    ("leading", "stride", "swizzle", "bits"),
    [
        # a field counts 16 bytes: 16 is 1 (bits 16 to 29), 1024 is 64 (bits 32 to 45)
        (16, 1024, 128, 1 << 16 | 64 << 32 | 1 << 62),
        (16, 512, 64, 1 << 16 | 32 << 32 | 2 << 62),
        (16, 256, 32, 1 << 16 | 16 << 32 | 3 << 62),
        (2048, 128, 0, 128 << 16 | 8 << 32),
        (8192, 1024, 128, 0x4000004002000000),
        (0x3FFF0, 0x3FFF0, 0, 0x00003FFF3FFF0000),
    ],
)
def test_the_bits_of_a_descriptor(leading: int, stride: int, swizzle: int, bits: int) -> None:
    call = H.ptx_wgmma_descriptor(tile().access_ptr("r"), leading, stride, swizzle)
    assert layout_bits(call) == bits
    assert bits & (0x3FFF | 7 << 49) == 0  # the address comes at run time, the base offset is 0


@pytest.mark.parametrize(("leading", "stride"), [(8, 1024), (16, 1000), (1 << 18, 16), (-16, 16)])
def test_offsets_that_no_descriptor_holds(leading: int, stride: int) -> None:
    call = H.ptx_wgmma_descriptor(tile().access_ptr("r"), leading, stride, 128)
    with pytest.raises(CompileError, match="constant multiples of 16 bytes"):
        layout_bits(call)
    with pytest.raises(TilewrightError, match="a tile is swizzled by"):
        H.ptx_wgmma_descriptor(tile().access_ptr("r"), 16, 1024, 48)


def hopper(body: S.Stmt, *buffers: Buffer, given: Any = None, target: str = "cuda") -> str:
    """The source of a kernel of one warp group with these arrays, and a tensor map."""
    out = decl_buffer((128,), "float32", "OUT")
    lane, around = thread("threadIdx.x", 128)
    found = S.seq(body, S.BufferStore(out, E.const(1.0, "float32"), [lane]))
    for b in reversed(buffers):
        found = S.Allocate(b, found)
    maps = [] if given is None else [given]
    access = ("w", *["map" for _ in maps])
    attrs = {"global_symbol": "f", "tir.noalias": True, "tir.kernel_params_access": access}
    func = S.PrimFunc([out.data, *maps], around(found), None, {}, attrs)
    return source({"f": func}, target)


def calls(*given: Any) -> S.Stmt:
    return S.seq([S.Evaluate(c) for c in given])


def test_barriers_and_copies() -> None:
    t, m = tile(), E.Var("M", "handle")
    body = calls(
        H.create_barriers(2),
        H.ptx_init_barrier_thread_count(1, 128),
        H.ptx_fence_barrier_init(),
        H.ptx_arrive_barrier(0),
        H.ptx_arrive_barrier_expect_tx(1, 4096),
        ptx_cp_async_barrier(1),
        H.ptx_cp_async_bulk_tensor("float16", t.access_ptr("w"), m, (64, 8), 1),
        H.ptx_wait_barrier(1, 1),
        H.ptx_fence_proxy_async(),
    )
    text = hopper(body, t, given=m)
    assert "const __grid_constant__ tw_tensor_map M" in text
    assert "__shared__ __align__(1024) half tile[8192];" in text
    ptx = compile_everywhere(text, ("sm_80", "sm_90"))
    for instruction in (
        "mbarrier.init.shared::cta.b64",
        "mbarrier.arrive.shared::cta.b64",
        "mbarrier.arrive.expect_tx.shared::cta.b64",
        "cp.async.mbarrier.arrive.shared::cta.b64",
        "mbarrier.try_wait.parity.shared::cta.b64",
        "fence.mbarrier_init.release.cluster",
        "fence.proxy.async.shared::cta",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
    ):
        assert instruction in ptx["sm_90"] and instruction not in ptx["sm_80"]
    assert re.search(r"\.param \.align 128 \.b8 f_param_1\[128\]", ptx["sm_90"])
    with pytest.raises(CompileError, match="barriers that count bytes, which began with sm_90"):
        hopper(body, t, given=m, target="cuda -arch=sm_80")


def in_cluster(body: S.Stmt, blocks: int = 2) -> S.Stmt:
    return S.AttrStmt(E.const(0), H.CLUSTER, E.const(blocks), body)


def calls_of_clusters(t: Buffer, m: E.Var) -> S.Stmt:
    rank = E.Var("rank", "int32")
    made = calls(
        H.create_barriers(2),
        H.ptx_cluster_sync(),
        H.ptx_arrive_barrier(1, rank),
        H.ptx_wait_barrier(1, 0),
        H.ptx_cp_async_bulk_tensor("float16", t.access_ptr("w"), m, (64, rank), 0, 3),
        H.ptx_cp_async_bulk_tensor("float16", t.access_ptr("w"), m, (64, 8), 0),
    )
    return S.LetStmt(rank, H.ptx_cluster_rank(), made)


def test_clusters() -> None:
    t, m = tile(), E.Var("M", "handle")
    body = in_cluster(calls_of_clusters(t, m))
    text = hopper(body, t, given=m, target="cuda -arch=sm_90a")
    assert 'extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) f(' in text
    assert "int rank = tw_cluster_rank();" in text
    assert "tw_barrier_arrive_at(tw_barriers + 1, rank);" in text
    assert "tw_barrier_wait(tw_barriers + 1, 0);" in text
    # of a copy to several blocks the mask comes last, of one to the own block there is none
    several, alone = re.findall(r"tw_tma\w*\(tile, &M, tw_barriers, (.*?)\);", text)
    assert (several, alone) == ("64, rank, 3", "64, 8")
    ptx = compile_everywhere(text, ("sm_90a",))["sm_90a"]
    for instruction in (
        ".reqnctapercluster 2, 1, 1",
        "%cluster_ctarank;",
        "barrier.cluster.arrive.release;",
        "barrier.cluster.wait",
        "mapa.shared::cluster.u32 ",
        "mbarrier.try_wait.parity.shared::cta.b64 p,",
    ):
        assert instruction in ptx, instruction
    assert re.search(r"mbarrier\.arrive\S*\.shared::cluster\.b64 _, \[", ptx)
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    assert re.search(rf"{copy}\.multicast::cluster \[%r\d+\], .*, %rs\d+;", ptx)
    assert re.search(rf"{copy} \[%r\d+\], .*\];", ptx)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_copies_of_pixels(rank: int) -> None:
    t, m, k = tile(), E.Var("M", "handle"), rank - 2
    at, offsets = [*range(11, 11 + rank)], [*range(21, 21 + k)]
    to = t.access_ptr("w")
    body = calls(
        H.create_barriers(1),
        H.ptx_cp_async_bulk_tensor("float16", to, m, at, 0, 3, offsets),
        H.ptx_cp_async_bulk_tensor("float16", to, m, at, 0, None, offsets),
        H.ptx_cp_async_bulk_tensor("float16", to, m, at, 0),
    )
    text = hopper(in_cluster(body), t, given=m, target="cuda -arch=sm_90a")
    found = re.findall(r"  (tw_tma\w*)\(tile, &M, tw_barriers, (.*?)\);", text)
    places, more = ", ".join(map(str, at)), ", ".join(map(str, offsets))
    assert found == [
        (f"tw_tma_{rank}d_im2col_cluster", f"{places}, {more}, 3"),
        (f"tw_tma_{rank}d_im2col", f"{places}, {more}"),
        (f"tw_tma_{rank}d", places),
    ]
    ptx = compile_everywhere(text, ("sm_90a",))["sm_90a"]
    # registers of 32 bits for the coordinates, of 16 for the offsets, and for the mask behind them
    head = rf"cp\.async\.bulk\.tensor\.{rank}d\.shared::cluster\.global"
    whole = r"\[%r\d+\], \[%rd\d+, \{" + ", ".join([r"%r\d+"] * rank) + r"\}\], \[%r\d+\]"
    beside = r"\{" + ", ".join([r"%rs\d+"] * k) + r"\}"
    done = r"\.mbarrier::complete_tx::bytes"
    for instruction in (
        rf"{head}\.im2col{done}\.multicast::cluster {whole}, {beside}, %rs\d+;",
        rf"{head}\.im2col{done} {whole}, {beside};",
        rf"{head}{done} {whole};",
    ):
        assert len(re.findall(instruction, ptx)) == 1, instruction
    for wrong in (-1, most_offset(rank) + 1):
        copy = H.ptx_cp_async_bulk_tensor("float16", to, m, at, 0, None, [wrong] * k)
        with pytest.raises(
            CompileError, match=rf"{rank} coordinates takes offsets of 0 to \d+, not"
        ):
            hopper(calls(H.create_barriers(1), copy), t, given=m)


@pytest.mark.parametrize("blocks", [2, 3, 4, 8])
def test_what_names_no_architecture_compiles_for_those_without_clusters(blocks: int) -> None:
    """Where such a kernel stops, if it meets others."""
    body = in_cluster(calls(H.ptx_cluster_sync()), blocks)
    ptx = compile_everywhere(hopper(body), ("sm_75", "sm_80", "sm_90", "sm_90a"))
    for arch, text in ptx.items():
        able = arch.startswith("sm_90")
        assert (f".reqnctapercluster {blocks}, 1, 1" in text) == able
        assert ("barrier.cluster.arrive" in text) == able and ("trap;" in text) != able


def test_no_cluster_is_said_of_one_block() -> None:
    assert "cluster" not in hopper(in_cluster(calls(), 1), target="cuda -arch=sm_80")


@pytest.mark.parametrize(
    "body", [calls(), calls(H.ptx_cluster_sync()), calls(H.ptx_cluster_rank())]
)
def test_clusters_began_with_an_architecture(body: S.Stmt) -> None:
    with pytest.raises(CompileError, match=r"needs clusters of blocks, which began with sm_90"):
        hopper(in_cluster(body), target="cuda -arch=sm_80")


@pytest.mark.parametrize("call", [H.ptx_cluster_sync(), H.ptx_cluster_rank()])
def test_calls_of_clusters_began_with_an_architecture(call: E.Call) -> None:
    """Also in a kernel that has none: its blocks are clusters of one."""
    with pytest.raises(CompileError, match=r"needs clusters of blocks, which began with sm_90"):
        hopper(calls(call), target="cuda -arch=sm_80")
    compile_everywhere(hopper(calls(call), target="cuda -arch=sm_90"), ("sm_90",))


def bulk(t: Buffer, source_: Buffer, nbytes: Any = 64) -> S.Stmt:
    args = (t.access_ptr("w"), 8, source_.access_ptr("r"), 16, nbytes, 0)
    return calls(H.create_barriers(1), H.ptx_cp_async_bulk("float16", *args))


def test_copies_of_blocks() -> None:
    t, a = tile(), decl_buffer((64,), "float16", "A")
    _, around = thread("threadIdx.x", 128)
    attrs = {"global_symbol": "f", "tir.noalias": True, "tir.kernel_params_access": ("r",)}

    def text(nbytes: Any, align: Any = None) -> str:
        body = around(S.Allocate(t, bulk(t, a, nbytes)))
        target = Target("cuda -arch=sm_90")
        func = prepare_kernel(S.PrimFunc([a.data], body, None, {}, attrs), target)
        return generate({"f": func}, target, align)

    align: dict[str, tuple[int, ...]] = {}
    ptx = compile_everywhere(text(64, align), ("sm_80", "sm_90"))
    instruction = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    assert instruction in ptx["sm_90"] and instruction not in ptx["sm_80"]
    assert align == {"f": (16,)}
    with pytest.raises(CompileError, match="copies multiples of 16 bytes, not 40"):
        text(40)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("given", "ptx"), [("fp16", "f16"), ("bf16", "bf16")])
def test_products_of_registers(given: str, ptx: str, flip: bool) -> None:
    t = tile(size=256 * 64)
    kind = {"fp16": "float16", "bf16": "bfloat16"}[given]
    sums = decl_buffer((48,), "float32", "sums", scope="local")
    own = decl_buffer((16,), kind, "own", scope="local")
    total = decl_buffer((1,), "float32", "total", scope="local")  # of none of the products
    descriptor = H.ptx_wgmma_descriptor(t.access_ptr("r"), 16, 1024, 128)
    given_at = (sums.data, 0, own.data, 8, descriptor)
    body = calls(
        H.ptx_wgmma_fence(),
        H.ptx_wgmma_rs("float32", "m64n96k16", given, *given_at, 0, flip),
        H.ptx_wgmma_commit_group(),
        H.ptx_wgmma_wait_group(0, sums.data, 48, E.BufferLoad(total, [0])),
    )
    body = S.seq(S.BufferStore(total, E.const(0, "float32"), [0]), body)
    text = compile_everywhere(hopper(body, t, sums, own, total), ("sm_90a",))["sm_90a"]
    product = rf"wgmma\.mma_async\.sync\.aligned\.m64n96k16\.f32\.{ptx}\.{ptx}"
    registers = r"\{" + ", ".join([r"%r\d+"] * 4) + r"\}"
    flips = rf"p, 1, 1, {int(flip)};"
    assert re.search(rf"{product} \{{[^}}]*\}}, {registers}, %rd\d+, {flips}", text)
    # what is computed before the wait is something that may have an effect
    assert re.search(r"@p pmevent 0;[^$]*wgmma\.wait_group\.sync\.aligned 0;", text)
    wrong = H.ptx_wgmma_rs("int32", "m64n96k32", "int8", *given_at, 0)
    with pytest.raises(CompileError, match="ptx_wgmma_rs of int8 is not known: it takes fp16"):
        hopper(calls(wrong), t, sums, own)


@pytest.mark.parametrize("columns", [8, 96, 256])
@pytest.mark.parametrize(("given", "ptx"), [("fp16", "f16"), ("bf16", "bf16")])
def test_products(columns: int, given: str, ptx: str) -> None:
    t = tile(size=256 * 64)
    sums = decl_buffer((columns // 2,), "float32", "sums", scope="local")
    descriptor = H.ptx_wgmma_descriptor(t.access_ptr("r"), 16, 1024, 128)
    shape = f"m64n{columns}k16"
    body = calls(
        H.ptx_wgmma_fence(),
        H.ptx_wgmma("float32", shape, given, sums.data, 0, descriptor, descriptor, 0, True),
        H.ptx_wgmma_commit_group(),
        H.ptx_wgmma_wait_group(0, sums.data, columns // 2),
    )
    text = compile_everywhere(hopper(body, t, sums), ("sm_90a", "sm_90"))
    product = f"wgmma.mma_async.sync.aligned.{shape}.f32.{ptx}.{ptx}"
    assert product in text["sm_90a"] and product not in text["sm_90"]
    assert re.search(r"p, 1, 1, 1, 0;", text["sm_90a"])
    with pytest.raises(CompileError, match=r"needs wgmma.m64n\d+k16, which sm_90a has alone"):
        hopper(body, t, sums, target="cuda -arch=sm_90")


@pytest.mark.parametrize(("shape", "kind"), [("m64n12k16", "fp16"), ("m64n8k16", "tf32")])
def test_products_that_there_are_not(shape: str, kind: str) -> None:
    t = tile()
    d = H.ptx_wgmma_descriptor(t.access_ptr("r"), 16, 1024, 128)
    sums = decl_buffer((8,), "float32", "sums", scope="local")
    body = calls(H.ptx_wgmma("float32", shape, kind, sums.data, 0, d, d, 1))
    with pytest.raises(CompileError, match=f"ptx_wgmma of shape {shape} and type {kind}"):
        hopper(body, t, sums)


def test_a_kernel_makes_its_barriers_once() -> None:
    with pytest.raises(CompileError, match="kernel f calls create_barriers twice"):
        hopper(calls(H.create_barriers(2), H.create_barriers(2)))
    with pytest.raises(CompileError, match="create_barriers takes how many there are"):
        hopper(calls(H.create_barriers(0)))


def test_arrays_of_dynamic_shared_memory_start_where_they_have_to() -> None:
    arrays = [tile(64, 100, "a"), tile(1024, 24 * 1024, "b"), tile(256, 520, "c")]
    body = S.seq([S.BufferStore(b, E.const(0, "float16"), [E.const(0)]) for b in arrays])
    text = hopper(body, *arrays)
    assert "extern __shared__ __align__(1024) unsigned char tw_dynamic[];" in text
    places = {n: int(at) for n, at in re.findall(r"half\* (\w) = .*tw_dynamic \+ (\d+)\)", text)}
    assert places == {"b": 0, "c": 49152, "a": 49152 + 1056}
    _, around = thread("threadIdx.x", 128)
    for b in reversed(arrays):
        body = S.Allocate(b, body)
    layout = dynamic_shared(S.PrimFunc([], around(body), None, {}, {}))
    assert (layout.nbytes, layout.align) == (49152 + 1056 + 224, 1024)
