"""What the fuzzer of candidates searches for: the suite's operators in small, and odd ones beside.

Each entry gives tensors, results last; every rule of the search has some computation it applies to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.ops_suite import small_cases
from tilewright import te, tir, topi

INEXACT = ("NRM", "TBS", "softmax", "gelu", "layer norm", "root")


@dataclass(frozen=True)
class Workload:
    """A computation by name; `exact`: small whole numbers go in and come out without rounding."""

    name: str
    make: Callable[[], list[Any]]
    exact: bool


def _matmul(n: int, m: int, k: int, dtype: str = "float32", free: bool = False) -> list[Any]:
    a, b = te.placeholder((n, k), dtype, name="a"), te.placeholder((k, m), dtype, name="b")
    r = te.reduce_axis((0, k), "k")
    attrs = {"layout_free_placeholders": [b]} if free else None
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c", attrs=attrs)
    return [a, b, c]


def _dense(n: int, m: int, k: int) -> list[Any]:
    """The weight is (m, k), as networks have it, and constant."""
    a, w = te.placeholder((n, k), name="a"), te.placeholder((m, k), name="w")
    r = te.reduce_axis((0, k), "k")
    free = {"layout_free_placeholders": [w]}
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * w[j, r], axis=r), name="c", attrs=free)
    bias = te.placeholder((m,), name="bias")
    return [a, w, bias, te.compute((n, m), lambda i, j: c[i, j] + bias[j], name="sum")]


def _two_products() -> list[Any]:
    a, b, c = _matmul(12, 16, 20)
    w = te.placeholder((16, 24), name="w")
    r = te.reduce_axis((0, 16), "r")
    relu = te.compute(c.shape, lambda i, j: te.max(c[i, j], 0.0), name="relu")
    d = te.compute((12, 24), lambda i, j: te.sum(relu[i, r] * w[r, j], axis=r), name="d")
    return [a, b, w, d]


def _gram() -> list[Any]:
    a = te.placeholder((18, 20), name="a")
    r = te.reduce_axis((0, 20), "k")
    return [a, te.compute((18, 18), lambda i, j: te.sum(a[i, r] * a[j, r], axis=r), name="c")]


def _argmax() -> list[Any]:
    a = te.placeholder((6, 70), "int32", name="a")
    r = te.reduce_axis((0, 70), "k")
    pick = te.comm_reducer(
        lambda x, y: (
            tir.Select(tir.any(x[1] > y[1], tir.all(x[1] == y[1], x[0] < y[0])), x[0], y[0]),
            tir.Select(x[1] >= y[1], x[1], y[1]),
        ),
        lambda t0, t1: (tir.const(2**30, t0), te.min_value(t1)),
        name="pick",
    )
    found = te.compute((6,), lambda i: pick((r, a[i, r]), axis=r), name="best")
    return [a, *found] if isinstance(found, (list, tuple)) else [a, found]


def _kept_middle() -> list[Any]:
    """A result that another result reads."""
    a, b, c = _matmul(9, 16, 12)
    return [a, b, c, te.compute(c.shape, lambda i, j: c[i, j] * 2.0 + 1.0, name="d")]


def _wide_pad() -> list[Any]:
    """Rows longer than a vector loop may be, read with a halo."""
    x, w = te.placeholder((5, 96), name="x"), te.placeholder((3, 96), name="w")
    padded = topi.nn.pad(x, (1, 0), (1, 0), name="pad")
    r = te.reduce_axis((0, 3), "r")
    y = te.compute((5, 96), lambda i, c: te.sum(padded[i + r, c] * w[r, c], axis=r), name="y")
    return [x, w, y]


def _transposed_reads() -> list[Any]:
    a, b = te.placeholder((20, 14), name="a"), te.placeholder((16, 20), name="b")
    r = te.reduce_axis((0, 20), "k")
    c = te.compute((14, 16), lambda i, j: te.sum(a[r, i] * b[j, r], axis=r), name="c")
    return [a, b, te.compute((16, 14), lambda j, i: c[i, j] + 1.0, name="d")]


def _elementwise() -> list[Any]:
    a, b = te.placeholder((7, 130), name="a"), te.placeholder((7, 130), name="b")
    c = te.compute(a.shape, lambda i, j: a[i, j] + b[i, j], name="c")
    return [a, b, te.compute(a.shape, lambda i, j: c[i, j] * c[i, j], name="d")]


def _gelu() -> list[Any]:
    a, b, c = _matmul(8, 24, 16)
    half = tir.const(0.5, "float32")
    d = te.compute(
        c.shape, lambda i, j: c[i, j] * half * (1.0 + te.erf(c[i, j] * 0.70710678)), name="d"
    )
    return [a, b, d]


def _row_sums(rows: int, columns: int) -> list[Any]:
    x = te.placeholder((rows, columns), name="x")
    r = te.reduce_axis((0, columns), "r")
    return [x, te.compute((rows,), lambda i: te.sum(x[i, r], axis=r), name="y")]


def _softmax() -> list[Any]:
    x = te.placeholder((6, 40), name="x")
    return [x, topi.nn.softmax(x, axis=-1)]


def _layer_norm() -> list[Any]:
    x, gain = te.placeholder((5, 32), name="x"), te.placeholder((32,), name="gain")
    r, q = te.reduce_axis((0, 32), "r"), te.reduce_axis((0, 32), "q")
    mean = te.compute((5,), lambda i: te.sum(x[i, r], axis=r), name="mean")
    moved = te.compute((5, 32), lambda i, j: x[i, j] - mean[i] / 32.0, name="moved")
    square = te.compute((5,), lambda i: te.sum(moved[i, q] * moved[i, q], axis=q), name="square")
    y = te.compute(
        (5, 32), lambda i, j: moved[i, j] * gain[j] / te.sqrt(square[i] / 32.0 + 1e-3), name="y"
    )
    return [x, gain, y]


def _extern() -> list[Any]:
    """An element-wise stage that only an extern reads: it has to be stored."""
    a = te.placeholder((6, 40), name="a")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="b")

    def doubled(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 6, name="i") as i, ib.for_range(0, 40, name="j") as j:
            target[i, j] = source[i, j] + source[i, j]
        return ib.get()

    e = te.extern((6, 40), [b], doubled, name="e", dtype="float32")
    return [a, te.compute((6, 40), lambda i, j: e[i, j] + 1.0, name="c")]


def _grouped() -> list[Any]:
    """Tiles of the filters cross the borders of the groups."""
    x, w = te.placeholder((5, 9, 12), name="x"), te.placeholder((3, 4, 18), name="w")
    padded = topi.nn.pad(x, (0, 1, 0), (0, 1, 0), name="pad")
    r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 4), "q")
    y = te.compute(
        (5, 9, 18),
        lambda n, i, f: te.sum(padded[n, i + r, f // 6 * 4 + q] * w[r, q, f], axis=[r, q]),
        name="y",
    )
    return [x, w, y]


def _conv(size: int, channels: int, filters: int, dtype: str, sums: str) -> list[Any]:
    x = te.placeholder((size, size, channels), dtype, name="x")
    w = te.placeholder((3, 3, channels, filters), dtype, name="w")
    padded = topi.nn.pad(x, (1, 1, 0), (1, 1, 0), name="pad")
    ry, rx, rc = (te.reduce_axis((0, n), s) for n, s in ((3, "ry"), (3, "rx"), (channels, "rc")))

    def value(i: Any, j: Any, f: Any) -> Any:
        read = padded[i + ry, j + rx, rc].astype(sums) * w[ry, rx, rc, f].astype(sums)
        return te.sum(read, axis=[ry, rx, rc])

    return [x, w, te.compute((size, size, filters), value, name="y")]


def _depthwise(size: int, channels: int, dtype: str) -> list[Any]:
    x = te.placeholder((size, size, channels), dtype, name="x")
    w = te.placeholder((5, 5, channels), dtype, name="w")
    padded = topi.nn.pad(x, (2, 2, 0), (2, 2, 0), name="pad")
    ry, rx = te.reduce_axis((0, 5), "ry"), te.reduce_axis((0, 5), "rx")
    y = te.compute(
        x.shape,
        lambda i, j, c: te.sum(padded[i + ry, j + rx, c] * w[ry, rx, c], axis=[ry, rx]),
        name="y",
    )
    return [x, w, y]


def _batched(batch: int, n: int, m: int, k: int, dtype: str, sums: str) -> list[Any]:
    a = te.placeholder((batch, n, k), dtype, name="a")
    b = te.placeholder((batch, k, m), dtype, name="b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute(
        (batch, n, m),
        lambda p, i, j: te.sum(a[p, i, r].astype(sums) * b[p, r, j].astype(sums), axis=r),
        name="c",
    )
    return [a, b, c]


def _odd() -> list[tuple[str, Callable[[], list[Any]]]]:
    return [
        ("matmul long", lambda: _matmul(3, 4, 600)),
        ("matmul of primes", lambda: _matmul(37, 53, 29)),
        ("matmul of primes, free", lambda: _matmul(23, 67, 31, free=True)),
        ("primes of int32", lambda: _matmul(41, 19, 17, "int32")),
        ("primes of float64", lambda: _matmul(29, 43, 13, "float64")),
        ("batched, odd", lambda: _batched(3, 19, 11, 7, "float32", "float32")),
        ("batched, odd, int8", lambda: _batched(2, 17, 37, 9, "int8", "int32")),
        ("conv 7 5 23", lambda: _conv(7, 5, 23, "float32", "float32")),
        ("conv 7 3 13 of float64", lambda: _conv(7, 3, 13, "float64", "float64")),
        ("conv 5 6 29 of int8", lambda: _conv(5, 6, 29, "int8", "int32")),
        ("depthwise 13 of 10", lambda: _depthwise(13, 10, "float32")),
        ("depthwise 7 of 29", lambda: _depthwise(7, 29, "float64")),
        ("grouped across", _grouped),
        ("sums of primes", lambda: _row_sums(13, 211)),
        ("matmul int32", lambda: _matmul(12, 18, 30, "int32", free=True)),
        ("matmul float64", lambda: _matmul(10, 24, 16, "float64")),
        ("matvec", lambda: _matmul(1, 64, 48)),
        ("dense", lambda: _dense(6, 32, 20)),
        ("two products", _two_products),
        ("gram", _gram),
        ("argmax", _argmax),
        ("kept middle", _kept_middle),
        ("wide pad", _wide_pad),
        ("transposed reads", _transposed_reads),
        ("elementwise", _elementwise),
        ("gelu", _gelu),
        ("row sums", lambda: _row_sums(5, 300)),
        ("long sum", lambda: _row_sums(2, 4096)),
        ("softmax", _softmax),
        ("layer norm", _layer_norm),
        ("extern", _extern),
    ]


def workloads() -> list[Workload]:
    """All computations: the suite's at batch 1 and 2, and the odd ones."""
    found: list[Workload] = []
    for batch in (1, 2):
        for case in small_cases(batch):
            made = (lambda c: lambda: c.func(*c.args))(case)
            found.append(Workload(case.name, made, not case.name.startswith(INEXACT)))
    found += [Workload(n, make, not n.startswith(INEXACT)) for n, make in _odd()]
    return found
