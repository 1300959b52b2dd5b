"""Complex numbers, as pairs of real tensors, and Fourier transforms.

Networks have no complex type: within one, what PyTorch calls a complex tensor is a `Complex`. What
moves elements, or adds them up, does so with both halves (`_HALVES`), by the converter that real
tensors have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import pi, prod
from typing import Any

from ..ir import Value
from ..onnx.convolution import added_windows
from ..onnx.signal import real_inverse, transform
from .convert import Call, Converter

REAL_OF = {"complex64": "float32", "complex128": "float64"}
"""The type of the halves of complex numbers."""


@dataclass(frozen=True)
class Complex:
    """A complex tensor: two real ones of one shape and type."""

    re: Value
    im: Value

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.re.shape

    @property
    def dtype(self) -> str:
        return next(c for c, real in REAL_OF.items() if real == self.re.dtype)


def any_complex(*arguments: Any) -> bool:
    """Whether there is a complex tensor or number among the arguments of a call."""
    return any(
        any_complex(*a)
        if isinstance(a, (list, tuple))
        else any_complex(*a.values())
        if isinstance(a, dict)
        else isinstance(a, (Complex, complex))
        for a in arguments
    )


def _split(c: Call, x: Any) -> tuple[Any, Any]:
    """Both halves of a tensor or number; of a real one with zeros."""
    if isinstance(x, Complex):
        return x.re, x.im
    if isinstance(x, Value):
        x = c.cast(x, c.dtype)
        return x, c.full(x.shape, 0, x.dtype)
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0)


def _half(x: Any, which: str) -> Any:
    """One half of complex arguments, others as they are."""
    if isinstance(x, Complex):
        return getattr(x, which)
    if isinstance(x, complex):
        return x.real if which == "re" else x.imag
    return type(x)(_half(y, which) for y in x) if isinstance(x, (list, tuple)) else x


def _halves(function: Converter) -> Converter:
    """What moves elements or adds them up."""

    def convert(c: Call, *args: Any, **kwargs: Any) -> Any:
        re, im = (
            function(c, *_half(args, w), **{k: _half(v, w) for k, v in kwargs.items()})
            for w in ("re", "im")
        )
        return [*map(Complex, re, im)] if isinstance(re, list) else Complex(re, im)

    return convert


def _made(function: Converter) -> Converter:
    """Tensors of a known number."""

    def convert(c: Call, *args: Any, **kwargs: Any) -> Complex:
        re = function(c, *_half(args, "re"), **kwargs)
        if any(isinstance(a, complex) for a in args):
            return Complex(re, function(c, *_half(args, "im"), **kwargs))
        return Complex(re, c.full(re.shape, 0, re.dtype))

    return convert


def _sum(function: Converter) -> Converter:
    """Sums of two, of which one may be real."""

    def convert(c: Call, x: Any, y: Any, **kwargs: Any) -> Complex:
        pairs = zip(_split(c, x), _split(c, y))
        return Complex(*(function(c, a, b, **kwargs) for a, b in pairs))

    return convert


def _product(function: Converter) -> Converter:
    """Products of two, of which one may be real."""

    def convert(c: Call, x: Any, y: Any) -> Complex:
        if not any_complex(y):
            (a, b), y = _split(c, x), c.cast(y, c.dtype) if isinstance(y, Value) else y
            return Complex(function(c, a, y), function(c, b, y))
        if not any_complex(x):
            (a, b), x = _split(c, y), c.cast(x, c.dtype) if isinstance(x, Value) else x
            return Complex(function(c, x, a), function(c, x, b))
        (a, b), (u, v) = _split(c, x), _split(c, y)
        re = c("subtract", function(c, a, u), function(c, b, v))
        return Complex(re, c("add", function(c, a, v), function(c, b, u)))

    return convert


def _quotient(multiply: Converter, divide: Converter) -> Converter:
    def convert(c: Call, x: Any, y: Any) -> Complex:
        if any_complex(y):
            inverse = Complex(*(c.value(half, c.dtype) for half in _split(c, y)))
            found: Complex = _product(multiply)(c, x, _reciprocal(c, inverse))
            return found
        a, b = _split(c, x)
        return Complex(divide(c, a, y), divide(c, b, y))

    return convert


def _reciprocal(c: Call, x: Complex) -> Complex:
    size = c("add", c("multiply", x.re, x.re), c("multiply", x.im, x.im))
    return Complex(c("divide", x.re, size), c("divide", c("negative", x.im), size))


def _absolute(c: Call, x: Complex) -> Value:
    return c("hypot", x.re, x.im)


def angle(c: Call, x: Any) -> Value:
    if isinstance(x, Complex):
        return c("atan2", x.im, x.re)
    x = c.cast(x, c.dtype)
    turned = c("where", c("less", x, 0), c.number(pi, x.dtype), c.number(0, x.dtype))
    return c("where", c("isnan", x), x, turned) if "float" in x.dtype else turned


def polar(c: Call, size: Value, turned: Value) -> Complex:
    return Complex(*(c("multiply", size, c(op, turned)) for op in ("cos", "sin")))


def conjugate(c: Call, x: Any) -> Any:
    return Complex(x.re, c("negative", x.im)) if isinstance(x, Complex) else x


def exponential(c: Call, x: Complex) -> Complex:
    return polar(c, c("exp", x.re), x.im)


def logarithm(c: Call, x: Complex) -> Complex:
    return Complex(c("log", _absolute(c, x)), angle(c, x))


def power(multiply: Converter) -> Converter:
    """Small whole powers are products."""

    def convert(c: Call, x: Complex, n: Any) -> Complex:
        if isinstance(n, (int, float)) and n in (1, 2, 3):
            found = x
            for _ in range(int(n) - 1):
                found = _product(multiply)(c, found, x)
            return found
        if not isinstance(n, (int, float)) or not isinstance(x, Complex):
            raise c.error(f"{x!r} to the power of {n!r} is not supported")
        size = c("power", _absolute(c, x), float(n))
        return polar(c, size, c("multiply", angle(c, x), float(n)))

    return convert


def _copy(function: Converter) -> Converter:
    """A copy, perhaps of another type."""

    def convert(c: Call, x: Any, **_: Any) -> Any:
        a, b = _split(c, x)
        return Complex(c.cast(a, c.dtype), c.cast(b, c.dtype)) if c.complex else function(c, a)

    return convert


def view_as_real(c: Call, x: Complex) -> Value:
    return c.join([c.reshape(v, (*x.shape, 1)) for v in (x.re, x.im)], len(x.shape))


def view_as_complex(c: Call, x: Value) -> Complex:
    last = len(x.shape) - 1
    return Complex(*(c.reshape(c.part(x, last, k, k + 1), x.shape[:-1]) for k in (0, 1)))


# -- Fourier transforms


def _along(c: Call, x: Any, axis: int, function: Callable[[Value], Value]) -> Any:
    """A function of lines (rows, elements, 1 or 2), along an axis."""
    pairs = view_as_real(c, x) if isinstance(x, Complex) else c.reshape(x, (*x.shape, 1))
    rank = len(pairs.shape)
    order = [k for k in range(rank - 1) if k != axis] + [axis, rank - 1]
    turned = c.transpose(pairs, order)
    outer = turned.shape[:-2]
    y = function(c.reshape(turned, (prod(outer), *turned.shape[-2:])))
    y = c.reshape(y, (*outer, *y.shape[1:]))
    y = c.transpose(y, [order.index(k) for k in range(rank)])
    return view_as_complex(c, y) if y.shape[-1] == 2 else c.reshape(y, y.shape[:-1])


def _scaled(c: Call, x: Any, count: Any, norm: int) -> Any:
    """Divided by how many numbers were transformed (2), by its root (1), or not (0)."""
    if norm == 0:
        return x
    factor = count ** (-0.5 if norm == 1 else -1.0)
    a = Complex(*(c("multiply", v, factor) for v in _split(c, x)))
    return a if isinstance(x, Complex) else a.re


def _complex_along(c: Call, x: Any, axes: Sequence[int], sign: float) -> Any:
    for axis in axes:
        n = x.shape[axis]
        x = _along(c, x, axis, lambda v, n=n: transform(c, v, n, n, sign))  # type: ignore[misc]
    return x


def real_to_complex(c: Call, x: Value, axes: Sequence[int], norm: int, onesided: bool) -> Complex:
    *others, last = c.axes(axes, len(x.shape))
    n, count = x.shape[last], prod(x.shape[a] for a in (*others, last))
    outs = n // 2 + 1 if onesided else n
    found: Complex = _along(c, x, last, lambda v: transform(c, v, n, outs, -1.0))
    scaled: Complex = _scaled(c, _complex_along(c, found, others, -1.0), count, norm)
    return scaled


def complex_to_complex(
    c: Call, x: Complex, axes: Sequence[int], norm: int, forward: bool
) -> Complex:
    axes = c.axes(axes, len(x.shape))
    found = _complex_along(c, x, axes, -1.0 if forward else 1.0)
    scaled: Complex = _scaled(c, found, prod(x.shape[a] for a in axes), norm)
    return scaled


def complex_to_real(c: Call, x: Complex, axes: Sequence[int], norm: int, n: Any) -> Value:
    *others, last = c.axes(axes, len(x.shape))
    count = n * prod(x.shape[a] for a in others)
    x = _complex_along(c, x, others, 1.0)
    found = _along(c, x, last, lambda v: real_inverse(c, v, n))
    if norm != 2 or others:  # the inverse has divided by n
        factor = n * count ** {0: 0.0, 1: -0.5, 2: -1.0}[norm]
        found = c("multiply", found, factor)
    return found  # type: ignore[no-any-return]


def unfold_backward(
    c: Call, x: Value, shape: Sequence[Any], axis: int, size: int, step: int
) -> Value:
    """Windows (.., windows, .., size) added up where they were; stretched along other axes."""
    rank = len(shape)
    axis = c.axis(axis, rank)
    others = [k for k in range(rank) if k != axis]
    x = c.broadcast(x, [x.shape[axis] if k == axis else d for k, d in enumerate(shape)] + [size])
    x = c.transpose(x, (*others, rank, axis))
    outer = x.shape[:-2]
    columns = c.reshape(x, (1, prod(outer) * size, x.shape[-1]))
    y = added_windows(c, columns, (shape[axis],), (size,), (step,), (0, 0), (1,))
    y = c.reshape(y, (*outer, shape[axis]))
    back = [*others, axis]
    return c.transpose(y, [back.index(k) for k in range(rank)])


CONVERTERS: dict[str, Converter] = {
    "view_as_real": view_as_real,
    "view_as_complex": view_as_complex,
    "complex": lambda c, re, im: Complex(re, im),
    "real": lambda c, x: x.re,
    "imag": lambda c, x: x.im,
    "polar": polar,
    "angle": angle,
    "_conj": conjugate,
    "_conj_physical": conjugate,
    "conj_physical": conjugate,
    "resolve_conj": lambda c, x: x,
    "_fft_r2c": real_to_complex,
    "_fft_c2c": complex_to_complex,
    "_fft_c2r": complex_to_real,
    "unfold_backward": unfold_backward,
}

_HALVES = (
    *("view", "_unsafe_view", "reshape", "permute", "transpose", "t", "squeeze", "unsqueeze"),
    *("expand", "slice", "select", "cat", "stack", "split", "split_with_sizes", "unbind", "repeat"),
    *("flip", "roll", "unfold", "diagonal", "index_select", "gather", "index", "constant_pad_nd"),
    *("clone", "alias", "detach", "sum", "mean", "cumsum", "neg", "where", "slice_scatter"),
    *("select_scatter", "unfold_backward", "tril", "triu", "masked_fill"),
)
_KNOWN = ("full", "zeros", "ones", "new_zeros", "new_ones", "scalar_tensor", "new_full")


def of_complex(real: Mapping[str, Converter]) -> dict[str, Converter]:
    """What converts calls with complex numbers, by the converters of real ones."""
    product = _product(real["mul"])
    return {
        **CONVERTERS,
        **{name: _halves(real[name]) for name in _HALVES},
        **{name: _made(real[name]) for name in (*_KNOWN, "zeros_like", "ones_like", "full_like")},
        **{name: _sum(real[name]) for name in ("add", "sub")},
        **{name: _product(real[name]) for name in ("mm", "bmm", "matmul")},
        "mul": product,
        "div": _quotient(real["mul"], real["div"]),
        "reciprocal": _reciprocal,
        "abs": _absolute,
        "exp": exponential,
        "log": logarithm,
        "pow": power(real["mul"]),
        "_to_copy": _copy(real["_to_copy"]),
    }
