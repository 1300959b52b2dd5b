"""Tensor maps of the stub: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col ask of their
arguments, by their documentation (CUDA driver API, "Tensor Map Object Management"), and launches of
kernels that take them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tests.stub_cuda import names
from tests.stub_cuda.state import Refused, State
from tilewright.base.tensor_map import Pixels, TensorMap

_MARK = b"a tensor map of the stub's"
_BYTES, _ALIGN = 128, 128
_SINCE = 12000  # CUDA's version
_KIND: tuple[Any, ...] = (
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p,
    *[ctypes.POINTER(ctypes.c_uint64)] * 2,
)  # fmt: skip
_SIGNED, _NUMBERS = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_uint32)
_MODES = (ctypes.c_int,) * 4
_TILED, _IM2COL = "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col"
_ENCODE = {
    _TILED: ctypes.CFUNCTYPE(*_KIND, _NUMBERS, _NUMBERS, *_MODES),
    _IM2COL: ctypes.CFUNCTYPE(
        *_KIND, _SIGNED, _SIGNED, ctypes.c_uint32, ctypes.c_uint32, _NUMBERS, *_MODES
    ),
}
_CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}  # by the rank
_ITEM = {
    "UINT8": 1,
    "UINT16": 2,
    "FLOAT16": 2,
    "BFLOAT16": 2,
    "UINT64": 8,
    "INT64": 8,
    "FLOAT64": 8,
}
_SPAN = {0: 0, 1: 32, 2: 64, 3: 128}


class CUtensorMap:
    """As cuda-bindings make it: 128 bytes in an object of Python's, aligned to 16 alone."""

    def __init__(self) -> None:
        self._raw = ctypes.create_string_buffer(_BYTES + 2 * _ALIGN)

    def getPtr(self) -> int:
        start = ctypes.addressof(self._raw)
        return start + -start % _ALIGN + 16


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise Refused("INVALID_VALUE", why)


def _type_name(kind: Any) -> str:
    return names.CUtensorMapDataType(kind).name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_")


class MapCalls(State):
    arch: Any
    version: int
    _entries: dict[str, Any] | None = None

    def _cuGetProcAddress(self, symbol: Any, version: Any, flags: Any) -> tuple[int, int]:
        if not isinstance(symbol, bytes) or flags not in (0, 1, 2):
            raise Refused("INVALID_VALUE", f"the address of {symbol!r}, flags {flags!r}")
        if self.number(version, "the version of CUDA", 1) > self.version:
            raise Refused("INVALID_VALUE")
        known = symbol.decode() in _ENCODE and version >= _SINCE
        return (self.entry(symbol.decode()) if known else 0), int(not known)

    def entry(self, name: str) -> int:
        """Where C code, and ctypes, call a function that encodes maps."""
        if self._entries is None:
            called = {_TILED: self._tiled_called, _IM2COL: self._im2col_called}
            self._entries = {n: _ENCODE[n](called[n]) for n in called}
        return ctypes.cast(self._entries[name], ctypes.c_void_p).value or 0

    def _tiled_called(self, to: int, kind: int, rank: int, address: int, *rest: Any) -> int:
        lengths = (rank, rank - 1, rank, rank) if 1 <= rank <= 5 else (0,) * 4
        given = [tuple(values[:n]) for values, n in zip(rest, lengths)]
        return int(self.cuTensorMapEncodeTiled(to, kind, rank, address, *given, *rest[4:])[0])

    def _im2col_called(self, to: int, kind: int, rank: int, address: int, *rest: Any) -> int:
        lengths = (rank, rank - 1, rank - 2, rank - 2) if 3 <= rank <= 5 else (0,) * 4
        given = [tuple(values[:n]) for values, n in zip(rest, lengths)]
        steps = tuple(rest[6][: lengths[0]])
        args = (to, kind, rank, address, *given, *rest[4:6], steps, *rest[7:])
        return int(self.cuTensorMapEncodeIm2col(*args)[0])

    def _cuTensorMapEncodeTiled(self, *args: Any) -> None:
        """As C has it; the binding's own form, without the first, writes into an object of its."""
        if len(args) == 11:
            args = (CUtensorMap().getPtr(), *args)
        to, kind, rank, address, dims, strides, box, steps, *modes = args
        item, span = self._common(to, kind, rank, 1, modes)
        start = self._array(address, item, dims, strides)
        _require(all(0 < n <= 256 for n in box), f"a box of {box}")
        self._finish(to, kind, start, item, dims, strides, box, steps, span, None)

    def _cuTensorMapEncodeIm2col(self, *args: Any) -> None:
        """The same; `pixelsPerColumn` and `channelsPerPixel` are the box of a `TensorMap`."""
        if len(args) == 14:
            args = (CUtensorMap().getPtr(), *args)
        to, kind, rank, address, dims, strides, lower, upper, channels, pixels, steps, *modes = args
        item, span = self._common(to, kind, rank, 3, modes)
        start = self._array(address, item, dims, strides)
        least, most = _CORNERS[rank]
        for corner in (lower, upper):
            inside = all(least <= n <= most for n in corner)
            _require(inside and len(corner) == rank - 2, f"a corner of {corner}, rank {rank}")
        whole = [n + high - low for n, low, high in zip(dims[1:-1], lower, upper)]
        _require(all(n > 0 for n in whole), f"a bounding box of {whole}")
        _require(0 < channels <= 256, f"{channels} channels a pixel")
        _require(0 < pixels <= 1024, f"{pixels} pixels a column")
        of = Pixels(tuple(lower), tuple(upper), tuple(steps[1:-1]))
        self._finish(to, kind, start, item, dims, strides, (channels, pixels), steps, span, of)

    def _common(
        self, to: Any, kind: Any, rank: Any, least: int, modes: Sequence[Any]
    ) -> tuple[int, int]:
        """The bytes of an element, and of the swizzle."""
        _ = self.device
        interleave, swizzle, promotion, fill = modes
        _require(self.arch.capability >= (9, 0), f"{self.arch.name} has no tensor maps")
        _require(to % _ALIGN == 0, f"the map is to be at {to:#x}, no multiple of {_ALIGN}")
        for value, of in (
            (kind, names.CUtensorMapDataType), (interleave, names.CUtensorMapInterleave),
            (swizzle, names.CUtensorMapSwizzle), (promotion, names.CUtensorMapL2promotion),
            (fill, names.CUtensorMapFloatOOBfill),
        ):  # fmt: skip
            _require(value in list(of), f"{value!r} is no {of.__name__}")
        _require(least <= rank <= 5, f"a rank of {rank}")
        plain = interleave == names.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE
        _require(plain, "the stub knows no interleaved layouts")
        return _ITEM.get(_type_name(kind), 4), _SPAN[swizzle]

    def _array(self, address: Any, item: int, dims: Any, strides: Any) -> int:
        """Where the array starts."""
        start = self.number(address, "the address", 1)
        _require(start % 16 == 0, f"the address {start:#x} is no multiple of 16")
        _require(all(0 < n <= 1 << 32 for n in dims), f"dimensions of {dims}")
        _require(all(n % 16 == 0 and n < 1 << 40 for n in strides), f"strides of {strides}")
        least = dims[0] * item
        for n, stride in zip(dims[1:], strides):
            _require(stride >= least, f"a stride of {stride} in {least} bytes")
            least = n * stride
        return start

    def _finish(
        self, to: Any, kind: Any, start: int, item: int, dims: Any, strides: Any, box: Any,
        steps: Any, span: int, pixels: Pixels | None,
    ) -> None:  # fmt: skip
        """What is asked at last, of maps of both kinds; then the map is there."""
        _require(all(1 <= n <= 8 for n in steps), f"element strides of {steps}")
        inner = box[0] * item
        _require(inner % 16 == 0, f"rows of a box of {inner} bytes")
        _require(not span or inner <= span, f"rows of {inner} bytes with a swizzle of {span}")
        last = sum((n - 1) * s for n, s in zip(dims, (item, *strides))) + item
        self.find(start, last, "the array of a tensor map")
        name = _type_name(kind).lower()
        described = TensorMap(name, tuple(dims), tuple(strides), tuple(box), span, pixels)
        self.last += 8
        self.maps[self.last] = (start, last, described)
        ctypes.memmove(to, (_MARK + self.last.to_bytes(8, "little")).ljust(_BYTES, b"\0"), _BYTES)

    def map_argument(self, place: int, raw: bytes) -> tuple[int, int, TensorMap]:
        """The map whose bytes a launch finds at a place: its array, and how it is seen."""
        _require(place % _ALIGN == 0, f"a tensor map is at {place:#x}, no multiple of {_ALIGN}")
        _require(raw.startswith(_MARK), "a parameter is no tensor map")
        found = self.maps.get(int.from_bytes(raw[len(_MARK) : len(_MARK) + 8], "little"))
        if found is None:
            raise Refused("INVALID_VALUE", "a parameter is a tensor map that nobody made")
        return found
