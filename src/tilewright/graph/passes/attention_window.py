"""Which keys rows of queries see at all, where constants say so: causal masks and windows.

A key is hidden from a row where the scores' steps (see ops.attention) end with a number that is so
low, whatever the score is, that its power is zero beside those of keys that are seen. Where other
masks come with the data, these may hide all that a row would see, and its result is made of the
hidden ones: then only -infinity hides, of which nothing is ever made.

Where a window is all that constants say, the steps that say it are left out: a kernel then compares
numbers of rows and keys where it is at an edge of the window, and reads no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtype import parse
from ..ir import Value
from ..ops.spec import Array

FAR = -1e30  # scores are never near
FAR_IN = {"float16": -65504.0}  # which has no lower one
LEAST_SCALE = 1e-3  # of a number that stays far
Steps = Sequence[tuple[str, tuple[int, ...], tuple[tuple[str, Any], ...]]]


def window_of(beside: Sequence[Value], steps: Steps) -> tuple[int, int] | None:
    """(low, high) of topi's `Sizes.window`, for rows and keys of the last two dimensions of
    scores; `beside`: what the steps read. None where nothing is hidden."""
    return _diagonals(_hidden(beside, steps)[-1]) if steps else None


def without_masks(
    beside: Sequence[Value], steps: Steps, window: tuple[int, int]
) -> tuple[list[Value], Steps] | None:
    """What is left of the steps, and of what they read, if scores outside of a window are hidden
    anyway. None where something inside is hidden too, or no step hides and does nothing else."""
    hidden = _hidden(beside, steps)
    consts = [None, *(v.data for v in beside), *[None] * len(steps)]
    outside = _outside(window, hidden[-1].shape[-2:])
    same = {n: n for n in range(len(hidden))}
    kept: list[int] = []
    for n, (op, numbers, _) in enumerate(steps, len(beside) + 1):
        own = _shown_by(op, [same[k] for k in numbers], hidden, consts)
        if own is not None and bool(np.all(outside | ~hidden[n])):
            same[n] = own
        else:
            kept.append(n)
    last = kept[-1] if kept else 0
    if len(kept) == len(steps) or same[len(hidden) - 1] != last:
        return None
    if not bool(np.all(hidden[-1] == outside)):
        return None
    first = len(beside) + 1
    read = {same[k] for n in kept for k in steps[n - first][1]}
    used = [n for n in range(1, first) if n in read]
    number = {n: k for k, n in enumerate([0, *used, *kept])}
    made = []
    for n in kept:
        op, numbers, attrs = steps[n - first]
        made.append((op, tuple(number[same[k]] for k in numbers), attrs))
    return [beside[n - 1] for n in used], tuple(made)


def _hidden(beside: Sequence[Value], steps: Steps) -> list[Array]:
    """Where scores, what steps read, and what each step makes are far below all others."""
    known = all(v.data is not None for v in beside)
    consts = [None, *(v.data for v in beside), *[None] * len(steps)]
    hidden = [_never(), *(_far_below(v, known) for v in beside)]
    least = 1.0 if any(v.dtype in FAR_IN for v in beside) else LEAST_SCALE
    for op, numbers, _ in steps:
        own, read = [hidden[n] for n in numbers], [consts[n] for n in numbers]
        hidden.append(_after(op, own, read, least))
    return hidden


def _never() -> Array:
    return np.zeros((1, 1), bool)


def _far_below(v: Value, known: bool) -> Array:
    if v.data is None or not parse(v.dtype).is_float:
        return _never()
    far = FAR_IN.get(v.dtype, FAR) if known else float("-inf")
    wide = v.data if v.dtype == "float64" else np.asarray(v.data, "float32")
    return np.asarray(wide <= far)


def _shown_by(
    op: str, numbers: Sequence[int], hidden: Sequence[Array], consts: Sequence[Array | None]
) -> int | None:
    """Of which input a step gives the elements as they are, where these are not hidden."""
    if op == "add":
        for own, other in (numbers, numbers[::-1]):
            mask = consts[other]
            if mask is not None and bool(np.all(hidden[other] | (mask == 0))):
                return own
    elif op == "where" and consts[numbers[0]] is not None:
        for own, other in (numbers[1:], numbers[:0:-1]):
            if consts[own] is None and consts[other] is not None and bool(np.all(hidden[other])):
                return own
    return None


def _after(op: str, hidden: list[Array], consts: list[Array | None], least: float) -> Array:
    """Where an operation's result is far below, if its inputs are so where `hidden`. `least`: of
    scales by which they stay so."""
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
            if c is not None and c.size == 1 and least <= float(c.item()) <= 1 / least:
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


def _outside(window: tuple[int, int], shape: tuple[int, ...]) -> Array:
    rows, keys = shape
    away = np.arange(keys) - np.arange(rows)[:, None]
    return np.asarray((away < window[0]) | (away >= window[1]))
