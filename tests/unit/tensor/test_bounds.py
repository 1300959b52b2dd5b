"""Provable reads out of bounds are found, and nothing else is reported."""

import numpy as np
import pytest

from tilewright import te
from tilewright.arith import Analyzer
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.expr import Select
from tilewright.tensor.bounds import check_program, check_reads, guarded

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((10,), name="B")
I = te.placeholder((10,), "int32", name="I")
k = te.reduce_axis((0, 3), "k")

FINE = {
    "plain": ((10,), lambda i: B[i]),
    "reversed": ((10,), lambda i: B[9 - i]),
    "guarded below": ((10,), lambda i: te.if_then_else(i > 0, B[i - 1], 0.0)),
    "guarded by select": ((10,), lambda i: Select(i < 9, B[i + 1], 0.0)),
    "guarded else branch": ((10,), lambda i: te.if_then_else(i < 1, 0.0, B[i - 1])),
    "nested guards": (
        (20,),
        lambda i: te.if_then_else(i >= 5, te.if_then_else(i < 15, B[i - 5], 0.0), 1.0),
    ),
    "either guard": ((12,), lambda i: te.if_then_else(te.any(i < 2, i > 20), 0.0, B[i - 2])),
    "gather": ((10,), lambda i: B[I[i]]),
    "unknown guard": ((10,), lambda i: te.if_then_else(I[i] > 3, B[i + 5], 0.0)),
    "division": ((20,), lambda i: B[te.floordiv(i, 2)]),
    "remainder": ((99,), lambda i: B[te.floormod(i * 7, 10)]),
    "clamped": ((20,), lambda i: B[te.min(i, 9)]),
    "symbolic": ((n,), lambda i: A[i]),
    "symbolic shorter": ((n - 1,), lambda i: A[i + 1]),
    "symbolic padded": (
        (n + 2,),
        lambda i: te.if_then_else(te.all(i >= 1, i < n + 1), A[i - 1], 0.0),
    ),
    "other extent": ((n,), lambda i: B[i]),
    "other extent under guards": ((n,), lambda i: te.if_then_else(i < 10, B[i], 0.0)),
    "symbolic both sides": (
        (n,),
        lambda i: te.if_then_else(te.all(i > 0, i < n - 1), A[i - 1] + A[i + 1], 0.0),
    ),
    "window": ((8,), lambda i: te.sum(B[i + k], axis=k)),
    "window with condition": ((9,), lambda i: te.sum(B[i + k], axis=k, where=i + k < 10)),
    "nothing to do": ((0,), lambda i: B[i + 100]),
}
BAD = {
    "beyond": ((10,), lambda i: B[i + 1], "index 0, i + 1, is 10 at i = 9"),
    "before": ((10,), lambda i: B[i - 1], "is -1 at i = 0"),
    "constant": ((3,), lambda i: B[10], "B[10]"),
    "weak guard": ((10,), lambda i: te.if_then_else(i > 0, B[i - 2], 0.0), "is -1 at i = 1"),
    "weak select": ((10,), lambda i: Select(i < 9, B[i + 2], 0.0), "is 10 at i = 8"),
    "wrong branch": ((10,), lambda i: te.if_then_else(i > 0, 0.0, B[i - 1]), "is -1 at i = 0"),
    "inside only": ((10,), lambda i: B[te.floormod(i * 2, 11)], "is 10 at i = 5"),
    "window": ((9,), lambda i: te.sum(B[i + k], axis=k), "i = 8, k = 2"),
    "symbolic": ((n,), lambda i: A[i + 1], "is n at i = n - 1"),
    "symbolic weak guard": ((n + 2,), lambda i: te.if_then_else(i >= 1, A[i - 1], 0.0), "is n at"),
    "symbolic strong guard": (
        (n,),
        lambda i: te.if_then_else(te.all(i > 0, i < n - 1), A[i + 2], 0.0),
        "is n at i = n - 2",
    ),
    "in an index": ((10,), lambda i: B[I[i + 1]], "I[i + 1]"),
    "in a condition": ((10,), lambda i: te.if_then_else(I[i - 3] > 0, 1.0, 0.0), "I[i - 3]"),
}


@pytest.mark.parametrize("name", sorted(FINE))
def test_reads_that_may_be_fine_pass(name):
    shape, body = FINE[name]
    check_program([te.compute(shape, body)])


@pytest.mark.parametrize("name", sorted(BAD))
def test_reads_that_cannot_be_fine_are_named(name):
    shape, body, place = BAD[name]
    t = te.compute(shape, body, name="out")
    with pytest.raises(TilewrightError) as caught:
        check_reads(t.op, Analyzer())
    text = str(caught.value)
    assert "out of bounds: out reads" in text and place in text and "has the range [0, " in text


@pytest.mark.parametrize("name", sorted(BAD))
def test_the_oracle_agrees(name):
    """Whatever is reported is a read out of bounds when the program runs."""
    shape, body, _ = BAD[name]
    feeds = {A: np.zeros(4, "float32"), B: np.zeros(10, "float32"), I: np.zeros(10, "int32")}
    with pytest.raises(TilewrightError, match="out of bounds"):
        te_eval(te.compute(shape, body), feeds)


def test_random_guarded_windows_agree_with_the_oracle():
    rng = np.random.default_rng(2)
    feeds = {B: np.zeros(10, "float32")}
    verdicts = set()
    for _ in range(150):
        low, high, shift, scale, size = (
            int(x) for x in rng.integers((0, 4, -4, 1, 1), (5, 14, 5, 3, 14))
        )

        def body(i, low=low, high=high, shift=shift, scale=scale):
            return te.if_then_else(te.all(i >= low, i < high), B[i * scale + shift], 0.0)

        t = te.compute((size,), body)
        outcomes = []
        for run in (lambda t=t: check_program([t]), lambda t=t: te_eval(t, feeds)):
            try:
                run()
                outcomes.append(True)
            except TilewrightError:
                outcomes.append(False)
        assert outcomes[0] == outcomes[1], str(t.op.body[0])
        verdicts.add(outcomes[0])
    assert verdicts == {True, False}


def recurrence(back):
    x, s = te.placeholder((6, n), name="x"), te.placeholder((6, n), name="s")
    init = te.compute((1, n), lambda _, i: x[0, i])
    half = te.compute((6, n), lambda t, i: s[t - back, i] * 0.5)
    update = te.compute((6, n), lambda t, i: half[t, i] + x[t, i])
    return te.scan(init, update, s)


def test_rows_of_scans_start_after_the_first():
    check_program([recurrence(1)])
    with pytest.raises(TilewrightError, match=r"s\[t - 2, i\].*is -1 at t = 1"):
        check_program([recurrence(2)])


def steps(read, ahead=0, length=6):
    """A scan of two states, whose second reads one of them through a stage."""
    x = te.placeholder((length, n), name="x")
    a, b = (te.placeholder((length, n), name=name) for name in "ab")
    init = te.compute((1, n), lambda _, i: x[0, i])
    half = te.compute((length, n), lambda t, i: read(a, b, t, i) * 0.5, name="half")
    updates = [
        te.compute((length, n), lambda t, i: b[t - 1, i] + x[t, i]),
        te.compute(
            (length, n), lambda t, i: te.if_then_else(t < length - 1, half[t + ahead, i], 0)
        ),
    ]
    return te.scan([init, init], updates, [a, b])


def test_steps_of_scans_read_rows_before_their_own():
    late = [
        (lambda a, b, t, i: b[t, i], 0, 6, r"half reads b\[t, i\] in a scan, which is row"),
        (lambda a, b, t, i: a[t, i], 0, 6, r"half reads a\[t, i\]"),
        (lambda a, b, t, i: a[t, n - 1 - i], 0, te.var("m"), r"half reads a\[t, n - 1 - i\]"),
        (lambda a, b, t, i: b[5 - t, i], 0, 6, r"which is row 4 at step 1\."),
        (lambda a, b, t, i: b[te.if_then_else(t > 3, t, 0), i], 0, 6, "which is row 5 at step 5"),
        (lambda a, b, t, i: te.if_then_else(t < 5, b[t + 1, i], 0.0), 0, 6, "which is row"),
        (lambda a, b, t, i: b[t - 1, i], 1, 6, r"half reads b\[t - 1, i\]"),
    ]
    for read, ahead, length, text in late:
        with pytest.raises(TilewrightError, match=text):
            check_program(steps(read, ahead, length))
    for read, ahead in [
        (lambda a, b, t, i: b[t - 1, i] + a[t // 2, i], 0),
        (lambda a, b, t, i: b[t, i], -1),
        (lambda a, b, t, i: te.if_then_else(t > 1, b[t - 2, i], 0.0), 1),
        (lambda a, b, t, i: te.if_then_else(t > 6, b[t, i], 0.0), 0),
    ]:
        check_program(steps(read, ahead))


def test_guards_of_reads():
    t = te.compute(
        (9,), lambda i: te.sum(te.if_then_else(i > 2, B[i + k], B[0]), axis=k, where=k < i)
    )
    analyzer, i = Analyzer(), t.op.axis[0].var
    found, ends = {}, {}
    for load, guard in guarded(t.op.body[0], analyzer):
        assert guard is not None
        found[str(load)] = [str(c) for c in guard.conditions()]
        ends[str(load)] = analyzer.can_prove(i > 2), analyzer.can_prove(i <= 2)
    assert found == {"B[i + k]": ["k < i", "i > 2"], "B[0]": ["k < i", "not i > 2"]}
    assert ends == {"B[i + k]": (True, False), "B[0]": (False, True)}
    assert not analyzer.can_prove(i > 2)


def test_other_operations_are_left_alone():
    check_reads(B.op)
    check_program([B])
