"""OpenCL C source of kernels.

Vectors are OpenCL's own, loaded by vloadN and stored by vstoreN, which need no alignment. float16
is `half` where the device computes in it (cl_khr_fp16), else it is kept in memory by vload_half and
vstore_half and computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.dtype import DType, parse
from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.stmt import PrimFunc
from ..lowering.intrin.opencl import OPENCL_NAMES
from ..target.target import Target
from .c_family import bare
from .c_language import CLanguage, function_of
from .opencl_calls import OPENCL_CALLS
from .opencl_preamble import preamble
from .opencl_stmt import OPENCL_STMTS, Regions
from .opencl_types import is_native, mask_name, memory_name, register_bits, struct_text, type_name

_BUILTINS = frozenset((*OPENCL_NAMES.values(), "popcount", "clz", "mad", "native_exp"))
_OPERATORS = {E.Add: "+", E.Sub: "-", E.Mul: "*", E.Div: "/", E.Min: "*", E.Max: "+"}
_FUNCTIONS = {"blockIdx": "get_group_id", "threadIdx": "get_local_id"}
_HEX = "0123456789abcdef"


class OpenCLPrinter(CLanguage):
    """One OpenCL kernel."""

    language = "OpenCL"
    long_suffix = "L"
    call_table = {**CLanguage.call_table, **OPENCL_CALLS}
    stmt_table = {**CLanguage.stmt_table, **OPENCL_STMTS}

    def __init__(self, func: PrimFunc, target: Target, needs: dict[str, None]) -> None:
        super().__init__(func, target, needs)
        self.native_half = target.has_fp16
        self.regions = Regions(func.body)

    # -- types and constants

    def type(self, dtype: str) -> str:
        t = parse(dtype)
        if t.lanes > 1 and not is_native(t):
            self.need(f"struct {dtype}")
        self.extension(t)
        return type_name(dtype, self.native_half)

    def memory_type(self, dtype: str) -> str:
        self.extension(parse(dtype))
        return memory_name(dtype, self.native_half)

    def extension(self, t: DType) -> None:
        """Ask for the extension that a type needs."""
        if t.text[:7] == "float64":
            self.need("pragma cl_khr_fp64")
        elif t.element == "float16" and self.native_half:
            self.need("pragma cl_khr_fp16")

    def native_vector(self, t: DType) -> bool:
        return is_native(t)

    def space(self, scope: str) -> str:
        if scope == "global":
            return "__global "
        return "__local " if scope.startswith("shared") else "__private "

    def make(self, dtype: str, lanes: Sequence[str]) -> str:
        t, name = parse(dtype), self.type(dtype)
        if t.lanes > 1 and is_native(t):
            if t.is_bool:
                lanes = [f"({x} ? -1 : 0)" for x in lanes]
            return f"(({name})({', '.join(map(bare, lanes))}))"
        return f"(({name}){{{{{', '.join(map(bare, lanes))}}}}})"

    def lane(self, vector: str, t: DType, index: int) -> str:
        if not is_native(t):
            return f"{vector}.s[{index}]"
        text = f"{vector}.s{_HEX[index]}"
        return f"({text} != 0)" if t.is_bool else text

    def splat(self, dtype: str, text: str) -> str:
        t = parse(dtype)
        if not is_native(t):
            return super().splat(dtype, text)
        if t.is_bool:
            text = f"({text} ? -1 : 0)"
        return f"(({self.type(dtype)})({bare(text)}))"

    def special_float(self, value: float, bits: int) -> str:
        if bits == 64:
            text = f"as_double(0x7ff{'8' if math.isnan(value) else '0'}{'0' * 12}L)"
        else:
            text = "NAN" if math.isnan(value) else "INFINITY"
        return text if math.isnan(value) or value > 0 else f"-{text}"

    def half_literal(self, text: str, t: DType) -> str:
        native = self.native_half and t.code == "float"
        return f"((half){text})" if native else text

    # -- scalars

    def half_arith(self, op: str, a: str, b: str, t: DType) -> str:
        if t.code == "bfloat" or not self.native_half:
            return super().half_arith(op, a, b, t)
        return f"({a} {op} {b})"

    def extreme(self, a: str, b: str, t: DType, smaller: bool) -> str:
        if not t.is_float:
            return f"{'min' if smaller else 'max'}({bare(a)}, {bare(b)})"
        return self._float_extreme(a, b, parse(t.element), smaller)

    def _float_extreme(self, a: str, b: str, t: DType, smaller: bool) -> str:
        """NaN if either is: fmin and fmax prefer numbers."""
        half = t.bits == 16 and self.native_half and t.code == "float"
        element = t.element if half or t.bits != 16 else "float32"
        dtype = parse(element).with_lanes(t.lanes)
        self.extension(parse(dtype))
        name = self.need(f"tw_{'min' if smaller else 'max'}_{dtype}")
        return f"{name}({bare(a)}, {bare(b)})"

    def cast(self, x: str, a: DType, b: DType) -> str:
        """A scalar of type `a` as type `b`; see SEMANTICS.md."""
        if a.is_handle or b.is_handle:
            return f"(({self.type(b.text)}){x})"
        if b.is_bool:
            return f"({x} != 0)"
        return self._convert(f"(int){x}" if a.is_bool else x, a, b)

    def vector_cast(self, x: str, a: DType, b: DType) -> str:
        if b.is_bool:
            zero = self.splat(a.text, "0")
            return self._mask_to_bool(f"({x} != {zero})", a)
        if a.is_bool:
            ones = f"({x} & (({self.type(a.text)})(1)))"
            return self._convert(ones, a, b)
        return self._convert(x, a, b)

    def _convert(self, x: str, a: DType, b: DType) -> str:
        name = self.type(b.text)
        if b.is_float and b.bits == 16 and not (self.native_half and b.code == "float"):
            return self._narrow(x, a, b)
        if a.is_float and b.is_integer:
            return f"{self.need(f'tw_sat {self._float(a)} {b.text}').replace(' ', '_')}({bare(x)})"
        if type_name(a.text, self.native_half) == name and not a.is_bool:
            return x
        return f"(({name}){x})" if b.lanes == 1 else f"convert_{name}({bare(x)})"

    def _float(self, t: DType) -> str:
        """The float type that values of `t` have in registers."""
        if t.is_float and t.bits == 16 and not (self.native_half and t.code == "float"):
            return parse("float32").with_lanes(t.lanes)
        return t.text

    def _narrow(self, x: str, a: DType, b: DType) -> str:
        """A float32 in registers that has been rounded to float16 or bfloat16."""
        wide = parse("float32").with_lanes(b.lanes)
        x = self.to_odd(x, a)
        part = self.need(f"tw_round {b.element} {wide}")
        return f"{part.replace(' ', '_')}({bare(x)})"

    def to_odd(self, x: str, a: DType) -> str:
        """A number as the float32 that still rounds to the right narrower float."""
        if a.text.startswith(("float64", "int32", "uint32", "int64", "uint64")):
            if a.bits == 32:
                wide = parse(f"{'u' if a.is_uint else ''}int64").with_lanes(a.lanes)
                x, a = self._convert(x, a, parse(wide)), parse(wide)
            part = self.need(f"tw_odd {a.text}")
            return f"{part.replace(' ', '_')}({bare(x)})"
        if a.is_float:
            return x
        return self._convert(x, a, parse(parse("float32").with_lanes(a.lanes)))

    def reinterpret(self, value: Any, source: DType, target: DType) -> str:
        if source.lanes == target.lanes and source.lanes > 1 and not is_native(target):
            a, b = parse(source.element), parse(target.element)
            e = E.Call(target.text, "tir.reinterpret", (value,))
            return self.lanewise(e, (value,), lambda x: self._same_bits(x, a, b))
        return self._same_bits(self.expr(value), source, target)

    def _same_bits(self, x: str, source: DType, target: DType) -> str:
        if source.is_float and source.bits == 16 and self._float(source) != source.text:
            x = self.to_bits(x, source)
        if target.is_float and target.bits == 16 and self._float(target) != target.text:
            return self.from_bits(f"as_{memory_vector(target)}({bare(x)})", target)
        if any(t.lanes > 1 and not is_native(t) for t in (source, target)):
            return f"{function_of(self.need(f'tw_bits {source.text} {target.text}'))}({bare(x)})"
        return f"as_{self.type(target.text)}({bare(x)})"

    # -- vectors

    def vector_binary(self, e: Any, t: DType) -> str:
        a, b, op = self.expr(e.a), self.expr(e.b), _OPERATORS[type(e)]
        if t.is_bool:
            op = {"+": "|", "*": "&", "-": "^"}[op]
        elif t.is_float and t.bits == 16 and self._float(t) != t.text:
            raise InternalError(f"arithmetic on {t.text} must be legalised")
        elif t.is_int and t.bits >= 32:
            # unsigned, since data wraps
            unsigned = self.type(f"u{t.text}")
            return f"as_{self.type(t.text)}(as_{unsigned}({bare(a)}) {op} as_{unsigned}({bare(b)}))"
        return f"({a} {op} {b})"

    def vector_extreme(self, e: Any, t: DType, smaller: bool) -> str:
        a, b = self.expr(e.a), self.expr(e.b)
        if t.is_float:
            return self._float_extreme(a, b, t, smaller)
        return f"{'min' if smaller else 'max'}({bare(a)}, {bare(b)})"

    def vector_compare(self, e: Any, t: DType, op: str) -> str:
        return self._mask_to_bool(f"({self.expr(e.a)} {op} {self.expr(e.b)})", t)

    def _mask_to_bool(self, mask: str, t: DType) -> str:
        if register_bits(t.text, self.native_half) == 8:
            return mask
        return f"convert_char{t.lanes}({bare(mask)})"

    def vector_select(self, e: E.Select, t: DType) -> str:
        condition = self.expr(e.condition)
        width = register_bits(t.text, self.native_half)
        if width != 8:
            condition = f"convert_{mask_name(width, t.lanes)}({bare(condition)})"
        a, b = bare(self.expr(e.true_value)), bare(self.expr(e.false_value))
        return f"select({b}, {a}, {bare(condition)})"

    def takes_vectors(self, function: str, t: DType) -> bool:
        return function in _BUILTINS and is_native(t)

    # -- memory

    def load_element(self, buffer: Buffer, at: str, t: DType) -> str:
        element = parse(buffer.dtype).element
        place = self.pointer(buffer.data, element)
        if element == "float16" and not self.native_half:
            return self.from_bits(f"{place}[{at}]", t)
        return self.from_memory(f"{place}[{at}]", t)

    def from_memory(self, text: str, t: DType) -> str:
        if t.code == "bfloat":
            return self.from_bits(text, t)
        return super().from_memory(text, t)

    def from_bits(self, text: str, t: DType) -> str:
        """A narrow float in registers from its bits."""
        part = self.need(f"tw_from {t.text}")
        return f"{part.replace(' ', '_')}({bare(text)})"

    def to_bits(self, text: str, t: DType) -> str:
        part = self.need(f"tw_to {t.text}")
        return f"{part.replace(' ', '_')}({bare(text)})"

    def store_element(self, buffer: Buffer, at: str, value: str, t: DType) -> str:
        element = parse(buffer.dtype).element
        place = self.pointer(buffer.data, element)
        kept = element == "float16" and not self.native_half
        if kept or element == "bfloat16":
            value = self.to_bits(value, t)
        return f"{place}[{at}] = {bare(value)};"

    def stored(self, value: Any) -> str:
        if isinstance(value, E.Cast) and id(value) not in self.shared:
            target, source = parse(value.dtype), parse(value.value.dtype)
            narrow = target.is_float and target.bits == 16 and self._float(target) != target.text
            if narrow and source.element == "float32":
                return bare(self.expr(value.value))  # rounded on the way to memory
        return bare(self.expr(value))

    def load_vector(self, buffer: Buffer, base: Any, t: DType) -> str | None:
        if not is_native(t):
            return None
        place, half = self._place(buffer, base, t)
        if half:
            return f"vload_half{t.lanes}(0, {place})"
        text = f"vload{t.lanes}(0, {place})"
        if t.is_bool:
            return f"({text} != ((uchar{t.lanes})(0)))"
        return self.from_bits(text, t) if t.code == "bfloat" else text

    def store_vector(self, buffer: Buffer, base: Any, value: Any, t: DType) -> str | None:
        if not is_native(t):
            return None
        text = self.stored(value)
        place, half = self._place(buffer, base, t, store=True)
        if half:
            return f"vstore_half{t.lanes}_rte({text}, 0, {place});"
        if t.is_bool:
            text = f"as_uchar{t.lanes}(({text}) & ((char{t.lanes})(1)))"
        elif t.code == "bfloat":
            text = self.to_bits(text, t)
        return f"vstore{t.lanes}({text}, 0, {place});"

    def _place(self, buffer: Buffer, base: Any, t: DType, store: bool = False) -> tuple[str, bool]:
        """The address of a vector, and whether it is of halves that the device only keeps."""
        pointer, offset = self.pointer(buffer.data, t.element), bare(self.expr(base))
        text = pointer if offset == "0" else f"{pointer} + ({offset})"
        half = t.element == "float16" and not self.native_half
        if half:
            const = "const " if buffer.data in self.constant and not store else ""
            text = f"({const}{self.space(self.scope_of[buffer.data])}half*)({text})"
        return text, half

    def pointer(self, var: E.Var, element: str) -> str:
        text = super().pointer(var, element)
        if text.startswith("((") and var in self.constant:
            return f"((const {text[2:]}"
        return text

    def declare_array(self, buffer: Buffer, size: int) -> None:
        scope, t = buffer.scope(), parse(buffer.dtype)
        name = self.names.define(buffer.data, buffer.data.name)
        size *= t.lanes
        align = " __attribute__((aligned(16)))" if buffer.data in self.by_vectors else ""
        text = f"{self.memory_type(t.element)} {name}[{size}]{align};"
        if scope.startswith("shared"):
            # OpenCL has local variables only in the outermost block of a kernel
            self.head.append(f"__local {text}")
        elif scope in ("local", "warp"):
            self.line(text)
        elif scope == "global":
            raise CompileError(
                f"buffer {buffer.name} in global memory is allocated inside kernel "
                f"{self.func.name}; give it scope shared or local"
            )
        else:
            raise self.no_memory(buffer)
        self.define_pointer(buffer.data, name, t.element, scope, 16 if align else t.nbytes)

    # -- threads

    def bind_thread(self, node: Any, extent: Any) -> None:
        kind, _, axis = node.thread_tag.partition(".")
        if kind not in _FUNCTIONS or axis not in ("x", "y", "z"):
            raise CompileError(
                f"OpenCL has no thread axis {node.thread_tag!r} (kernel {self.func.name})"
            )
        if kind == "threadIdx":
            count = const_int(extent)
            if count is None:
                raise CompileError(
                    f"the extent of {node.thread_tag} in kernel {self.func.name} must be constant, "
                    f"got {extent}"
                )
            self.extents[axis] = max(self.extents.get(axis, 1), count)
        number = "xyz".index(axis)
        self.env[node.var] = f"(({self.type(node.var.dtype)}){_FUNCTIONS[kind]}({number}))"

    def check(self, condition: str, message: str) -> None:
        self.line(f"if (!{condition}) return;  // {message.splitlines()[0][:80]}")

    # -- the kernel

    def write(self) -> str:
        """The text of the kernel."""
        self.start()
        self.extents: dict[str, int] = {}
        access = self.func.attrs.get("tir.kernel_params_access", ())
        restrict = "restrict " if self.func.attrs.get("tir.noalias", True) else ""
        texts, constant = [], set()
        for at, var in enumerate(self.func.params):
            name = self.names.define(var, var.name)
            t = parse(var.dtype)
            if not t.is_handle:
                texts.append(f"{self._scalar_parameter(var, name)} {name}")
                continue
            element = self.types.get(var, "int8")
            self.define_pointer(var, name, element, "global", parse(element).nbytes)
            const = ""
            if at < len(access) and access[at] == "r":
                const = "const "
                constant.add(var)
            texts.append(f"{const}__global {self.memory_type(element)}* {restrict}{name}")
        self.constant = frozenset(constant)
        self.stmt(self.func.body)
        head = "".join(f"  {line}\n" for line in self.head)
        body = "\n".join(self.lines)
        group = ""
        if self.extents:
            sizes = ", ".join(str(self.extents.get(axis, 1)) for axis in "xyz")
            group = f" __attribute__((reqd_work_group_size({sizes})))"
        signature = f"{self.func.name}({', '.join(texts)})"
        return f"__kernel void{group} {signature} {{\n{head}{body}\n}}\n"

    def _scalar_parameter(self, var: E.Var, name: str) -> str:
        """Kernels take no bool, and a narrow float that is not computed in as its bits."""
        t = parse(var.dtype)
        self.env[var] = name
        if t.is_bool:
            self.env[var] = f"({name} != 0)"
            return "char"
        if self._float(t) != t.text:
            self.env[var] = self.from_bits(name, t)
            return "ushort"
        return self.type(var.dtype)


def memory_vector(t: DType) -> str:
    """The type of the bits of a narrow float (or a vector of them)."""
    return "ushort" if t.lanes == 1 else f"ushort{t.lanes}"


def front(needs: Sequence[str], target: Target) -> str:
    """What stands before kernels."""
    return preamble(needs, target.has_fp16, struct_text)
