"""Messages survive being cut in pieces; what is no message is refused."""

import os
import struct
from typing import Any

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.measure import protocol


def test_messages_arrive_in_pieces() -> None:
    messages: list[Any] = [
        {"op": "set", "n": 1},
        {"text": "ä" * 1000},
        {"data": b"\0\xff" * 9},
        {"data": b"", "n": 2},
        {"data": {"bytes": 1, "n": 2}},
        {},
    ]
    data = b"".join(map(protocol.pack, messages))
    reader = protocol.Reader()
    got = [m for i in range(len(data)) for m in reader.feed(data[i : i + 1])]
    assert got == messages
    assert list(protocol.Reader().feed(data)) == messages


def test_a_pipe_carries_messages_both_sides_agree_on() -> None:
    r, w = os.pipe()
    try:
        for message in ({"a": [1.5, None]}, {"data": b"12\n"}, {"data": b""}):
            protocol.write(w, message)
            assert protocol.read(r) == message
        os.close(w)
        assert protocol.read(r) is None
    finally:
        os.close(r)


@pytest.mark.parametrize(
    "data, words",
    [
        (struct.pack(">I", 1 << 31), "cannot be 2147483648 bytes"),
        (struct.pack(">I", 3) + b"{x}", "not JSON"),
        (struct.pack(">I", 2) + b"[]", "not list"),
        (struct.pack(">I", 21) + b'{"data":{"bytes":-1}}', "cannot have -1 bytes behind it"),
        (struct.pack(">I", 22) + b'{"data":{"bytes":"9"}}', "cannot have '9' bytes"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(protocol.ProtocolError, match=words):
        list(protocol.Reader().feed(data))


@pytest.mark.parametrize("message", [{"a": 1}, {"data": b"12"}, {"data": b"1"}])
def test_half_a_message_is_refused_at_the_end(message: dict[str, Any]) -> None:
    with pytest.raises(protocol.ProtocolError, match="bytes are not one message"):
        protocol.unpack(protocol.pack(message)[:-1])
    with pytest.raises(protocol.ProtocolError, match="bytes are not one message"):
        protocol.unpack(protocol.pack(message) * 2)
    assert protocol.unpack(protocol.pack(message)) == message
    r, w = os.pipe()
    try:
        os.write(w, protocol.pack(message)[:-1])
        os.close(w)
        with pytest.raises(TilewrightError, match="closed within a message"):
            protocol.read(r)
    finally:
        os.close(r)
