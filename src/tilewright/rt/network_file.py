"""Networks as files: one file that holds all that running takes.

    bytes        what
    8            magic
    8            version (int32), 4 bytes of zero
    6 * 8        offsets and sizes of the description, the code and the weights
    32           SHA-256 of all of the file before the weights, these 32 bytes being zero
    ...          the description, JSON: inputs, outputs, plan, kernels, target, checksum of weights
    ...          the code, a shared object, at a multiple of 64
    ...          the weights, at a multiple of 4096; each array at a multiple of 64

Integers are little-endian. All but the weights is compared with its checksum when a file is opened,
so what is damaged is refused before it is run; weights are mapped, read as they are used and shared
by all processes that have the file open; they are compared on request. A checksum says that a file
is as it was written, not who wrote it: it holds code, and loading it runs that code. The same
network gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.aligned import ALIGNMENT
from ..base.errors import TilewrightError
from ..base.files import open_file
from .files import as_path, replacing
from .plan import Array

MAGIC = b"\x93TWNET\r\n"
VERSION = 1
_HEAD = struct.Struct("<8si4x6Q32s")
_SUM_AT = _HEAD.size - 32
_PAGE = 4096


class Parts(NamedTuple):
    """What a file holds: `weights` are its bytes, mapped where the file was read."""

    description: dict[str, Any]
    code: memoryview
    weights: memoryview


def places_of(weights: Sequence[Array]) -> list[int]:
    """Where each array lies in the weights, and how long these are, at the end."""
    places, end = [], 0
    for array in weights:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        places.append(start)
        end = start + array.nbytes
    return [*places, end]


def write(
    path: str | os.PathLike[str],
    description: Mapping[str, Any],
    code: bytes,
    weights: Sequence[Array],
) -> None:
    """Write a file, all of it or nothing."""
    places = places_of(weights)
    checksum = hashlib.sha256()
    pieces: list[memoryview | bytes] = []
    for array, start, end in zip(weights, places, places[1:]):
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        pieces += [raw.data, bytes(end - start - raw.nbytes)]
    for piece in pieces:
        checksum.update(piece)
    told = {**description, "weights_sha256": checksum.hexdigest()}
    text = json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    code_at = -(-(_HEAD.size + len(text)) // ALIGNMENT) * ALIGNMENT
    weights_at = -(-(code_at + len(code)) // _PAGE) * _PAGE
    where = (_HEAD.size, len(text), code_at, len(code), weights_at, places[-1])
    first = bytearray(weights_at)
    _HEAD.pack_into(first, 0, MAGIC, VERSION, *where, bytes(32))
    first[_HEAD.size : _HEAD.size + len(text)] = text
    first[code_at : code_at + len(code)] = code
    first[_SUM_AT : _HEAD.size] = hashlib.sha256(first).digest()
    with replacing(path) as temporary, open(temporary, "wb") as out:
        out.write(first)
        for piece in pieces:
            out.write(piece)


def is_network(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like one of these; not where it cannot be read."""
    try:
        with open_file(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read(path: str | os.PathLike[str], verify: bool = False) -> Parts:
    """What a file holds; `verify`: compare the weights, too, with their checksum.

    Raises TilewrightError where it cannot be read, is not a network, is of another version, or was
    cut short or damaged.
    """
    path = as_path(path)
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            whole = memoryview(
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            )
    except OSError as error:
        raise TilewrightError(f"cannot read {path}: {error.strerror or error}") from None
    if bytes(whole[: len(MAGIC)]) != MAGIC:
        raise TilewrightError(
            f"{path} is not a saved network; net.save(path) or `tilewright compile` makes one"
        )
    if size < _HEAD.size:
        raise TilewrightError(f"{path} was cut short: it has {size} bytes")
    _, version, *where, checksum = _HEAD.unpack_from(whole)
    if version != VERSION:
        raise TilewrightError(
            f"{path} has format version {version}, this tilewright reads {VERSION}: save it again"
        )
    return _parts(path, whole, where, checksum, verify)


def _parts(
    path: Path, whole: memoryview, where: Sequence[int], checksum: bytes, verify: bool
) -> Parts:
    text_at, text_size, code_at, code_size, weights_at, weights_size = where
    ends = (text_at + text_size, code_at + code_size, weights_at, weights_at + weights_size)
    if len(whole) < ends[3]:
        raise TilewrightError(f"{path} was cut short: {len(whole)} of {ends[3]} bytes are there")
    found = hashlib.sha256(whole[:_SUM_AT])
    found.update(bytes(32))
    found.update(whole[_HEAD.size : weights_at])
    if list(ends) != sorted(ends) or len(whole) != ends[3] or found.digest() != checksum:
        raise TilewrightError(f"{path} was damaged: its checksum is not that of what it holds")
    weights = whole[weights_at:]
    try:
        description: dict[str, Any] = json.loads(bytes(whole[text_at : ends[0]]))
        wanted = description["weights_sha256"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TilewrightError(
            f"{path} was damaged: its description cannot be read: {error}"
        ) from None
    if verify and hashlib.sha256(weights).hexdigest() != wanted:
        raise TilewrightError(f"{path} was damaged: its weights do not have their checksum")
    return Parts(description, whole[code_at : ends[1]], weights)


def arrays_in(weights: memoryview, rows: Sequence[Any]) -> list[Array]:
    """Read-only views of the weights, each of a row (NumPy dtype, shape, place)."""
    found = []
    for dtype, shape, start in rows:
        kind, count = np.dtype(dtype), int(np.prod(shape, dtype=np.int64))
        if start < 0 or start + count * kind.itemsize > len(weights):
            raise ValueError("an array behind the end of the weights")
        found.append(np.frombuffer(weights, kind, count, start).reshape(shape))
    return found
