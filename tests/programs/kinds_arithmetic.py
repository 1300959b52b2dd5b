"""arith: simplification, bounds, sets, maps and equations."""

import tvm
import tvm.testing
from tvm import te
from tvm.tir import floordiv as fld
from tvm.tir import floormod as flm
from tvm.tir import truncdiv as tdiv
from tvm.tir import truncmod as tmod


class CanonicalChecker:
    def __init__(self):
        self.analyzer = tvm.arith.Analyzer()

    def verify(self, data, expected):
        res = self.analyzer.canonical_simplify(data)
        expected = tvm.runtime.convert(expected)
        assert tvm.ir.structural_equal(res, expected), (
            f"\ndata={data}\nres={res}\nexpected={expected}"
        )


def test_mul_sum_simplify():
    ck = CanonicalChecker()
    x, y, z = te.var("x"), te.var("y"), te.var("z")
    ck.verify(x * 3 - x * 3, 0)
    ck.verify(fld(x * 4, 4), x)
    ana = tvm.arith.Analyzer()
    assert ana.can_prove_equal(2 + (3 * x + z + y + 1) * 4 + x, x * 13 + z * 4 + y * 4 + 6)
    assert ana.can_prove_equal(x * 3 - 4 * x + 1, 1 - x)
    assert ana.can_prove_equal(y + x * 3 - 5 * x + 1 + y, y * 2 + 1 - x * 2)


def test_split_and_div_mod():
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    ana.bind(x, tvm.ir.Range(0, 1000))
    ana.bind(y, tvm.ir.Range(0, 1000))
    te.var("z")
    assert ana.can_prove_equal(tdiv(x, 3) * 3 + tmod(x, 3), x)
    assert ana.can_prove_equal(fld(x, 3) * 3 + flm(x, 3), x)
    assert ana.can_prove_equal(tmod(x, 6) + tdiv(x, 6) * 6, x)
    assert ana.can_prove_equal(fld(fld(x, 2), 3), fld(x, 6))
    assert ana.can_prove_equal(flm(x * 8, 16) // 8, flm(x, 2))
    assert ana.can_prove_equal(fld(x * 4 + 3, 4), x)


def test_rewrite_simplify_forms():
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    assert ana.rewrite_simplify(x - x).value == 0
    assert tvm.ir.structural_equal(ana.rewrite_simplify(tvm.te.min(x, x)), x)
    assert ana.simplify(tvm.tir.Select(x > x - 1, 1, 2)).value == 1
    assert ana.simplify(x < x + 1).value == 1
    assert ana.simplify(tvm.tir.all(x < 10, x >= 10)).value in (0, False)
    ana.bind(x, tvm.ir.Range(0, 10))
    assert ana.simplify(x < 10).value == 1
    assert bool(ana.simplify(x >= 0))
    assert ana.can_prove(tvm.te.max(x, -1) == x)
    with ana.constraint_scope(y > 3):
        assert ana.can_prove(y > 2)
    assert not ana.can_prove(y > 2)


def test_const_bound():
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    ana.update(x, tvm.arith.ConstIntBound(0, 4))
    ana.update(y, tvm.arith.ConstIntBound(1, 10))
    b = ana.const_int_bound(x + y)
    assert b.min_value == 1 and b.max_value == 14
    b = ana.const_int_bound(x - y)
    assert b.min_value == -10 and b.max_value == 3
    ana.update(x, tvm.arith.ConstIntBound(ana.const_int_bound(x).NEG_INF, 4), override=True)
    b = ana.const_int_bound(x)
    assert b.min_value == b.NEG_INF
    assert ana.const_int_bound(te.var("u", "uint8")).max_value == 255
    assert ana.const_int_bound(tvm.tir.const(7, "int32")).min_value == 7


def test_modular_set():
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    m = ana.modular_set(x * 3 + y * 6 + 1)
    assert m.coeff == 3 and m.base == 1
    m = ana.modular_set(x * 4 + 2)
    assert m.coeff == 4 and m.base == 2
    with ana.constraint_scope(tvm.tir.floormod(x, 3) == 2):
        m = ana.modular_set(x)
        assert m.coeff == 3 and m.base == 2
    ana.update(y, tvm.arith.ModularSet(8, 3))
    assert ana.modular_set(y + 1).base == 4


def test_int_set():
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    r = ana.int_set(x + y, {x: tvm.arith.IntervalSet(0, 10)})
    assert ana.can_prove_equal(r.min_value, y) and ana.can_prove_equal(r.max_value, y + 10)
    s = tvm.arith.IntervalSet(2, 3)
    assert s.min_value.value == 2 and s.max_value.value == 3
    p = tvm.arith.IntervalSet.single_point(3)
    assert p.is_single_point()
    from tvm.arith.int_set import IntSet

    assert IntSet.single_point(3).min_value.value == 3
    v = IntSet.vector(tvm.tir.Ramp(0, 2, 4))
    assert v.min_value.value == 0 and v.max_value.value == 6


def test_deduce_bound():
    a, b, c, d = te.var("a"), te.var("b"), te.var("c"), te.var("d")
    b_s = tvm.arith.IntervalSet(2, 3)
    c_s = tvm.arith.IntervalSet(10, 15)
    d_s = tvm.arith.IntervalSet(-3, -1)
    tvm.tir.const(0, "int32")
    ana = tvm.arith.Analyzer()
    e0 = (-b) * a + c - d
    res0 = tvm.arith.deduce_bound(a, e0 >= 0, {b: b_s, c: c_s, d: d_s}, {})
    assert res0.max_value is not None
    e1 = a * 4 + b < c
    r = tvm.arith.deduce_bound(a, e1, {b: b_s, c: c_s}, {b: b_s, c: c_s})
    assert int(ana.simplify(r.max_value)) == 1


def test_detect_linear_and_clip():
    a, b = te.var("a"), te.var("b")
    m = tvm.arith.detect_linear_equation(a * 4 + b * 6 + 7, [a])
    assert m[0].value == 4
    assert tvm.arith.Analyzer().can_prove_equal(m[1], b * 6 + 7)
    m = tvm.arith.detect_linear_equation(a * 4 * (a + 1) + b * 6 + 7, [a])
    assert len(m) == 0
    m = tvm.arith.detect_linear_equation(b * 7, [a])
    assert m[0].value == 0
    m = tvm.arith.detect_clip_bound(tvm.tir.all(a * 1 < b * 6, a - 1 > 0), [a])
    assert tvm.ir.structural_equal(tvm.arith.Analyzer().simplify(m[1]), b * 6 - 1)
    assert m[0].value == 2


def test_domain_touched():
    i, j = te.var("i"), te.var("j")
    n, m = tvm.runtime.convert(100), te.var("m")
    a = tvm.tir.decl_buffer((n, m), name="a")
    b = tvm.tir.decl_buffer((n, m), name="b")
    ir = tvm.tir.For(
        i,
        0,
        n,
        0,
        tvm.tir.For(
            j,
            0,
            m,
            0,
            tvm.tir.BufferStore(
                a,
                tvm.tir.BufferLoad(b, [i - 1, j + 1]) + tvm.tir.BufferLoad(a, [i - 1, j - 1]),
                [i, j],
            ),
        ),
    )
    r = tvm.arith._ffi_api.DomainTouched(ir, a, True, False)
    assert r[0].min.value == -1 and r[0].extent.value == 100
    r = tvm.arith._ffi_api.DomainTouched(ir, a, False, True)
    assert r[0].min.value == 0 and r[0].extent.value == 100 and r[1].extent.name == "m"
    r = tvm.arith._ffi_api.DomainTouched(ir, b, True, False)
    assert r[0].min.value == -1 and r[1].min.value == 1


def test_iter_map():
    x, y = te.var("x"), te.var("y")
    res = tvm.arith.detect_iter_map(
        [x // 4, x % 4, y], {x: tvm.ir.Range(0, 64), y: tvm.ir.Range(0, 8)}
    )
    assert len(res.indices) == 3 and not res.errors
    ranges = {x: tvm.ir.Range(0, 64), y: tvm.ir.Range(0, 8)}
    res = tvm.arith.detect_iter_map([x + y], ranges)
    assert len(res.indices) == 1 and not res.errors  # takes every value of 0 to 70
    res = tvm.arith.detect_iter_map([x + y], ranges, check_level="bijective")
    assert len(res.indices) == 0 and res.errors
    inv = tvm.arith.inverse_affine_iter_map(
        tvm.arith.detect_iter_map([x // 4, x % 4], {x: tvm.ir.Range(0, 64)}).indices,
        [te.var("o"), te.var("i")],
    )
    assert x in inv
    simp = tvm.arith.iter_map_simplify([x // 4 * 4 + x % 4], {x: tvm.ir.Range(0, 64)})
    assert tvm.ir.structural_equal(simp[0], x)


def test_solve():
    x, y = te.var("x"), te.var("y")
    ranges = {x: tvm.ir.Range(-10, 20), y: tvm.ir.Range(-10, 20)}
    sol = tvm.arith.solve_linear_equations(
        [tvm.tir.EQ(x + y, 20), tvm.tir.EQ(x - y, 10)], [x, y], ranges
    )
    assert len(sol.dst.variables) == 0
    assert int(sol.src_to_dst[x]) == 15 and int(sol.src_to_dst[y]) == 5


def test_analyzer_misc():
    ana = tvm.arith.Analyzer()
    x = te.var("x")
    ana.bind(x, tvm.ir.Range(0, 8))
    n = te.size_var("n")
    assert ana.can_prove(n >= 0)
    assert ana.can_prove(n * 2 + 1 > n)
    assert tvm.arith.Analyzer().simplify(tvm.tir.max(n, 0)).same_as(n)
    assert not ana.can_prove(x > 3)


if __name__ == "__main__":
    tvm.testing.main()
