"""Host and device: every kernel becomes a function of its own, the rest launches them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.data import FREE_SCALARS, unknown_divisors
from ..loopir.equal import structural_equal
from ..loopir.expr import const_int
from ..loopir.hopper_calls import CLUSTER, TENSOR_MAP
from ..loopir.rewrite import Rewriter, handles
from ..loopir.subst import substitute
from ..loopir.visit import free_vars, nodes, walk
from .thread_loops import launch_thread_loops
from .unify_threads import is_launch

CALL_KERNEL = "tir.call_kernel"
DEVICE_KERNEL = 2  # the attribute "calling_conv"
_OF_KERNELS = ("pragma_import_c", "pragma_import_llvm", "pragma_launch_bounds_min_blocks", CLUSTER)


@dataclass(frozen=True)
class DeviceProgram:
    """A function for a device: what runs on the host, and its kernels by name.

    `host` has the parameters of the function that it was made from; it calls
    `tir.call_kernel(name, arguments of the kernel, extents of "tir.kernel_launch_params")`.
    A kernel's parameters are the data variables and scalars that it uses; its attributes are
    "global_symbol", "calling_conv", "tir.noalias", "tir.kernel_launch_params" (tags) and
    "tir.kernel_params_access" (for each parameter "r", "w", "rw", "scalar" or, of a tensor map that
    the host makes, "map") and, where there are any, "tir.kernel_free_scalars" (the names of scalars
    that are no sizes: they may be zero).
    """

    host: S.PrimFunc
    kernels: dict[str, S.PrimFunc] = field(default_factory=dict)


def split_host_device(func: S.PrimFunc) -> DeviceProgram:
    """Cut a function into its host part and its kernels.

    Kernels are named NAME_kernel, NAME_kernel_1, ... in their order. A kernel's parameters are
    buffers in the order of the function's arguments, then memory that the host allocates, then
    scalars by name; strides are called stride, stride_1, ... A `tensor_map` in a kernel becomes a
    parameter, whose argument is the call.

    What AttrStmt "target" marks is a kernel too, of one thread where it launches none.

    Needs unify_threads. Guarantees: the host part has no thread axes, the kernels have nothing
    that is not theirs. Stands last of the passes that look at the function as a whole; what knows
    the target's language comes after it.
    """
    func = launch_thread_loops(func)
    split = _Split(func)
    host = func.with_body(split.stmt(func.body))
    return DeviceProgram(host, split.kernels)


class _Split(Rewriter):
    def __init__(self, func: S.PrimFunc) -> None:
        self.name = func.name
        self.arrays: dict[E.Var, int] = {}
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                self.arrays[buffer.data] = len(self.arrays)
        self.strides = [v for b in func.buffer_map.values() for v in _plain_vars(b.strides)]
        self.unknown = unknown_divisors(func)
        self.kernels: dict[str, S.PrimFunc] = {}
        self.code: list[S.AttrStmt] = []

    @handles(S.Allocate)
    def _allocate(self, s: S.Allocate) -> Any:
        self.arrays[s.buffer.data] = len(self.arrays)
        return super()._allocate(s)

    @handles(S.AttrStmt)
    def _attr(self, s: S.AttrStmt) -> Any:
        if is_launch(s):
            return self._launch(s)
        if s.attr_key == "target":  # of one thread, unless it launches more
            launches = any(is_launch(x) for x in walk(s.body))
            return self.stmt(s.body) if launches else self._launch(s.body)
        if s.attr_key not in _OF_KERNELS:
            return super()._attr(s)
        self.code.append(s)  # on the axis that blocks are bound to it stands around the kernel
        body = self.stmt(s.body)
        self.code.pop()
        return body

    def _launch(self, s: S.Stmt) -> S.Stmt:
        number = len(self.kernels)
        maps = _Maps()
        s = maps.stmt(s)
        base = re.sub(r"\W|^(?=\d)", "_", self.name, flags=re.ASCII)
        name = f"{base}_kernel" + (f"_{number}" if number else "")
        extents = launch_extents(s)
        values = self._parameters(s)
        body, params = self._own_names(_with_code(s, self.code), values)
        access = data_access(body)
        attrs: dict[str, Any] = {
            "global_symbol": name,
            "calling_conv": DEVICE_KERNEL,
            "tir.noalias": True,
            "tir.kernel_launch_params": tuple(extents),
            "tir.kernel_params_access": tuple(
                "map"
                if p in maps.calls
                else access.get(p, "r")
                if p.dtype == "handle"
                else "scalar"
                for p in params
            ),
        }
        free = tuple(p.name for p, v in zip(params, values) if v in self.unknown)
        if free:
            attrs[FREE_SCALARS] = free
        self.kernels[name] = S.PrimFunc(params, body, attrs=attrs)
        given = [maps.calls.get(v, v) for v in values]
        args = (E.StringImm(name), *given, *extents.values())
        return S.Evaluate(E.Call("int32", CALL_KERNEL, args))

    def _parameters(self, kernel: S.Stmt) -> list[E.Var]:
        used = free_vars(kernel, with_data=True)
        arrays = sorted(
            (v for v in used if v in self.arrays or v.dtype == "handle"),
            key=lambda v: self.arrays.get(v, len(self.arrays)),
        )
        rest = {v for v in used if v not in arrays}
        places = {v: i for i, v in enumerate(self.strides)}
        scalars = sorted(
            (v for v in used if v in rest), key=lambda v: (_base(v, places), places.get(v, -1))
        )
        return [*arrays, *scalars]

    def _own_names(self, body: S.Stmt, values: list[E.Var]) -> tuple[S.Stmt, list[E.Var]]:
        """The kernel with parameters of names fit for its language, each name once."""
        strides = dict.fromkeys(self.strides, 0)
        taken: set[str] = set()
        renamed: dict[E.Var, E.Var] = {}
        params = []
        for v in values:
            base = _base(v, strides)
            name, number = base, 0
            while name in taken:
                number += 1
                name = f"{base}_{number}"
            taken.add(name)
            param = v
            if name != v.name and v.dtype != "handle":
                param = renamed[v] = E.Var(name, v.dtype)
            params.append(param)
        if not renamed:
            return body, params
        buffers = {}
        for x in nodes(body):
            if type(x) in (E.BufferLoad, S.BufferStore) and x.buffer not in buffers:
                shape = tuple(substitute(d, renamed) for d in x.buffer.shape)
                buffers[x.buffer] = x.buffer.with_(shape=shape)
        return substitute(body, renamed, buffers), params


class _Maps(Rewriter):
    """Puts variables in the place of tensor maps, those that are alike once."""

    def __init__(self) -> None:
        self.calls: dict[E.Var, E.Call] = {}

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        if e.op.name != TENSOR_MAP:
            return super()._call(e)
        for var, call in self.calls.items():
            if structural_equal(call, e):
                return var
        pointer: Any = e.args[0]
        var = E.Var(f"{pointer.args[1].name}_map", "handle")
        self.calls[var] = e
        return var


def _with_code(kernel: S.Stmt, code: list[S.AttrStmt]) -> S.Stmt:
    """A kernel that brings along the pragmas from around its launch."""
    if code and type(kernel) is S.AttrStmt and is_launch(kernel):
        body = _with_code(kernel.body, code)
        return S.AttrStmt(kernel.node, kernel.attr_key, kernel.value, body)
    for pragma in reversed(code):
        kernel = S.AttrStmt(pragma.node, pragma.attr_key, pragma.value, kernel)
    return kernel


def _plain_vars(dims: Iterable[Any]) -> list[E.Var]:
    return [d for d in dims if isinstance(d, E.Var)]


def _base(v: E.Var, strides: dict[E.Var, int]) -> str:
    return "stride" if v in strides else re.sub(r"\W", "_", v.name)


def data_access(body: Any) -> dict[E.Var, str]:
    """What a statement does with the memory behind each data variable: "r", "w" or "rw"."""
    reads: set[E.Var] = set()
    writes: set[E.Var] = set()
    known: set[E.Var] = set()
    handed: set[E.Var] = set()
    for x in nodes(body):
        kind = type(x)
        if kind is E.BufferLoad:
            reads.add(x.buffer.data)
        elif kind is S.BufferStore:
            writes.add(x.buffer.data)
        elif kind is E.Call and x.op.name == "tir.tvm_access_ptr":
            data, mask = x.args[1], const_int(x.args[4])
            known.add(data)
            if mask is None or mask & 1:
                reads.add(data)
            if mask is None or mask & 2:
                writes.add(data)
        elif kind is E.Call and x.op.name == "tir.address_of":
            handed.update(a.buffer.data for a in x.args if type(a) is E.BufferLoad)
        elif kind is E.Call:  # a pointer that goes into a call may be used for anything
            handed.update(a for a in x.args if isinstance(a, E.Var) and a.dtype == "handle")
    for data in handed - known:
        reads.add(data)
        writes.add(data)
    found = {v: "rw" if v in writes else "r" for v in reads}
    found.update((v, "w") for v in writes if v not in reads)
    return found


def launch_of(call: E.Call, kernel: S.PrimFunc) -> tuple[list[Any], dict[str, Any]]:
    """The arguments and the extent of each launch parameter of a `tir.call_kernel`."""
    tags = kernel.attrs["tir.kernel_launch_params"]
    count = len(kernel.params)
    return list(call.args[1 : 1 + count]), dict(zip(tags, call.args[1 + count :]))


def launch_extents(body: S.Stmt) -> dict[str, Any]:
    """The extent of every thread axis of a kernel, by tag."""
    found: dict[str, Any] = {}
    s: Any = body
    while is_launch(s):
        found[s.node.thread_tag] = s.value
        s = s.body
    return found
