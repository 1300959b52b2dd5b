"""Large weights apart from the rest of a model, so that they are mapped instead of copied.

A model's message holds its graph, that holds its initializers, and each of those its bytes. Parsing
copies all of it twice. So this walks over the few fields on that way (protobuf's wire format), and
leaves the bytes of large weights where they lie in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""Numbers of fields: of ModelProto, GraphProto, TensorProto."""
LARGE = 1 << 17
"""Bytes from which on a weight is left in the file: more than any has that check.py looks into."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _NotSplit(Exception):
    """The bytes are not what this reads; the parser says what is wrong with them."""


def split(data: Array) -> tuple[bytes, list[Array | None]]:
    """A model's bytes without those of its large weights, and these, for each initializer of its
    graph in order: None of one that is whole."""
    weights: list[Array | None] = []
    try:
        slim = _without(data, (GRAPH, INITIALIZER), weights)
    except _NotSplit:
        return data.tobytes(), []
    return slim, weights


def _without(message: Array, way: Sequence[int], weights: list[Array | None]) -> bytes:
    """A message whose fields of number way[0] are shortened in turn."""
    parts: list[bytes] = []
    kept = 0
    for number, wire, start, begin, end in _fields(message):
        if number != way[0] or wire != _BYTES:
            continue
        inner = message[begin:end]
        short = _without(inner, way[1:], weights) if way[1:] else _tensor(inner, weights)
        parts += [message[kept:start].tobytes(), _varint(number << 3 | _BYTES)]
        parts += [_varint(len(short)), short]
        kept = end
    return b"".join([*parts, message[kept:].tobytes()])


def _tensor(message: Array, weights: list[Array | None]) -> bytes:
    """A tensor's message without its bytes, where they are many."""
    found: Array | None = None
    rest: list[bytes] = []
    for number, wire, start, begin, end in _fields(message) if len(message) >= LARGE else ():
        if number == RAW_DATA and wire == _BYTES and found is None and end - begin >= LARGE:
            found = message[begin:end]
        else:
            rest.append(message[start:end].tobytes())
    weights.append(found)
    return message.tobytes() if found is None else b"".join(rest)


def _fields(message: Array) -> Iterator[tuple[int, int, int, int, int]]:
    """Number and wire type of each field; where it starts, where its content begins, and ends."""
    at, size = 0, len(message)
    while at < size:
        start = at
        key, at = _read(message, at)
        number, wire = key >> 3, key & 7
        begin = at
        if wire == _VARINT:
            _, end = _read(message, at)
        elif wire == _BYTES:
            length, begin = _read(message, at)
            end = begin + length
        elif wire in (_FIXED32, _FIXED64):
            end = at + (4 if wire == _FIXED32 else 8)
        else:
            raise _NotSplit
        if end > size:
            raise _NotSplit
        yield number, wire, start, begin, end
        at = end


def _read(message: Array, at: int) -> tuple[int, int]:
    """A number of variable length, and where the next byte is."""
    value = 0
    for k, byte in enumerate(message[at : at + 10].tolist()):
        value |= (byte & 127) << 7 * k
        if byte < 128:
            return value, at + k + 1
    raise _NotSplit


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
