"""Constants that the addresses of inline PTX leave to the instruction."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.codegen.device_kit import compile_everywhere, kernel, source, thread
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.loopir.calls import call_intrin

STEP = E.Var("i", "int32")


def copy(
    at: Any,
    more: Any = 0,
    dtype: str = "float16",
    unroll_by: int = 2,
    steps: int = 4,
    where: Any = None,
) -> str:
    """A kernel that copies 16 bytes from A[f(x)] to shared memory, in a loop or once, as written
    for sm_80; `where`: the condition of a thread's copy."""
    a = decl_buffer((1 << 24,), dtype, "A")
    out = decl_buffer((32,), dtype, "out")
    shared = decl_buffer((256,), dtype, "kept", scope="shared")
    x, around = thread("threadIdx.x", 32)
    size = E.const(16)
    one: S.Stmt = S.Evaluate(
        call_intrin(
            "handle",
            "tir.ptx_cp_async",
            shared.access_ptr("w", offset=0),
            0,
            a.access_ptr("r", offset=at(x)),
            more,
            size,
        )
    )
    body = S.seq(
        one if where is None else S.IfThenElse(where(x, a), one),
        S.Evaluate(call_intrin("handle", "tir.ptx_commit_group")),
        S.Evaluate(call_intrin("handle", "tir.ptx_wait_group", E.const(0))),
        S.BufferStore(out, E.BufferLoad(shared, (x,)), (x,)),
    )  # fmt: skip
    said = {S.UNROLL_BY: E.const(unroll_by)} if unroll_by else {}
    loop = S.For(STEP, 0, steps, S.ForKind.SERIAL, S.Allocate(shared, body), None, said)
    func = kernel("copies", around(loop), [a.data, out.data])
    return source({"copies": func}, "cuda -arch=sm_80")


CASES = {
    "none": (lambda x: x * 8, 0, "tw_cp_async<16, 0, 0>(kept, A + (((int)threadIdx.x) * 8), true)"),
    "sum": (lambda x: x * 8 + 24, 0, "tw_cp_async<16, 0, 48>(kept, A + (((int)threadIdx.x) * 8)"),
    "more": (lambda x: x * 8 + 24, 8, "tw_cp_async<16, 0, 64>(kept, A + (((int)threadIdx.x) * 8)"),
    "difference": (lambda x: x * 8 - 8, 16, "tw_cp_async<16, 0, 16>("),
    "below": (lambda x: x * 8 - 8, 0, "tw_cp_async<16, 0, -16>("),
    "taken away": (lambda x: 8 - x * 8, 0, "tw_cp_async<16, 0, 16>(kept, A + (0 - ("),
    "product": (lambda x: (x + 3) * 8, 0, "tw_cp_async<16, 0, 48>(kept, A + (((int)threadIdx.x)"),
    "alone": (lambda x: E.const(40), 0, "tw_cp_async<16, 0, 80>(kept, A, true)"),
    "far": (lambda x: x * 8 + (1 << 22), 0, "tw_cp_async<16, 0, 0>(kept, A + ((((int)threadIdx.x)"),
}


CASES |= {
    # what a loop changes stands apart, and only the near part of the constant is left out
    "moved": (
        lambda x: E.Div(STEP, E.const(3)) * 64 + x * 8 + 5000, 0,
        "tw_cp_async<16, 0, 1808>(kept, A + (((((int)threadIdx.x) * 8) + 4096) + ((i / 3) * 64))",
    ),
    "counted": (
        lambda x: STEP * 64 + x * 8 + 5000, 0,
        "tw_cp_async<16, 0, 10000>(kept, A + ((((int)threadIdx.x) * 8) + (i * 64))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_constant_of_a_pointer_is_left_to_the_instruction(name: str) -> None:
    at, more, expected = CASES[name]
    text = copy(at, more)
    assert expected in text
    compile_everywhere(text, ("sm_80",))


def test_the_source_of_a_rolled_loop_keeps_its_constant() -> None:
    text = copy(lambda x: x * 8 + 24, unroll_by=0)
    assert "tw_cp_async<16, 0, 0>(kept, A + ((((int)threadIdx.x) * 8) + 24), true)" in text
    compile_everywhere(text, ("sm_80",))


def test_code_in_no_loop_leaves_its_constant_to_the_instruction() -> None:
    text = copy(lambda x: x * 8 + 24, unroll_by=0, steps=1)
    assert "tw_cp_async<16, 0, 48>(kept, A + (((int)threadIdx.x) * 8), true)" in text
    compile_everywhere(text, ("sm_80",))


def test_a_condition_of_a_copy_is_one_of_the_instruction() -> None:
    text = copy(lambda x: x * 8, where=lambda x, a: x < 24)
    assert "(kept, A + (((int)threadIdx.x) * 8), true, ((int)threadIdx.x) < 24);" in text
    assert "if (" not in text[text.index("__global__") :]
    compile_everywhere(text, ("sm_75", "sm_80"))


def test_a_condition_that_reads_memory_stays_a_branch() -> None:
    where = lambda x, a: E.EQ(E.BufferLoad(a, (x,)), E.const(0))  # noqa: E731
    text = copy(lambda x: x * 8, dtype="int32", where=where)
    assert "if (" in text[text.index("__global__") :]


def test_constants_count_bytes() -> None:
    assert "tw_cp_async<16, 0, 96>" in copy(lambda x: x * 4 + 24, dtype="float32")
