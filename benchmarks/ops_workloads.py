"""The operators of Ansor's benchmark (OSDI 2020) as tensor expressions.

Channels come last in every tensor; weights are (kernel..., channels in, channels out). Each
workload function takes numbers only, so that it can be registered with the auto-scheduler, and
returns its argument tensors, the output last. Weights of convolutions are constants: their
computation carries the attribute `layout_free_placeholders`, which lets a schedule choose their
layout.
"""

from __future__ import annotations

from typing import Any

from tilewright import te, topi

CAPSULE = 4
FEW_CHANNELS = 8  # half a vector of 16 would be idle


def out_size(size: int, k: int, s: int, p: int, dilation: int = 1) -> int:
    """The extent of a convolution's output."""
    return (size + 2 * p - dilation * (k - 1) - 1) // s + 1


def _pad(x: Any, *sides: int) -> Any:
    """Zeros around x, as many as `sides` says per dimension; x itself where there are none."""
    return topi.nn.pad(x, sides, sides, name="pad") if any(sides) else x


def _free(weight: Any) -> dict[str, Any]:
    return {"layout_free_placeholders": [weight]}


def conv1d(N: int, L: int, CI: int, CO: int, k: int, s: int, p: int) -> list[Any]:
    """C1D: x (N, L, CI), weight (k, CI, CO)."""
    x = te.placeholder((N, L, CI), name="x")
    weight = te.placeholder((k, CI, CO), name="weight")
    padded = _pad(x, 0, p, 0)
    rl, rc = te.reduce_axis((0, k), "rl"), te.reduce_axis((0, CI), "rc")
    y = te.compute(
        (N, out_size(L, k, s, p), CO),
        lambda n, l, co: te.sum(padded[n, l * s + rl, rc] * weight[rl, rc, co], axis=[rl, rc]),
        name="conv1d",
        attrs=_free(weight),
    )
    return [x, weight, y]


def _conv2d(x: Any, weight: Any, s: int, p: int, dilation: int = 1, groups: int = 1) -> Any:
    """The convolution shared by C2D, DIL, GRP and ConvLayer."""
    (N, H, W, _), (k, _, group_ci, CO) = (tuple(map(int, t.shape)) for t in (x, weight))
    padded = _pad(x, 0, p, p, 0)
    rh, rw = te.reduce_axis((0, k), "rh"), te.reduce_axis((0, k), "rw")
    rc = te.reduce_axis((0, group_ci), "rc")
    group_co = CO // groups

    def element(n: Any, h: Any, w: Any, co: Any) -> Any:
        channel = co // group_co * group_ci + rc if groups > 1 else rc
        read = padded[n, h * s + rh * dilation, w * s + rw * dilation, channel]
        return te.sum(read * weight[rh, rw, rc, co], axis=[rh, rw, rc])

    shape = (N, out_size(H, k, s, p, dilation), out_size(W, k, s, p, dilation), CO)
    return te.compute(shape, element, name="conv2d", attrs=_free(weight))


def conv2d(
    N: int, H: int, W: int, CI: int, CO: int, k: int, s: int, p: int, dilation: int = 1,
    groups: int = 1,
) -> list[Any]:  # fmt: skip
    """C2D, DIL and GRP: x (N, H, W, CI), weight (k, k, CI / groups, CO)."""
    x = te.placeholder((N, H, W, CI), name="x")
    weight = te.placeholder((k, k, CI // groups, CO), name="weight")
    return [x, weight, _conv2d(x, weight, s, p, dilation, groups)]


def conv_layer(N: int, H: int, W: int, CI: int, CO: int, k: int, s: int, p: int) -> list[Any]:
    """ConvLayer: relu(conv2d(x, weight) * scale + shift), the last two of shape (CO,)."""
    x = te.placeholder((N, H, W, CI), name="x")
    weight = te.placeholder((k, k, CI, CO), name="weight")
    scale, shift = te.placeholder((CO,), name="scale"), te.placeholder((CO,), name="shift")
    conv = _conv2d(x, weight, s, p)
    norm = te.compute(
        conv.shape,
        lambda n, h, w, co: conv[n, h, w, co] * scale[co] + shift[co],
        name="norm",
    )
    return [x, weight, scale, shift, topi.nn.relu(norm)]


def conv3d(N: int, D: int, H: int, W: int, CI: int, CO: int, k: int, s: int, p: int) -> list[Any]:
    """C3D: x (N, D, H, W, CI), weight (k, k, k, CI, CO)."""
    x = te.placeholder((N, D, H, W, CI), name="x")
    weight = te.placeholder((k, k, k, CI, CO), name="weight")
    padded = _pad(x, 0, p, p, p, 0)
    rd, rh, rw = (te.reduce_axis((0, k), name) for name in ("rd", "rh", "rw"))
    rc = te.reduce_axis((0, CI), "rc")
    y = te.compute(
        (N, *(out_size(size, k, s, p) for size in (D, H, W)), CO),
        lambda n, d, h, w, co: te.sum(
            padded[n, d * s + rd, h * s + rh, w * s + rw, rc] * weight[rd, rh, rw, rc, co],
            axis=[rd, rh, rw, rc],
        ),
        name="conv3d",
        attrs=_free(weight),
    )
    return [x, weight, y]


def depthwise(N: int, H: int, W: int, C: int, k: int, s: int, p: int) -> list[Any]:
    """DEP: x (N, H, W, C), weight (k, k, C)."""
    x = te.placeholder((N, H, W, C), name="x")
    weight = te.placeholder((k, k, C), name="weight")
    padded = _pad(x, 0, p, p, 0)
    rh, rw = te.reduce_axis((0, k), "rh"), te.reduce_axis((0, k), "rw")
    y = te.compute(
        (N, out_size(H, k, s, p), out_size(W, k, s, p), C),
        lambda n, h, w, c: te.sum(
            padded[n, h * s + rh, w * s + rw, c] * weight[rh, rw, c], axis=[rh, rw]
        ),
        name="depthwise",
        attrs=_free(weight),
    )
    return [x, weight, y]


def conv2d_transpose(N: int, H: int, W: int, CI: int, CO: int, k: int, s: int, p: int) -> list[Any]:
    """T2D: x (N, H, W, CI), weight (s, s, k / s, k / s, CI, CO), y (N, H, s, W, s, CO).

    y is the image of s H rows and s W columns, the position within a step of s as a dimension of
    its own: the memory is the same. Row h s + a of it takes only the rows (a + p) mod s + s t of
    the kernel, each from one row of x; weight[a, b, t, u] is the kernel's element for these. So
    nothing is computed on the zeros of a dilated input. With fewer channels out than lanes in a
    vector it is `_products_first`. ValueError unless k - s is 2 p and k a multiple of s, which
    makes the image that large.
    """
    if k % s or k - s != 2 * p:
        raise ValueError(f"a kernel of {k} with stride {s} and padding {p} has no {s}-fold image")
    taps = k // s
    x = te.placeholder((N, H, W, CI), name="x")

    def first(step: Any) -> Any:
        return step if (s, p) == (2, 1) else (step + p) // s

    if CO < FEW_CHANNELS:
        return _products_first(x, CO, s, taps, first)
    weight = te.placeholder((s, s, taps, taps, CI, CO), name="weight")
    border = taps - 1
    padded = _pad(x, 0, border, border, 0)
    rh, rw = te.reduce_axis((0, taps), "rh"), te.reduce_axis((0, taps), "rw")
    rc = te.reduce_axis((0, CI), "rc")
    y = te.compute(
        (N, H, s, W, s, CO),
        lambda n, h, a, w, b, co: te.sum(
            padded[n, h + first(a) + border - rh, w + first(b) + border - rw, rc]
            * weight[a, b, rh, rw, rc, co],
            axis=[rh, rw, rc],
        ),
        name="conv2d_transpose",
        attrs=_free(weight),
    )
    return [x, weight, y]


def _products_first(x: Any, CO: int, s: int, taps: int, first: Any) -> list[Any]:
    """T2D by one product of x with all of the kernel, whose elements are then added up where they
    fall: vectors run along the kernel's elements too, of which channels are too few.

    weight is (CI, s s taps taps CO), its columns in the order of the other form's dimensions.
    """
    N, H, W, CI = map(int, x.shape)
    weight = te.placeholder((CI, s * s * taps * taps * CO), name="weight")
    rc = te.reduce_axis((0, CI), "rc")
    product = te.compute(
        (N, H, W, weight.shape[1]),
        lambda n, h, w, e: te.sum(x[n, h, w, rc] * weight[rc, e], axis=rc),
        name="product",
        attrs=_free(weight),
    )
    rh, rw = te.reduce_axis((0, taps), "rh"), te.reduce_axis((0, taps), "rw")

    def element(n: Any, h: Any, a: Any, w: Any, b: Any, co: Any) -> Any:
        row, column = h + first(a) - rh, w + first(b) - rw
        place = (((a * s + b) * taps + rh) * taps + rw) * CO + co
        inside = te.all(row >= 0, row < H, column >= 0, column < W)
        part = te.if_then_else(inside, product[n, row, column, place], 0.0)
        return te.sum(part, axis=[rh, rw])

    y = te.compute((N, H, s, W, s, CO), element, name="conv2d_transpose")
    return [x, weight, y]


def capsule(N: int, H: int, W: int, CI: int, CO: int, k: int, s: int, p: int) -> list[Any]:
    """CAP: a convolution of 4x4 matrices. x (N, H, W, 4, 4, CI), weight (k, k, 4, 4, CI, CO)."""
    x = te.placeholder((N, H, W, CAPSULE, CAPSULE, CI), name="x")
    weight = te.placeholder((k, k, CAPSULE, CAPSULE, CI, CO), name="weight")
    padded = _pad(x, 0, p, p, 0, 0, 0)
    rh, rw = te.reduce_axis((0, k), "rh"), te.reduce_axis((0, k), "rw")
    rk, rc = te.reduce_axis((0, CAPSULE), "rk"), te.reduce_axis((0, CI), "rc")
    y = te.compute(
        (N, out_size(H, k, s, p), out_size(W, k, s, p), CAPSULE, CAPSULE, CO),
        lambda n, h, w, i, j, co: te.sum(
            padded[n, h * s + rh, w * s + rw, i, rk, rc] * weight[rh, rw, rk, j, rc, co],
            axis=[rh, rw, rk, rc],
        ),
        name="capsule",
        attrs=_free(weight),
    )
    return [x, weight, y]


def matmul(N: int, n: int, m: int, k: int, constant_b: int = 0) -> list[Any]:
    """GMM: a (n, k) times b (k, m); with N above 1, N such products of (N, n, k) and (N, k, m)."""
    batch = (N,) if N > 1 else ()
    a, b = te.placeholder((*batch, n, k), name="a"), te.placeholder((*batch, k, m), name="b")
    r = te.reduce_axis((0, k), "k")
    attrs = _free(b) if constant_b else None
    if N > 1:
        c = te.compute(
            (N, n, m),
            lambda z, i, j: te.sum(a[z, i, r] * b[z, r, j], axis=r),
            name="matmul",
            attrs=attrs,
        )
    else:
        c = te.compute(
            (n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="matmul", attrs=attrs
        )
    return [a, b, c]


def norm(N: int, n: int, m: int) -> list[Any]:
    """NRM: the square root of the sum of squares of each matrix of x (N, n, m)."""
    x = te.placeholder((N, n, m), name="x")
    i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, m), "j")
    total = te.compute((N,), lambda z: te.sum(x[z, i, j] * x[z, i, j], axis=[i, j]), name="total")
    return [x, te.compute((N,), lambda z: te.sqrt(total[z]), name="norm")]


def scores(N: int, seq: int, heads: int, dim: int) -> list[Any]:
    """TBS: softmax of q k^T for each head, as BERT's attention; q and k (N, seq, heads, dim)."""
    q = te.placeholder((N, seq, heads, dim), name="q")
    k = te.placeholder((N, seq, heads, dim), name="k")
    qt = te.compute((N, heads, seq, dim), lambda n, h, l, d: q[n, l, h, d], name="qt")
    kt = te.compute((N, heads, dim, seq), lambda n, h, d, l: k[n, l, h, d], name="kt")
    d = te.reduce_axis((0, dim), "d")
    product = te.compute(
        (N, heads, seq, seq),
        lambda n, h, i, j: te.sum(qt[n, h, i, d] * kt[n, h, d, j], axis=d),
        name="product",
    )
    return [q, k, topi.nn.softmax(product, axis=-1)]
