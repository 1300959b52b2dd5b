"""Resizing of images in one, two and three dimensions: the nearest elements, or sums of weighted
neighbours along each dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import cast, const, convert
from ...tensor.compute import compute
from ...tensor.tensor import Tensor
from ..layouts import layout_parts
from ..nn.utils import named
from ..transform import INJECTIVE

WIDE = "float32"
_MODES = (
    "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
_EPSILON = 1e-5  # before rounding down (or up), for places that are whole but for the last bits


@dataclass(frozen=True)
class Rule:
    """How a dimension is resized: the method, which place of the data an element of the result
    stands at, how places are rounded, and the kernel of cubic interpolation."""

    method: str
    mode: str
    rounding: str = ""
    alpha: float = -0.5
    exclude: bool = False

    def check(self) -> None:
        if self.method not in ("nearest_neighbor", "linear", "cubic"):
            raise TilewrightError(
                f"Unknown resize method {self.method!r}: nearest_neighbor, linear or cubic"
            )
        if self.mode not in _MODES:
            raise TilewrightError(
                f"Unsupported coordinate_transformation_mode {self.mode!r}: {', '.join(_MODES)}"
            )


def place(x: Any, have: Any, want: Any, mode: str, ends: tuple[Any, Any] = (0.0, 1.0)) -> Any:
    """Where element `x` of `want` stands among `have`, a number of float32; `ends`: those of the
    part that is taken, as shares of the whole, for tf_crop_and_resize."""
    at, size, whole = cast(WIDE, x), cast(WIDE, have), cast(WIDE, want)
    half, one = const(0.5, WIDE), const(1, WIDE)
    scale = size / whole
    if mode == "half_pixel":
        return (at + half) * scale - half
    if mode == "align_corners":
        return (size - one) / O.max(whole - one, one) * at
    if mode == "asymmetric":
        return scale * at
    if mode == "pytorch_half_pixel":
        return O.if_then_else(whole > one, (at + half) * scale - half, const(0, WIDE))
    if mode == "tf_half_pixel_for_nn":
        return (at + half) * scale
    start, end = (cast(WIDE, e) for e in ends)
    several = start * (size - one) + at * (end - start) * (size - one) / O.max(whole - one, one)
    return O.if_then_else(whole > one, several, half * (start + end) * (size - one))


def _nearest(at: Any, rule: Rule) -> Any:
    rounding = rule.rounding or ("round" if rule.mode == "align_corners" else "floor")
    half, small = const(0.5, WIDE), const(_EPSILON, WIDE)
    ways: dict[str, Callable[[], Any]] = {
        "round": lambda: O.round(at),
        "round_prefer_floor": lambda: O.ceil(at - half),
        "round_prefer_ceil": lambda: O.floor(at + half),
        "floor": lambda: O.floor(at + small),
        "ceil": lambda: O.ceil(at - small),
    }
    if rounding not in ways:
        raise TilewrightError(f"Unknown rounding method {rounding!r}: {', '.join(ways)}")
    return cast("int32", ways[rounding]())


def neighbours(at: Any, have: Any, rule: Rule) -> list[tuple[Any, Any]]:
    """The elements that count at a place of a dimension, and how much; None: the whole."""
    if rule.method == "nearest_neighbor":
        return [(_inside(_nearest(at, rule), have), None)]
    low = cast("int32", O.floor(at))
    t = at - O.floor(at)
    one = const(1, WIDE)
    if rule.method == "linear":
        return [(_inside(low, have), one - t), (_inside(low + 1, have), t)]
    a = const(rule.alpha, WIDE)
    t2, t3 = t * t, t * t * t
    weights = [
        a * (t3 - t2 * 2 + t),
        (a + 2) * t3 - (a + 3) * t2 + one,
        -(a + 2) * t3 + (a * 2 + 3) * t2 - a * t,
        a * t2 - a * t3,
    ]
    if rule.exclude:
        zero = const(0, WIDE)
        weights = [
            O.if_then_else(O.any(low + k < 0, low + k >= have), zero, w)
            for k, w in zip((-1, 0, 1, 2), weights)
        ]
        whole = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [w / whole for w in weights]
    return [(_inside(low + k, have), w) for k, w in zip((-1, 0, 1, 2), weights)]


def _inside(index: Any, have: Any) -> Any:
    return O.max(O.min(index, have - 1), 0)


def mixed(read: Callable[[Sequence[Any]], Any], parts: Sequence[list[tuple[Any, Any]]]) -> Any:
    """The sum of all combinations of neighbours, weighted."""
    if all(w is None for near in parts for _, w in near):
        return read([near[0][0] for near in parts])
    total: Any = None
    for chosen in product(*parts):
        value = cast(WIDE, read([index for index, _ in chosen]))
        for _, w in chosen:
            value = value if w is None else value * w
        total = value if total is None else total + value
    return total


def _read(data: Tensor, i: Sequence[Any], at: Sequence[int], places: Any, rule: Rule) -> Any:
    """What stands at these places of the dimensions `at`, and at index i in others."""

    def read(found: Sequence[Any]) -> Any:
        index = list(i)
        for d, j in zip(at, found):
            index[d] = j
        return data(*index)

    return mixed(read, [neighbours(p, data.shape[d], rule) for p, d in zip(places, at)])


def _outside(places: Sequence[Any], have: Sequence[Any]) -> Any:
    """Whether a place lies outside of the data in some dimension."""
    ends = ((p < const(0, WIDE), p > cast(WIDE, h - 1)) for p, h in zip(places, have))
    return O.any(*(out for pair in ends for out in pair))


def _resized(
    data: Tensor,
    letters: str,
    roi: Any,
    size: Sequence[Any],
    layout: str,
    rule: Rule,
    extrapolation_value: float,
    out_dtype: str | None,
    output_shape: Sequence[Any] | None,
) -> Tensor:
    rule.check()
    names = [x for x, _ in layout_parts(layout)]
    rank = len(letters)
    if len(names) != data.ndim or any(names.count(c) != 1 for c in letters):
        raise TilewrightError(f"{layout} layout is not supported for {data!r}")
    if len(size) != rank:
        raise TilewrightError(f"resize: {rank} sizes are needed, got {list(size)}")
    at = [names.index(c) for c in letters]
    have = [data.shape[d] for d in at]
    want = [convert(n) for n in size]
    crop = rule.mode == "tf_crop_and_resize"
    order = range(rank) if rank < 3 else reversed(range(rank))  # blocks' ends stand width first
    ends = [(roi[k], roi[k + rank]) if crop else (0.0, 1.0) for k in order]
    shape = list(data.shape) if output_shape is None else list(output_shape)
    if output_shape is None:
        for d, n in zip(at, want):
            shape[d] = n
    dtype = out_dtype or data.dtype

    def element(*i: Any) -> Any:
        places = [place(i[d], h, w, rule.mode, e) for d, h, w, e in zip(at, have, want, ends)]

        value = _read(data, i, at, places, rule)
        if crop:
            other = const(extrapolation_value, value.dtype)
            value = O.if_then_else(_outside(places, have), other, value)
        return cast(dtype, value)

    result: Tensor = compute(shape, element, "resize", INJECTIVE)
    return result


_METHODS = {
    "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic", "tricubic": "cubic",
}  # fmt: skip


def _resize_in(plain: str, text: str) -> Callable[..., Tensor]:
    letters = plain[2:]

    def resize(
        data: Tensor,
        roi: Any,
        size: Sequence[Any],
        layout: str = plain,
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        bicubic_alpha: float = -0.5,
        bicubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
        output_shape: Sequence[Any] | None = None,
    ) -> Tensor:
        """Raises TilewrightError where layout does not fit data, or method,
        coordinate_transformation_mode or rounding_method is unknown."""
        how, mode = method.lower(), coordinate_transformation_mode
        kernel = (bicubic_alpha, bool(bicubic_exclude))
        rule = Rule(_METHODS.get(how, how), mode, rounding_method, *kernel)
        rest = (extrapolation_value, out_dtype, output_shape)
        return _resized(data, letters, roi, size, layout, rule, *rest)

    return named(resize, f"resize{len(letters)}d", text)


resize1d = _resize_in(
    "NCW",
    """data (N, C, W), or in another layout with W, with `size` = (W,) elements, of `out_dtype`
    (None: that of `data`). See resize2d.""",
)
resize2d = _resize_in(
    "NCHW",
    """data (N, C, H, W), or in another layout with H and W, with `size` = (H, W) elements,
    of `out_dtype` (None: that of `data`).

    `method`: "nearest_neighbor", "linear" or "cubic" (with `bicubic_alpha`, and without what lies
    outside where `bicubic_exclude`). `coordinate_transformation_mode`: where elements stand, as in
    ONNX: half_pixel, align_corners, asymmetric, pytorch_half_pixel, tf_half_pixel_for_nn, or
    tf_crop_and_resize, of the part `roi` (first ends, then last ones, as shares), outside of
    which it is `extrapolation_value`. `rounding_method`: round, round_prefer_floor,
    round_prefer_ceil, floor or ceil; by default floor, or round where corners are aligned.
    `output_shape`: the result's, where `size` does not tell it.
    """,
)
resize3d = _resize_in(
    "NCDHW",
    """data (N, C, D, H, W), or in another layout, with `size` = (D, H, W) elements. See resize2d;
    `roi` is (W, H, D) of first ends, then of last ones.""",
)


def crop_and_resize(
    data: Tensor,
    boxes: Tensor,
    box_indices: Tensor,
    crop_size: Sequence[Any],
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Parts of images (N, C, H, W), or NHWC, resized to `crop_size` rows and columns: boxes (count,
    4) of first and last row and column, as shares (y1, x1, y2, x2), of image box_indices(box).
    "bilinear" or "nearest_neighbor"; outside of images it is `extrapolation_value` (0). The result
    is of `out_dtype` (None: that of `data`). As TensorFlow's tf.image.crop_and_resize. Raises
    TilewrightError where layout is neither NCHW nor NHWC, and OperandError where `crop_size` holds
    what is neither a number nor an expression."""
    if layout not in ("NCHW", "NHWC"):
        raise TilewrightError(f"crop_and_resize: layout is NCHW or NHWC, got {layout!r}")
    at = [layout.index(c) for c in "HW"]
    have, want = [data.shape[d] for d in at], [convert(n) for n in crop_size]
    rule = Rule("linear" if method == "bilinear" else method, "tf_crop_and_resize", "round")
    rule.check()
    shape = list(data.shape)
    shape[0] = boxes.shape[0]
    for d, n in zip(at, want):
        shape[d] = n
    dtype = out_dtype or data.dtype
    other = 0.0 if extrapolation_value is None else extrapolation_value

    def element(*i: Any) -> Any:
        index = [cast("int32", box_indices(i[0])), *i[1:]]
        ends = [(boxes(i[0], k), boxes(i[0], k + 2)) for k in (0, 1)]
        given = zip(at, have, want, ends)
        places = [place(i[d], h, w, rule.mode, e) for d, h, w, e in given]
        value = cast(WIDE, _read(data, index, at, places, rule))
        return cast(dtype, O.if_then_else(_outside(places, have), const(other, WIDE), value))

    result: Tensor = compute(shape, element, "crop_and_resize", INJECTIVE)
    return result
