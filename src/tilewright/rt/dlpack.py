"""DLPack, both ways, through ctypes: https://dmlc.github.io/dlpack/latest/

Reads capsules "dltensor" and "dltensor_versioned" and writes both; nothing is copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..base.dtype import parse

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_READ_ONLY = 1

_api = ctypes.pythonapi
_pointer_of = _api.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_set_name = _api.PyCapsule_SetName
_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
_is_valid = _api.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_new = _api.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

_PLAIN, _PLAIN_USED = b"dltensor", b"used_dltensor"
_VERSIONED, _VERSIONED_USED = b"dltensor_versioned", b"used_dltensor_versioned"


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


class Imported:
    """Memory that another library lends: gives it back when this object goes.

    `strides` is None for compact row-major memory, else in elements.
    """

    __slots__ = (
        "_managed",
        "address",
        "device_id",
        "device_type",
        "dtype",
        "readonly",
        "shape",
        "strides",
    )

    def __init__(self, managed: Any, tensor: _Tensor, readonly: bool) -> None:
        self._managed: Any = None
        self.address = int(tensor.data or 0) + int(tensor.byte_offset)
        self.device_type = int(tensor.device_type)
        self.device_id = int(tensor.device_id)
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        self.dtype = dtype_text(tensor.code, tensor.bits, tensor.lanes)
        self.readonly = readonly
        self._managed = managed  # last: until here the memory is still the capsule's

    def __del__(self) -> None:
        if self._managed is not None and self._managed.deleter:
            self._managed.deleter(ctypes.addressof(self._managed))


def dtype_text(code: int, bits: int, lanes: int) -> str:
    """Our name of a DLPack data type; BufferError for one that has none."""
    kind = _KINDS.get(code)
    if kind is None:
        raise BufferError(f"DLPack data type with code {code} and {bits} bits is not supported")
    base = "bool" if kind == "bool" else f"{kind}{bits}"
    return parse(base if lanes == 1 else f"{base}x{lanes}").text


def dtype_code(dtype: str) -> tuple[int, int, int]:
    """(code, bits, lanes) of DLPack for a data type of ours."""
    parsed = parse(dtype)
    return _CODES[parsed.code], 8 if parsed.is_bool else parsed.bits, parsed.lanes


def read_capsule(capsule: Any) -> Imported:
    """Take over the memory of a DLPack capsule; BufferError where it is not a fresh one."""
    if _is_valid(capsule, _VERSIONED):
        managed: Any = _ManagedVersioned.from_address(_pointer_of(capsule, _VERSIONED))
        if managed.major != 1:
            raise BufferError(f"DLPack version {managed.major}.{managed.minor} is not supported")
        used, readonly = _VERSIONED_USED, bool(managed.flags & _READ_ONLY)
    elif _is_valid(capsule, _PLAIN):
        managed = _Managed.from_address(_pointer_of(capsule, _PLAIN))
        used, readonly = _PLAIN_USED, False
    else:
        raise BufferError("not a DLPack capsule, or one that was consumed already")
    imported = Imported(managed, managed.tensor, readonly)
    _set_name(capsule, used)
    return imported


def request(source: Any, stream: int | None = None) -> Imported:
    """The memory of an object that has `__dlpack__`, by the newest form that it speaks. `stream`:
    that of a device on which the memory will be used."""
    how = {} if stream is None else {"stream": stream}
    try:
        capsule = source.__dlpack__(max_version=(1, 0), **how)
    except TypeError:
        capsule = source.__dlpack__(**how)
    return read_capsule(capsule)


_lent: dict[int, tuple[Any, ...]] = {}


def _forget(managed: int) -> None:
    _lent.pop(managed, None)


def _forget_unused(capsule: int) -> None:
    """Called by Python on a capsule that goes; one that nobody consumed still owns its memory."""
    for name in (_PLAIN, _VERSIONED):
        if _raw_is_valid(capsule, name):
            _lent.pop(_raw_pointer(capsule, name), None)


_give_back = _DELETER(_forget)
_drop_capsule = _DELETER(_forget_unused)
# Other libraries may give memory back while the interpreter goes down: these stay for ever.
for _callback in (_give_back, _drop_capsule):
    _api.Py_IncRef(ctypes.py_object(_callback))

_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)


def make_capsule(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: str,
    owner: Any,
    readonly: bool,
    versioned: bool,
    device: tuple[int, int] = (1, 0),
) -> Any:
    """A capsule that lends memory, by default the CPU's; `owner` lives until the taker gives it
    back."""
    count = len(shape)
    sizes = (ctypes.c_int64 * max(count, 1))(*shape)
    steps = (ctypes.c_int64 * max(count, 1))(*strides)
    managed: Any = _ManagedVersioned() if versioned else _Managed()
    tensor = managed.tensor
    tensor.data = address
    tensor.device_type, tensor.device_id = device
    tensor.ndim, tensor.byte_offset = count, 0
    tensor.code, tensor.bits, tensor.lanes = dtype_code(dtype)
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _give_back
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = _READ_ONLY if readonly else 0
    key = ctypes.addressof(managed)
    _lent[key] = (owner, managed, sizes, steps)
    name = _VERSIONED if versioned else _PLAIN
    return _new(key, name, ctypes.cast(_drop_capsule, ctypes.c_void_p))
