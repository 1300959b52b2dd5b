"""Einsum: by products of matrices, which are fast, wherever it is one.

Operands are joined two at a time, the pair with the smallest result first. Indices of the two that
nothing else reads are summed: in one of them by a reduction, in both by the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

from ..ir import Value
from .convert import Builder, Converter, OnnxNode
from .products import product

_PRIVATE = 0xE000  # characters that stand for nothing

Term = tuple[Value, str]
"""A value and the letters of its dimensions, each once."""


def _parse(node: OnnxNode, values: Sequence[Value]) -> tuple[list[str], str]:
    """The letters of each operand's dimensions and of the result's. Dimensions of an ellipsis have
    letters of their own, counted from the last one."""
    equation = "".join(str(node.get("equation", "")).split())
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(values):
        raise node.error(f"equation {equation!r} has {len(parts)} operands, got {len(values)}")
    terms = []
    most = 0
    for part, v in zip(parts, values):
        extra = len(v.shape) - len(part.replace("...", ""))
        if extra < 0 or (extra and "..." not in part):
            raise node.error(f"{part!r} of equation {equation!r} does not fit {v!r}")
        most = max(most, extra)
        terms.append(part.replace("...", _ellipsis(extra)))
    if arrow:
        result = right.replace("...", _ellipsis(most))
    else:
        letters = "".join(terms)
        once = sorted(c for c in {*letters} if c.isalpha() and letters.count(c) == 1)
        result = _ellipsis(most) + "".join(once)
    known = {*"".join(terms)}
    if any(not c.isalpha() and ord(c) < _PRIVATE for c in known):
        raise node.error(f"equation {equation!r} has something else than letters")
    if len({*result}) != len(result) or not {*result} <= known:
        raise node.error(f"equation {equation!r} repeats or invents an index in its result")
    return terms, result


def _ellipsis(count: int) -> str:
    return "".join(chr(_PRIVATE + k) for k in reversed(range(count)))


def _only_once(b: Builder, v: Value, letters: str) -> Term:
    """The diagonal of dimensions that have one letter."""
    unique = "".join(dict.fromkeys(letters))
    if len(unique) == len(letters):
        return v, letters
    places = tuple(unique.index(c) for c in letters)
    return b.add("diagonal", [v], places=places), unique


def _arranged(b: Builder, term: Term, letters: str) -> Value:
    v, own = term
    axes = tuple(own.index(c) for c in letters)
    return v if axes == tuple(range(len(own))) else b.add("transpose", [v], axes=axes)


def _summed(b: Builder, term: Term, keep: set[str]) -> Term:
    """Without the dimensions that nothing else has."""
    v, own = term
    axes = [k for k, c in enumerate(own) if c not in keep]
    if not axes:
        return term
    out = b.add("reduce", [v], type="sum", axes=axes, keepdims=False)
    return out, "".join(c for c in own if c in keep)


def _joined(b: Builder, node: OnnxNode, x: Term, y: Term, keep: set[str]) -> Term:
    """The product of two terms, summed over what both have and nothing else."""
    x, y = _summed(b, x, keep | {*y[1]}), _summed(b, y, keep | {*x[1]})
    size = {c: d for v, own in (x, y) for c, d in zip(own, v.shape)}
    batch = "".join(c for c in x[1] if c in y[1] and c in keep)
    inner = "".join(c for c in x[1] if c in y[1] and c not in keep)
    rows = "".join(c for c in x[1] if c not in y[1])
    columns = "".join(c for c in y[1] if c not in x[1])
    letters = batch + rows + columns
    shape = tuple(size[c] for c in letters)
    extents = [tuple(size[c] for c in part) for part in (batch, rows, inner, columns)]
    n_batch, n_rows, n_inner, n_columns = map(prod, extents)
    left, right = _arranged(b, x, batch + rows + inner), _arranged(b, y, batch + inner + columns)
    if not inner:
        left = b.add("reshape", [left], shape=(*extents[0], *extents[1], *[1] * len(columns)))
        right = b.add("reshape", [right], shape=(*extents[0], *[1] * len(rows), *extents[3]))
        return b.add("multiply", [left, right], node.name), letters
    many = (n_batch,) if batch else ()
    left = b.add("reshape", [left], shape=(*many, n_rows, n_inner))
    right = b.add("reshape", [right], shape=(*many, n_inner, n_columns))
    out = product(b, node, left, right)
    return b.add("reshape", [out], node.name, shape=shape), letters


def einsum(b: Builder, node: OnnxNode) -> Value:
    values = [node.input(i) for i in range(len(node.inputs))]
    letters, result = _parse(node, values)
    terms = [_only_once(b, v, own) for v, own in zip(values, letters)]
    size: dict[str, int] = {}
    for v, own in terms:
        for c, d in zip(own, v.shape):
            if size.get(c, 1) == 1:
                size[c] = d
            elif d not in (1, size[c]):
                raise node.error(f"an index has extents {size[c]} and {d}")
    terms = [_without_ones(b, term, size) for term in terms]
    while len(terms) > 1:
        pairs = combinations(range(len(terms)), 2)
        i, j = min(pairs, key=lambda pair: _result_size(terms, pair, result, size))
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        keep = {*result}.union(*(own for _, own in rest))
        terms = [_joined(b, node, terms[i], terms[j], keep), *rest]
    out = _summed(b, terms[0], {*result})
    return _arranged(b, out, result)


def _without_ones(b: Builder, term: Term, size: dict[str, int]) -> Term:
    """Without dimensions of extent 1 that another operand's stretch."""
    v, own = term
    kept = [k for k, (c, d) in enumerate(zip(own, v.shape)) if d == size[c]]
    if len(kept) == len(own):
        return term
    shape = tuple(v.shape[k] for k in kept)
    return b.add("reshape", [v], shape=shape), "".join(own[k] for k in kept)


def _result_size(
    terms: Sequence[Term], pair: tuple[int, int], result: str, size: dict[str, int]
) -> int:
    others = {*result}.union(*(own for k, (_, own) in enumerate(terms) if k not in pair))
    both = {*terms[pair[0]][1], *terms[pair[1]][1]}
    return prod(size[c] for c in both & others)


CONVERTERS: dict[str, Converter] = {"Einsum": einsum}
