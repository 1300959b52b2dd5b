"""Tensor programs survive the way through JSON."""

import json
from typing import Any

import numpy as np
import pytest

from tests.narrow import value_of
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.loopir import ir_builder
from tilewright.loopir.expr import Let, Select, Var
from tilewright.loopir.op import call_extern
from tilewright.tensor.op import post_order
from tilewright.tensor.serial import VERSION, load_json, program_key, save_json

RNG = np.random.default_rng(17)


def renewed(*outputs):
    """The program after saving and loading, checked to be the same text again."""
    text = save_json(outputs)
    loaded = load_json(text)
    assert save_json(loaded) == text
    old, new = post_order(outputs), post_order(loaded)
    assert [type(op) for op in old] == [type(op) for op in new]
    assert [op.name for op in old] == [op.name for op in new]
    assert not set(old) & set(new)
    return loaded, dict(zip(old, new))


def same_results(outputs, feeds, **kwargs):
    """Old and new program give the same arrays, types included."""
    loaded, ops = renewed(*outputs)
    moved = {ops[t.op].output(t.value_index): x for t, x in feeds.items()}
    for a, b in zip(te_eval(outputs, feeds, **kwargs), te_eval(loaded, moved, **kwargs)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    return loaded


def ints(*shape, dtype="float32"):
    return RNG.integers(-5, 6, shape).astype(dtype)


def test_computes_of_many_kinds():
    n, m = te.var("n"), te.size_var("m")
    a, ix = te.placeholder((n, m), name="a"), te.placeholder((n,), "int32", "ix")
    k = te.reduce_axis((0, m), "k")
    v = Var("v", "float32")
    b = te.compute((n,), lambda i: te.sum(a[i, k] * 0.1, axis=k, where=k > 0, init=2.0), name="b")
    c = te.compute(
        (n,),
        lambda i: Let(v, b[i], Select(v > 0, te.exp(v), te.if_then_else(i > 1, b[i - 1], v))),
        name="c", tag="injective", attrs={"layers": [1, 2.5, None], "of": {"x": (n, "y")}},
    )  # fmt: skip
    d = te.compute((n, m), lambda i, j: a[te.floormod(ix[i], n), j] / c[i] + float("inf"), name="d")
    feeds = {a: ints(4, 3), ix: RNG.integers(0, 4, 4).astype("int32")}
    _, loaded = same_results([c, d], feeds)
    ops = {op.name: op for op in post_order([loaded])}
    one, half, nothing = ops["c"].attrs["layers"]
    assert ops["c"].tag == "injective" and nothing is None
    assert (value_of(one), value_of(half)) == (1, 2.5)
    new_a = ops["a"].output(0)
    assert ops["c"].attrs["of"]["x"] == (new_a.shape[0], "y")
    # one variable stays one variable
    assert ops["b"].output(0).shape[0] is new_a.shape[0]
    assert type(new_a.shape[1]) is type(m) and new_a.shape[1].name == "m"


def test_several_values_and_outputs():
    a, k = te.placeholder((5, 6), name="a"), te.reduce_axis((0, 6), "k")
    arg = te.comm_reducer(
        lambda x, y: (Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t, u: (te.const(-1, t), te.min_value(u)),
        "argmax",
    )
    index, value = te.compute((5,), lambda i: arg((k.var, a[i, k]), axis=k), name="am")
    low, high = te.compute((5,), lambda i: (value[i] - 1, (index[i] * 2).astype("int64")))
    loaded = same_results([high, low], {a: ints(5, 6)})
    assert loaded[0].op is loaded[1].op and loaded[0].value_index == 1
    reduce_op = loaded[0].op.input_tensors[0].op
    assert reduce_op.body[0].combiner is reduce_op.body[1].combiner
    assert reduce_op.body[0].axis[0] is reduce_op.reduce_axis[0]


def test_scans():
    x, s = te.placeholder((6, 3), name="x"), te.placeholder((6, 3), name="s")
    init = te.compute((1, 3), lambda _, i: x[0, i])
    update = te.compute((6, 3), lambda t, i: s[t - 1, i] + x[t, i])
    (loaded,) = same_results([te.scan(init, update, s, inputs=[x], name="rec")], {x: ints(6, 3)})
    op = loaded.op
    assert op.state_placeholder[0] in op.update[0].op.input_tensors
    assert op.inputs[0] in op.init[0].op.input_tensors
    assert [a.var.name for a in op.root_iter_vars()] == ["rec.idx", "rec.out0.i1"]


def test_externs_with_loops():
    a = te.placeholder((7,), name="a")

    def body(ins, outs):
        ib = ir_builder.create()
        p, q = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 7, name="i") as i:
            with ib.if_scope(i > 2):
                q[i] = p[6 - i] * 3.0
            with ib.else_scope():
                q[i] = 1.0
        return ib.get()

    b = te.extern((7,), [a], body, name="e", attrs={"note": "x"})
    (loaded,) = same_results([te.compute((7,), lambda i: b[i] + 1)], {a: ints(7)})
    assert loaded.op.input_tensors[0].op.attrs == {"note": "x"}


def test_tensor_intrinsics():
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2)
    double = te.decl_tensor_intrin(
        y.op,
        lambda ins, outs: call_extern("int32", "double", ins[0].access_ptr("r"), outs[0].data),
        name="double",
    )
    a = te.placeholder((12,), name="a")
    t = te.compute((3, 4), lambda i: double(a[i * 4 : i * 4 + 4]))
    (loaded,) = same_results([t], {a: ints(12)})
    intrin = loaded.op.intrin
    assert intrin.name == "double" and str(intrin.body) == str(double.body)
    assert intrin.inputs[0] is intrin.op.input_tensors[0]


def test_special_numbers():
    values = [float("inf"), float("-inf"), 0.1, -0.0, 1e-45, 3.4028234663852886e38]
    t = te.compute((6,), lambda i: tuple(te.const(v, "float32") for v in values))
    (nan,) = [te.compute((1,), lambda i: te.const(float("nan"), "float64"))]
    loaded, _ = renewed(*t, nan)
    got = [x.item(0) for x in te_eval(loaded, {})]
    expected = [x.item(0) for x in te_eval([*t, nan], {})]
    assert [repr(x) for x in got] == [repr(x) for x in expected] and repr(got[3]) == "-0.0"


def test_deep_and_shared_expressions():
    a = te.placeholder((2,), name="a")

    def deep(i):
        e: Any = a[i]
        for _ in range(3000):
            e = e + 1.5
        return e

    def shared(i):
        e = a[i] * 0.5
        for _ in range(60):
            e = e + e
        return e

    t, u = te.compute((2,), deep), te.compute((2,), shared)
    assert len(save_json(u)) < 20000
    same_results([t, u], {a: ints(2)})


def test_long_chains_of_operations():
    t = a = te.placeholder((3,), name="a")
    for k in range(500):
        t = te.compute((3,), lambda i, t=t, k=k: t[2 - i] + te.const(k, "float32"))
    same_results([t], {a: ints(3)})


def test_keys_tell_programs_apart():
    def program(constant, name="b"):
        a = te.placeholder((3,), name="a")
        return te.compute((3,), lambda i: a[i] + constant, name=name)

    assert program_key(program(1.0)) == program_key([program(1.0)])
    assert len({program_key(p) for p in (program(1.0), program(2.0), program(1.0, "c"))}) == 3


def fails(words, run):
    with pytest.raises(TilewrightError) as caught:
        run()
    for word in words:
        assert word in str(caught.value)


def test_what_cannot_be_saved():
    t = te.compute((3,), lambda i: i, attrs={"f": object})
    fails(["cannot save", "attrs"], lambda: save_json(t))


def test_damaged_text():
    a = te.placeholder((3,), name="a")
    good = save_json(te.compute((3,), lambda i: a[i] + 1))
    data = json.loads(good)

    def broken(**changes):
        return json.dumps({**data, **changes})

    for text in (
        good[: len(good) // 2], "", "[]", "3", broken(kind="schedule"), broken(nodes=[["Nothing"]]),
        broken(nodes=data["nodes"][:-1]), broken(nodes=[["Var", 1]]), broken(outputs=[1]),
        broken(nodes=[*data["nodes"], ["Tensor", {"#": -1}, 0]]), broken(outputs=[{"?": 1}]),
        broken(nodes=[["os.system", "x"]]), broken(outputs=[{"#": 0}]),
    ):  # fmt: skip
        fails(["no tensor program saved as JSON"], lambda text=text: load_json(text))
    fails(["version 99", str(VERSION)], lambda: load_json(broken(version=99)))
