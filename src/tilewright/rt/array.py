"""`NDArray`: arrays in memory that is aligned for vector code, exchanged without copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from operator import index
from typing import Any

import numpy as np

from ..base.aligned import aligned_empty
from ..base.dtype import canonical, parse
from ..base.errors import ArgumentError, LendError, TilewrightError
from . import dlpack
from .device import Device, cpu, device

_CPU = cpu(0)
_CPU_TYPES = (1, 3)  # memory of the CPU, and that which CUDA has pinned
_CUDA = 2
_NAMES: dict[np.dtype[Any], str] = {}


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Our name of a NumPy type; ArgumentError for one that has none, or foreign byte order."""
    name = _NAMES.get(dtype)
    if name is None:
        if not dtype.isnative or dtype.hasobject or dtype.fields:
            raise ArgumentError(f"arrays of NumPy type {dtype!r} are not supported")
        try:
            name = canonical(dtype)
        except TilewrightError:
            raise ArgumentError(f"arrays of NumPy type {dtype!r} are not supported") from None
        _NAMES[dtype] = name
    return name


class NDArray:
    """An array on a device, over CPU memory that NumPy can see.

    `shape`: tuple of ints; `dtype`: text such as "float32"; `device`. NumPy, and every library
    that speaks DLPack or the array interface, can share the memory; `.numpy()` copies. Raises
    ArgumentError where the strides are no multiples of an element's size.
    """

    __slots__ = (
        "__weakref__",
        "_address",
        "_owner",
        "_readonly",
        "_strides",
        "_view",
        "device",
        "dtype",
        "shape",
    )

    def __init__(self, array: np.ndarray[Any, Any], owner: Any = None) -> None:
        """Wrap the memory of a NumPy array; `owner` is kept alive beside it."""
        self._view: np.ndarray[Any, Any] | None = array
        self._owner = owner
        self.dtype = dtype_name(array.dtype)
        self.shape: tuple[int, ...] = array.shape
        self.device: Device = _CPU
        self._address: int
        self._readonly: bool
        self._address, self._readonly = array.__array_interface__["data"]
        # None for compact row-major memory, else in elements
        self._strides: tuple[int, ...] | None = None
        if not array.flags.c_contiguous:
            size = array.itemsize
            if any(s % size for s in array.strides):
                raise ArgumentError(f"strides {array.strides} are no multiples of {size} bytes")
            self._strides = tuple(s // size for s in array.strides)

    # -- facts

    @property
    def _array(self) -> np.ndarray[Any, Any]:
        """NumPy's view of the memory, made at first use for memory that was borrowed."""
        found = self._view
        if found is None:
            found = self._view = view_address(
                self._address, self.shape, self._strides, self.dtype, self._owner, self._readonly
            )
        return found

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._array.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._array.nbytes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return self._strides or compact_strides(self.shape)

    @property
    def ctx(self) -> Device:
        """The device that holds the array, by an older name of TVM's."""
        return self.device

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"<tilewright.nd.NDArray shape={self.shape}, {self.dtype}, {self.device}>\n{self}"

    def __str__(self) -> str:
        return str(self._array)

    # -- copies

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a NumPy array (`numpy.asarray(a)` shares the memory instead)."""
        return self._array.copy()

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Copy elements from an array, or array-like, of the same shape; converts the dtype. Raises
        TilewrightError where `source` offers no DLPack capsule that can be read, LendError where it
        does not lend its memory, and ArgumentError where the source has another shape, or a type
        that cannot be cast, where `source` is no array, where the array is read-only."""
        values = _values(source)
        if values.shape != self.shape:
            raise ArgumentError(
                f"copyfrom: expected shape {self.shape}, got {values.shape}; "
                "array shapes do not match"
            )
        self._require_writable("copyfrom")
        try:
            np.copyto(self._array, values, casting="unsafe")
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"copyfrom: {values.dtype} is not {self.dtype}: {error}") from None
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy into another array of the same shape, or into a new one on a device. Raises
        ArgumentError where `target` has another shape or is read-only."""
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target)
        return target.copyfrom(self)

    def same_as(self, other: object) -> bool:
        """Whether this is the same object."""
        return self is other

    # -- views

    def _create_view(self, shape: Sequence[int], dtype: str | None = None) -> NDArray:
        """The same memory under another shape, and dtype; it must be compact and as many bytes.
        Raises ArgumentError where the shape and dtype need more bytes than the array has, or it has
        strides, and TilewrightError where `dtype` is no type such as 'float32'."""
        kind = parse(dtype).numpy if dtype else self._array.dtype
        need = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if self._strides is not None or need > self.nbytes:
            raise ArgumentError(
                f"cannot view {self.shape} of {self.dtype} ({self.nbytes} bytes) as {tuple(shape)} "
                f"of {kind.name} ({need} bytes)"
            )
        flat = self._array.reshape(-1).view(np.uint8)[:need]
        return NDArray(flat.view(kind).reshape(tuple(shape)), self._owner)

    view = _create_view

    def reshape(self, *shape: Any) -> NDArray:
        """The same memory under another shape of as many elements. ArgumentError for others."""
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if int(np.prod(sizes, dtype=np.int64)) != self.size:
            raise ArgumentError(f"cannot reshape {self.shape} to {sizes}")
        return self._create_view(sizes)

    def __getitem__(self, index: Any) -> Any:
        """A view for slices, as NumPy's; an element, as a NumPy scalar, for full indices."""
        found = self._array[index]
        return NDArray(found, self._owner) if isinstance(found, np.ndarray) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self._require_writable("assignment")
        self._array[index] = value._array if isinstance(value, NDArray) else value

    def _require_writable(self, what: str) -> None:
        if self._readonly:
            raise ArgumentError(f"{what}: the array is read-only")

    # -- protocols

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if dtype is not None and np.dtype(dtype) != self._array.dtype:
            if copy is False:
                raise ValueError(f"a {self.dtype} array as {dtype} needs a copy")
            return self._array.astype(dtype)
        return self._array.copy() if copy else self._array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # Of bfloat16 the interface cannot tell; and who reads it keeps this object, not the owner.
        # NumPy then asks __array__.
        if self.dtype == "bfloat16" or isinstance(self._owner, LentMemory):
            raise AttributeError(f"no array interface for this array of {self.dtype}")
        return self._array.__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.device_type, self.device.device_id

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}, not on device {dl_device}")
        versioned = max_version is not None and max_version[0] >= 1
        if self._readonly and not versioned and not copy:
            raise BufferError("a read-only array needs DLPack 1.0 or a copy")
        array = NDArray(self._array.copy()) if copy else self
        return dlpack.make_capsule(
            array._address,
            array.shape,
            array.strides,
            array.dtype,
            (array, array._owner),
            array._readonly,
            versioned,
        )

    def to_dlpack(self) -> Any:
        """A DLPack capsule of the memory."""
        return self.__dlpack__()


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a shape, in elements."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def empty(
    shape: Sequence[int] | int, dtype: Any = "float32", device: Any = None, mem_scope: Any = None
) -> NDArray:
    """A new array with undefined elements, aligned to 64 bytes. The lanes of a vector dtype become
    one more dimension. Raises ArgumentError where the shape is not integers of 0 or more, or the
    memory cannot be had, where mem_scope is none that the device has, and TilewrightError where
    `dtype` is no type such as 'float32'."""
    where = _resolve(device, mem_scope)
    try:
        sizes = tuple(map(index, shape if isinstance(shape, Iterable) else (shape,)))
    except (TypeError, NotImplementedError):
        raise ArgumentError(f"a shape is integers, got {shape!r}") from None
    if any(s < 0 for s in sizes):
        raise ArgumentError(f"an array cannot have shape {sizes}")
    kind = parse(canonical(dtype))
    full = sizes if kind.lanes == 1 else (*sizes, kind.lanes)
    if where.device_type != _CPU.device_type:
        found: NDArray = _devices().new_array(full, kind.numpy, where)
        return found
    try:
        return NDArray(aligned_empty(full, kind.numpy))
    except (ValueError, MemoryError, OverflowError) as error:
        raise ArgumentError(f"an array cannot have shape {sizes}: {error}") from None


def pinned_empty(shape: Sequence[int], dtype: Any, device: Device) -> NDArray:
    """A new array of `shape` and `dtype` in CPU memory that a device copies fast, and without
    waiting where a copy is told not to wait; ordinary memory for a device that has no such thing.
    Raises TilewrightError where `dtype` is no type such as 'float32'."""
    kind = parse(canonical(dtype)).numpy
    sizes = tuple(map(index, shape))
    count = 1
    for extent in sizes:
        count *= extent
    raw = device.runtime.pinned(count * kind.itemsize)
    return NDArray(raw.view(kind).reshape(sizes), raw)


def array(source: Any, device: Any = None, mem_scope: Any = None) -> NDArray:
    """A copy of an array, list or scalar, with the dtype that NumPy gives it. ArgumentError where
    it is no array, or mem_scope none that the device has; LendError, or another TilewrightError,
    where its memory is not lent, or not by DLPack."""
    where = _resolve(device, mem_scope)
    if where.device_type != _CPU.device_type:
        given = source if isinstance(source, NDArray) else _values(source)
        name = given.dtype if isinstance(given, NDArray) else dtype_name(given.dtype)
        return empty(given.shape, name, where).copyfrom(given)
    values = _values(source)
    dtype_name(values.dtype)
    out = aligned_empty(values.shape, values.dtype)
    out[...] = values
    return NDArray(out)


def _values(source: Any) -> np.ndarray[Any, Any]:
    """What `source` holds, as NumPy sees it."""
    if isinstance(source, NDArray):
        return source._array
    if isinstance(source, np.ndarray):
        return source
    if hasattr(source, "__dlpack__") and not isinstance(source, np.generic):
        return from_dlpack(source)._array
    try:
        return np.asarray(source)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{type(source).__name__} is no array: {error}") from None


def from_dlpack(source: Any) -> NDArray:
    """An array over the memory of an object with `__dlpack__`, or of a DLPack capsule, of its shape
    and type; no copy.

    Memory of the CPU, or of a CUDA device: then work of the current stream comes behind that of
    the lender. LendError, which is a BufferError too, where the object does not lend it. Raises
    TilewrightError where `source` offers no DLPack capsule that can be read.
    """
    try:
        imported = _request(source)
    except TilewrightError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise LendError(str(error)) from None
    if imported.device_type not in _CPU_TYPES:
        found: NDArray = _devices().borrow(imported)
        return found
    return borrow(
        imported.address,
        imported.shape,
        imported.strides,
        imported.dtype,
        imported,
        imported.readonly,
    )


def borrow(
    address: int,
    shape: tuple[int, ...],
    strides: Sequence[int] | None,
    dtype: str,
    owner: Any,
    readonly: bool = False,
) -> NDArray:
    """An array over memory at an address, strides in elements; it and its views keep `owner`."""
    out = NDArray.__new__(NDArray)
    out.shape, out.dtype, out.device = shape, dtype, _CPU
    out._address, out._readonly = address, readonly
    compact = strides is None or is_compact(shape, strides)
    out._strides = None if strides is None or compact else tuple(strides)
    out._owner, out._view = owner, None
    return out


def _request(source: Any) -> dlpack.Imported:
    if not hasattr(source, "__dlpack__"):
        return dlpack.read_capsule(source)
    kind, number = map(int, source.__dlpack_device__()) if _says_device(source) else (1, 0)
    stream = _devices().stream_number(Device(kind, number)) if kind == _CUDA else None
    return dlpack.request(source, stream)


def _says_device(source: Any) -> bool:
    return hasattr(source, "__dlpack_device__")


def _devices() -> Any:
    """The module of arrays on devices: loaded with the first of them."""
    return import_module(".device_array", __package__)


def is_compact(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether an array is row-major without gaps; strides of single elements do not matter."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1:
            if extent == 0:
                return True
            if stride != step:
                return 0 in shape
            step *= extent
    return True


class LentMemory:
    """The owner of memory that is lent for some time: what every view of it keeps alive."""

    __slots__ = ("__weakref__",)


class _Memory:
    """What NumPy needs to see memory at an address, and to keep its owner alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, nbytes: int, readonly: bool, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, readonly),
            "version": 3,
        }


def view_address(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    dtype: str,
    owner: Any,
    readonly: bool = False,
) -> np.ndarray[Any, Any]:
    """A NumPy array over memory at an address; strides in elements, of either sign."""
    parsed = parse(dtype)
    if parsed.lanes != 1:
        raise ArgumentError(f"arrays of vectors ({dtype}) are not supported")
    kind = parsed.numpy
    sizes = tuple(shape)
    steps = compact_strides(sizes) if strides is None else tuple(strides)
    if 0 in sizes:
        return np.empty(sizes, kind)
    spans = [(n - 1) * s * kind.itemsize for n, s in zip(sizes, steps)]
    low = sum(s for s in spans if s < 0)
    nbytes = sum(s for s in spans if s > 0) - low + kind.itemsize
    raw = np.asarray(_Memory(address + low, nbytes, readonly, owner))
    byte_steps = tuple(s * kind.itemsize for s in steps)
    return np.ndarray(sizes, kind, raw.data, -low, byte_steps)


def _resolve(dev: Any, mem_scope: Any) -> Device:
    where = _CPU if dev is None else device(dev)
    if mem_scope not in (None, "", "global"):
        raise ArgumentError(f"memory scope {mem_scope!r} is not supported on {where.kind}")
    where.require()
    return where
