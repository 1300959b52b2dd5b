"""Programs built by Python with `tvm.script.ir_builder` are those that scripts give."""

from __future__ import annotations

import pytest

from tilewright.base.errors import UsageError
from tilewright.ir import assert_structural_equal
from tilewright.script import tir as TS
from tilewright.script.ir_builder import IRBuilder
from tilewright.script.ir_builder import ir as I
from tilewright.script.ir_builder import tir as T


def test_a_function() -> None:
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")
        a = T.arg("a", T.handle())
        n = T.arg("n", T.int32())
        A = T.match_buffer(a, (16,), "int32")
        IRBuilder.name("A", A)
        with T.parallel(16) as i:
            IRBuilder.name("i", i)
            with T.If(i < n):
                with T.Then():
                    T.buffer_store(A, A[i] + 1, [i])
                with T.Else():
                    T.evaluate(0)

    @TS.prim_func
    def f(A: TS.Buffer((16,), "int32"), n: TS.int32):
        for i in TS.parallel(16):
            if i < n:
                A[i] = A[i] + 1
            else:
                TS.evaluate(0)

    assert_structural_equal(ib.get(), f)
    assert "for i in T.parallel(16)" in ib.get().script()
    assert not IRBuilder.is_in_scope()


def test_a_module() -> None:
    with IRBuilder() as ib, I.ir_module():
        for name in ("f", "g"):
            with T.prim_func():
                T.func_name(name)
                T.evaluate(0)
    assert sorted(ib.get().functions) == ["f", "g"]


def test_statements_need_a_builder() -> None:
    with pytest.raises(UsageError, match="there is none here"):
        T.evaluate(0)
    with IRBuilder() as ib:
        T.evaluate(0)
        T.evaluate(1)
    with pytest.raises(UsageError, match="2 results"):
        ib.get()
