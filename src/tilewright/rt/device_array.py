"""`DeviceArray`: arrays in the memory of a device."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtype import canonical, parse
from ..base.errors import ArgumentError
from . import device_dlpack
from .array import NDArray, compact_strides, dtype_name, is_compact
from .device import Device
from .dlpack import Imported
from .drivers.base import Memory, Runtime


class DeviceArray(NDArray):
    """An array on a CUDA, OpenCL or simt device. Made by `nd.empty`, `nd.array`, `nd.from_dlpack`.

    Slices, `view` and `reshape` share the memory. Copies go in the order of the device's current
    stream; those from and to the CPU wait until they are done. Raises ArgumentError where the NumPy
    type of `dtype` is none of the types of arrays.
    """

    __slots__ = ("_handle", "_memory", "_numpy_type", "_offset", "_runtime")

    def __init__(
        self,
        memory: Memory,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        where: Device,
        offset: int = 0,
        strides: tuple[int, ...] | None = None,
        readonly: bool = False,
    ) -> None:
        """A view of `memory` that starts `offset` bytes into it; `strides` in elements, None for
        compact row-major ones."""
        self._memory = memory
        self._runtime: Runtime = memory.runtime
        self._offset = offset
        # What a launch takes; None where it is made when first needed
        self._handle: Any = memory.handle if offset == 0 else None
        self._owner = memory
        self._view = None
        self._numpy_type = dtype
        self._address = memory.address + offset
        self._readonly = readonly
        self._strides = strides
        self.dtype = dtype_name(dtype)
        self.shape = shape
        self.device = where

    def make_handle(self) -> Any:
        """What launches take for this array; ArgumentError where the device cannot pass a part of
        memory that starts there."""
        if self._handle is None:
            memory = self._memory
            self._handle = self._runtime.part(memory, self._offset, memory.nbytes - self._offset)
        return self._handle

    # -- facts

    @property
    def _array(self) -> np.ndarray[Any, Any]:
        """A copy in CPU memory."""
        return self.numpy()

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._numpy_type.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    @property
    def __array_interface__(self) -> dict[str, Any]:
        raise AttributeError(f"an array on {self.device} has no array interface")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""
        return device_dlpack.cuda_interface(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(f"an array on {self.device} needs a copy to become a NumPy array")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype, copy=False)

    # -- copies

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array; waits for the work that the current stream was given before."""
        out = np.empty(self.shape, self._numpy_type)
        if self._strides is None:
            self._runtime.read(self._memory, self._offset, out, self._runtime.stream, True)
        elif out.size:
            out[...] = self._span()[1]
        return out

    asnumpy = numpy

    def _span(self) -> tuple[int, np.ndarray[Any, Any]]:
        """For a strided array: where the memory that it spans starts, and a view like this one of
        a copy of that memory."""
        item = self._numpy_type.itemsize
        steps = [(n - 1) * s * item for n, s in zip(self.shape, self.strides)]
        low = sum(s for s in steps if s < 0)
        nbytes = sum(s for s in steps if s > 0) - low + item
        raw = np.empty(nbytes, np.uint8)
        start = self._offset + low
        self._runtime.read(self._memory, start, raw, self._runtime.stream, True)
        byte_strides = tuple(s * item for s in self.strides)
        return start, np.ndarray(self.shape, self._numpy_type, raw.data, -low, byte_strides)

    def copyfrom(self, source: Any, wait: bool = True) -> NDArray:
        """Copy elements from an array, or array-like, of the same shape; converts the dtype.

        Without `wait`, a copy of a NumPy array is only started: the array has to stay as it is
        until the stream has passed. A copy from an array of the device never waits. Raises
        ArgumentError where the source has another shape, where the array is read-only.
        """
        self._require_writable("copyfrom")
        given = source if isinstance(source, NDArray) else np.asarray(source)
        if given.shape != self.shape:
            raise ArgumentError(
                f"copyfrom: expected shape {self.shape}, got {given.shape}; "
                "array shapes do not match"
            )
        if type(given) is DeviceArray and self._copy_on_device(given):
            return self
        values = given._array if isinstance(given, NDArray) else given
        runtime = self._runtime
        if self._strides is None:
            compact = np.ascontiguousarray(values, self._numpy_type).reshape(self.shape)
            runtime.write(self._memory, self._offset, compact, runtime.stream, wait)
        elif self.size:
            start, view = self._span()
            np.copyto(view, values, casting="unsafe")
            raw: Any = view.base
            runtime.write(self._memory, start, np.frombuffer(raw, np.uint8), runtime.stream, True)
        return self

    def _copy_on_device(self, source: DeviceArray) -> bool:
        """Copy without the CPU; False where only the CPU can."""
        if (
            source.dtype != self.dtype
            or source._strides is not None
            or self._strides is not None
            or source._runtime.kind != self._runtime.kind
        ):
            return False
        mine, other = self._runtime, source._runtime
        if mine is not other:  # streams of two devices know nothing of each other
            other.stream.sync()
        mine.copy(
            self._memory, self._offset, source._memory, source._offset, self.nbytes, mine.stream
        )
        return True

    # -- views

    def _create_view(self, shape: Sequence[int], dtype: str | None = None) -> NDArray:
        kind = parse(canonical(dtype)).numpy if dtype else self._numpy_type
        sizes = tuple(map(int, shape))
        need = int(np.prod(sizes, dtype=np.int64)) * kind.itemsize
        if self._strides is not None or need > self.nbytes:
            raise ArgumentError(
                f"cannot view {self.shape} of {self.dtype} ({self.nbytes} bytes) as {sizes} "
                f"of {kind.name} ({need} bytes)"
            )
        return DeviceArray(
            self._memory, sizes, kind, self.device, self._offset, None, self._readonly
        )

    view = _create_view

    def part(
        self, at: int, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None
    ) -> DeviceArray:
        """A view of the memory from byte `at` of this array on, of a shape, a type and `strides` in
        elements (compact without). Raises TilewrightError where `dtype` is no type such as
        'float32'."""
        kind, where = parse(canonical(dtype)).numpy, self._offset + at
        return DeviceArray(self._memory, shape, kind, self.device, where, strides, self._readonly)

    def __getitem__(self, index: Any) -> Any:
        """A view for slices, as NumPy's; an element, as a NumPy scalar, for full indices."""
        offset, shape, strides = _slice(index, self.shape, self.strides)
        compact = None if is_compact(shape, strides) else strides
        start = self._offset + offset * self._numpy_type.itemsize
        found = DeviceArray(
            self._memory, shape, self._numpy_type, self.device, start, compact, self._readonly
        )
        indices = index if isinstance(index, tuple) else (index,)
        full = not shape and not any(i is Ellipsis for i in indices)
        return found.numpy()[()] if full else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self._require_writable("assignment")
        offset, shape, strides = _slice(index, self.shape, self.strides)
        compact = None if is_compact(shape, strides) else strides
        start = self._offset + offset * self._numpy_type.itemsize
        part = DeviceArray(self._memory, shape, self._numpy_type, self.device, start, compact)
        if not isinstance(value, NDArray) or value.shape != shape:
            value = np.broadcast_to(np.asarray(value), shape)
        part.copyfrom(value)

    # -- protocols

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}, not on device {tuple(dl_device)}")
        array = new_array(self.shape, self._numpy_type, self.device) if copy else self
        if copy:
            array.copyfrom(self)
        versioned = max_version is not None and max_version[0] >= 1
        return device_dlpack.lend(array, stream, versioned)


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any], where: Device) -> DeviceArray:
    """A new array with undefined elements on a device that is not the CPU."""
    count = 1
    for extent in shape:
        count *= extent
    memory = where.runtime.alloc(count * dtype.itemsize)
    return DeviceArray(memory, shape, dtype, where)


stream_number = device_dlpack.stream_number


def borrow(imported: Imported) -> DeviceArray:
    """An array over memory of a CUDA device that another library lends."""
    where = Device(imported.device_type, imported.device_id)
    if imported.device_type != Device("cuda").device_type:
        raise ArgumentError(
            f"the array is on device {where}, expected one in CPU memory or on a CUDA device"
        )
    parsed = parse(imported.dtype)
    if parsed.lanes != 1:
        raise ArgumentError(f"arrays of vectors ({imported.dtype}) are not supported")
    shape, strides = imported.shape, imported.strides
    if strides is not None and is_compact(shape, strides):
        strides = None
    steps = compact_strides(shape) if strides is None else strides
    last = sum((n - 1) * s for n, s in zip(shape, steps) if n > 0 and s > 0)
    nbytes = (last + 1) * parsed.numpy.itemsize
    memory = Memory(where.runtime, imported.address, imported.address, nbytes, imported)
    return DeviceArray(memory, shape, parsed.numpy, where, 0, strides, imported.readonly)


def _slice(
    index: Any, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """(offset, shape, strides), in elements, of a basic index as NumPy has it."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if used > len(shape):
        raise IndexError(f"{used} indices for an array with {len(shape)} dimensions")
    rest: list[Any] = [slice(None)] * (len(shape) - used)
    places = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have one ellipsis ('...')")
    at = places[0] if places else len(parts)
    parts[at : at + 1] = rest
    offset, axis = 0, 0
    sizes: list[int] = []
    steps: list[int] = []
    for part in parts:
        if part is None:
            sizes.append(1)
            steps.append(0)
            continue
        extent, stride = shape[axis], strides[axis]
        if isinstance(part, slice):
            start, _, step = part.indices(extent)
            count = len(range(*part.indices(extent)))
            offset += start * stride if count else 0
            sizes.append(count)
            steps.append(step * stride)
        else:
            offset += _position(part, extent, axis) * stride
        axis += 1
    return offset, tuple(sizes), tuple(steps)


def _position(part: Any, extent: int, axis: int) -> int:
    try:
        number = operator.index(part)
    except TypeError:
        raise IndexError(
            "an array on a device takes integers and slices as indices, not "
            f"{type(part).__name__}; use x.numpy()"
        ) from None
    if not -extent <= number < extent:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {extent}")
    return number % extent
