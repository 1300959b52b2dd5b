"""Layouts of tensors, such as NCHW16c: upper case letters name dimensions, lower case ones, after
their extents, inner parts of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import const, const_int
from ..tensor.compute import compute
from ..tensor.tensor import Tensor
from .transform import INJECTIVE
from .utils import simplify

Parts = list[tuple[str, int]]


def layout_parts(layout: Any) -> Parts:
    """The letters of a layout in order, each with its extent (0 for whole dimensions)."""
    text = str(getattr(layout, "name", layout)).strip('"')
    found = re.findall(r"(\d*)([A-Za-z])", text)
    if not text or "".join(a + b for a, b in found) != text:
        raise TilewrightError(f"layout {text!r}: letters, lower case ones after their extents")
    parts = [(letter, int(digits or 0)) for digits, letter in found]
    names = [x for x, _ in parts]
    for letter, extent in parts:
        if letter.islower() != bool(extent) or names.count(letter) > 1:
            raise TilewrightError(f"layout {text!r}: {letter!r} is no part of a layout there")
        if letter.islower() and letter.upper() not in names:
            raise TilewrightError(f"layout {text!r}: {letter!r} without {letter.upper()!r}")
    return parts


def _whole(parts: Parts, values: Sequence[Any], letter: str) -> Any:
    """The index along a whole dimension, of the indices of a tensor in a layout."""
    at = {x: v for (x, _), v in zip(parts, values)}
    inner = dict(parts).get(letter.lower(), 0)
    return at[letter] * inner + at[letter.lower()] if inner else at[letter]


def layout_transform(
    array: Tensor, src_layout: str, dst_layout: str, schedule_rule: str = "None"
) -> Tensor:
    """A tensor of one layout in another of the same dimensions. Where an inner part does not divide
    its dimension, zeros follow. `schedule_rule`: an attribute of the operation for schedulers of
    the user's own. Takes any type, which the result keeps. Raises TilewrightError where the layouts
    have not the same axes, where `dst_layout` or `src_layout` is no layout: letters, each once,
    small ones after their extents."""
    if src_layout == dst_layout:
        return array
    source, target = layout_parts(src_layout), layout_parts(dst_layout)
    letters = [x for x, _ in source if x.isupper()]
    if set(letters) != {x for x, _ in target if x.isupper()} or len(source) != array.ndim:
        raise TilewrightError(
            f"layout_transform: {array!r} of layout {src_layout} has not what {dst_layout} has"
        )
    sizes = dict(zip((x for x, _ in source), array.shape))
    inner, outer = dict(source), dict(target)
    extents = {x: sizes[x] * inner.get(x.lower(), 1) for x in letters}
    shape = [
        n or simplify((extents[x] + outer.get(x.lower(), 1) - 1) // outer.get(x.lower(), 1))
        for x, n in target
    ]

    def element(*i: Any) -> Any:
        whole = {x: _whole(target, i, x) for x in letters}
        at = []
        for x, n in source:
            if n:
                at.append(whole[x.upper()] % n)
            else:
                part = inner.get(x.lower(), 0)
                at.append(whole[x] // part if part else whole[x])
        value = array(*at)
        behind = [
            whole[x] < extents[x]
            for x in letters
            if outer.get(x.lower()) and not _divides(extents[x], outer[x.lower()])
        ]
        return O.if_then_else(O.all(*behind), value, const(0, array.dtype)) if behind else value

    attrs = {"schedule_rule": schedule_rule, "src_layout": src_layout, "dst_layout": dst_layout}
    result: Tensor = compute(shape, element, "T_layout_trans", INJECTIVE, attrs)
    return result


def _divides(extent: Any, part: int) -> bool:
    size = const_int(simplify(extent))
    return size is not None and size % part == 0


def auto_scheduler_layout_transform(array: Tensor, src_layout: str, dst_layout: str) -> Tensor:
    """A tensor in the layout that a search chose: names of dimensions with the extent of every part
    before them, outer parts first, as in "8o4i" to "2o4i4o". A part may have its dimension's name
    in small letters, as in "32C" to "2C16c"; TilewrightError for other names. Takes any type, which
    the result keeps."""

    def parts(text: str) -> Parts:
        found = re.findall(r"(\d+)([A-Za-z]+)", text)
        if "".join(a + b for a, b in found) != text:
            raise TilewrightError(f"layout {text!r}: names after their extents")
        return [(name, int(digits)) for digits, name in found]

    both = [parts(src_layout), parts(dst_layout)]
    known = {name for given in both for name, _ in given}
    source, target = ([(x.upper() if x.upper() in known else x, n) for x, n in p] for p in both)
    if {x for x, _ in source} != {x for x, _ in target}:
        raise TilewrightError(f"layouts {src_layout!r} and {dst_layout!r} name other dimensions")

    def element(*i: Any) -> Any:
        whole: dict[str, Any] = {}
        for (name, n), j in zip(target, i):
            whole[name] = whole[name] * n + j if name in whole else j
        at: list[Any] = []
        for name, n in reversed(source):
            last = not any(x == name for x, _ in source[: len(source) - len(at) - 1])
            at.append(whole[name] if last else whole[name] % n)
            whole[name] = whole[name] // n
        return array(*reversed(at))

    result: Tensor = compute(
        [n for _, n in target], element, "auto_scheduler_layout_trans", INJECTIVE
    )
    return result
