"""Functions read from Python: what each statement becomes, and what may be used from outside."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tests.fuzz.script import round_trip
from tests.narrow import as_a
from tilewright import tir
from tilewright.ir import structural_equal
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import realize as R
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.iter import IterVar, Range
from tilewright.script import from_source
from tilewright.script import ir as I
from tilewright.script import tir as T
from tilewright.target.target import Target

N = 12


def body_of(text: str, **names):
    """The body of a function on buffers A, B of 16 elements and n, with this body."""
    lines = "\n".join("    " + line for line in text.splitlines())
    head = '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "int32"), '
    return from_source(f"{head}n: T.int32):\n{lines}", names).body


def text_of(s) -> str:
    """The last line of a statement's text; those before declare buffers."""
    return str(s).splitlines()[-1]


def test_values_around_are_used() -> None:
    size, kind = 4, "float64"

    @T.prim_func
    def scale(A: T.Buffer((size, N), kind), B: T.Buffer((size, N), kind)):
        for i, j in T.grid(size, N):
            B[i, j] = A[i, j] * T.Cast(kind, size)

    assert [int(d) for d in scale.buffer_map[scale.params[0]].shape] == [4, 12]
    assert scale.buffer_map[scale.params[1]].dtype == "float64"
    assert scale.attrs["global_symbol"] == "scale"
    assert 'T.Cast("float64", 4)' in scale.script()


def test_loops_and_their_kinds() -> None:
    bound = 'thread_binding(4, "threadIdx.x")'
    calls = ("serial(4)", "parallel(4)", "vectorized(4)", "unroll(4)", bound)
    for kind, call in enumerate(calls):
        loop = as_a(S.For, body_of(f"for i in T.{call}:\n    A[i] = T.float32(1)"))
        assert loop.kind == kind and E.const_int(loop.extent) == 4
    loop = as_a(S.For, body_of("for i in range(n, n + 5):\n    A[i] = T.float32(1)"))
    assert E.const_int(loop.extent) == 5 and loop.min is not None
    loop = as_a(S.For, body_of("for i in range(2, n):\n    A[i] = T.float32(1)"))
    assert str(loop.extent) == "n - 2" and E.const_int(loop.min) == 2
    loop = as_a(S.For, body_of('for i in T.serial(4, annotations={"k": 1}):\n    A[i] = 0'))
    assert loop.annotations == {"k": 1}


def test_comparisons_keep_their_sides_and_chain() -> None:
    made = as_a(S.IfThenElse, body_of("if 0 < n < 4 and not n == 2:\n    A[0] = 1"))
    assert str(made.condition) == "0 < n and n < 4 and not n == 2"
    made = as_a(S.IfThenElse, body_of("if n:\n    A[0] = 1\nelif n > 3:\n    A[1] = 1"))
    assert str(made.condition) == "n != 0" and isinstance(made.else_case, S.IfThenElse)


def test_python_conditions_are_decided_here() -> None:
    text = "if flag:\n    A[0] = T.float32(1)\nelse:\n    A[1] = T.float32(2)"
    assert text_of(body_of(text, flag=True)) == "A[0] = T.float32(1)"
    assert text_of(body_of(text, flag=False)) == "A[1] = T.float32(2)"


def test_stores_take_the_type_of_the_buffer() -> None:
    store = as_a(S.BufferStore, body_of("A[n] = 3"))
    assert store.value.dtype == "float32" and as_a(E.FloatImm, store.value).value == 3
    store = as_a(S.BufferStore, body_of("A[0:4] = 1.0"))
    assert text_of(store) == "A[0:4] = T.Broadcast(T.float32(1), 4)"
    store = as_a(S.BufferStore, body_of("A[n:n + 8:2] += A[n:n + 4]"))
    assert text_of(store) == "A[n:n + 8:2] = A[n:n + 8:2] + A[n:n + 4]"


def test_assignments() -> None:
    let = as_a(S.LetStmt, body_of("x = n + 1\nB[0] = x"))
    assert let.var.name == "x" and str(let.value) == "n + 1"
    let = as_a(S.LetStmt, body_of("x: T.int64 = 3\nB[0] = x"))
    assert let.var.dtype == "int64"
    store = as_a(S.BufferStore, body_of("x = T.meta_var(n + 1)\nB[0] = x"))
    assert str(store.value) == "n + 1"
    let = as_a(S.LetStmt, body_of("x, y = n, 2\nB[0] = x + y"))
    assert isinstance(let.body, S.LetStmt)
    made = body_of("for *outer, i in T.grid(2, 3, 4):\n    B[i] = outer[0] + outer[1]")
    assert str(made).splitlines()[-1] == "    B[i] = outer_0 + outer_1"
    let = as_a(S.LetStmt, body_of("x = 1\nx += n\nB[0] = x"))
    assert str(as_a(S.LetStmt, let.body).value) == "x + n"


def test_scopes_end_with_their_block() -> None:
    made = as_a(S.SeqStmt, body_of("if n > 0:\n    x = n\n    B[0] = x\nB[1] = n"))
    assert isinstance(as_a(S.IfThenElse, made[0]).then_case, S.LetStmt)
    made = as_a(S.SeqStmt, body_of(
        'with T.allocate([4], "int32", "local") as m:\n    M = T.Buffer((4,), "int32", data=m)\n'
        "    M[0] = n\nB[1] = n"
    ))  # fmt: skip
    allocated = as_a(S.Allocate, made[0])
    assert allocated.buffer is as_a(S.BufferStore, allocated.body).buffer
    assert allocated.buffer.scope() == "local"


def test_attributes_threads_and_checks() -> None:
    made = as_a(S.AttrStmt, body_of('t = T.launch_thread("threadIdx.x", 16)\nB[t] = n'))
    assert made.attr_key == "thread_extent" and made.node.var.name == "t"
    made = as_a(S.AttrStmt, body_of('v = T.env_thread("vthread")\nT.launch_thread(v, 2)\nB[v] = n'))
    assert made.attr_key == "virtual_thread"
    made = as_a(S.AttrStmt, body_of('with T.attr(A, "pragma_x", 1):\n    B[0] = n'))
    assert as_a(E.IntImm, made.value).value == 1
    check = as_a(S.AssertStmt, body_of('assert n > 0, "positive"\nB[0] = n'))
    assert str(check.message) == '"positive"'
    loop = as_a(S.While, body_of("while B[0] < n:\n    B[0] = B[0] + 1"))
    assert str(loop.condition) == "B[0] < n"
    end = as_a(S.Evaluate, body_of("return n"))
    assert str(end) == "T.ret(n)"


def test_expressions_of_python() -> None:
    made = as_a(S.BufferStore, body_of("B[0] = sum([n * k for k in ks])", ks=[1, 2, 3]))
    assert str(made.value) == "n + n * 2 + n * 3"
    call = as_a(S.Evaluate, body_of("T.evaluate(T.call_extern('int32', f'f_{k}', *args))",
                                    k=3, args=[1, 2]))  # fmt: skip
    assert str(call) == 'T.call_extern("int32", "f_3", 1, 2)'
    made = as_a(S.BufferStore, body_of("B[0] = n if n > 0 else 0 - n"))
    assert str(made.value) == "T.if_then_else(n > 0, n, 0 - n)"
    made = as_a(S.BufferStore, body_of('A[0] = T.exp(A[1], dtype="float32")'))
    assert str(made.value) == "T.exp(A[1])"
    made = as_a(S.BufferStore, body_of('B[0] = T.reinterpret(A[0], dtype="int32")'))
    assert str(made.value) == 'T.reinterpret("int32", A[0])'
    made = as_a(S.BufferStore, body_of("B[0] = T.Let(t * t, where={t: n + 1})"))
    assert str(made.value) == "T.Let(t * t, where={t: n + 1})"


def test_types_make_variables_constants_and_casts() -> None:
    assert structural_equal(T.int64(3), E.const(3, "int64"))
    assert structural_equal(T.float32("inf"), E.const(float("inf"), "float32"))
    x = E.Var("x", "int32")
    assert structural_equal(T.float16(x), E.cast("float16", x))
    assert isinstance(T.int32(is_size_var=True), E.SizeVar)
    assert T.float32x3(1).dtype == "float32x3" and T.handle().dtype == "handle"
    assert T.bool(True).dtype == "bool" and T.boolean().dtype == "bool"
    with pytest.raises(AttributeError, match="no_such_thing"):
        T.no_such_thing  # noqa: B018


def test_modules_hold_functions_by_name() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def first(A: T.Buffer((N,), "float32")):
            A[0] = T.float32(1)

        @T.prim_func(private=True)
        def second(a: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,))
            A[n - 1] = T.float32(2)

    assert isinstance(Module, tvm.IRModule) and sorted(Module.functions) == ["first", "second"]
    assert Module["first"].attrs == {"global_symbol": "first"} and not Module["second"].attrs
    assert structural_equal(from_source(Module.script()), Module)


def test_macros_stand_where_they_are_called() -> None:
    scale = 3

    @T.macro
    def fixed(buf, i):
        buf[i] = scale

    @T.macro(hygienic=False)
    def free(buf, i):
        buf[i] = scale

    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        for scale in range(4):
            fixed(A, scale)
            free(A, scale + 4)

    assert "A[scale] = 3" in f.script() and "A[scale + 4] = scale" in f.script()


def test_functions_stay_in_undecorated_classes() -> None:
    class Plain:
        @T.prim_func
        def before(A: T.Buffer((4,), "int32")):
            A[0] = 1

    assert isinstance(Plain.before, tir.PrimFunc)


def test_text_with_imports_and_a_function() -> None:
    text = """
from tvm.script import tir as TT
import tvm

@TT.prim_func(private=True)
def f(A: TT.Buffer((4,), "int32")):
    A[0] = TT.Cast("int32", tvm.tir.const(1, "int8"))
"""
    assert not from_source(text).attrs


def test_what_only_users_make_is_read_back() -> None:
    """Declared buffers, constants, strided memory, threads of a type of their own, free
    variables."""
    loose = E.Var("loose", "float32")
    data = E.Var("m", "handle")
    strided = Buffer((4, 4), "int8", "S", strides=(8, 1), data_alignment=128, scope="local")
    over = Buffer((6,), "float64", "O", data=data, elem_offset=E.Var("off"))
    thread = IterVar(None, E.Var("t"), IterVar.ThreadIndex, "threadIdx.x")
    axis = IterVar(Range(2, 9), E.Var("p"), IterVar.Ordered, "")
    kinds = [
        S.Allocate(strided, S.BufferStore(strided, E.const(1, "int8"), [0, 1])),
        R.AllocateConst(data, "float64", [6], np.arange(6.0), R.DeclBuffer(
            over, S.BufferStore(over, E.const(2.0, "float64"), [over.elem_offset]))),
        S.AttrStmt(thread, "thread_extent", E.const(8, "int64"), S.Evaluate(op.ret(thread.var))),
        S.AttrStmt(axis, "pragma_mine", "x", S.Evaluate(op.ret(axis.var + 1))),
        S.Evaluate(op.call_intrin("float32", "tir.exp", loose, 3)),
        S.Evaluate(E.Call("int64", "tir.mine", [E.Add(E.const(1), E.const(2))])),
        S.Evaluate(op.ret(E.Add(loose, E.const(0.0)) + E.Mul(E.Var("k"), E.const(1)))),
    ]  # fmt: skip
    attrs = {"x": [1, {"y": "z"}], "f": 0.5, "target": Target("cuda", host="llvm")}
    round_trip(S.PrimFunc([], S.SeqStmt(kinds), attrs=attrs))
