"""Messages between a search and its workers: a length, then JSON text.

A message is an object of JSON, UTF-8, behind its length in bytes as four bytes, big-endian. Data
only, never pickles: what a worker reads cannot run code of its own.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any

from ..base.errors import TilewrightError

LIMIT = 1 << 30
_HEAD = struct.Struct(">I")

Message = dict[str, Any]


class ProtocolError(TilewrightError):
    """The other side sent something that is no message."""


def pack(message: Message) -> bytes:
    """The bytes of a message; TilewrightError for one above 1 GiB."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > LIMIT:
        raise TilewrightError(f"a message of {len(body)} bytes is above the limit of {LIMIT}")
    return _HEAD.pack(len(body)) + body


def write(fd: int, message: Message) -> None:
    """Write a message whole; OSError (BrokenPipeError) where nobody reads any more."""
    data = memoryview(pack(message))
    while data:
        data = data[os.write(fd, data) :]


def read(fd: int) -> Message | None:
    """The next message, waiting for it; None where the other side has closed."""
    head = _exactly(fd, _HEAD.size)
    if head is None:
        return None
    body = _exactly(fd, _length(head))
    if body is None:
        raise ProtocolError("the other side closed within a message")
    return _parse(body)


class Reader:
    """Puts messages together from the pieces that arrive."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now; ProtocolError for what cannot be one."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            end = _HEAD.size + _length(self._buffer[: _HEAD.size])
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield _parse(body)


def _exactly(fd: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    missing = count
    while missing:
        part = os.read(fd, min(missing, 1 << 20))
        if not part:
            if missing == count and not parts:
                return None
            raise ProtocolError("the other side closed within a message")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _length(head: bytes | bytearray) -> int:
    length: int = _HEAD.unpack(head)[0]
    if length > LIMIT:
        raise ProtocolError(f"a message cannot be {length} bytes long")
    return length


def _parse(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except ValueError as error:
        raise ProtocolError(f"a message is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"a message is an object, not {type(message).__name__}")
    return message
