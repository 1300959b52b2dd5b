"""Tensor maps of the stub: what cuTensorMapEncodeTiled asks of its arguments, by its documentation
(CUDA driver API, "Tensor Map Object Management"), and launches of kernels that take them."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.stub_cuda import names
from tests.stub_cuda.state import Refused, State
from tilewright.base.tensor_map import TensorMap

_MARK = b"a tensor map of the stub's"
_BYTES, _ALIGN = 128, 64
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
    """The 128 bytes of a map, which name it."""

    def __init__(self, number: int) -> None:
        text = _MARK + number.to_bytes(8, "little")
        self._raw = ctypes.create_string_buffer(text.ljust(_BYTES, b"\0"), _BYTES)

    def getPtr(self) -> int:
        return ctypes.addressof(self._raw)


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise Refused("INVALID_VALUE", why)


class MapCalls(State):
    arch: Any

    def _cuTensorMapEncodeTiled(
        self, kind: Any, rank: Any, address: Any, dims: Any, strides: Any, box: Any, steps: Any,
        interleave: Any, swizzle: Any, promotion: Any, fill: Any,
    ) -> CUtensorMap:  # fmt: skip
        _require(self.arch.capability >= (9, 0), f"{self.arch.name} has no tensor maps")
        for value, of in (
            (kind, names.CUtensorMapDataType), (interleave, names.CUtensorMapInterleave),
            (swizzle, names.CUtensorMapSwizzle), (promotion, names.CUtensorMapL2promotion),
            (fill, names.CUtensorMapFloatOOBfill),
        ):  # fmt: skip
            _require(isinstance(value, of), f"{value!r} is no {of.__name__}")
        _require(1 <= rank <= 5, f"a rank of {rank}")
        for given, kind_of, count in (
            (dims, names.cuuint64_t, rank), (strides, names.cuuint64_t, rank - 1),
            (box, names.cuuint32_t, rank), (steps, names.cuuint32_t, rank),
        ):  # fmt: skip
            fits = len(given) == count and all(isinstance(x, kind_of) for x in given)
            _require(fits, f"{given!r} is no list of {count} {kind_of.__name__}")
        plain = interleave == names.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE
        _require(plain, "the stub knows no interleaved layouts")
        name = kind.name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_")
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
        return CUtensorMap(self.last)

    def map_argument(self, place: int, raw: bytes) -> tuple[int, int, TensorMap]:
        """The map whose bytes a launch finds at a place: its array, and how it is seen."""
        _require(place % _ALIGN == 0, f"a tensor map is at {place:#x}, no multiple of {_ALIGN}")
        _require(raw.startswith(_MARK), "a parameter is no tensor map")
        found = self.maps.get(int.from_bytes(raw[len(_MARK) : len(_MARK) + 8], "little"))
        if found is None:
            raise Refused("INVALID_VALUE", "a parameter is a tensor map that nobody made")
        return found
