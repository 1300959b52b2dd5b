"""What stands in machine code, for named CPUs, so that no test depends on the host."""

from __future__ import annotations

import re
from typing import Any

import pytest

from benchmarks.matmul import ROWS, schedule, tile_vectors
from tilewright import build, te, topi
from tilewright.target.target import Target
from tilewright.topi.nn.attention import Sizes, attention
from tilewright.topi.schedules.decisions import Decisions

AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"
AVX2 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
NEON = "llvm -mtriple=aarch64-linux-gnu"
LABEL = re.compile(r"^(\.L\w+):")
COUNTING = {"addq", "incq", "decq", "subq", "cmpq", "jne", "jb", "jl"}


def innermost_loops(assembly: str) -> list[list[str]]:
    """Instructions of each loop of x86 code: from a label to a jump back to it."""
    loops: list[list[str]] = []
    label = ""
    body: list[str] = []
    for line in assembly.splitlines():
        found = LABEL.match(line)
        text = line.split("#")[0].strip()
        if found:
            label, body = found[1], []
        elif text and not text.startswith("."):
            body.append(text)
            operation, _, operand = text.partition("\t")
            if operation.startswith("j") and operand.strip() == label:
                loops.append(list(body))
    return loops


@pytest.mark.parametrize("text, register", [(AVX512, "%zmm"), (AVX2, "%ymm")])
def test_the_inner_loop_of_the_matmul_is_fmas_loads_and_counting(text: str, register: str) -> None:
    """The accumulators stay in registers: no store, no reload, no move, no index arithmetic."""
    target = Target(text)
    s, args = schedule(target, packed=True, size=256)
    loops = innermost_loops(build(s, args, target, name="product").get_source("asm"))
    tile = tile_vectors(target.num_vector_registers)
    hot = [loop for loop in loops if sum("vfmadd" in x for x in loop) == ROWS * tile]
    assert len(hot) == 1
    rest = [x for x in hot[0] if "vfmadd" not in x]
    loads = [x for x in rest if x.startswith(("vmovups", "vmovaps"))]
    broadcasts = [x for x in rest if x.startswith("vbroadcastss")]
    counting = [x for x in rest if x.split()[0] in COUNTING]
    assert len(rest) == len(loads) + len(broadcasts) + len(counting)
    assert len(loads) <= tile
    assert len(broadcasts) <= ROWS
    assert len(counting) <= 4
    for x in loads + broadcasts:
        assert re.search(rf"\(.*\), {register}\d+$", x), f"not a load: {x}"
    accumulators = {x.rsplit(", ", 1)[1] for x in hot[0] if "vfmadd" in x}
    assert len(accumulators) == ROWS * tile
    assert all(a.startswith(register) for a in accumulators)


@pytest.mark.parametrize("text, register", [(AVX512, "%zmm"), (AVX2, "%ymm")])
def test_packing_copies_whole_vectors(text: str, register: str) -> None:
    target = Target(text)
    s, args = schedule(target, packed=False, size=256)
    loops = innermost_loops(build(s, args, target, name="product").get_source("asm"))
    tile = tile_vectors(target.num_vector_registers)
    copies = [x for x in loops if not any("fmadd" in y for y in x) and register in " ".join(x)]
    assert len(copies) == 1
    moves = [x for x in copies[0] if x.startswith("vmov")]
    assert len(moves) == 2 * tile
    assert sum(x.endswith(")") for x in moves) == tile
    assert {x.split()[0] for x in copies[0]} <= COUNTING | {"vmovups", "vmovaps"}


@pytest.mark.parametrize("text, instruction", [(AVX512, "prefetcht0"), (NEON, "prfm")])
def test_a_prefetch_is_an_instruction(text: str, instruction: str) -> None:
    """It stands in the code with the primitive, and not without it."""

    def assembly(with_prefetch: bool) -> str:
        a = te.placeholder((64, 256), name="A")
        b = te.compute((64, 256), lambda i, j: a[i, j] * 2.0, name="B")
        s = te.create_schedule(b.op)
        if with_prefetch:
            s[b].prefetch(a, b.op.axis[0], 1)
        return str(build(s, [a, b], text, name="double").get_source("asm"))

    assert instruction in assembly(True)
    assert instruction not in assembly(False)


def test_unrolled_copies_leave_no_loop() -> None:
    def loops(unroll: bool) -> int:
        a = te.placeholder((200, 256), name="A")
        b = te.compute((200,), lambda i: a[i, 0] * 2.0, name="B")
        s = te.create_schedule(b.op)
        if unroll:
            s[b].unroll(b.op.axis[0])
        return len(innermost_loops(build(s, [a, b], AVX512, name="f").get_source("asm")))

    assert loops(True) == 0
    assert loops(False) == 1


def test_a_parallel_loop_calls_the_runtime() -> None:
    def assembly(parallel: bool) -> str:
        a = te.placeholder((256,), name="A")
        b = te.compute((256,), lambda i: a[i] * 2.0, name="B")
        s = te.create_schedule(b.op)
        if parallel:
            s[b].parallel(b.op.axis[0])
        return str(build(s, [a, b], AVX512, name="f").get_source("asm"))

    assert "tw_parallel" in assembly(True)
    assert "tw_parallel" not in assembly(False)


def hot_loops(outputs: Any, text: str) -> list[list[str]]:
    """The loops of a default schedule that multiply and add the most."""
    target = Target(text)
    tensors = outputs if isinstance(outputs, list) else [outputs]
    s = topi.schedules.default_schedule(tensors, target, Decisions())
    inputs = [t.op.output(0) for t in s.stages if isinstance(t.op, te.PlaceholderOp)]
    loops = innermost_loops(build(s, [*inputs, *tensors], target, name="f").get_source("asm"))
    most = max(sum("vfmadd" in x for x in loop) for loop in loops)
    return [loop for loop in loops if sum("vfmadd" in x for x in loop) == most]


@pytest.mark.parametrize("filters, columns", [(2, 196), (2, 49), (4, 196), (8, 21)])
def test_products_of_winograd_keep_their_sums(filters: int, columns: int) -> None:
    """All broadcasts of a step at once beside the sums would be more than there are registers."""
    data = te.placeholder((36, 8, columns, 16), name="data")
    kernel = te.placeholder((36, filters, 8, 16, 16), name="kernel")
    for loop in hot_loops(topi.nn.winograd_product(data, kernel), AVX512):
        assert not [x for x in loop if "(%rsp)" in x or "(%rbp)" in x]


@pytest.mark.parametrize("rows", [64, 128, 197])
def test_attention_keeps_its_sums(rows: int) -> None:
    """Beside scores that fill what the stack may hold, sums of tiles are still on it, and so in
    registers: in memory that the caller knows their last values would be kept in all of them."""
    q, k, v = (te.placeholder((12, rows, 64), name=n) for n in "qkv")
    output = attention(
        Sizes((12,), (rows,), rows, 64, 64),
        lambda outer, row, d: q[(*outer, row, d)],
        lambda batch, at, d: k[(*batch, at, d)],
        lambda batch, at, e: v[(*batch, at, e)],
        "float32",
    )
    for loop in hot_loops(output, AVX512):
        assert sum("vfmadd" in x for x in loop) >= 8
        assert not [x for x in loop if "(%rsp)" in x and "zmm" in x]
