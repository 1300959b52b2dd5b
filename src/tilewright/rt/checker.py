"""Generates, for a signature, the Python code that checks arguments and fills the slots.

A call has a few microseconds: the generated function has one straight line of comparisons for each
argument, with every known number written into it, and leaves all that is rare (foreign arrays,
errors) to `adapt` and `diagnose`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from ..base.dtype import MOST_SIZE, parse
from .adapt import adapt_all, part_handle, scalar_range
from .array import NDArray
from .device_array import DeviceArray
from .diagnose import byte_range, element_strides, explain
from .signature import MOST_NARROW, ArgInfo, Dim, FunctionInfo, dim_source

Checker = Callable[..., Any]


class _Writer:
    """Source of one checker; `names` maps each symbol to the variable that holds it."""

    def __init__(self, info: FunctionInfo) -> None:
        self.info = info
        self.lines: list[str] = []
        self.late: list[str] = []
        self.names: dict[str, str] = {}
        self.all = ", ".join(f"a{i}" for i in range(len(info.args)))

    def add(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def require(self, condition: str) -> None:
        """Fail unless the condition holds."""
        self.lines.append(f"    if not ({condition}): raise explain(({self.all},))")

    def slow(self) -> str:
        return f"return slow(({self.all},))"

    def source(self, dim: Dim) -> str:
        return dim_source(dim, self.names.__getitem__)


def _sources(info: FunctionInfo) -> dict[tuple[Any, ...], str]:
    """Where each symbol is bound: its listed source, else the scalar argument of that name, else
    its first plain place in a shape, then in strides."""
    bound: dict[str, tuple[Any, ...]] = {s.name: s.source for s in info.symbols}
    for i, arg in enumerate(info.args):
        if not arg.is_array:
            bound.setdefault(arg.name, ("scalar", i))
    for kind in ("shape", "stride"):
        for i, arg in enumerate(info.args):
            for j, dim in enumerate((arg.shape if kind == "shape" else arg.strides) or ()):
                if isinstance(dim, str):
                    bound.setdefault(dim, (kind, i, j))
    return {(*source, name): name for name, source in bound.items()}


def _write_scalar(out: _Writer, i: int, arg: ArgInfo) -> None:
    dtype = parse(arg.dtype)
    kind = "float" if dtype.is_float else "bool" if dtype.is_bool else "int"
    out.add(f"if type(a{i}) is not {kind}: {out.slow()}")
    if kind == "int":
        low, high = scalar_range(arg)
        out.require(f"{low} <= a{i} <= {high}")


def _write_array(out: _Writer, i: int, arg: ArgInfo) -> None:
    strided = arg.strides is not None
    mine = [f"a{i}.dtype == {arg.dtype!r}"]
    numpy = [f"a{i}.dtype == D_{arg.dtype}"]
    if not strided:
        mine.append(f"a{i}._strides is None")
        numpy.append(f"a{i}.flags.c_contiguous")
    if arg.is_output:
        mine.append(f"not a{i}._readonly")
        numpy.append("not d[1]")
    out.add(f"if type(a{i}) is NDArray:")
    out.add(f"    ok = {' and '.join(mine)}")
    out.add(f"    p{i} = a{i}._address")
    if strided:
        out.add(f"    t{i} = a{i}._strides")
    out.add(f"elif type(a{i}) is ndarray:")
    out.add(f"    d = a{i}.__array_interface__['data']")
    out.add(f"    p{i} = d[0]")
    out.add(f"    ok = {' and '.join(numpy)}")
    if strided:
        out.add(f"    t{i} = None if a{i}.flags.c_contiguous else strides(a{i})")
    out.add(f"else: {out.slow()}")
    _write_shape(out, i, arg)


def _write_shape(out: _Writer, i: int, arg: ArgInfo) -> None:
    """Check what was found of an array, and its shape; name its dimensions."""
    strided = arg.strides is not None
    mask = arg.alignment - 1
    aligned = f" and not p{i} & {mask}" if mask else ""
    if strided and arg.align:  # by the code for compact arrays, which others do not come to
        aligned = f" and not p{i} & ({mask} if t{i} is None else {arg.itemsize - 1})"
    fixed = all(isinstance(d, int) for d in arg.shape)
    if fixed and not strided:
        out.require(f"ok{aligned} and a{i}.shape == {arg.shape!r}")
        return
    out.require(f"ok{aligned} and len(a{i}.shape) == {len(arg.shape)}")
    if arg.shape:
        out.add(f"{''.join(f's{i}_{j}, ' for j in range(len(arg.shape)))}= a{i}.shape")
    if strided:
        _write_strides(out, i, arg)
        if arg.narrow:
            out.require(f"h{i} - l{i} <= {arg.itemsize * MOST_NARROW}")
    elif arg.narrow:
        count = " * ".join(f"s{i}_{j}" for j in range(len(arg.shape)))
        out.require(f"{count} <= {MOST_NARROW}")


def _write_strides(out: _Writer, i: int, arg: ArgInfo) -> None:
    """Strides and the ends of the memory: in line for compact arrays, which most are."""
    steps = ["1"]
    for j in range(len(arg.shape) - 1, 0, -1):
        steps.append(f"s{i}_{j}" if j == len(arg.shape) - 1 else f"{steps[-1]} * s{i}_{j}")
    count = " * ".join(f"s{i}_{j}" for j in range(len(arg.shape))) or "1"
    out.add(f"if t{i} is None:")
    out.add(f"    t{i} = ({''.join(f'{x}, ' for x in reversed(steps[: len(arg.shape)]))})")
    out.add(f"    l{i} = p{i}")
    out.add(f"    h{i} = p{i} + {arg.itemsize} * {count}")
    out.add(f"elif not t{i}: raise explain(({out.all},))")
    out.add(f"else: l{i}, h{i} = byte_range(p{i}, a{i}.shape, t{i}, {arg.itemsize})")


def _write_device_array(out: _Writer, i: int, arg: ArgInfo, first: int) -> None:
    """As `_write_array`, for an array on a device: that of the first array."""
    strided = arg.strides is not None
    facts = [f"a{i}.dtype == {arg.dtype!r}"]
    if not strided:
        facts.append(f"a{i}._strides is None")
    if arg.is_output:
        facts.append(f"not a{i}._readonly")
    out.add(f"if type(a{i}) is not DeviceArray: {out.slow()}")
    if i == first:
        out.add(f"r = a{i}._runtime")
        out.add(f"if r.kind != {out.info.device!r}: {out.slow()}")
    else:
        out.add(f"if a{i}._runtime is not r: {out.slow()}")
    out.add(f"p{i} = a{i}._address")
    out.add(f"ok = {' and '.join(facts)}")
    if strided:
        out.add(f"t{i} = a{i}._strides")
    _write_shape(out, i, arg)
    out.add(f"m{i} = a{i}._handle")
    out.add(f"if m{i} is None: m{i} = handle({i}, a{i})")


def _write_dims(out: _Writer, sources: dict[tuple[Any, ...], str]) -> None:
    """Bind the symbols, then compare every other dimension and stride."""
    for (kind, *rest, name), _ in sources.items():
        variable = f"y{len(out.names)}"
        out.names[name] = variable
        out.add(f"{variable} = {_bound_value(out.info, kind, rest)}")
    for symbol in out.info.symbols:
        if symbol.narrow:
            out.require(f"{out.names[symbol.name]} <= {MOST_SIZE}")
    checks = []
    for i, arg in enumerate(out.info.args):
        if arg.strides is None and all(isinstance(d, int) for d in arg.shape):
            continue
        for j, dim in enumerate(arg.shape):
            if ("shape", i, j, dim) not in sources:
                checks.append(f"s{i}_{j} == {out.source(dim)}")
        for j, dim in enumerate(arg.strides or ()):
            if ("stride", i, j, dim) not in sources:
                checks.append(f"(s{i}_{j} < 2 or t{i}[{j}] == {out.source(dim)})")
    for check in checks:
        out.require(check)


def _bound_value(info: FunctionInfo, kind: str, rest: list[int]) -> str:
    if kind == "const":
        return str(rest[0])
    arg, index = info.args[rest[0]], rest[0]
    if kind == "scalar":
        return f"a{index}"
    if kind == "stride":
        steps = f"t{index}" if arg.strides is not None else f"strides(a{index})"
        return f"{steps}[{rest[1]}]{f' // {arg.lanes}' if arg.lanes > 1 else ''}"
    fixed = arg.strides is None and all(isinstance(d, int) for d in arg.shape)
    return str(arg.shape[rest[1]]) if fixed else f"s{index}_{rest[1]}"


def _write_range(out: _Writer, i: int, arg: ArgInfo) -> tuple[str, str] | None:
    """Variables of the ends of an array's memory; None where the array is always empty."""
    size = arg.itemsize
    if arg.strides is not None:
        return f"l{i}", f"h{i}"
    if 0 in arg.shape:
        return None
    count = size
    factors = []
    for j, dim in enumerate(arg.shape):
        if isinstance(dim, int):
            count *= dim
        else:
            factors.append(f"s{i}_{j}")
    out.add(f"h{i} = p{i} + {' * '.join([str(count), *factors])}")
    return f"p{i}", f"h{i}"


def _write_overlap(out: _Writer) -> None:
    args = out.info.args
    outputs = [i for i, a in enumerate(args) if a.is_output]
    arrays = [i for i, a in enumerate(args) if a.is_array]
    if not outputs or len(arrays) < 2:
        return
    ranges = {i: _write_range(out, i, args[i]) for i in arrays}
    fixed = {i for i in arrays if all(isinstance(d, int) for d in args[i].shape)}
    for i in outputs:
        for j in arrays:
            mine, other = ranges[i], ranges[j]
            if i == j or (j in outputs and j < i) or mine is None or other is None:
                continue
            terms = [f"{mine[0]} < {other[1]}", f"{other[0]} < {mine[1]}"]
            terms += [f"{r[0]} < {r[1]}" for k, r in ((i, mine), (j, other)) if k not in fixed]
            out.require(f"not ({' and '.join(terms)})")


def checker_source(info: FunctionInfo) -> str:
    """Source of `check(a0, a1, ...)`, which returns the slots as bytes or raises ArgumentError.

    For a function of a device it returns the device's index and the slots as a tuple, with the
    arrays' handles.
    """
    out = _Writer(info)
    first = next((i for i, a in enumerate(info.args) if a.is_array), -1)
    for i, arg in enumerate(info.args):
        if not arg.is_array:
            _write_scalar(out, i, arg)
        elif info.device:
            _write_device_array(out, i, arg, first)
        else:
            _write_array(out, i, arg)
    _write_dims(out, _sources(info))
    _write_overlap(out)
    letter = "m" if info.device else "p"
    slots = [f"{letter}{i}" if a.is_array else f"a{i}" for i, a in enumerate(info.args)]
    slots += [out.names[s.name] for s in info.symbols]
    if info.device:
        index = "r.index" if first >= 0 else "0"
        out.add(f"return {index}, ({''.join(f'{s}, ' for s in slots)})")
    else:
        out.add(f"return pack({', '.join(slots)})")
    return f"def check({out.all}):\n" + "\n".join(out.lines) + "\n"


def slot_format(info: FunctionInfo) -> str:
    """Format, for `struct`, of the slots of a call."""
    return "".join(map(_slot, info.args)) + "q" * len(info.symbols)


def _slot(arg: ArgInfo) -> str:
    if arg.is_array:
        return "Q"
    dtype = parse(arg.dtype)
    if dtype.is_float:
        return "d"
    return "Q" if dtype.is_handle or arg.dtype == "uint64" else "q"


@lru_cache(maxsize=512)
def _compiled(source: str) -> CodeType:
    return compile(source, "<tilewright call check>", "exec")


def make_checker(info: FunctionInfo) -> Checker:
    """A function of the signature's arguments that checks them and returns the filled slots; for
    a function of a device, see `checker_source`.

    The slots hold addresses: the caller keeps the arguments. So only arguments that need no
    adaptation may be given; others raise `NeedsAdapting`.
    """
    namespace: dict[str, Any] = {
        "NDArray": NDArray,
        "DeviceArray": DeviceArray,
        "handle": lambda index, array: part_handle(info, index, array),
        "ndarray": np.ndarray,
        "pack": struct.Struct(slot_format(info)).pack,
        "strides": _strides,
        "byte_range": byte_range,
        "explain": lambda args: explain(info, args),
        "slow": _needs_adapting,
    }
    for arg in info.args:
        if arg.is_array:
            namespace[f"D_{arg.dtype}"] = parse(arg.dtype).numpy
    exec(_compiled(checker_source(info)), namespace)
    check: Checker = namespace["check"]
    return check


def _strides(array: Any) -> tuple[int, ...]:
    """Strides in elements; empty where they are no whole elements."""
    return element_strides(array) or ()


class NeedsAdapting(Exception):
    """Raised where an argument is not yet of a type that the checker reads."""


def _needs_adapting(args: tuple[Any, ...]) -> bytes:
    raise NeedsAdapting


def adapt_and_check(
    info: FunctionInfo, check: Checker, args: tuple[Any, ...]
) -> tuple[Any, list[Any]]:
    """Slots for any arguments, and the adapted arguments that must live as long as the slots."""
    adapted = adapt_all(info, args)
    return check(*adapted), adapted
