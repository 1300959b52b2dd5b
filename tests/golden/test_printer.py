"""The printed normal form: the tutorial's listings, and every kind of node."""

from __future__ import annotations

import pytest

from tests.golden import goldens
from tests.golden.listings import LISTINGS, loop
from tests.narrow import as_a
from tilewright import lower, te
from tilewright.loopir import expr as E
from tilewright.loopir import op
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.iter import CommReducer, IterVar, ProducerLoad, Range, Reduce
from tilewright.loopir.module import IRModule
from tilewright.loopir.printer import script


@pytest.mark.parametrize("name", LISTINGS)
def test_listing(name: str) -> None:
    goldens.check("listing_" + name.replace(" ", "_"), str(LISTINGS[name]()))


i, j, x, y = E.Var("i"), E.Var("j"), E.Var("x", "float32"), E.Var("y", "float32")
p, q, r = E.Var("p", "bool"), E.Var("q", "bool"), E.Var("r", "bool")

EXPRESSIONS = [
    (i + j * 2, "i + j * 2"),
    ((i + j) * 2, "(i + j) * 2"),
    (i - (j - 1), "i - (j - 1)"),
    (i - j - 1, "i - j - 1"),
    (i + (j + 1), "i + (j + 1)"),
    (i * (j // 2), "i * (j // 2)"),
    (i * j // 2, "i * j // 2"),
    (i % 4 // 2, "i % 4 // 2"),
    (op.truncdiv(i, j), "T.Div(i, j)"),
    (op.truncmod(i, j), "T.truncmod(i, j)"),
    (x / y, "x / y"),
    (x / (y / x), "x / (y / x)"),
    (-i, "i * -1"),
    (i * -1, "i * -1"),
    (op.min(i, op.max(j, 3)), "T.min(i, T.max(j, 3))"),
    (op.all(i < 3, op.any(j < 4, i == j)), "i < 3 and (j < 4 or i == j)"),
    (op.any(i < 3, op.all(j < 4, i != j)), "i < 3 or j < 4 and i != j"),
    (E.And(p, E.And(q, r)), "p and (q and r)"),
    (E.Not(E.And(p, q)), "not (p and q)"),
    (E.Not(E.LT(i, j)), "not i < j"),
    (E.EQ(E.LT(i, j), p), "(i < j) == p"),
    (E.EQ(p, E.Not(q)), "p == (not q)"),
    (E.And(E.Not(p), q), "not p and q"),
    (E.Add(E.const(1), E.const(2)), "T.Add(1, 2)"),
    (E.LT(E.const(1), E.const(2)), "T.LT(1, 2)"),
    (E.const(7, "int64"), "T.int64(7)"),
    (E.const(200, "uint8"), "T.uint8(200)"),
    (E.const(True), "T.bool(True)"),
    (E.const(0.0), "T.float32(0)"),
    (E.const(-0.0), "T.float32(-0.0)"),
    (E.const(0.1), "T.float32(0.1)"),
    (E.const(1e-30), "T.float32(1e-30)"),
    (E.const(1e20, "float64"), "T.float64(1e+20)"),
    (E.const(0.5, "float16"), "T.float16(0.5)"),
    (E.const(1.5, "bfloat16"), "T.bfloat16(1.5)"),
    (op.infinity("float32"), 'T.float32("inf")'),
    (E.const(float("nan"), "float64"), 'T.float64("nan")'),
    (E.StringImm('a"b\n'), '"a\\"b\\n"'),
    (E.cast("float32", i), 'T.Cast("float32", i)'),
    (E.Select(i < 3, x, y), "T.Select(i < 3, x, y)"),
    (op.if_then_else(i < 3, x, y), "T.if_then_else(i < 3, x, y)"),
    (E.Ramp(i, 1, 4), "T.Ramp(i, 1, 4)"),
    (E.Broadcast(x, 4), "T.Broadcast(x, 4)"),
    (E.Shuffle([E.Broadcast(x, 2)], [1, 0]), "T.Shuffle([T.Broadcast(x, 2)], [1, 0])"),
    (E.Let(E.Var("t"), i + 1, i * 2), "T.Let(i * 2, where={t: i + 1})"),
    (op.exp(x) + 1.0, "T.exp(x) + T.float32(1)"),
    (op.abs(x), "T.fabs(x)"),
    (op.power(x, y), "T.pow(x, y)"),
    (i << 2, "T.shift_left(i, 2)"),
    (i & j, "T.bitwise_and(i, j)"),
    (op.call_extern("int32", "f", i, x), 'T.call_extern("int32", "f", i, x)'),
    (op.call_packed("f", i), 'T.call_packed("f", i)'),
    (op.call_intrin("float32", "mine.op", x), 'T.call_intrin("float32", "mine.op", x)'),
    (op.call_intrin("float32", "tir.mylog", x), 'T.call_intrin("float32", "tir.mylog", x)'),
    (op.reinterpret("int32", x), 'T.reinterpret("int32", x)'),
    (E.Var("a.b-c"), "a_b_c"),
    (E.Var("for"), "for_1"),
    (E.Var("1st"), "_1st"),
    (E.Var("i") + E.Var("i"), "i + i_1"),
    (Range(2, 10), "T.Range(2, 10)"),
]


@pytest.mark.parametrize(("e", "text"), EXPRESSIONS, ids=[t for _, t in EXPRESSIONS])
def test_expression(e: object, text: str) -> None:
    assert str(e) == text


def test_accesses() -> None:
    a = Buffer((4, 16), name="A")
    v = Buffer((16,), "float32", name="v")
    assert str(a[i, j]) == "A[i, j]"
    assert str(a[i, E.Ramp(j * 4, 1, 4)]) == "A[i, j * 4:j * 4 + 4]"
    assert str(v[E.Ramp(0, 1, 4)]) == "v[0:4]"
    assert str(v[E.Ramp(i, 2, 4)]) == "v[i:i + 8:2]"
    assert str(v[E.Ramp(i, -1, 4)]) == "v[i:i + -4:-1]"
    assert str(v[E.Ramp(i, j, 4)]) == "v[T.Ramp(i, j, 4)]"
    assert str(Buffer((), name="s")[()]) == "s[()]"
    masked = E.BufferLoad(v, [E.Ramp(0, 1, 4)], E.Broadcast(E.Var("c", "bool"), 4))
    assert str(masked) == "v.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(c, 4))"
    pointer = op.access_ptr(a, "r", offset=i)
    assert str(pointer) == 'T.tvm_access_ptr(T.type_annotation("float32"), A, i, 64 - i, 1)'


def test_reduction() -> None:
    class Tensor:
        name, dtype = "B.rf", "float32"

    lhs, rhs = E.Var("x", "float32"), E.Var("y", "float32")
    add = CommReducer([lhs], [rhs], [lhs + rhs], [E.const(0.0)])
    axis = IterVar((0, 16), "k.inner.v", IterVar.CommReduce)
    source = ProducerLoad(Tensor(), [axis, E.Var("ax0")])
    reduce = Reduce(add, [source], [axis], E.const(True))
    assert repr([reduce]) == (
        "[T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "
        "source=[B.rf[k_inner_v, ax0]], init=[], "
        'axis=[T.iter_var(k_inner_v, T.Range(0, 16), "CommReduce", "")], '
        "condition=T.bool(True), value_index=0)]"
    )
    both = CommReducer([lhs, i], [rhs, j], [op.max(lhs, rhs), i + j], [E.const(0.0), E.const(0)])
    assert str(both) == (
        "T.comm_reducer(lambda x, i, y, j: (T.max(x, y), i + j), [T.float32(0), 0])"
    )


def kitchen_sink() -> S.PrimFunc:
    """One function with every kind of statement."""
    n = E.SizeVar("n")
    a = Buffer((64, n), name="A")
    b = Buffer((64,), "int8", name="B", scope="global", data_alignment=16, elem_offset=E.Var("off"))
    out = Buffer((8, 8), name="out")
    tmp, tmp2 = Buffer((n, 4), "float64", name="tmp", scope="shared"), Buffer((4,), name="tmp")
    k, w, m, t = E.Var("k"), E.Var("l"), E.Var("k"), E.Var("t")
    kinds = [
        S.For(k, 2, 6, S.ForKind.PARALLEL, S.BufferStore(out, 1.0, [k, 0])),
        S.For(k, 2, n, S.ForKind.SERIAL, S.BufferStore(out, 1.0, [k, 0])),
        S.For(k, 0, 4, S.ForKind.VECTORIZED, S.BufferStore(out, 1.0, [k, 0])),
        S.For(k, 0, 4, S.ForKind.UNROLLED, S.BufferStore(out, 1.0, [k, 0]), None, {"hint": True}),
        S.For(
            k,
            0,
            4,
            S.ForKind.THREAD_BINDING,
            S.BufferStore(out, 1.0, [k, 0]),
            IterVar(None, E.Var("threadIdx.x"), 1, "threadIdx.x"),
        ),
        loop(k, 4, loop(w, k + 1, loop(m, 3, S.BufferStore(out, x, [k, w])))),
    ]
    body = S.seq(
        *kinds,
        S.Allocate(tmp, S.BufferStore(tmp, E.const(0.0, "float64"), [0, 0]), {"key": [1, "two"]}),
        S.LetStmt(t, n + 1, S.BufferStore(out, E.Cast("float32", t), [0, 0])),
        S.While(
            S.BufferStore(b, 1, [0]).value == b[0],
            S.seq(S.Evaluate(op.call_extern("int32", "f", n)), S.Evaluate(n), S.no_op()),
        ),
        S.IfThenElse(
            n < 3, S.BufferStore(b, E.const(1, "int8"), [0]), S.vstore(b, 0, a[0, 0].astype("int8"))
        ),
        S.AttrStmt(a, "pragma_scope", "x", S.Prefetch(a, [Range(0, 2), Range(n)])),
        S.AssertStmt(n > 0, "n must be positive", S.BufferStore(out, 2.0, [1, 1])),
        S.BufferStore(
            out, E.Broadcast(x, 4), [0, E.Ramp(0, 1, 4)], E.Broadcast(E.Var("c", "bool"), 4)
        ),
        S.AttrStmt(
            IterVar(None, "vt", IterVar.ThreadIndex, "vthread"),
            "virtual_thread",
            2,
            S.AssertStmt(n > 1, "again", S.Allocate(tmp2, S.BufferStore(tmp2, 0.0, [0]))),
        ),
    )
    handles = [E.Var(name, "handle") for name in ("A", "B", "out")]
    buffers = dict(zip(handles, (a, b, out), strict=True))
    return S.PrimFunc([*handles, x], body, None, buffers, {"tir.noalias": False, "count": 3})


def test_kitchen_sink() -> None:
    goldens.check("kitchen_sink", str(kitchen_sink()))
    assert str(S.SeqStmt([])) == "T.evaluate(0)"
    assert str(IRModule({})).endswith("class Module:\n    pass")


def test_module_of_two_functions() -> None:
    module = IRModule({"b": LISTINGS["default"]()["main"], "a": LISTINGS["default"]()["main"]})
    text = str(module)
    assert text.index("def a(") < text.index("def b(")
    assert text.count("n, m = T.int32(), T.int32()") == 2
    assert "A_3" not in text


def test_marks_and_names_of_siblings() -> None:
    a = Buffer((16,), name="A")
    k1, k2 = E.Var("k"), E.Var("k")
    store = S.BufferStore(a, 1.0, [k2])
    body = S.seq(loop(k1, 4, loop(E.Var("k"), 2, S.BufferStore(a, 1.0, [k1]))), loop(k2, 4, store))
    assert script(
        body, {store: "here", as_a(S.For, as_a(S.SeqStmt, body).seq[0]).body: "there"}
    ) == (
        "A = T.Buffer((16,))\n"
        "for k, k_1 in T.grid(4, 2):  # <-- there\n"
        "    A[k] = T.float32(1)\n"
        "for k in range(4):\n"
        "    A[k] = T.float32(1)  # <-- here"
    )


def test_buffer_read_in_the_extent_of_a_grid_is_declared_before_it() -> None:
    sizes, a = Buffer((1,), "int32", name="sizes"), Buffer((8,), name="A")
    inner = loop(E.Var("k"), sizes[0], S.BufferStore(a, 1.0, [j]))
    assert str(loop(i, 2, loop(j, 3, inner))).splitlines() == [
        'sizes = T.Buffer((1,), "int32")',
        "for i, j, k in T.grid(2, 3, sizes[0]):",
        "    A = T.Buffer((8,))",
        "    A[j] = T.float32(1)",
    ]


def test_buffers_over_one_pointer_without_a_signature() -> None:
    a = Buffer((16,), name="A")
    b = a.with_(shape=(4, 4), name="view")
    body = S.seq(S.BufferStore(a, 1.0, [0]), S.BufferStore(b, 1.0, [0, 0]))
    assert str(body).splitlines()[:2] == [
        "A = T.Buffer((16,))",
        "A[0] = T.float32(1)",
    ]
    assert "view = T.Buffer((4, 4), data=A.data)" in str(body)


def test_deep_chains_print_in_linear_time() -> None:
    e: E.PrimExpr = x
    for _ in range(50_000):
        e = E.Sub(y, e)
    text = str(e)
    assert text.count("y - ") == 50_000
    s: S.Stmt = S.BufferStore(Buffer((1,), name="A"), x, [0])
    for n in range(50_000):
        s = S.LetStmt(E.Var("t"), E.const(n), s)
    text = str(s)
    assert text.count("\n") == 50_001 and "t_49999: T.int32 = 0" in text


def test_sizes_of_flat_buffers_are_in_the_order_of_dimensions() -> None:
    """As the tutorial on reductions prints them; extents of allocations have constants last."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s.rfactor(b, s[b].split(b.op.reduce_axis[0], factor=16)[1])
    text = str(lower(s, [a, b], simple_mode=True))
    assert 'B_rf = T.allocate([n * 16], "float32", "global")' in text
    assert "B_rf_1 = T.Buffer((16 * n,), data=B_rf)" in text
    assert "A_2 = T.Buffer((A_1.strides[0] * n,)" in text
