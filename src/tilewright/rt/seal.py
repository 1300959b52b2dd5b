"""The checksum at the end of exported modules: what was damaged is refused before it is run.

It says that a file is as it was written, not who wrote it.
"""

from __future__ import annotations

import hashlib

_MARK = b"tilewright-sha256:"
_DIGITS = 64

BLANK = _MARK + b"0" * _DIGITS
"""What a file ends in before `seal`."""


def seal(data: bytes) -> bytes:
    """Data that ends in BLANK, with the checksum filled in."""
    body = data[:-_DIGITS]
    return body + hashlib.sha256(body).hexdigest().encode()


def is_sealed(data: bytes) -> bool:
    """Whether data ends in a seal, right or wrong."""
    return data[: -len(BLANK) + len(_MARK)].endswith(_MARK)


def is_whole(data: bytes) -> bool:
    """Whether data ends in a seal and is as it was sealed."""
    return is_sealed(data) and seal(data) == data
