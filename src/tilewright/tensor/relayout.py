"""Inputs that lie in memory in the order of a schedule's tiles: layouts as text, and computations
that read an input as one of them says.

A layout lists parts of axes with their lengths: "4k8j16k" is an input read at [k, j] whose axis k
of 64 is split into 4 parts of 16, with j between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

from ..base.errors import TilewrightError
from ..loopir.construct import convert
from ..loopir.expr import Var
from ..loopir.iter import ProducerLoad
from ..loopir.op import floordiv, floormod
from ..loopir.rewrite import Rewriter, handles
from .graph import rewrite_body
from .op import ComputeOp, PlaceholderOp
from .tensor import Tensor, as_index

LAYOUT_FREE_ATTR = "layout_free_placeholders"
"""The attribute of an operation that lists inputs which may lie in memory in any order."""


def layout_parts(layout: str) -> list[tuple[int, str]]:
    """The parts of axes that a layout lists, as lengths and names: of "8i2j", (8, "i") and
    (2, "j"). TilewrightError for a text that is no such layout."""
    parts = [(int(n), name) for n, name in re.findall(r"(\d+)([A-Za-z_]+)", layout)]
    if "".join(f"{number}{name}" for number, name in parts) != layout:
        raise TilewrightError(f"a layout looks like '8i2j4i', got {layout!r}")
    return parts


def get_shape_from_rewritten_layout(rewritten_layout: str, axis_names: Sequence[str]) -> list[int]:
    """The lengths of axes whose parts a layout lists: of "8i2j4i" and ["i", "j"], [32, 2].

    TilewrightError for a text that is no such layout.
    """
    parts = layout_parts(rewritten_layout)
    return [prod(n for n, axis in parts if axis == name) for name in axis_names]


class _Unchecked(Tensor):
    """A tensor that is read at any number of indices."""

    __slots__ = ()

    def __call__(self, *indices: Any) -> ProducerLoad:
        return ProducerLoad(self, [as_index(self, i) for i in indices])


def remove_index_check(tensor: Tensor) -> None:
    """Let a tensor be read at another number of indices than it has dimensions: as one whose layout
    will be another (`rewrite_compute_body`)."""
    tensor.__class__ = _Unchecked


def rewrite_tensor_shape(tensor: Tensor, shape: Sequence[Any]) -> None:
    """Give a placeholder another shape, in place; TilewrightError for another tensor."""
    if not isinstance(tensor.op, PlaceholderOp):
        raise TilewrightError(f"rewrite_tensor_shape takes a placeholder, got {tensor!r}")
    tensor.shape = tensor.op.shape = tuple(map(convert, shape))


class _NewLayout(Rewriter):
    def __init__(self, source: Any, parts: Sequence[tuple[int, str]]) -> None:
        self.source, self.parts = source, parts

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        if e.producer.op is not self.source:
            return ProducerLoad(e.producer, self.exprs(e.indices))
        named = {i.name: i for i in e.indices if isinstance(i, Var)}
        below: dict[str, int] = {}
        indices = []
        for size, name in reversed(self.parts):
            if name not in named:
                raise TilewrightError(f"{self.source.name} is not read at {name}: {e}")
            place = below.get(name, 1)
            below[name] = place * size
            indices.append(floormod(floordiv(named[name], place), size))
        return ProducerLoad(e.producer, indices[::-1])


def rewrite_compute_body(compute_tensor: Tensor, new_layout: str) -> Any:
    """A computation whose one input of free layout (attribute "layout_free_placeholders") lies in
    memory as `new_layout` says, such as "4k8j16k" of an input that is read at [k, j]: its outputs,
    a single one as such. Raises TilewrightError where `compute_tensor` is no te.compute with one
    input of free layout, where a free layout is not like '8i2j4i'."""
    op = compute_tensor.op
    free = op.attrs.get(LAYOUT_FREE_ATTR, ())
    if not isinstance(op, ComputeOp) or len(free) != 1:
        raise TilewrightError(
            f"rewrite_compute_body takes a te.compute with one input of free layout, got {op!r}"
        )
    rewriter = _NewLayout(free[0].op, layout_parts(new_layout))
    made = ComputeOp(op.name, op.tag, op.attrs, op.axis, rewrite_body(op, rewriter.stmt))
    return made.output(0) if made.num_outputs == 1 else made.outputs
