"""Messages survive being cut in pieces; what is no message is refused."""

import os
import struct
from typing import Any

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.measure import protocol


def test_messages_arrive_in_pieces() -> None:
    messages: list[Any] = [{"op": "set", "n": 1}, {"text": "ä" * 1000}, {}]
    data = b"".join(map(protocol.pack, messages))
    reader = protocol.Reader()
    got = [m for i in range(len(data)) for m in reader.feed(data[i : i + 1])]
    assert got == messages
    assert list(protocol.Reader().feed(data)) == messages


def test_a_pipe_carries_messages_both_sides_agree_on() -> None:
    r, w = os.pipe()
    try:
        protocol.write(w, {"a": [1.5, None]})
        assert protocol.read(r) == {"a": [1.5, None]}
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
    ],
)
def test_what_is_no_message_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(protocol.ProtocolError, match=words):
        list(protocol.Reader().feed(data))


def test_half_a_message_is_refused_at_the_end() -> None:
    r, w = os.pipe()
    try:
        os.write(w, protocol.pack({"a": 1})[:-1])
        os.close(w)
        with pytest.raises(TilewrightError, match="closed within a message"):
            protocol.read(r)
    finally:
        os.close(r)
