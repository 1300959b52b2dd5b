"""Which keys rows of queries see at all, where constants say so: causal masks and windows.

A key is hidden from a row where the scores' steps (see ops.attention) end with a number that is so
low, whatever the score is, that its power is zero beside those of keys that are seen. Where other
masks come with the data, these may hide all that a row would see, and its result is made of the
hidden ones: then only -infinity hides, of which nothing is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Value
from ..ops.spec import Array

FAR = -1e30  # scores are never near
LEAST_SCALE = 1e-3  # of a number that stays far
Steps = Sequence[tuple[str, tuple[int, ...], tuple[tuple[str, Any], ...]]]


def window_of(beside: Sequence[Value], steps: Steps) -> tuple[int, int] | None:
    """(low, high) of topi's `Sizes.window`, for rows and keys of the last two dimensions of
    scores; `beside`: what the steps read. None where nothing is hidden."""
    if not steps:
        return None
    far = FAR if all(v.data is not None for v in beside) else float("-inf")
    consts = [None, *(v.data for v in beside), *[None] * len(steps)]
    hidden = [_never(), *(_far_below(v.data, far) for v in beside)]
    for op, numbers, _ in steps:
        hidden.append(_after(op, [hidden[n] for n in numbers], [consts[n] for n in numbers]))
    return _diagonals(hidden[-1])


def _never() -> Array:
    return np.zeros((1, 1), bool)


def _far_below(data: Array | None, far: float) -> Array:
    return _never() if data is None or data.dtype.kind != "f" else np.asarray(data <= far)


def _after(op: str, hidden: list[Array], consts: list[Array | None]) -> Array:
    """Where an operation's result is far below, if its inputs are so where `hidden`."""
    if op == "add":
        return hidden[0] | hidden[1]
    if op == "cast":
        return hidden[0]
    if op == "where":
        _, first, second = hidden
        condition = consts[0]
        return first & second if condition is None else np.where(condition, first, second)
    if op in ("multiply", "divide"):
        for own, c in ((0, consts[1]), (1, consts[0] if op == "multiply" else None)):
            if c is not None and c.size == 1 and LEAST_SCALE <= c.item() <= 1 / LEAST_SCALE:
                return hidden[own]
    return _never()


def _diagonals(hidden: Array) -> tuple[int, int] | None:
    """The diagonals between which all lies that is seen."""
    if hidden.ndim < 2 or bool(np.any(hidden.all(-1))):
        return None
    seen: Array = np.any(~hidden.reshape(-1, *hidden.shape[-2:]), 0)
    rows, keys = seen.shape
    if rows == 1 or keys == 1:
        return None
    at = np.arange(rows)
    low = int((seen.argmax(1) - at).min())
    high = int((keys - seen[:, ::-1].argmax(1) - at).max())
    return (low, high) if low > 1 - rows or high < keys else None
