"""Compiled functions as users call them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from ..base.errors import TilewrightError
from . import packed
from .checker import Checker, NeedsAdapting, adapt_and_check, make_checker
from .diagnose import count_error
from .signature import FunctionInfo

_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)

Native = Callable[[Any], int]


def with_status(run: Callable[[], None]) -> Callable[[], int]:
    """What `prepare_raw` gives of a function that raises where it fails: its status is always 0."""

    def raw() -> int:
        run()
        return 0

    return raw


class Function:
    """A compiled function: call it with arrays and numbers; outputs are written in place.

    Arrays may be `NDArray`s, NumPy arrays, and anything with DLPack or NumPy's array protocols;
    nothing is copied. Wrong arguments raise ArgumentError, which names the argument; a failed
    check of the program raises TilewrightError. The GIL is released while the code runs, and any
    number of threads may call at once, from the first call on.
    """

    __slots__ = ("__weakref__", "_check", "_count", "_load", "_native", "_owner", "info", "name")

    def __init__(self, info: FunctionInfo, load: Callable[[], tuple[int, Any]]) -> None:
        """`load` gives the address of the native function and what keeps it there; it is called at
        the first use."""
        self.info = info
        self.name = info.name
        self._load = load
        self._count = len(info.args)
        self._check: Checker | None = None
        self._native: Native | None = None
        self._owner: Any = None

    def __repr__(self) -> str:
        names = ", ".join(a.name for a in self.info.args)
        return f"<tilewright function {self.name}({names}) for {self.info.target}>"

    def __call__(self, *args: Any) -> None:
        if len(args) != self._count:
            raise count_error(self.info, len(args))
        check, native = self._check, self._native
        if check is None or native is None:
            check, native = self._ready()
        try:
            status = native(check(*args))
        except NeedsAdapting:
            status = self._call_adapted(check, native, args)
        if status:
            raise self.failure(status)

    def _call_adapted(self, check: Checker, native: Native, args: tuple[Any, ...]) -> int:
        slots, _keep = adapt_and_check(self.info, check, args)
        return native(slots)

    def _ready(self) -> tuple[Checker, Native]:
        """The checker and the native function. Threads that come first at once make several, all
        alike and over the same code: each works."""
        check, native = self._check, self._native
        if check is None or native is None:
            address, self._owner = self._load()
            native = self._native = _NATIVE(address)
            check = self._check = make_checker(self.info)
        return check, native

    def failure(self, status: int) -> BaseException:
        """The error that a native status other than 0 stands for; for one below 0, once."""
        if status < 0:
            return packed.take_pending(status)
        messages = self.info.messages
        text = messages[status - 1] if status <= len(messages) else f"unknown status {status}"
        return TilewrightError(f"{self.name}: {text}")

    def prepare(self, *args: Any) -> Callable[[], None]:
        """Check arguments once; the returned function of no arguments runs on them each time.

        It holds the arrays, and trusts that their memory stays where it is. Raises ArgumentError
        where the arguments are more or fewer than the function's.
        """
        raw = self.prepare_raw(*args)
        failure = self.failure

        def run() -> None:
            status = raw()
            if status:
                raise failure(status)

        return run

    def prepare_raw(self, *args: Any) -> Callable[[], int]:
        """As `prepare`, but the returned function gives the native status (0: all is well). Raises
        ArgumentError where the arguments are more or fewer than the function's."""
        if len(args) != self._count:
            raise count_error(self.info, len(args))
        check, native = self._ready()
        slots, keep = adapt_and_check(self.info, check, args)
        buffer = ctypes.create_string_buffer(slots, len(slots) + 8)
        run: Any = partial(native, ctypes.c_void_p(ctypes.addressof(buffer)))
        run.keep = (buffer, keep, self)
        prepared: Callable[[], int] = run
        return prepared

    @property
    def address(self) -> int:
        """Address of the native function, for callers that fill the slots themselves."""
        native: Any = self._ready()[1]
        return int(ctypes.cast(native, ctypes.c_void_p).value or 0)


class ReturningFunction(Function):
    """A function that gives a number: the value of its `tir.ret`."""

    __slots__ = ()

    def __call__(self, *args: Any) -> Any:
        if len(args) != self._count:
            raise count_error(self.info, len(args))
        check, native = self._ready()
        slots, _keep = adapt_and_check(self.info, check, args)
        buffer = ctypes.create_string_buffer(slots, len(slots) + 8)
        status = native(ctypes.c_void_p(ctypes.addressof(buffer)))
        if status:
            raise self.failure(status)
        kind = self.info.attrs["returns"]
        (value,) = struct.unpack_from("d" if kind == "float" else "q", buffer, len(slots))
        return bool(value) if kind == "bool" else value


def make_function(info: FunctionInfo, load: Callable[[], tuple[int, Any]]) -> Function:
    """The compiled function of a signature; see `Function`."""
    return (ReturningFunction if "returns" in info.attrs else Function)(info, load)
