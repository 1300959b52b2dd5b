"""Corners of TVM's objects that scripts look at: fields, numbers of kinds, errors."""

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.narrow import as_a, some, value_of
from tilewright import ir, te, tir
from tilewright.base.errors import TilewrightError


def test_kinds_of_loops_are_numbers():
    assert tir.ForKind(2) is tir.ForKind.VECTORIZED
    loop = tir.For(te.var("i"), 0, 4, tir.ForKind.UNROLLED, tir.Evaluate(0))
    assert loop.kind == tir.ForKind.UNROLLED and type(loop.kind) is int
    assert [int(kind) for kind in tir.ForKind] == [0, 1, 2, 3, 4]


def test_operations_are_found_or_not():
    assert ir.Op.get("tir.exp").name == "tir.exp"
    made = [tir.tvm_struct_get(te.var("a", "handle"), 0, 1, "int32"), tir.lookup_param("p")]
    assert [ir.Op.get(c.op.name) for c in made] == [c.op for c in made]
    with pytest.raises(AttributeError, match="unheard_of is not registered"):
        ir.Op.get("tir.unheard_of")
    ir.register_op_attr("tir.test_heard_of", "TCallEffectKind", tir.CallEffectKind.Pure)
    assert ir.Op.get("tir.test_heard_of").get_attr("TCallEffectKind") == tir.CallEffectKind.Pure


def test_every_builder_makes_an_operation_that_is_found():
    from tilewright.loopir.op_table import KNOWN

    given = {"a": te.var("a", "handle"), "n": 4}
    assert tir.vscale().op.name.removeprefix("tir.") in KNOWN
    assert tir.create_barriers(given["n"]).op.name.removeprefix("tir.") in KNOWN
    for name in KNOWN:
        assert ir.Op.get(f"tir.{name}").name == f"tir.{name}"


def test_functions_keep_their_type():
    body = tir.Evaluate(0)
    assert tir.PrimFunc([], body).ret_type == ir.TupleType([])
    func = tir.PrimFunc([], body, ir.PrimType("int32"))
    assert func.with_attr("a", 1).with_body(tir.Evaluate(1)).ret_type == ir.PrimType("int32")


def test_allocations_are_always_made():
    ib = tir.ir_builder.create()
    memory = ib.allocate("float32", 4, scope="global")
    memory[0] = 1.0
    assert value_of(as_a(tir.Allocate, ib.get()).condition) == 1


def test_pointers_to_buffers():
    m, n = te.size_var("m"), te.size_var("n")
    b = tir.decl_buffer((m, n), strides=[n + 1, 1])
    assert ir.structural_equal(as_a(tir.Call, b.access_ptr("r")).args[3], (n + 1) * m)
    for mask in ("q", "", "rq"):
        with pytest.raises(ValueError, match="access_mask"):
            b.access_ptr(mask)


def test_arrays_go_where_an_index_map_says():
    m = tir.IndexMap.from_func(lambda i, j: [j // 4, i, j % 4])
    a = np.arange(30, dtype="float32").reshape(5, 6)
    wanted = np.pad(a, ((0, 0), (0, 2))).reshape(5, 2, 4).transpose(1, 0, 2)
    np.testing.assert_array_equal(m.map_ndarray(a), wanted)
    found = m.map_ndarray(tvm.nd.array(a))
    assert isinstance(found, tvm.nd.NDArray)
    np.testing.assert_array_equal(found.numpy(), wanted)
    odd = tir.IndexMap.from_func(lambda i: [i ^ 1])
    with pytest.raises(TilewrightError, match=r"upper limit|arithmetic"):
        odd.map_ndarray(np.zeros(4))


def test_the_first_mismatch_is_found_by_its_public_name():
    x = te.var("x")
    left, right = some(ir.get_first_structural_mismatch(x + 1, x + 2))
    assert str(left) == str(right) == "<root>.b.value"
    assert ir.get_first_structural_mismatch(x, x) is None


def test_passes_have_the_attributes_of_their_objects():
    @tir.transform.prim_func_pass(opt_level=0)
    class Mark:
        def __init__(self, n):
            self.n = n

        def transform_function(self, func, mod, ctx):
            return func.with_attr("n", self.n)

    made: Any = Mark(5)
    assert made.n == 5 and made(tir.PrimFunc([], tir.Evaluate(0))).attrs["n"] == 5
    with pytest.raises(AttributeError):
        made.other  # noqa: B018


def test_parameters_of_arrays_are_named_after_them():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    assert [p.name for p in te.create_prim_func([a, b]).params] == ["var_A", "var_B"]


def test_common_parts_are_a_dict():
    x, y = te.var("x"), te.var("y")
    found = tvm.arith.detect_common_subexpr((x + y) * (x + y), 2)
    (part,) = found
    assert ir.structural_equal(part, x + y)
    assert dict(found.items())[part] == 2 and found.values() == [2] and found[x + y] == 2


def test_comparisons_are_what_waits_for_its_use():
    x, y = te.var("x"), te.var("y")
    assert isinstance(x == y, tir.expr.EqualOp) and isinstance(x != y, tir.expr.NotEqualOp)
    assert not isinstance(x < y, tir.expr.EqualOp) and bool(x == x) and not bool(x == y)
    assert tir.expr.IntImmEnum(3).asobject().value == 3
    assert "floordiv" in str(tir.expr.div_ambiguity_error())
    left = []
    with tir.ir_builder.WithScope(5, lambda: left.append(1)) as value:
        assert value == 5 and not left
    assert left == [1]


def test_buffers_are_used_within_loops():
    a, b = tir.decl_buffer((16,), name="a"), tir.decl_buffer((16,), name="b")
    i, j, p, q = te.var("i"), te.var("j"), te.var("p", "handle"), te.var("q", "handle")
    inner = tir.For(j, 0, 4, 0, tir.BufferStore(b, tir.BufferLoad(a, [i * 4 + j]), [i]))
    outer = tir.For(i, 0, 4, 0, tir.SeqStmt([inner, tir.BufferStore(b, 1.0, [i])]))
    func = tir.PrimFunc([p, q], outer, None, {p: a, q: b})
    found = tir.analysis.detect_buffer_access_lca(func)
    assert found[a] is inner and found[b] is outer
    last = tir.Evaluate(tir.call_extern("int32", "f", a.data))
    func = tir.PrimFunc([p, q], tir.SeqStmt([outer, last]), None, {p: a, q: b})
    assert tir.analysis.detect_buffer_access_lca(func) == {a: None, b: outer}


def test_bindings_of_compact_buffers():
    plain, apart = tir.decl_buffer((4, 4)), tir.decl_buffer((4, 4), strides=[8, 1])
    for buffer, compact in ((plain, True), (apart, False)):
        stmt = tir.AttrStmt(buffer, "buffer_bind_scope", 0, tir.Evaluate(0))
        assert te.schedule.VerifyCompactBuffer(stmt) is compact
    assert not te.schedule.VerifyCompactBuffer(tir.Evaluate(0))
