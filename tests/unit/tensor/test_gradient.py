"""gradient against numerical differentiation and PyTorch, and the shape of what comes out."""

import numpy as np
import pytest

from tests.narrow import int_of, some
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.interp.te_eval import te_eval
from tilewright.loopir.expr import Let, Select, Var
from tilewright.loopir.iter import Reduce
from tilewright.loopir.op import atan2, call_pure_extern, hypot, log1p
from tilewright.tensor.op import post_order

RNG = np.random.default_rng(5)
F = "float64"


def normal(*shape):
    return RNG.standard_normal(shape)


def check(out, *inputs, values=None, jacobian=True, more=None, step=1e-6):
    """Vector-Jacobian products and Jacobians agree with central differences; gives the former."""
    feeds = {t: normal(*(int(d) for d in t.shape)) for t in inputs} if values is None else values
    feeds = {**feeds, **(more or {})}
    shape = te_eval(out, feeds)[0].shape
    head = te.placeholder(out.shape, out.dtype, name="head")
    seed = normal(*shape)
    grads = te.gradient(out, list(inputs), head)
    full = te.gradient(out, list(inputs)) if jacobian else []
    got = te_eval(grads, {**feeds, head: seed})
    got_full = te_eval(full, feeds) if jacobian else [None] * len(inputs)
    for t, g, j in zip(inputs, got, got_full):
        expected = np.zeros((*shape, *feeds[t].shape))
        for place in np.ndindex(*feeds[t].shape):
            moved = []
            for s in (1, -1):
                x = feeds[t].copy()
                x[place] += s * step
                moved.append(te_eval(out, {**feeds, t: x})[0])
            expected[(..., *place)] = (moved[0] - moved[1]) / (2 * step)
        np.testing.assert_allclose(
            g, np.tensordot(seed, expected, len(shape)), atol=1e-6, rtol=1e-6
        )
        if jacobian:
            np.testing.assert_allclose(some(j), expected, atol=1e-6, rtol=1e-6)
    return grads


def sources(tensor):
    """The text of what an operation reduces (or of its body), and its reduction axes' extents."""
    e = tensor.op.body[0]
    if isinstance(e, Reduce):
        return str(e.source[0]), [int_of(some(a.dom).extent) for a in e.axis]
    return str(e), []


def test_matmul_gives_plain_matmuls():
    a, b = te.placeholder((4, 5), F, "a"), te.placeholder((5, 3), F, "b")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((4, 3), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    ga, gb = check(c, a, b)
    assert sources(ga) == ("head[ax0, j] * b[ax1, j]", [3])
    assert sources(gb) == ("head[i, ax1] * a[i, ax0]", [4])


def test_symbolic_matmul_has_no_guards():
    n, m, l = (te.var(x) for x in "nml")
    a, b = te.placeholder((n, l), F, "a"), te.placeholder((l, m), F, "b")
    k = te.reduce_axis((0, l), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    head = te.placeholder((n, m), F, "head")
    ga, gb = te.gradient(c, [a, b], head)
    assert str(ga.op.body[0].source[0]) == "head[ax0, j] * b[ax1, j]"
    assert str(gb.op.body[0].source[0]) == "head[i, ax1] * a[i, ax0]"
    x, y, h = normal(2, 3), normal(3, 4), normal(2, 4)
    got = te_eval([ga, gb], {a: x, b: y, head: h})
    np.testing.assert_allclose(got[0], h @ y.T)
    np.testing.assert_allclose(got[1], x.T @ h)


def convolution(p, w, size, stride, dilation=1):
    axes = [te.reduce_axis((0, e), s) for e, s in ((2, "c"), (3, "r"), (3, "s"))]
    c, r, s = axes

    def element(n, o, i, j):
        x = p[n, c, i * stride + r * dilation, j * stride + s * dilation]
        return te.sum(x * w[o, c, r, s], axis=axes)

    return te.compute((2, 3, size, size), element)


@pytest.mark.parametrize(
    ("stride", "size", "dilation"), [(1, 6, 1), (2, 3, 1), (3, 2, 1), (1, 4, 2)]
)
def test_convolution(stride, size, dilation):
    a, w = te.placeholder((2, 2, 6, 6), F, "a"), te.placeholder((3, 2, 3, 3), F, "w")
    p = te.compute(
        (2, 2, 8, 8),
        lambda n, c, i, j: te.if_then_else(
            te.all(i >= 1, i < 7, j >= 1, j < 7), a[n, c, i - 1, j - 1], 0.0
        ),
    )
    y = convolution(p, w, size, stride, dilation)
    head = te.placeholder(y.shape, F, "head")
    ga, gw = te.gradient(y, [a, w], head)
    x, k, h = normal(2, 2, 6, 6), normal(3, 2, 3, 3), normal(2, 3, size, size)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tx, tk = torch.tensor(x, requires_grad=True), torch.tensor(k, requires_grad=True)
    torch.nn.functional.conv2d(tx, tk, stride=stride, padding=1, dilation=dilation).backward(
        torch.tensor(h)
    )
    got = te_eval([ga, gw], {a: x, w: k, head: h})
    np.testing.assert_allclose(got[0], tx.grad, atol=1e-12)
    np.testing.assert_allclose(got[1], tk.grad, atol=1e-12)
    # plain reductions of the size of a convolution: no delta conditions, nothing summed twice
    text, extents = sources(gw)
    assert "if_then_else" not in text and extents == [2, size, size]
    assert sources(ga)[1] == [] and "if_then_else" not in sources(ga)[0]
    grad_p = ga.op.input_tensors[0]
    assert np.prod(sources(grad_p)[1]) <= 3 * 9


def test_softmax_matches_torch():
    a = te.placeholder((4, 7), F, "a")
    k, q = te.reduce_axis((0, 7), "k"), te.reduce_axis((0, 7), "q")
    top = te.compute((4,), lambda i: te.max(a[i, k], axis=k))
    e = te.compute((4, 7), lambda i, j: te.exp(a[i, j] - top[i]))
    s = te.compute((4,), lambda i: te.sum(e[i, q], axis=q))
    y = te.compute((4, 7), lambda i, j: e[i, j] / s[i])
    check(y, a)


UNARY = {
    "exp": 0, "exp2": 0, "exp10": 0, "log": 1, "log2": 1, "log10": 1, "sigmoid": 0, "tanh": 0,
    "erf": 0, "sqrt": 1, "rsqrt": 1, "cbrt": 1, "expm1": 0,
    "sin": 0, "cos": 0, "tan": 0, "sinh": 0, "cosh": 0,
    "asin": -1, "acos": -1, "atan": 0, "asinh": 0, "acosh": 2, "atanh": -1, "abs": 0, "floor": 0,
    "ceil": 0, "trunc": 0, "round": 0, "nearbyint": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(UNARY))
def test_functions(name):
    a = te.placeholder((9,), F, "a")
    x = {
        0: normal(9),
        1: RNG.random(9) + 0.5,
        2: RNG.random(9) + 1.5,
        -1: RNG.random(9) * 1.6 - 0.8,
    }
    t = te.compute((9,), lambda i: getattr(te, name)(a[i]) * 2.0)
    check(t, a, values={a: x[UNARY[name]]})


def test_binary_operations():
    a, b = te.placeholder((8,), F, "a"), te.placeholder((8,), F, "b")
    x, y = RNG.random(8) * 3 + 0.3, RNG.random(8) * 3 + 0.4
    functions = [
        lambda u, v: u / v,
        lambda u, v: te.power(u, v),
        lambda u, v: te.fmod(u, v),
        lambda u, v: atan2(u, v),
        lambda u, v: hypot(u, v),
        lambda u, v: log1p(u * v),
        lambda u, v: te.max(u, v) * te.min(u, v * v),
        lambda u, v: Select(u > v, u * u, -v),
        lambda u, v: te.if_then_else(te.any(u < 1, v < 1), u * v, u - v),
        lambda u, v: -u + 2.0 - v,
    ]
    for f in functions:
        check(te.compute((8,), lambda i, f=f: f(a[i], b[i])), a, b, values={a: x, b: y})


def test_shared_subexpressions_and_lets():
    a = te.placeholder((5,), F, "a")
    v = Var("v", F)

    def body(i):
        e = te.exp(a[i] * 0.1)
        for _ in range(8):
            e = (e + e) * 0.51
        return Let(v, e, v * v + a[i])

    check(te.compute((5,), body), a)


def test_casts_between_floats_and_to_integers():
    a = te.placeholder((5,), "float32", "a")
    t = te.compute((5,), lambda i: a[i].astype(F) * a[i] + a[i].astype("int32").astype(F))
    (g,) = te.gradient(t, a, te.compute((5,), lambda i: te.const(1.0, F)))
    x = normal(5).astype("float32")
    assert g.dtype == "float32"
    np.testing.assert_allclose(te_eval(g, {a: x})[0], 2 * x, rtol=1e-6)


def there_and_back(a):
    flat = te.compute((12,), lambda k: a[k // 4, k % 4])
    return te.compute((3, 4), lambda i, j: flat[i * 4 + j])


def skewed(a):
    return te.compute((2, 3), lambda i, j: a[(i * 3 + j) // 4 + 1, (i * 3 + j) % 4])


INDEXED = {
    "reshape": (lambda a: te.compute((12,), lambda i: a[i // 4, i % 4]), 0),
    "reshape twice": (lambda a: there_and_back(a), 0),
    "transpose": (lambda a: te.compute((4, 3), lambda i, j: a[j, i] * 2.0), 0),
    "reverse": (lambda a: te.compute((3, 4), lambda i, j: a[2 - i, 3 - j]), 0),
    "diagonal": (lambda a: te.compute((3,), lambda i: a[i, i]), 0),
    "constant": (lambda a: te.compute((2,), lambda i: a[1, 2] * a[1, 2]), 1),
    "broadcast": (lambda a: te.compute((3, 4, 5), lambda i, j, k: a[i, j]), 1),
    "repeat": (lambda a: te.compute((6, 4), lambda i, j: a[i // 2, j]), 1),
    "tile": (lambda a: te.compute((6, 4), lambda i, j: a[i % 3, j]), 1),
    "strided": (lambda a: te.compute((2, 2), lambda i, j: a[i * 2, j * 3]), 0),
    "stencil": (lambda a: te.compute((3, 2), lambda i, j: a[i, j] + a[i, j + 1] * a[i, j + 2]), 0),
    "anti-diagonal": (lambda a: te.compute((2, 2), lambda i, j: a[i + j, 3 - i - j]), 1),
    "symbol-free sum": (lambda a: te.compute((2, 3), lambda i, j: a[i, i + j] * a[i + 1, 0]), 1),
    "skewed": (skewed, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(INDEXED))
def test_index_maps(name):
    a = te.placeholder((3, 4), F, "a")
    make, sums = INDEXED[name]
    (g,) = check(make(a), a)
    if not sums:
        ops = [op for op in post_order([g]) if hasattr(op, "reduce_axis")]
        assert not any(op.reduce_axis for op in ops), "summed over where the place is known"


def test_pooling_windows():
    a = te.placeholder((2, 6, 6), F, "a")
    r, s = te.reduce_axis((0, 2), "r"), te.reduce_axis((0, 2), "s")
    mean = te.compute((2, 3, 3), lambda c, i, j: te.sum(a[c, i * 2 + r, j * 2 + s], axis=[r, s]))
    (g,) = check(mean, a, jacobian=False)
    assert sources(g) == ("head[ax0, ax1 // 2, ax2 // 2]", [])
    largest = te.compute((2, 3, 3), lambda c, i, j: te.max(a[c, i * 2 + r, j * 2 + s], axis=[r, s]))
    check(largest, a, jacobian=False)


@pytest.mark.parametrize("reducer", [te.max, te.min])
def test_ties_go_to_the_first(reducer):
    a, k = te.placeholder((2, 4), F, "a"), te.reduce_axis((0, 4), "k")
    t = te.compute((2,), lambda i: reducer(a[i, k], axis=k))
    head = te.placeholder((2,), F, "head")
    (g,) = te.gradient(t, a, head)
    x = np.array([[1, 3, 3, 1], [2, 2, 2, 2]], F)
    got = te_eval(g, {a: x, head: np.array([5.0, 7.0])})[0]
    first = x.argmax(1) if reducer is te.max else x.argmin(1)
    expected = np.zeros((2, 4))
    expected[range(2), first] = [5, 7]
    np.testing.assert_array_equal(got, expected)


def test_other_reductions():
    a, k, l = (
        te.placeholder((3, 4), F, "a"),
        te.reduce_axis((0, 4), "k"),
        te.reduce_axis((1, 3), "l"),
    )
    check(te.compute((3,), lambda i: te.prod(a[i, k], axis=k)), a)
    zeros = {a: np.array([[0, 2, 3, 4], [0, 0, 1, 2], [1, 2, 3, 0]], F)}
    check(te.compute((3,), lambda i: te.prod(a[i, k], axis=k)), a, values=zeros)
    check(te.compute((3,), lambda i: te.prod(a[i, l] * a[i, 0], axis=l, where=l > 1)), a)
    check(te.compute((3,), lambda i: te.sum(a[i, k] * a[i, k], axis=k, where=k < 3)), a)
    check(te.compute((3,), lambda i: te.max(a[i, l] * a[i, l], axis=l, where=l < 3)), a)
    logsum = te.comm_reducer(
        lambda x, y: te.log(te.exp(x) + te.exp(y)), lambda t: te.const(-1e30, t), "logsum"
    )
    check(te.compute((3,), lambda i: logsum(a[i, k], axis=k)), a)
    pair = te.comm_reducer(
        lambda x, y: (x[0] * y[0], x[1] + y[1] + x[0] * y[0]), lambda t, u: (1.0, 0.0), "pair"
    )
    values = te.compute((3,), lambda i: pair((a[i, l], a[i, l] * 2.0), axis=l))
    check(values[0], a)


def test_argmax_value():
    a, k = te.placeholder((3, 5), F, "a"), te.reduce_axis((0, 5), "k")
    arg = te.comm_reducer(
        lambda x, y: (Select(x[1] >= y[1], x[0], y[0]), Select(x[1] >= y[1], x[1], y[1])),
        lambda t, u: (te.const(-1, t), te.min_value(u)),
        "argmax",
    )
    _, value = te.compute((3,), lambda i: arg((k.var, a[i, k] * a[i, k]), axis=k))
    check(value, a)


def test_start_values_of_reductions():
    a, b = te.placeholder((3, 4), F, "a"), te.placeholder((3,), F, "b")
    k = te.reduce_axis((0, 4), "k")
    check(te.compute((3,), lambda i: te.sum(a[i, k], axis=k, init=b[i])), a, b)
    check(te.compute((3,), lambda i: te.max(a[i, k], axis=k, init=b[i])), a, b)


def test_gather():
    a, ix = te.placeholder((4, 5), F, "a"), te.placeholder((6,), "int32", "ix")
    t = te.compute((6, 5), lambda i, j: a[ix[i], j] * a[ix[i], 4 - j])
    y = RNG.integers(0, 4, 6).astype("int32")
    check(t, a, more={ix: y}, jacobian=False)


def test_several_paths_and_intermediate_inputs():
    a = te.placeholder((4,), F, "a")
    b = te.compute((4,), lambda i: a[i] * a[i], name="b")
    c = te.compute((4,), lambda i: te.sin(b[i]) + a[i], name="c")
    d = te.compute((4,), lambda i: b[3 - i] * c[i] + a[i], name="d")
    check(d, a)
    head = te.placeholder((4,), F, "head")
    gb, gc = te.gradient(d, [b, c], head)
    x, h = normal(4), normal(4)
    vb = x * x
    got = te_eval([gb, gc], {a: x, head: h})
    np.testing.assert_allclose(got[1], h * vb[::-1])
    expected = (h * (np.sin(vb) + x))[::-1] + h * vb[::-1] * np.cos(vb)
    np.testing.assert_allclose(got[0], expected)


def test_deep_chain_of_operations():
    t = a = te.placeholder((3,), F, "a")
    for _ in range(60):
        t = te.compute((3,), lambda i, t=t: t[i] * 0.9 + t[2 - i] * 0.1)
    check(t, a)


def test_identity_and_unreached_inputs():
    a, b = te.placeholder((2, 3), F, "a"), te.placeholder((4,), F, "b")
    ga, gb = te.gradient(a, [a, b])
    got = te_eval([ga, gb], {})
    np.testing.assert_array_equal(got[0], np.eye(6).reshape(2, 3, 2, 3))
    assert got[1].shape == (2, 3, 4) and not got[1].any()
    head = te.placeholder((2, 3), F)
    assert te.gradient(a, a, head)[0] is head


def test_heads_with_a_prefix():
    a, b = te.placeholder((3, 4), F, "a"), te.placeholder((4,), F, "b")
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((3,), lambda i: te.sum(a[i, k] * b[k], axis=k))
    head = te.placeholder((2, 5, 3), F, "head")
    ga, gb = te.gradient(y, [a, b], head)
    x, v, h = normal(3, 4), normal(4), normal(2, 5, 3)
    got = te_eval([ga, gb], {a: x, b: v, head: h})
    np.testing.assert_allclose(got[0], h[..., None] * v)
    np.testing.assert_allclose(got[1], h @ x)


def test_zero_dimensions_and_extents_of_one():
    a = te.placeholder((), F, "a")
    check(te.compute((), lambda: a() * a()), a, values={a: np.array(1.5)})
    b, k = te.placeholder((1, 4), F, "b"), te.reduce_axis((0, 1), "k")
    (g,) = check(te.compute((4,), lambda j: te.sum(b[k, j] * 3.0, axis=k)), b)
    assert sources(g)[1] == []


def fails(words, run):
    with pytest.raises(TilewrightError) as caught:
        run()
    for word in words:
        assert word in str(caught.value)


def test_misuse():
    a, i = te.placeholder((3,), F, "a"), te.placeholder((3,), "int32", "i")
    y = te.compute((3,), lambda j: a[j] * 2.0)
    fails(["int32", "only floats"], lambda: te.gradient(y, i))
    fails(["head", "prefix"], lambda: te.gradient(y, a, te.placeholder((4,), F)))
    fails(["head"], lambda: te.gradient(y, a, te.placeholder((3,), "float32")))
    z = te.compute((3,), lambda j: call_pure_extern(F, "f", a[j]))
    fails(["Derivative of this intrinsic is not implemented"], lambda: te.gradient(z, a))
    s = te.placeholder((3,), F, "s")
    scan = te.scan(te.compute((1,), lambda t: a[t]), te.compute((3,), lambda t: s[t - 1] + a[t]), s)
    fails(["Derivative of this op is not implemented", "scan"], lambda: te.gradient(scan, a))
