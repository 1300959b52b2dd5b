"""Tensor maps of the stub: what cuTensorMapEncodeTiled asks of its arguments, by its documentation
(CUDA driver API, "Tensor Map Object Management"), and launches of kernels that take them."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.stub_cuda import names
from tests.stub_cuda.state import Refused, State
from tilewright.base.tensor_map import TensorMap

_MARK = b"a tensor map of the stub's"
_BYTES, _ALIGN = 128, 128
_SINCE = 12000  # CUDA's version
_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p,
    *[ctypes.POINTER(ctypes.c_uint64)] * 2, *[ctypes.POINTER(ctypes.c_uint32)] * 2,
    *[ctypes.c_int] * 4,
)  # fmt: skip
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


class MapCalls(State):
    arch: Any
    version: int
    _entry: Any = None

    def _cuGetProcAddress(self, symbol: Any, version: Any, flags: Any) -> tuple[int, int]:
        if not isinstance(symbol, bytes) or flags not in (0, 1, 2):
            raise Refused("INVALID_VALUE", f"the address of {symbol!r}, flags {flags!r}")
        if self.number(version, "the version of CUDA", 1) > self.version:
            raise Refused("INVALID_VALUE")
        known = symbol == b"cuTensorMapEncodeTiled" and version >= _SINCE
        return (self.entry() if known else 0), int(not known)

    def entry(self) -> int:
        """Where C code, and ctypes, call cuTensorMapEncodeTiled."""
        if self._entry is None:
            self._entry = _ENCODE(self._encode_called)
        return ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def _encode_called(self, to: int, kind: int, rank: int, *rest: Any) -> int:
        address, *lists = rest[:5]
        lengths = (rank, rank - 1, rank, rank) if 1 <= rank <= 5 else (0,) * 4
        given = [tuple(values[:n]) for values, n in zip(lists, lengths)]
        return int(self.cuTensorMapEncodeTiled(to, kind, rank, address, *given, *rest[5:])[0])

    def _cuTensorMapEncodeTiled(self, *args: Any) -> None:
        """As C has it; the binding's own form, without the first, writes into an object of its."""
        if len(args) == 11:
            args = (CUtensorMap().getPtr(), *args)
        self._encode(*args)

    def _encode(
        self, to: Any, kind: Any, rank: Any, address: Any, dims: Any, strides: Any, box: Any,
        steps: Any, interleave: Any, swizzle: Any, promotion: Any, fill: Any,
    ) -> None:  # fmt: skip
        _ = self.device
        _require(self.arch.capability >= (9, 0), f"{self.arch.name} has no tensor maps")
        _require(to % _ALIGN == 0, f"the map is to be at {to:#x}, no multiple of {_ALIGN}")
        for value, of in (
            (kind, names.CUtensorMapDataType), (interleave, names.CUtensorMapInterleave),
            (swizzle, names.CUtensorMapSwizzle), (promotion, names.CUtensorMapL2promotion),
            (fill, names.CUtensorMapFloatOOBfill),
        ):  # fmt: skip
            _require(value in list(of), f"{value!r} is no {of.__name__}")
        _require(1 <= rank <= 5, f"a rank of {rank}")
        plain = interleave == names.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE
        _require(plain, "the stub knows no interleaved layouts")
        name = names.CUtensorMapDataType(kind).name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_")
        item = _ITEM.get(name, 4)
        start = self.number(address, "the address", 1)
        _require(start % 16 == 0, f"the address {start:#x} is no multiple of 16")
        _require(all(0 < n <= 1 << 32 for n in dims), f"dimensions of {dims}")
        _require(all(n % 16 == 0 and n < 1 << 40 for n in strides), f"strides of {strides}")
        least = dims[0] * item
        for n, stride in zip(dims[1:], strides):
            _require(stride >= least, f"a stride of {stride} in {least} bytes")
            least = n * stride
        _require(all(0 < n <= 256 for n in box), f"a box of {box}")
        _require(all(1 <= n <= 8 for n in steps), f"element strides of {steps}")
        inner = box[0] * item
        _require(inner % 16 == 0, f"rows of a box of {inner} bytes")
        span = _SPAN[swizzle]
        _require(not span or inner <= span, f"rows of {inner} bytes with a swizzle of {span}")
        last = sum((n - 1) * s for n, s in zip(dims, (item, *strides))) + item
        self.find(start, last, "the array of a tensor map")
        described = TensorMap(name.lower(), tuple(dims), tuple(strides), tuple(box), span)
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
