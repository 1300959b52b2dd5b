"""Small computations of the kinds that are searched for: each gives its tensors, results last."""

from typing import Any

from tilewright import te, tir

Tensors = list[Any]


def pad2d(x: Any, pad: int, name: str = "pad") -> Any:
    """Zeros around the last two dimensions but one: (N, H, W, C)."""
    n, h, w, c = (int(e) for e in x.shape)
    return te.compute(
        (n, h + 2 * pad, w + 2 * pad, c),
        lambda b, i, j, k: tir.if_then_else(
            tir.all(i >= pad, i < h + pad, j >= pad, j < w + pad),
            x[b, i - pad, j - pad, k],
            tir.const(0.0, x.dtype),
        ),
        name=name,
    )


def matmul(n: int = 16, m: int = 16, k: int = 16, **attrs: Any) -> Tensors:
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C", attrs=attrs or None
    )
    return [a, b, c]


def matmul_relu(n: int = 16, m: int = 16, k: int = 16) -> Tensors:
    a, b, c = matmul(n, m, k)
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0), name="D")
    return [a, b, d]


def gram(n: int = 16, k: int = 16) -> Tensors:
    a = te.placeholder((n, k), name="A")
    r = te.reduce_axis((0, k), "k")
    return [a, te.compute((n, n), lambda i, j: te.sum(a[i, r] * a[j, r], axis=r), name="C")]


def conv2d(h: int = 8, ci: int = 4, co: int = 6, k: int = 3, pad: int = 1) -> Tensors:
    x = te.placeholder((1, h, h, ci), name="X")
    w = te.placeholder((k, k, ci, co), name="W")
    p = pad2d(x, pad)
    out = h + 2 * pad - k + 1
    y, z, c = (te.reduce_axis((0, e), s) for e, s in ((k, "ry"), (k, "rx"), (ci, "rc")))
    o = te.compute(
        (1, out, out, co),
        lambda n, i, j, f: te.sum(p[n, i + y, j + z, c] * w[y, z, c, f], axis=[y, z, c]),
        name="conv",
    )
    return [x, w, o]


def conv2d_bn_relu(h: int = 8) -> Tensors:
    x, w, conv = conv2d(h)
    co = int(conv.shape[3])
    scale, shift = (te.placeholder((co,), name=n) for n in ("scale", "shift"))
    mul = te.compute(conv.shape, lambda n, i, j, f: conv[n, i, j, f] * scale[f], name="mul")
    add = te.compute(conv.shape, lambda n, i, j, f: mul[n, i, j, f] + shift[f], name="add")
    out = te.compute(conv.shape, lambda n, i, j, f: te.max(add[n, i, j, f], 0.0), name="relu")
    return [x, w, scale, shift, out]


def depthwise(h: int = 8, c: int = 4, k: int = 3) -> Tensors:
    x = te.placeholder((1, h, h, c), name="X")
    w = te.placeholder((k, k, c), name="W")
    p = pad2d(x, 1)
    y, z = te.reduce_axis((0, k), "ry"), te.reduce_axis((0, k), "rx")
    o = te.compute(
        (1, h, h, c),
        lambda n, i, j, f: te.sum(p[n, i + y, j + z, f] * w[y, z, f], axis=[y, z]),
        name="depthwise",
    )
    return [x, w, o]


def group_conv(h: int = 8, groups: int = 2, ci: int = 4, co: int = 6) -> Tensors:
    x = te.placeholder((1, h, h, groups * ci), name="X")
    w = te.placeholder((3, 3, ci, groups * co), name="W")
    p = pad2d(x, 1)
    y, z, c = (te.reduce_axis((0, e), s) for e, s in ((3, "ry"), (3, "rx"), (ci, "rc")))
    o = te.compute(
        (1, h, h, groups * co),
        lambda n, i, j, f: te.sum(
            p[n, i + y, j + z, f // co * ci + c] * w[y, z, c, f], axis=[y, z, c]
        ),
        name="group",
    )
    return [x, w, o]


def transposed_conv(h: int = 4, ci: int = 4, co: int = 4) -> Tensors:
    """4x4 kernel, stride 2, padding 1, as a read of a spread and padded input."""
    x = te.placeholder((1, h, h, ci), name="X")
    w = te.placeholder((4, 4, ci, co), name="W")

    def spread(n: Any, i: Any, j: Any, c: Any) -> Any:
        inside = tir.all(i >= 2, i < 2 * h + 1, j >= 2, j < 2 * h + 1, i % 2 == 0, j % 2 == 0)
        return tir.if_then_else(inside, x[n, i // 2 - 1, j // 2 - 1, c], tir.const(0.0, x.dtype))

    p = te.compute((1, 2 * h + 3, 2 * h + 3, ci), spread, name="spread")
    y, z, c = (te.reduce_axis((0, e), s) for e, s in ((4, "ry"), (4, "rx"), (ci, "rc")))
    o = te.compute(
        (1, 2 * h, 2 * h, co),
        lambda n, i, j, f: te.sum(p[n, i + y, j + z, c] * w[3 - y, 3 - z, c, f], axis=[y, z, c]),
        name="transposed",
    )
    return [x, w, o]


def capsule_conv(h: int = 4, ci: int = 4, co: int = 4, size: int = 4) -> Tensors:
    x = te.placeholder((1, h, h, ci, size, size), name="X")
    w = te.placeholder((3, 3, ci, size, size, co), name="W")
    axes = (("ry", 3), ("rx", 3), ("rc", ci), ("rs", size))
    y, z, c, s = (te.reduce_axis((0, e), name) for name, e in axes)
    p = te.compute(
        (1, h + 2, h + 2, ci, size, size),
        lambda n, i, j, k, a, b: tir.if_then_else(
            tir.all(i >= 1, i <= h, j >= 1, j <= h), x[n, i - 1, j - 1, k, a, b], 0.0
        ),
        name="pad",
    )
    o = te.compute(
        (1, h, h, size, size, co),
        lambda n, i, j, a, b, f: te.sum(
            p[n, i + y, j + z, c, a, s] * w[y, z, c, s, b, f], axis=[y, z, c, s]
        ),
        name="capsule",
    )
    return [x, w, o]


def norm(b: int = 1, n: int = 64) -> Tensors:
    x = te.placeholder((b, n, n), name="X")
    i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, n), "j")
    squares = te.compute((b,), lambda k: te.sum(x[k, i, j] * x[k, i, j], axis=[i, j]), name="S")
    return [x, te.compute((b,), lambda k: te.sqrt(squares[k]), name="norm")]


def softmax(n: int = 8, m: int = 32) -> Tensors:
    x = te.placeholder((n, m), name="X")
    k1, k2 = te.reduce_axis((0, m), "k1"), te.reduce_axis((0, m), "k2")
    most = te.compute((n,), lambda i: te.max(x[i, k1], axis=k1), name="most")
    e = te.compute((n, m), lambda i, j: te.exp(x[i, j] - most[i]), name="exp")
    total = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    return [x, te.compute((n, m), lambda i, j: e[i, j] / total[i], name="softmax")]


def chain(length: int = 3, n: int = 8) -> Tensors:
    """Element-wise: x -> f0 -> f1 -> ..."""
    x = te.placeholder((n, n), name="X")
    found = [x]
    for k in range(length):
        found.append(
            te.compute((n, n), lambda i, j, p=found[-1], k=k: p[i, j] + float(k), name=f"f{k}")
        )
    return [x, found[-1]]


def scan(steps: int = 8, m: int = 4) -> Tensors:
    x = te.placeholder((steps, m), name="X")
    state = te.placeholder((steps, m), name="state")
    init = te.compute((1, m), lambda _, i: x[0, i], name="init")
    scaled = te.compute((steps, m), lambda t, i: state[t - 1, i] * 0.5, name="scaled")
    update = te.compute((steps, m), lambda t, i: scaled[t, i] + x[t, i], name="update")
    s = te.scan(init, update, state, inputs=[x], name="scan")
    return [x, te.compute((steps, m), lambda t, i: s[t, i] + 1.0, name="out")]


def extern(n: int = 8, **attrs: Any) -> Tensors:
    x = te.placeholder((n, n), name="X")
    a = te.compute((n, n), lambda i, j: x[i, j] * 2.0, name="A")
    e = te.extern(
        (n, n),
        [a],
        lambda i, o: tir.call_packed("nothing", i[0], o[0]),
        name="E",
        attrs=attrs or None,
    )
    return [x, te.compute((n, n), lambda i, j: e[i, j] + 1.0, name="out")]


def by_name(dag: Any) -> dict[str, Any]:
    """The operations of a dag by their names."""
    return {op.name: op for op in dag.ops}
