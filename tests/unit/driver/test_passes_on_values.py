"""Passes that users run by TVM's names, on values: what is named, shared and split."""

import numpy as np
import pytest

import tilewright as tvm
from tests.narrow import as_a
from tests.unit.driver.pass_kit import nodes, run
from tilewright import te, tir
from tilewright.ir import structural_equal
from tilewright.script import tir as T

K = tir.ForKind


# -- CommonSubexprElimTIR

X, Y, Z, AT = (te.var(n) for n in ("x", "y", "z", "at"))
MEMORY = tir.decl_buffer((50,), "int32", name="memory")


def named(*stmts, around=lambda s: s, **options):
    body = around(tir.SeqStmt(list(stmts)) if len(stmts) > 1 else stmts[0])
    func = tir.PrimFunc([X, Y, Z, AT, MEMORY.data], body)
    return tir.transform.CommonSubexprElimTIR(**options)(func).body


def put(value, at=AT):
    return tir.BufferStore(MEMORY, value, [at])


def test_values_are_named_across_statements():
    body = named(put(X * 7 + Y), put((X * 7 + Y) + Z, Z))
    assert type(body) is tir.LetStmt
    assert structural_equal(body.value, X * 7 + Y)
    stores = [as_a(tir.BufferStore, s) for s in as_a(tir.SeqStmt, body.body).seq]
    assert [type(s.value) for s in stores] == [tir.Var, tir.Add]
    assert len(nodes(body, tir.LetStmt)) == 1


def test_the_largest_values_are_named_first():
    body = named(put((X + Y) + Z), put((X + Y) + Z, X), put(X + Y, Y))
    assert (body.var.name, body.body.var.name) == ("cse_var_2", "cse_var_1")
    assert structural_equal(body.value, X + Y)
    assert structural_equal(body.body.value, body.var + Z)
    alone = named(put((X + Y) + Z), put((X + Y) + Z, X))
    assert len(nodes(alone, tir.LetStmt)) == 1


def test_names_stand_where_their_variables_are_known():
    i = te.var("i")
    inner = tir.For(i, 0, 4, K.SERIAL, tir.SeqStmt([put(i + X), put((i + X) * 2, Z)]))
    body = named(inner)
    assert type(body) is tir.For and type(body.body) is tir.LetStmt
    free = te.var("free")
    assert not nodes(named(put(free * 2 + X), put(free * 2 + X, X)), tir.LetStmt)


@pytest.mark.parametrize("both", [False, True])
def test_branches_name_their_own_values(both):
    once = put(X * Y + 1)
    case = tir.SeqStmt([once, put(X * Y + 1, Z)])
    body = named(tir.IfThenElse(Z > 3, case, once if both else put(Z)))
    assert type(body) is (tir.LetStmt if both else tir.IfThenElse)
    assert len(nodes(body, tir.LetStmt)) == 1


def test_what_reads_memory_gets_no_name():
    read = tir.BufferLoad(MEMORY, [X])
    assert not nodes(named(put(read * 2 + 1), put(read * 2 + 1, Z)), tir.LetStmt)


def test_equal_terms_are_one_where_asked():
    stmts = put(X * (Y + Z)), put(X * Y + X * Z, Z)
    assert not nodes(named(*stmts), tir.LetStmt)
    assert len(nodes(named(*stmts, identify_equiv_terms=True), tir.LetStmt)) >= 1


def test_named_programs_compute_the_same():
    @T.prim_func
    def func(a: T.Buffer((64,), "int32"), b: T.Buffer((64,), "int32")):
        for i in range(8):
            for j in range(8):
                a[i * 8 + j] = (i * 8 + j) * (i * 8 + j) + i
                if i > 3:
                    b[i * 8 + j] = a[i * 8 + j] + (i * 8 + j)
                else:
                    b[i * 8 + j] = (i * 8 + j) - i

    new = tir.transform.CommonSubexprElimTIR()(func)
    assert nodes(new.body, tir.LetStmt)
    empty = np.zeros(64, "int32")
    for x, y in zip(run(func, empty, empty), run(new, empty, empty)):
        np.testing.assert_array_equal(x, y)


# -- StorageRewrite


def chain(second, third):
    """Three buffers, each made of the one before by a loop of `second` or `third`."""
    ib = tir.ir_builder.create()
    out = ib.pointer("float32", name="out")
    a = ib.allocate("float32", 16, name="a", scope="global")
    with ib.for_range(0, 16, name="i") as i:
        a[i] = i.astype("float32")
    b = ib.allocate("float32", 16, name="b", scope="global")
    with ib.for_range(0, 16, name="i") as i:
        second(a, b, i)
    c = ib.allocate("float32", 16, name="c", scope="global")
    with ib.for_range(0, 16, name="i") as i:
        third(b, c, i)
    with ib.for_range(0, 16, name="i") as i:
        out[i] = c[i % 8]
    buffer = tir.decl_buffer((16,), "float32", data=out.asobject().data)
    return tir.PrimFunc([te.var("p", "handle")], ib.get()), buffer


def shared(second, third):
    func, buffer = chain(second, third)
    func = tir.PrimFunc(func.params, func.body, None, {func.params[0]: buffer})
    new = tir.transform.StorageRewrite()(func)
    zero = np.zeros(16, "float32")
    np.testing.assert_array_equal(run(func, zero)[0], run(new, zero)[0])
    return len(nodes(new.body, tir.Allocate))


def test_a_result_takes_the_memory_of_its_operand():
    def plus(x, y, i):
        y[i] = x[i] + 1.0

    assert shared(plus, plus) == 1


@pytest.mark.parametrize("case", ["moved", "folded", "twice", "own"])
def test_results_that_other_elements_are_read_for_lie_apart(case):
    def plus(x, y, i):
        if case == "moved":
            y[i] = x[15 - i] + 1.0
        elif case == "folded":
            y[i // 2] = x[i // 2] + 1.0
        elif case == "twice":
            y[i] = x[i] + x[(i + 1) % 16]
        else:
            y[i] = x[i] + 1.0
            y[(i + 1) % 16] = 3.0

    assert shared(plus, plus) == 2


# -- LoopPartition


def partitioned(condition, steps=16):
    ib = tir.ir_builder.create()
    out = ib.pointer("int32", name="out")
    with ib.for_range(0, steps, "i") as i:
        out[i] = tir.Select(ib.likely(condition(i)), i, 100) + 1
    buffer = tir.decl_buffer((steps,), "int32", data=out.asobject().data)
    param = te.var("p", "handle")
    func = tir.PrimFunc([param], ib.get(), None, {param: buffer})
    config = {"tir.LoopPartition": {"partition_const_loop": True}}
    with tvm.transform.PassContext(config=config):
        return tir.transform.Simplify()(tir.transform.LoopPartition()(func))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [(lambda i: i > 9, lambda i: i > 9), (lambda i: tir.EQ(i, 5), lambda i: i == 5)],
    ids=["above", "equal"],
)
def test_loops_are_split_where_a_choice_changes(condition, holds):
    func = partitioned(condition)
    assert not nodes(func.body, tir.Select) and not nodes(func.body, tir.IfThenElse)
    got = run(func, np.zeros(16, "int32"))[0]
    np.testing.assert_array_equal(got, [i + 1 if holds(i) else 101 for i in range(16)])
