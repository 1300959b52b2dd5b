"""Sums of products over named dimensions: einsum, tensordot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.expr import const, const_int
from ..tensor.axes import reduce_axis
from ..tensor.compute import compute
from ..tensor.extents import dimension, same_extent
from ..tensor.reduce import sum as reduce_sum
from ..tensor.tensor import Tensor

_DOTS = "..."


def _labels(part: str, rank: int | None, dots: int) -> list[Any]:
    """The names of dimensions; those that dots stand for are numbers, counted from the last."""
    head, found, tail = part.partition(_DOTS)
    many = dots if rank is None else rank - len(head) - len(tail)
    between: list[Any] = list(range(many - 1, -1, -1)) if found else []
    return [*head, *between, *tail]


def einsum(subscripts: str, *operand: Any) -> Tensor:
    """Einstein's sum, as in NumPy: "ij,jk->ik"; dimensions that the result has not are summed over.
    Without an arrow the result has those that stand once, in the alphabet's order. `...` stands for
    dimensions that are broadcast. Where types differ, the result has the one that arithmetic brings
    them to. Raises TilewrightError where subscripts do not fit the tensors."""
    tensors = (
        list(operand[0])
        if len(operand) == 1 and isinstance(operand[0], (list, tuple))
        else list(operand)
    )
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(tensors):
        raise TilewrightError(
            f"einsum {subscripts!r} is of {len(parts)} tensors, got {len(tensors)}"
        )
    names = [_labels(p, t.ndim, 0) for p, t in zip(parts, tensors)]
    dots = max((sum(isinstance(x, int) for x in of) for of in names), default=0)
    letters = sorted({x for of in names for x in of if isinstance(x, str)})
    if arrow:
        wanted = _labels(output, None, dots)
    else:
        plain = inputs.replace(_DOTS, "")
        wanted = [*range(dots - 1, -1, -1), *(x for x in letters if plain.count(x) == 1)]
    sizes: dict[Any, Any] = {}
    for of, t in zip(names, tensors):
        if len(of) != t.ndim:
            raise TilewrightError(f"einsum {subscripts!r}: {t!r} has not {len(of)} dimensions")
        for x, d in zip(of, t.shape):
            have = sizes.get(x, const(1))
            if const_int(have) == 1:
                sizes[x] = d
            elif const_int(d) != 1 and not same_extent(d, have):
                if None not in (const_int(d), const_int(have)):
                    raise TilewrightError(f"einsum {subscripts!r}: {x!r} is {have} and {d}")
                sizes[x] = O.max(have, d)  # one of them may turn out to be 1
    missing = [x for x in wanted if x not in sizes]
    if missing:
        raise TilewrightError(f"einsum {subscripts!r}: no tensor has dimension {missing[0]!r}")
    steps = {x: reduce_axis((0, sizes[x]), str(x)) for x in sizes if x not in wanted}

    def element(*i: Any) -> Any:
        at: dict[Any, Any] = dict(zip(wanted, i)) | {x: k.var for x, k in steps.items()}
        value: Any = None
        for of, t in zip(names, tensors):
            read = t(*(_place(at[x], d, sizes[x]) for x, d in zip(of, t.shape)))
            value = read if value is None else value * read
        return reduce_sum(value, axis=list(steps.values())) if steps else value

    result: Tensor = compute([sizes[x] for x in wanted], element, "T_einsum")
    return result


def _place(index: Any, extent: Any, whole: Any) -> Any:
    """An index of a dimension, which is repeated where it is of extent 1."""
    if same_extent(extent, whole):
        return index
    return 0 if const_int(extent) == 1 else O.min(index, extent - 1)


def tensordot(a: Tensor, b: Tensor, axes: Any) -> Tensor:
    """Products summed over dimensions: the last `axes` of a with the first of b, or axes[0] of a
    with axes[1] of b (numbers, or as many of each). Where types differ, the result has the one that
    arithmetic brings them to. Raises TilewrightError where axes have not the same extents."""
    if isinstance(axes, int):
        mine: Sequence[int] = range(a.ndim - axes, a.ndim)
        theirs: Sequence[int] = range(axes)
    else:
        mine, theirs = ([x] if isinstance(x, int) else list(x) for x in axes)
    mine, theirs = [dimension(d, a.ndim) for d in mine], [dimension(d, b.ndim) for d in theirs]
    pairs = list(zip(mine, theirs))
    if len(mine) != len(theirs) or any(
        None not in (p := (const_int(a.shape[x]), const_int(b.shape[y]))) and p[0] != p[1]
        for x, y in pairs
    ):
        raise TilewrightError(f"tensordot: dimensions {mine} of {a!r} do not fit {theirs} of {b!r}")
    ks = [reduce_axis((0, a.shape[d]), f"k{n}") for n, d in enumerate(mine)]
    left = [d for d in range(a.ndim) if d not in mine]
    right = [d for d in range(b.ndim) if d not in theirs]

    def element(*i: Any) -> Any:
        at = dict(zip(left, i)) | dict(zip(mine, ks))
        bt = dict(zip(right, i[len(left) :])) | dict(zip(theirs, ks))
        value = a(*(at[d] for d in range(a.ndim))) * b(*(bt[d] for d in range(b.ndim)))
        return reduce_sum(value, axis=ks) if ks else value

    shape = [*(a.shape[d] for d in left), *(b.shape[d] for d in right)]
    result: Tensor = compute(shape, element, "T_tensordot")
    return result
