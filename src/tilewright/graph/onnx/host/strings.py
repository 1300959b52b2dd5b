"""Operators of strings: joined, split, normalised, matched."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, check_room, required
from .move import broadcastable
from .regex import compiled


def _concat(node: HostNode) -> list[Any]:
    x, y = required(node, 0), required(node, 1)
    broadcastable(node, x, y)
    return [np.asarray(x + y, object)]


def _split(node: HostNode) -> list[Any]:
    x = required(node, 0)
    delimiter = node.get("delimiter", "")
    most = node.get("maxsplit", -1)
    if delimiter:
        parts = [text.split(delimiter, most) for text in x.reshape(-1)]
    else:
        parts = [text.strip().split(None, most) for text in x.reshape(-1)]
    counts = np.array([len(p) for p in parts], np.int64)
    width = int(counts.max(initial=0))
    check_room(node, (*x.shape, width), x.dtype)
    found = np.full((len(parts), width), "", object)
    for row, texts in zip(found, parts):
        row[: len(texts)] = texts
    return [found.reshape(*x.shape, width), counts.reshape(x.shape)]


def _normalize(node: HostNode) -> list[Any]:
    """Upper and lower case are Unicode's, whatever the locale."""
    x: Array = required(node, 0)
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise node.error(f"it takes shape [C] or [1, C], got {list(x.shape)}")
    texts = x.reshape(-1).tolist()
    stopwords = node.get("stopwords") or []
    if node.get("is_case_sensitive", 0):
        dropped = {*stopwords}
        texts = [t for t in texts if t not in dropped]
    else:
        dropped = {s.lower() for s in stopwords}
        texts = [t for t in texts if t.lower() not in dropped]
    action = node.get("case_change_action", "NONE")
    if action not in ("NONE", "LOWER", "UPPER"):
        raise node.error(f"case_change_action {action!r}; there are NONE, LOWER, UPPER")
    if action != "NONE":
        texts = [t.lower() if action == "LOWER" else t.upper() for t in texts]
    found = np.array(texts or [""], object)
    return [found if x.ndim == 1 else found[None]]


def _matches(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    pattern = compiled(node, node.get("pattern", ""))
    found = [pattern.fullmatch(text) is not None for text in x.reshape(-1)]
    return [np.array(found, bool).reshape(x.shape)]


def _tf_idf(node: HostNode) -> list[Any]:
    x: Array = required(node, 0)
    texts, numbers = node.get("pool_strings"), node.get("pool_int64s")
    if bool(texts) == bool(numbers):
        raise node.error("it needs either pool_strings or pool_int64s")
    if (x.dtype.kind == "O") != bool(texts):
        raise node.error("its input and its pool must both be strings, or both be numbers")
    pool, starts, places = node.kept("pool", _pool)
    if x.ndim not in (1, 2):
        raise node.error(f"it takes one or two dimensions, got shape {list(x.shape)}")
    rows = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(x.shape[0] if x.ndim == 2 else 1, 0)
    words, known = node.kept("words", lambda _: np.unique(pool, return_inverse=True))
    tokens = _codes(words, rows)
    width = int(places.max(initial=-1)) + 1
    check_room(node, (len(rows), width), np.dtype(np.float32))
    counts = np.zeros((len(rows), width), np.float32)
    most, least, skips = (node.get(n, 0) for n in ("max_gram_length", "min_gram_length",
                                                   "max_skip_count"))  # fmt: skip
    for length in range(least, min(most, len(starts)) + 1):
        begin = starts[length - 1]
        end = starts[length] if length < len(starts) else len(pool)
        grams = known[begin:end].reshape(-1, length)
        first = sum((b - a) // (k + 1) for k, (a, b) in enumerate(pairwise(starts[:length])))
        columns = places[first : first + len(grams)]
        # a gram of one word has nothing to skip
        for step in range(1, 2 + (skips if length > 1 else 0)):
            windows = tokens.shape[1] - (length - 1) * step
            if windows > 0 and len(grams):
                at = np.arange(windows)[:, None] + step * np.arange(length)
                _count(counts, tokens[:, at], grams, columns, len(words))
    return [_weighted(node, counts, places).reshape(*x.shape[:-1], width)]


def _pool(node: HostNode) -> tuple[Array, list[int], Array]:
    """The words of the n-grams, where those of each length begin, and their places in the
    result."""
    texts, numbers = node.get("pool_strings"), node.get("pool_int64s")
    pool = np.array(texts, object) if texts else np.array(numbers, np.int64)
    starts = [int(n) for n in node.get("ngram_counts", ())]
    places = np.array(node.get("ngram_indexes", ()), np.int64)
    ends = [*starts[1:], len(pool)]
    sizes = [b - a for a, b in zip(starts, ends)]
    wrong = [n for k, n in enumerate(sizes) if n < 0 or n % (k + 1)]
    grams = sum(n // (k + 1) for k, n in enumerate(sizes))
    if not starts or starts[0] != 0 or wrong or grams != len(places) or (places < 0).any():
        raise node.error(
            f"ngram_counts {starts} and {len(places)} ngram_indexes of a pool of {len(pool)}"
        )
    if not 1 <= node.get("min_gram_length", 0) <= node.get("max_gram_length", 0):
        raise node.error("min_gram_length must be 1 to max_gram_length")
    return pool, starts, places


def _codes(words: Array, x: Array) -> Array:
    """The index of each element among sorted words, -1 where it is none of them."""
    at = np.minimum(np.searchsorted(words, x), len(words) - 1)
    return np.where(words[at] == x, at, -1)


def _count(counts: Array, windows: Array, grams: Array, columns: Array, words: int) -> None:
    """Add the n-grams found in `windows` (rows, windows, words of one) to the counts.

    Prefixes get a number, longer by a word at each step, so that no number grows with the length.
    """
    wanted, found = grams[:, 0], windows[..., 0]
    for k in range(1, grams.shape[1]):
        prefixes, wanted = np.unique(wanted * words + grams[:, k], return_inverse=True)
        known = (found >= 0) & (windows[..., k] >= 0)
        found = np.where(known, _codes(prefixes, found * words + windows[..., k]), -1)
    order = np.argsort(wanted, kind="stable")
    at = _codes(wanted[order], found)
    rows = np.broadcast_to(np.arange(len(counts))[:, None], at.shape)
    np.add.at(counts, (rows[at >= 0], columns[order[at[at >= 0]]]), 1)


def _weighted(node: HostNode, counts: Array, places: Array) -> Array:
    mode = node.get("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise node.error(f"mode {mode!r}; there are TF, IDF, TFIDF")
    if mode == "TF":
        return counts
    given = node.get("weights") or [1.0] * len(places)
    if len(given) != len(places):
        raise node.error(f"{len(given)} weights of {len(places)} n-grams")
    weights = np.zeros(counts.shape[1], np.float32)
    weights[places] = given
    return np.asarray((np.minimum(counts, 1) if mode == "IDF" else counts) * weights)


FUNCTIONS: dict[str, HostFunction] = {
    "RegexFullMatch": _matches,
    "StringConcat": _concat,
    "StringNormalizer": _normalize,
    "StringSplit": _split,
    "TfIdfVectorizer": _tf_idf,
}
