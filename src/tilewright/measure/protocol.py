"""Messages between a search and its workers: a length, then JSON text.

A message is an object of JSON, UTF-8, behind its length in bytes as four bytes, big-endian. Its
"data" may be bytes: they follow the JSON, where {"bytes": how many} stands for them. Data only,
never pickles: what a worker reads cannot run code of its own.
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
    data = message.get("data")
    raw = data if isinstance(data, bytes) else b""
    if isinstance(data, bytes):
        message = {**message, "data": {"bytes": len(raw)}}
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) + len(raw) > LIMIT:
        size = len(body) + len(raw)
        raise TilewrightError(f"a message of {size} bytes is above the limit of {LIMIT}")
    return b"".join((_HEAD.pack(len(body)), body, raw))


def unpack(packed: bytes) -> Message:
    """The message of what `pack` gave; ProtocolError for what is none, or more than one."""
    reader = Reader()
    found = list(reader.feed(packed))
    if len(found) != 1 or reader.has_more:
        raise ProtocolError(f"{len(packed)} bytes are not one message")
    return found[0]


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
    message = _parse(body)
    size = _raw_size(message)
    if size is not None:
        raw = _exactly(fd, size) if size else b""
        if raw is None:
            raise ProtocolError("the other side closed within a message")
        message["data"] = raw
    return message


class Reader:
    """Puts messages together from the pieces that arrive."""

    __slots__ = ("_buffer", "_head")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: Message | None = None  # of a message whose bytes are still to come

    @property
    def has_more(self) -> bool:
        """Whether a part of a message has arrived."""
        return bool(self._buffer) or self._head is not None

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now; ProtocolError for what cannot be one."""
        self._buffer += data
        while True:
            if self._head is None:
                if len(self._buffer) < _HEAD.size:
                    return
                end = _HEAD.size + _length(self._buffer[: _HEAD.size])
                if len(self._buffer) < end:
                    return
                self._head = _parse(self._take(end)[_HEAD.size :])
            message, size = self._head, _raw_size(self._head)
            if size is not None:
                if len(self._buffer) < size:
                    return
                message["data"] = self._take(size)
            self._head = None
            yield message

    def _take(self, count: int) -> bytes:
        with memoryview(self._buffer) as view:
            found = bytes(view[:count])
        del self._buffer[:count]
        return found


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


def _raw_size(message: Message) -> int | None:
    """How many bytes follow a message; None where its data are none of them."""
    data = message.get("data")
    if not isinstance(data, dict) or data.keys() != {"bytes"}:
        return None
    size = data["bytes"]
    if not isinstance(size, int) or not 0 <= size <= LIMIT:
        raise ProtocolError(f"a message cannot have {size!r:.50} bytes behind it")
    return size


def _parse(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except ValueError as error:
        raise ProtocolError(f"a message is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"a message is an object, not {type(message).__name__}")
    return message
