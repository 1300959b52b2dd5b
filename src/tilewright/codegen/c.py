"""C source of CPU functions: plain C99, for reading and for compilers other than LLVM.

A function takes a pointer to the first element of each array, then the extents and strides that its
shapes leave open, and gives 0, the number of the assertion that failed, or -1 without memory.
Parallel and vectorised loops run serially.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.deep import deep_call
from ..base.dtype import DType, parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.stmt import PrimFunc
from ..loopir.visit import free_vars
from ..target.target import Target
from .c_family import Alignments, bare
from .c_language import CLanguage, function_of
from .c_names import UniqueNames
from .c_preamble import preamble

SCALARS = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float16": "float",
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    "handle": "void*",
}
_STACK_BYTES = 1 << 16


def _allocate(p: CPrinter, s: S.Allocate) -> S.Stmt | None:
    """Small arrays on the stack, others on the heap."""
    t = parse(s.buffer.dtype)
    size: Any = E.const(t.lanes, "int64")
    for d in s.buffer.shape:
        size = size * E.cast("int64", d)
    known = const_int(size)
    if known is not None and known * t.nbytes <= _STACK_BYTES:
        p.declare_array(s.buffer, max(known, 1))
        return s.body
    p.need("include stdlib.h")
    p.statement(size)
    kind, count = p.memory_type(t.element), bare(p.expr(size))
    name = p.names.define(s.buffer.data, s.buffer.data.name)
    p.line(f"{kind}* {name} = ({kind}*)malloc((size_t)({count}) * sizeof({kind}));")
    p.line(f"if ({name} == NULL) return -1;")
    p.define_pointer(s.buffer.data, name, t.element, "global", t.nbytes)
    p.heap.append(name)
    p.stmt(s.body)
    p.heap.pop()
    p.line(f"free({name});")
    return None


class CPrinter(CLanguage):
    """One C function."""

    language = "C"
    stmt_table = {**CLanguage.stmt_table, S.Allocate: _allocate}
    unroll_pragma = ""

    def __init__(self, func: PrimFunc, target: Target, needs: dict[str, None]) -> None:
        super().__init__(func, target, needs)
        self.heap: list[str] = []
        self.checks = 0

    # -- types and constants

    def type(self, dtype: str) -> str:
        t = parse(dtype)
        if t.lanes == 1:
            return SCALARS[dtype]
        self.need(f"struct {dtype} {SCALARS[t.element]}")
        return f"tw_{dtype}"

    def memory_type(self, dtype: str) -> str:
        if dtype in ("float16", "bfloat16"):
            return "uint16_t"
        return "uint8_t" if dtype == "bool" else SCALARS[dtype]

    def make(self, dtype: str, lanes: Sequence[str]) -> str:
        return f"(({self.type(dtype)}){{{{{', '.join(map(bare, lanes))}}}}})"

    def lane(self, vector: str, t: DType, index: int) -> str:
        return f"{vector}.s[{index}]"

    def special_float(self, value: float, bits: int) -> str:
        text = "NAN" if math.isnan(value) else "INFINITY"
        text = f"((double){text})" if bits == 64 else text
        return text if math.isnan(value) or value > 0 else f"-{text}"

    # -- scalars

    def cast(self, x: str, a: DType, b: DType) -> str:
        """A scalar of type `a` as type `b`; see SEMANTICS.md."""
        if b.is_bool:
            return f"({x} != 0)"
        if b.is_float and b.bits == 16:
            if a.text == "float64" or (a.is_integer and a.bits >= 32):
                kind = a.text if a.bits == 64 else "int64"
                x = f"{self.need(f'tw_odd_{kind}')}({bare(x)})"
            elif a.text != "float32":
                x = f"(float){x}"
            return f"{self.need(f'tw_round_{b.text}')}({bare(x)})"
        if a.is_float and b.is_integer:
            source = "float64" if a.bits == 64 else "float32"
            return f"{function_of(self.need(f'tw_sat {source} {b.text}'))}({bare(x)})"
        return x if self.type(a.text) == self.type(b.text) else f"(({self.type(b.text)}){x})"

    def extreme(self, a: str, b: str, t: DType, smaller: bool) -> str:
        element = "float32" if t.is_float and t.bits == 16 else t.element
        return super().extreme(a, b, parse(element), smaller)

    def reinterpret(self, value: Any, source: DType, target: DType) -> str:
        if source.lanes != target.lanes:
            raise self.unsupported(f"{source.text} as the bits of {target.text}")
        a, b = parse(source.element), parse(target.element)

        def write(x: str) -> str:
            if a.is_float and a.bits == 16:
                x = f"{self.need(f'tw_to_{a.text}')}({bare(x)})"
            if b.is_float and b.bits == 16:
                return f"{self.need(f'tw_from_{b.text}')}((uint16_t){x})"
            if a.bits == 16 or not (a.is_float or b.is_float):
                return f"(({self.type(b.text)}){x})"
            return f"{function_of(self.need(f'tw_bits {a.text} {b.text}'))}({bare(x)})"

        return self.lanewise(E.Call(target.text, "tir.reinterpret", (value,)), (value,), write)

    # -- memory

    def from_memory(self, text: str, t: DType) -> str:
        if t.is_float and t.bits == 16:
            return f"{self.need(f'tw_from_{t.element}')}({bare(text)})"
        return super().from_memory(text, t)

    def to_memory(self, text: str, t: DType) -> str:
        if t.is_float and t.bits == 16:
            return f"{self.need(f'tw_to_{t.element}')}({bare(text)})"
        return text

    def declare_array(self, buffer: Buffer, size: int) -> None:
        t = parse(buffer.dtype)
        name = self.names.define(buffer.data, buffer.data.name)
        self.line(f"{self.memory_type(t.element)} {name}[{size}];")
        self.define_pointer(buffer.data, name, t.element, "global", t.nbytes)

    def check(self, condition: str, message: str) -> None:
        self.checks += 1
        text = message.splitlines()[0].replace("*/", "* /")[:80]
        freed = "".join(f"free({name}); " for name in self.heap)
        self.line(f"if (!{condition}) {{ {freed}return {self.checks}; }}  /* {text} */")

    # -- the function

    def write(self) -> str:
        """The text of the function."""
        self.start()
        restrict = "restrict " if self.func.attrs.get("tir.noalias", True) else ""
        texts = []
        for var in self.func.params:
            buffer = self.func.buffer_map.get(var)
            t = parse(var.dtype)
            if buffer is None and not t.is_handle:
                name = self.names.define(var, var.name)
                self.env[var] = name
                texts.append(f"{self._scalar(var, name)} {name}")
                continue
            data = var if buffer is None else buffer.data
            name = self.names.define(data, data.name)
            element = self.types.get(data) or (parse(buffer.dtype).element if buffer else "int8")
            self.define_pointer(data, name, element, "global", parse(element).nbytes)
            texts.append(f"{self.memory_type(element)}* {restrict}{name}")
        for var in symbols(self.func):
            name = self.names.define(var, var.name)
            self.env[var] = name
            texts.append(f"{self.type(var.dtype)} {name}")
        self.stmt(self.func.body)
        unused = [f"(void){t.split()[-1].lstrip('*')};" for t in texts if not self._used(t)]
        head = "".join(f"  {line}\n" for line in (*self.head, *unused))
        body = "\n".join(self.lines)
        name = UniqueNames().fresh(self.func.name)
        signature = f"int32_t {name}({', '.join(texts) or 'void'})"
        return f"{signature};\n{signature} {{\n{head}{body}\n  return 0;\n}}\n"

    def _used(self, parameter: str) -> bool:
        name = parameter.split()[-1]
        return any(name in line for line in self.lines)

    def _scalar(self, var: E.Var, name: str) -> str:
        t = parse(var.dtype)
        if t.is_float and t.bits == 16:
            self.env[var] = self.from_memory(name, t)
            return "uint16_t"
        return self.type(var.dtype)


def symbols(func: PrimFunc) -> list[E.Var]:
    """The extents and strides that a function finds in its arrays: parameters behind them."""
    found: dict[E.Var, None] = {}
    for buffer in func.buffer_map.values():
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if const_int(e) is None:
                found.update(dict.fromkeys(free_vars(e)))
    return [v for v in found if v not in func.params]


def generate(
    kernels: Mapping[str, PrimFunc], target: Target, align: Alignments | None = None
) -> str:
    """C source of CPU functions, each `int32_t <its global_symbol>(...)`.

    CompileError says what C cannot do: GPU threads, calls of Python functions, LLVM's intrinsics.
    `align` is told nothing: C's vectors are arrays of elements.
    """
    needs: dict[str, None] = {}
    texts = [deep_call(_function, func, target, needs) for func in kernels.values()]
    return "\n".join([preamble(needs), *texts])


def _function(func: PrimFunc, target: Target, needs: dict[str, None]) -> str:
    for key in func.attrs:
        if key == "tir.kernel_params_access":
            raise CompileError(f"{func.name} is a kernel of a device; C has functions of CPUs")
    return CPrinter(func, target, needs).write()
