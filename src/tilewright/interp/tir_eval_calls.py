"""Calls that need to know memory, threads or functions of the user's, as Python source text."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from .tir_eval_expr import ExprCode
from .tir_eval_text import Text

_BARRIERS = (
    "tir.tvm_storage_sync",
    "tir.tvm_thread_allreduce",
    "tir.tvm_warp_shuffle",
    "tir.tvm_warp_shuffle_up",
    "tir.tvm_warp_shuffle_down",
    "tir.tvm_warp_activemask",
)


class CallCode(ExprCode):
    """Writes calls; `threads` has the names of the thread axes around, by tag."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[str, str] = {}

    def pointer(self, data: Any, dtype: str) -> str:
        """Memory as flat array of the element type of `dtype`."""
        views = self.memories.get(data, {})
        element = parse(dtype).element
        if element in views:
            return views[element]
        return f"{self.helper('view')}({self.code(data)}, {element!r})"

    def _access_ptr(self, e: E.Call) -> Text:
        sample, data, offset, extent, _ = e.args
        memory, lanes = self.pointer(data, sample.dtype), parse(sample.dtype).lanes
        at, size = self.code(offset), self.code(extent)
        scale = f" * {lanes}" if lanes > 1 else ""
        return Text(f"{memory}[({at}){scale}:({at} + {size}){scale}]", 2)

    def _address_of(self, e: E.Call) -> Text:
        load = e.args[0]
        if not isinstance(load, E.BufferLoad):
            raise TilewrightError(f"tir_eval: address_of takes an element of a buffer: {e}")
        indices = tuple(i.base if isinstance(i, E.Ramp) else i for i in load.indices)
        memory, at, depth = self.place(load.buffer, indices)
        lanes = parse(load.buffer.dtype).lanes
        return Text(f"{memory}[({at}) * {lanes}:]" if lanes > 1 else f"{memory}[{at}:]", depth + 1)

    def _make_shape(self, e: E.Call) -> Text:
        return Text(f"({''.join([self.code(a) + ', ' for a in e.args])})", 2)

    def _make_array(self, e: E.Call) -> Text:
        data, shape, strides, ndim, sample, offset = e.args
        memory = self.pointer(data, sample.dtype)
        rest = ", ".join([self.code(a) for a in (shape, strides, ndim)])
        call = self.helper("make_array")
        return Text(f"{call}({memory}, {rest}, None, {self.code(offset)})", 3)

    def _extern(self, e: E.Call) -> Text:
        name = e.args[0]
        if not isinstance(name, E.StringImm):
            raise TilewrightError(f"tir_eval: {e.op.name[4:]} without a name: {e}")
        skip = 2 if "llvm" in e.op.name else 1
        return self.by_name(name.value, e, e.args[skip:])

    def _barrier(self, e: E.Call) -> Text:
        if self.threads or e.op.name != "tir.tvm_storage_sync":
            raise TilewrightError(
                f"tir_eval runs threads one after another and cannot run {e.op.name[4:]}"
            )
        return Text("0")

    def _likely(self, e: E.Call) -> Text:
        return self.value(e.args[0])

    def _no_op(self, e: E.Call) -> Text:
        return Text("0")

    def _half(self, e: E.Call) -> Text:
        lanes = parse(e.dtype).lanes
        part = f":{lanes}" if e.op.name == "tir.vectorlow" else f"{lanes}:"
        return Text(f"{self.code(e.args[0])}[{part}]", 8)

    def _combine(self, e: E.Call) -> Text:
        return self.value(E.Shuffle(e.args, range(parse(e.dtype).lanes)))

    def _dp4a(self, e: E.Call) -> Text:
        a, b, acc = [self.code(x) for x in e.args]
        dot = f"int(({a}.astype('int64') * {b}.astype('int64')).sum())"
        return self.wrapped(parse(e.dtype), f"({acc} + {dot})", 8, False)

    def _isnullptr(self, e: E.Call) -> Text:
        return Text("False")


ExprCode.calls.update(
    {
        "tir.if_then_else": ExprCode._if_then_else,
        "tir.likely": CallCode._likely,
        "tir.tvm_access_ptr": CallCode._access_ptr,
        "tir.address_of": CallCode._address_of,
        "tir.tvm_stack_make_shape": CallCode._make_shape,
        "tir.tvm_stack_make_array": CallCode._make_array,
        "tir.prefetch": CallCode._no_op,
        "tir.vectorlow": CallCode._half,
        "tir.vectorhigh": CallCode._half,
        "tir.vectorcombine": CallCode._combine,
        "tir.dp4a": CallCode._dp4a,
        "tir.isnullptr": CallCode._isnullptr,
        **{
            f"tir.{name}": CallCode._extern
            for name in (
                "call_extern",
                "call_pure_extern",
                "tvm_call_packed",
                "tvm_call_cpacked",
                "call_llvm_intrin",
                "call_llvm_pure_intrin",
            )
        },
        **dict.fromkeys(_BARRIERS, CallCode._barrier),
    }
)
