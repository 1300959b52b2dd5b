"""CUDA source of kernels.

The source needs no headers and compiles with NVRTC or nvcc alone. Pointers are `__restrict__` where
arguments do not overlap, `const` where a kernel only reads (which lets the compiler use the
read-only cache). Vectors are read and written by accesses of up to 128 bits where their alignment
is proved.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from ..base.dtype import DType, parse
from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.effects import is_pure
from ..loopir.expr import const_int, is_const
from ..loopir.hopper_calls import CLUSTER
from ..loopir.said import said
from ..loopir.stmt import IfThenElse
from ..loopir.visit import nodes
from ..target.target import Target
from .c_calls import if_then_else
from .c_expr import EXPRS
from .c_family import bare
from .c_language import CLanguage, function_of
from .c_memory import allocated, contiguous
from .cuda_bfloat import bits
from .cuda_calls import CUDA_CALLS
from .cuda_fixed import KINDS, FixedTerms
from .cuda_hopper import HOPPER_CALLS
from .cuda_mma import MMA_CALLS, branch
from .cuda_preamble import CALLED, preamble, type_parts
from .cuda_shared import PART_BYTES, alignment, dynamic_shared
from .cuda_types import is_builtin, memory_name, require_arch, type_name
from .cuda_wgmma import WGMMA_CALLS
from .cuda_wmma import WMMA_CALLS, declare, find_fragments

_AXES = frozenset(f"{a}.{d}" for a in ("blockIdx", "threadIdx") for d in "xyz")
_LETTERS = "xyzw"


def _add(p: CudaPrinter, e: E.Add) -> str:
    """a * b + c on halves is one instruction (SEMANTICS.md allows contraction)."""
    if e.dtype.startswith("float16"):
        for product, addend in ((e.a, e.b), (e.b, e.a)):
            if type(product) is E.Mul and id(product) not in p.shared:
                return p.half_fma(e, product, addend)
    return EXPRS[E.Add](p, e)


def _if_then_else(p: CudaPrinter, e: E.Call) -> str:
    """A vector of memory or zeros is one call: branches, whose values are lanes, make ptxas spill
    halves of registers."""
    condition, load, other = e.args
    if isinstance(load, E.BufferLoad) and load.predicate is None and is_const(other, 0):
        t = parse(e.dtype)
        reads = any(isinstance(x, E.BufferLoad) for i in load.indices for x in nodes(i))
        alone = not reads and all(map(is_pure, load.indices))
        if alone and t.lanes > 1 and not is_builtin(t) and parse(condition.dtype).lanes == 1:
            text = p.load_vector(load.buffer, contiguous(load), t, condition)
            if text is not None:
                return text
    return if_then_else(p, e)


class CudaPrinter(CLanguage):
    """One CUDA kernel."""

    language = "CUDA"
    call_table = {
        **CLanguage.call_table, **CUDA_CALLS, **MMA_CALLS, **WMMA_CALLS, **HOPPER_CALLS,
        **WGMMA_CALLS,
        "tir.if_then_else": _if_then_else,
    }  # fmt: skip
    expr_table = {**CLanguage.expr_table, E.Add: _add}
    stmt_table = {**CLanguage.stmt_table, IfThenElse: branch}

    def statement(self, *roots: Any) -> None:
        if self.depth == 1 and self.lines is self.outermost:
            self.fixed.line = len(self.lines)
        super().statement(*roots)

    def expr(self, e: Any) -> str:
        if type(e) in KINDS:
            name = self.fixed.named(self, e, super().expr)
            if name is not None:
                return name
        return super().expr(e)

    def shared_place(self, text: str) -> str:
        """What PTX takes for a place in shared memory, of the pointer to it as text."""
        place = f"(unsigned int)__cvta_generic_to_shared({text})"
        array, _, term = text.partition(" + ")
        if array in self.shared_names and self.fixed.has(term):
            return self.fixed.name(self, place, "unsigned int", place)
        return place

    # -- types and constants

    def type(self, dtype: str) -> str:
        for part in type_parts(dtype):
            self.need(part)
        return type_name(dtype)

    def memory_type(self, dtype: str) -> str:
        if dtype == "float16":
            self.need("half")
        return memory_name(dtype)

    def make(self, dtype: str, lanes: Sequence[str]) -> str:
        name = self.type(dtype)
        values = ", ".join(map(bare, lanes))
        return f"make_{name}({values})" if is_builtin(parse(dtype)) else f"{name}{{{{{values}}}}}"

    def lane(self, vector: str, t: DType, index: int) -> str:
        if t.is_bool:
            return f"({vector}.s[{index}] != 0)"
        return f"{vector}.{_LETTERS[index]}" if is_builtin(t) else f"{vector}.s[{index}]"

    def special_float(self, value: float, bits: int) -> str:
        """Infinity or NaN by its bits: `INFINITY` and `NAN` are names of a header."""
        if bits == 64:
            (pattern,) = struct.unpack("<Q", struct.pack("<d", value))
            return f"__longlong_as_double({pattern:#x}LL)"
        (pattern,) = struct.unpack("<I", struct.pack("<f", value))
        return f"__int_as_float({pattern:#x})"

    def half_literal(self, text: str, t: DType) -> str:
        return text if t.code == "bfloat" else f"{self.cast(text, parse('float32'), t)}"

    # -- operations

    def half_arith(self, op: str, a: str, b: str, t: DType) -> str:
        if t.code == "bfloat":
            raise InternalError("arithmetic on bfloat16 must be legalised before code generation")
        return f"({a} {op} {b})"

    def half_fma(self, e: E.Add, product: E.Mul, addend: Any) -> str:
        parts = (product.a, product.b, addend)
        if self.packed(parse(e.dtype)):
            self.need("tw_hfma")
            return f"tw_hfma({', '.join(bare(self.expr(x)) for x in parts)})"
        return self.lanewise(e, parts, lambda *xs: f"__hfma({', '.join(map(bare, xs))})")

    def packed(self, t: DType) -> bool:
        return t.element == "float16" and t.lanes % 2 == 0

    def vector_binary(self, e: Any, t: DType) -> str:
        op = {E.Add: "+", E.Sub: "-", E.Mul: "*"}.get(type(e))
        if op is None:
            return self.lanewise(e, (e.a, e.b), lambda a, b: f"({a} / {b})")
        self.need(f"half {op}")
        return f"({self.expr(e.a)} {op} {self.expr(e.b)})"

    def compare(self, op: str, a: str, b: str, t: DType) -> str:
        if t.element == "float16":
            self.need("half compare")
        return f"({a} {op} {b})"

    def extreme(self, a: str, b: str, t: DType, smaller: bool) -> str:
        element = "float32" if t.code == "bfloat" else t.element
        return super().extreme(a, b, parse(element), smaller)

    def cast(self, x: str, a: DType, b: DType) -> str:
        """A scalar of type `a` as type `b`; see SEMANTICS.md."""
        if a.text == "float16":
            self.need("half")
            if b.text == "bool":
                return f"(__half2float({x}) != 0.0f)"
            wide = f"__half2float({bare(x)})"
            return wide if b.text == "float32" else self.cast(wide, parse("float32"), b)
        if b.text == "bool":
            return f"({x} != 0)"
        if b.text == "float16":
            self.need("half")
            if a.is_float:
                return f"{'__double2half' if a.bits == 64 else '__float2half_rn'}({bare(x)})"
            if a.bits <= 16:
                return f"__float2half_rn((float){x})"
            unsigned = a.text == "uint64"
            return f"__{'u' if unsigned else ''}ll2half_rn({x})"
        if b.code == "bfloat":
            return self._to_bfloat(x, a)
        if a.is_float and b.is_integer:
            source = "float64" if a.bits == 64 else "float32"
            return f"{function_of(self.need(f'tw_sat {source} {b.text}'))}({bare(x)})"
        return f"(({self.type(b.text)}){x})"

    def reinterpret(self, value: Any, source: DType, target: DType) -> str:
        if source.code != "bfloat" and target.code != "bfloat":
            return super().reinterpret(value, source, target)
        self.need("bfloat16")
        if source.code == target.code:
            return self.expr(value)
        if source.lanes != target.lanes:
            raise self.unsupported(f"{source.text} as the bits of {target.text}")
        scalar = self.type(target.element)

        def write(x: str) -> str:
            if source.code == "bfloat":
                bits = f"tw_to_bfloat16({bare(x)})"
                if target.is_integer:
                    return f"(({scalar}){bits})"
                return f"__ushort_as_half({bits})"
            if source.element == "float16":
                x = f"__half_as_ushort({bare(x)})"
            return f"tw_from_bfloat16((unsigned short){x})"

        return self.lanewise(E.Call(target.text, "tir.reinterpret", (value,)), (value,), write)

    def _to_bfloat(self, x: str, a: DType) -> str:
        self.need("bfloat16")
        if a.bits >= 32 and a.text != "float32":
            self.need("to odd")
            kind = a.text if a.bits == 64 else "int64"
            x = f"tw_odd_{kind}({bare(x)})"
        elif not a.is_float:
            x = f"(float){x}"
        return f"tw_round_bfloat16({bare(x)})"

    def use(self, function: str) -> str:
        if function in CALLED:
            self.need(function)
        if function.startswith("__shfl"):
            self.need("warp")
        return function

    # -- memory

    def from_memory(self, text: str, t: DType) -> str:
        if t.element == "bfloat16":
            self.need("bfloat16")
            return f"tw_from_bfloat16({text})"
        return super().from_memory(text, t)

    def to_memory(self, text: str, t: DType) -> str:
        """A bfloat16 is rounded where it is made."""
        if t.element == "bfloat16":
            self.need("bfloat16")
            return f"tw_bits_bfloat16({bare(text)})"
        return text

    def store_value(self, buffer: Buffer, at: str, value: Any, t: DType) -> str:
        if t.element != "bfloat16":
            return super().store_value(buffer, at, value, t)
        return f"{self.pointer(buffer.data, t.element)}[{at}] = {bits(self, value)};"

    def load_vector(self, buffer: Buffer, base: Any, t: DType, condition: Any = None) -> str | None:
        """With a condition, zeros are loaded where it is false: of types that CUDA lacks."""
        place = None if base is None else self._vector_place(buffer, base, t)
        if place is None:
            return None
        const = "const " if buffer.data in self.constant else ""
        if is_builtin(t):
            return f"(*({const}{self.type(t.text)}*)({place}))"
        given = place if condition is None else f"{place}, {bare(self.expr(condition))}"
        if t.code == "bfloat":
            self.need(f"bits {t.text} ")
            return f"tw_floats_of(tw_load_bits_{t.text}({given}))"
        what = "tw_load" if condition is None else "tw_load_if"
        return f"{function_of(self.need(f'{what} {t.text} ').rstrip())}({given})"

    def store_vector(self, buffer: Buffer, base: Any, value: Any, t: DType) -> str | None:
        place = self._vector_place(buffer, base, t)
        if place is None:
            return None
        if t.code == "bfloat":
            return f"tw_store_bits_{t.text}({place}, {bits(self, value)});"
        text = bare(self.expr(value))
        if is_builtin(t):
            return f"*({self.type(t.text)}*)({place}) = {text};"
        return f"{function_of(self.need(f'tw_store {t.text} ').rstrip())}({place}, {text});"

    def _vector_place(self, buffer: Buffer, base: Any, t: DType) -> str | None:
        """The address of a vector that one access may read or write, or None."""
        size = t.nbytes * t.lanes
        if t.is_bool or (is_builtin(t) and t.lanes == 3) or size % (4 if t.code == "bfloat" else 2):
            return None
        width = min(size & -size, 16)
        if self.aligned(buffer.data, base, t.nbytes) < width:
            return None
        self.require_align(buffer.data, width)
        pointer, offset = self.pointer(buffer.data, t.element), bare(self.expr(base))
        return pointer if offset == "0" else f"{pointer} + ({offset})"

    def declare_array(self, buffer: Buffer, size: int) -> None:
        scope, t = buffer.scope(), parse(buffer.dtype)
        name = self.names.define(buffer.data, buffer.data.name)
        size *= t.lanes
        align = "__align__(16) " if buffer.data in self.by_vectors or t.lanes > 1 else ""
        if self.fragments and scope == "shared":
            align = "__align__(32) "  # what loads of fragments need
        if scope == "shared" and alignment(buffer) > PART_BYTES:
            align = f"__align__({alignment(buffer)}) "
        known = 16 if align else t.nbytes
        text = f"{align}{self.memory_type(t.element)} {name}[{size}];"
        if buffer.data in self.dynamic.places:
            self._dynamic(name, t, self.dynamic.places[buffer.data])
            known = 16
        elif scope == "shared":
            self.head.append(f"__shared__ {text}")
        elif scope.startswith("wmma."):
            declare(self, buffer, name, size)
        elif scope in ("local", "warp", "global"):
            if scope == "global":
                raise CompileError(
                    f"buffer {buffer.name} in global memory is allocated inside kernel "
                    f"{self.func.name}; give it scope shared or local"
                )
            self.line(text)
        else:
            raise self.no_memory(buffer)
        self.define_pointer(buffer.data, name, t.element, scope, known)
        if scope == "shared":
            self.shared_names.add(name)

    def _dynamic(self, name: str, t: DType, at: int) -> None:
        """Dynamic shared memory: one block whose size the launch gives, a part for each buffer."""
        block = f"extern __shared__ __align__({self.dynamic.align}) unsigned char tw_dynamic[];"
        if block not in self.head:
            self.head.append(block)
        kind = self.memory_type(t.element)
        self.head.append(f"{kind}* {name} = ({kind}*)(tw_dynamic + {at});")

    def need(self, part: str) -> str:
        if part == "cluster":
            require_arch(self, 90, "clusters of blocks")
        return super().need(part)

    # -- threads

    def bind_thread(self, node: Any, extent: Any) -> None:
        tag = node.thread_tag
        if tag not in _AXES:
            raise CompileError(f"CUDA has no thread axis {tag!r} (kernel {self.func.name})")
        if tag.startswith("threadIdx"):
            count = const_int(extent)
            if count is None:
                raise CompileError(
                    f"the extent of {tag} in kernel {self.func.name} must be constant, got {extent}"
                )
            self.extents[tag] = max(self.extents.get(tag, 1), count)
        self.env[node.var] = f"(({self.type(node.var.dtype)}){tag})"
        self.threads.add(node.var)

    def check(self, condition: str, message: str) -> None:
        self.line(f"if (!{condition}) __trap();  // {message.splitlines()[0][:80]}")

    # -- the kernel

    def write(self) -> str:
        """The text of the kernel."""
        self.start()
        self.fragments = find_fragments(self.func, allocated(self.func))
        self.extents: dict[str, int] = {}
        self.threads: set[E.Var] = set()
        self.fixed = FixedTerms(self.func, self.threads)
        self.outermost = self.lines
        self.shared_names: set[str] = set()
        self.dynamic = dynamic_shared(self.func)
        access = self.func.attrs.get("tir.kernel_params_access", ())
        restrict = "__restrict__ " if self.func.attrs.get("tir.noalias", True) else ""
        texts, constant = [], set()
        for at, var in enumerate(self.func.params):
            name = self.names.define(var, var.name)
            if not parse(var.dtype).is_handle:
                self.env[var] = name
                kind = self.type(var.dtype)
                if var.dtype == "bfloat16":  # comes as its bits
                    kind, self.env[var] = "unsigned short", self.from_memory(name, parse(var.dtype))
                texts.append(f"{kind} {name}")
                continue
            if at < len(access) and access[at] == "map":
                self.need("tensor map")
                texts.append(f"const __grid_constant__ tw_tensor_map {name}")
                self.env[var] = f"&{name}"
                continue
            element = self.types.get(var, "int8")
            buffer = self.buffers.get(var)
            align = buffer.data_alignment if buffer is not None else 16
            self.define_pointer(var, name, element, "global", align)
            const = ""
            if at < len(access) and access[at] == "r":
                const = "const "
                constant.add(var)
            texts.append(f"{const}{self.memory_type(element)}* {restrict}{name}")
        self.constant = frozenset(constant)
        self.stmt(self.func.body)
        bounds = math.prod(self.extents.values())
        least = said(self.func.body, "pragma_launch_bounds_min_blocks")
        limits = f"{bounds}, {least}" if least else f"{bounds}"
        launch = f" __launch_bounds__({limits})" if self.extents else ""
        cluster = said(self.func.body, CLUSTER)
        if cluster > 1:
            require_arch(self, 90, "clusters of blocks")
            text = f" __cluster_dims__({cluster}, 1, 1)"
            if "arch" not in dict(self.target.items):  # older compilers' devices do not take it
                text = f"\n#if __CUDA_ARCH__ >= 900\n{text}\n#endif\n"
            launch = text + launch
        head = "".join(f"  {line}\n" for line in self.head)
        body = "\n".join(self.fixed.placed(self.lines, bare))
        signature = f"{self.func.name}({', '.join(texts)})"
        return f'extern "C" __global__ void{launch} {signature} {{\n{head}{body}\n}}\n'


def front(needs: Sequence[str], target: Target) -> str:
    """What stands before kernels."""
    return preamble(needs)
