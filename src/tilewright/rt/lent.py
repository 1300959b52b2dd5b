"""Arrays over memory that compiled code lends to a Python function for the time of a call.

Behind the call that memory may serve something else, or be gone. So an array that outlives the
call refuses every use from then on, with an error that names what to do; and a function that keeps
a view (of NumPy, of another library through DLPack), which nobody can call back, has failed.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from ..base.dtype import parse
from ..base.errors import ArgumentError
from .array import LentMemory, NDArray, borrow


class Loan:
    """The arrays of one call."""

    __slots__ = ("_arrays", "_is_alive", "_memory")

    def __init__(self) -> None:
        self._arrays: list[NDArray] = []
        self._memory: LentMemory | None = LentMemory()
        self._is_alive = weakref.ref(self._memory)

    def array(
        self, address: int, shape: Sequence[int], strides: Sequence[int] | None, dtype: str
    ) -> NDArray:
        """An array over memory at an address, strides in elements, until `end`."""
        if parse(dtype).lanes != 1:
            raise ArgumentError(f"arrays of vectors ({dtype}) are not supported")
        made = borrow(address, tuple(shape), strides, dtype, self._memory)
        self._arrays.append(made)
        return made

    def end(self) -> bool:
        """Take the arrays back; returns whether there still is a view of the memory."""
        for array in self._arrays:
            array._view = array._owner = None
            array.__class__ = _Returned
        self._arrays = []
        self._memory = None
        return self._is_alive() is not None

    def is_held(self) -> bool:
        """Whether there still is a view, after the end, other than in a cycle that nobody has."""
        if self._is_alive() is not None:
            gc.collect()
        return self._is_alive() is not None


class _Returned(NDArray):
    """A lent array after the call."""

    __slots__ = ()

    @property
    def _array(self) -> NoReturn:
        raise self._error()

    def __dlpack__(self, **how: Any) -> NoReturn:
        raise self._error()

    def _error(self) -> ArgumentError:
        return ArgumentError(
            f"this array {self.shape} of {self.dtype} was lent to a Python function for the time "
            "of one call, which is over; keep a copy instead: a.numpy()"
        )

    def __repr__(self) -> str:
        return f"<tilewright.nd.NDArray shape={self.shape}, {self.dtype}, given back>"

    __str__ = __repr__
