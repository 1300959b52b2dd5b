"""What is known of a network beside its code: arrays that go in and come out, calls of kernels.

The entry function of a network takes an array of slots: pointers to inputs, outputs, constants and
the workspace. A kernel's argument is a slot, or a place in the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from ..base.aligned import aligned_empty
from ..base.dtype import parse
from ..base.errors import ArgumentError
from .array import NDArray
from .device import Device
from .signature import dims_text

Array = np.ndarray[Any, Any]

ENTRY = "tw_network"


@dataclass(frozen=True)
class Place:
    """Where an argument is: slot number `slot`, `offset` bytes further."""

    slot: int
    offset: int = 0


@dataclass(frozen=True)
class KernelCall:
    """One call of kernel `kernel`, which has the symbol `symbol_of(kernel)`."""

    kernel: int
    args: tuple[Place, ...]


@dataclass(frozen=True)
class Kernel:
    """One kernel: its symbol, what it computes, object code (empty where it is in a file), and
    whether records say how it is scheduled."""

    symbol: str
    title: str
    obj: bytes = b""
    tuned: bool = False


@dataclass(frozen=True)
class Work:
    """What a kernel has to do: operations on elements, and bytes of the arrays that it reads or
    writes, each once."""

    flops: int
    bytes: int


def symbol_of(kernel: int) -> str:
    """The name by which the entry calls a kernel."""
    return f"tw_kernel_{kernel}"


class Described(Protocol):
    """An array that a network takes or gives, as graph.ir.Value and `Tensor` say it."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def default(self) -> Array | None: ...


@dataclass(frozen=True)
class Tensor:
    """Name, shape and dtype of an input or output; extents are numbers, or dimensions
    (rt/signature.py) of a network whose sizes are known at each call only."""

    name: str
    shape: tuple[Any, ...]
    dtype: str
    default: Array | None = field(default=None, compare=False)
    """What an input is that a call leaves out, if it may."""

    @property
    def nbytes(self) -> int:
        return int(prod(self.shape)) * parse(self.dtype).nbytes

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{dims_text(self.shape).strip('(),')}]"

    def empty(self) -> Array:
        """A new array of this kind, where vector code writes it."""
        return aligned_empty(self.shape, parse(self.dtype).numpy)

    def rows(self, count: int) -> Array:
        """A new array of `count` such arrays."""
        return aligned_empty((count, *self.shape), parse(self.dtype).numpy)


def tensors(values: Iterable[Described]) -> list[Tensor]:
    """Plain descriptions of values."""
    return [Tensor(v.name, tuple(v.shape), v.dtype, v.default) for v in values]


def checked_inputs(
    name: str, values: Sequence[Described], inputs: Mapping[str, Any], on: Device | None = None
) -> list[Any]:
    """The arrays for the inputs `values` of network `name`, in order and compact; the default where
    one that has one is left out. NDArrays on device `on` stay there.

    Raises ArgumentError where one is missing, unknown, or of another shape or dtype.
    """
    if type(inputs) is not dict:
        require_mapping(name, inputs)
    result: list[Any] = []
    left_out = 0
    for v in values:
        given = inputs.get(v.name)
        if given is None and v.default is not None and v.name not in inputs:
            left_out += 1
            given = v.default
        if given is None:
            _require_names(name, values, inputs)
        if on is not None and isinstance(given, NDArray) and given.device == on:
            _require_kind(name, "input", v, given)
            result.append(given)
            continue
        array = given if type(given) is np.ndarray else _converted(np.asarray, name, v.name, given)
        _require_kind(name, "input", v, array)
        result.append(compact(array))
    if len(inputs) + left_out != len(result):
        _require_names(name, values, inputs)
    return result


def compact(array: Array) -> Array:
    """The array, or a copy whose elements lie in order where compiled code can read them."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        return array
    return np.require(array, requirements=["C", "A"])


def _require_names(name: str, values: Sequence[Described], inputs: Mapping[str, Any]) -> None:
    """ArgumentError where inputs are not those of `values`."""
    known = {v.name: None for v in values}
    expected = ", ".join(repr(v) for v in values)
    for unknown in sorted(set(inputs) - known.keys()):
        raise ArgumentError(f"{name} has no input {unknown!r}; inputs: {expected}")
    for missing in (v for v in values if v.name not in inputs and v.default is None):
        raise ArgumentError(f"{name}: input {missing.name!r} is missing; inputs: {expected}")


def require_mapping(name: str, inputs: Any) -> None:
    """ArgumentError where inputs are not given by name."""
    if not isinstance(inputs, Mapping):
        raise ArgumentError(
            f"{name}: run takes a dict of arrays by the inputs' names, got "
            f"{type(inputs).__name__}; net(array, ...) takes them in order"
        )


def shapes_given(name: str, inputs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs for network `name`; ArgumentError where one is no array."""
    require_mapping(name, inputs)
    return {n: _converted(np.shape, name, n, a) for n, a in inputs.items()}


def _converted(how: Callable[[Any], Any], name: str, n: str, given: Any) -> Any:
    try:
        return how(given)
    except (ValueError, TypeError, RuntimeError) as error:  # what arrays of other libraries raise
        raise ArgumentError(f"{name}: input {n!r} is no array that can be read: {error}") from error


def _require_kind(name: str, what: str, v: Described, array: Array | NDArray) -> None:
    if array.shape != v.shape:
        raise ArgumentError(
            f"{name}: {what} {v.name!r} has shape {array.shape}, expected {v.shape}"
        )
    kind = array.dtype if isinstance(array, np.ndarray) else parse(array.dtype).numpy
    if kind != parse(v.dtype).numpy:
        raise ArgumentError(
            f"{name}: {what} {v.name!r} is {array.dtype}, expected {v.dtype}: "
            f"x.astype({v.dtype!r}) converts it"
        )


def checked_outputs(
    name: str, values: Sequence[Tensor], outputs: Mapping[str, Any] | None, inputs: Sequence[Array]
) -> list[Array]:
    """The arrays to write the outputs `values` of network `name` to: those given, and new ones.

    Raises ArgumentError where one is unknown, of another shape or dtype, not compact and aligned,
    read-only, or shares memory with an input or another output.
    """
    if not outputs:
        return [v.empty() for v in values]
    unknown = sorted(set(outputs) - {v.name for v in values})
    if unknown:
        expected = ", ".join(repr(v) for v in values)
        raise ArgumentError(f"{name} has no output {unknown[0]!r}; outputs: {expected}")
    result: list[Array] = []
    for v in values:
        array = _own(name, v, outputs[v.name]) if v.name in outputs else v.empty()
        for other in (*inputs, *result):
            if np.may_share_memory(array, other):
                raise ArgumentError(
                    f"{name}: output {v.name!r} shares memory with an input or another output"
                )
        result.append(array)
    return result


def _own(name: str, v: Tensor, given: Any) -> Array:
    if not isinstance(given, (np.ndarray, NDArray)):
        raise ArgumentError(
            f"{name}: output {v.name!r} has to be an array to write to, got {type(given).__name__}"
        )
    array = np.asarray(given)
    _require_kind(name, "output", v, array)
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        raise ArgumentError(f"{name}: output {v.name!r} is not compact in row-major order")
    if not flags.writeable:
        raise ArgumentError(f"{name}: output {v.name!r} is read-only")
    return array


def by_name(name: str, names: Sequence[str], args: Sequence[Any], named: Any) -> dict[str, Any]:
    """Inputs by name of a call with some by position, in the order of `names`."""
    if len(args) > len(names):
        raise ArgumentError(f"{name} takes {len(names)} inputs, got {len(args)}")
    given = dict(zip(names, args))
    if given and named:
        for twice in sorted(given.keys() & named.keys()):
            raise ArgumentError(f"{name}: input {twice!r} is given twice")
    return {**given, **named}


def alone_or_tuple(outputs: Mapping[str, Any]) -> Any:
    """What a call returns: the only output, or all of them in order."""
    values = tuple(outputs.values())
    return values[0] if len(values) == 1 else values


def described(
    name: str, target: str, inputs: Iterable[Any], outputs: Iterable[Any], *facts: str
) -> str:
    """How networks present themselves."""
    signature = f"({', '.join(map(str, inputs))}) -> ({', '.join(map(str, outputs))})"
    return f"<tilewright network {name!r} for {target!r}: {signature}; {', '.join(facts)}>"


def mebibytes(count: int, what: str) -> str:
    """A size, for people."""
    return f"{count / (1 << 20):.1f} MiB of {what}"
