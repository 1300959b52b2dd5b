"""What CUDA and C share: vectors are structs, written lane by lane; narrow floats that the
language does not compute in are kept as 16-bit integers in memory and as float32 in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtype import DType, parse
from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from .c_calls import CALLS
from .c_calls import call as write_call
from .c_expr import EXPRS
from .c_family import Printer, bare
from .c_memory import load, pointer_types, store, vector_accessed
from .c_stmt import STMTS


class CLanguage(Printer):
    """Defaults that suit C; see Printer for what each method means."""

    expr_table = {**EXPRS, E.BufferLoad: load, E.Call: write_call}
    stmt_table = {**STMTS, S.BufferStore: store}
    call_table = dict(CALLS)
    long_suffix = "LL"

    def start(self) -> None:
        """Look over the function: types behind pointers, what is accessed by vectors."""
        self.types, self.buffers = pointer_types(self.func)
        self.by_vectors = vector_accessed(self.func)

    def paste(self, lines: Sequence[str]) -> None:
        """Write captured lines one level deeper than where they were captured."""
        self.lines.extend("  " + line for line in lines)

    # -- constants

    def bool_literal(self, value: bool) -> str:
        return "true" if value else "false"

    def special_float(self, value: float, bits: int) -> str:
        """Infinity or NaN."""
        raise NotImplementedError

    def half_literal(self, text: str, t: DType) -> str:
        """A 16-bit float from the text of the same value as a float32."""
        return text

    def zero(self, t: DType) -> str:
        """The zero of a scalar type."""
        value: Any = E.const(0, t.text)
        return self.expr(value)

    # -- scalars

    def from_int(self, text: str, t: DType) -> str:
        """An int expression as a value of a narrow type."""
        if t.is_bool:
            return f"({text} != 0)"
        return text if t.bits >= 32 else f"(({self.type(t.element)}){text})"

    def half_arith(self, op: str, a: str, b: str, t: DType) -> str:
        raise InternalError(f"arithmetic on {t.text} must be legalised before code generation")

    def compare(self, op: str, a: str, b: str, t: DType) -> str:
        return f"({a} {op} {b})"

    def extreme(self, a: str, b: str, t: DType, smaller: bool) -> str:
        """The smaller or larger of two values; NaN if either is."""
        name = self.need(f"tw_{'min' if smaller else 'max'}_{t.element}")
        return f"{name}({a}, {b})"

    def reinterpret(self, value: Any, source: DType, target: DType) -> str:
        name = self.need(f"tw_bits {source.text} {target.text}")
        return f"{function_of(name)}({self.atom(value)})"

    # -- vectors

    def splat(self, dtype: str, text: str) -> str:
        t = parse(dtype)
        if not text.replace("_", "a").isalnum():
            text = self.temp(t.element, text)
        return self.make(dtype, [text] * t.lanes)

    def packed(self, t: DType) -> bool:
        """Whether the operators + - * / are there for vectors of this type."""
        return self.native_vector(t)

    def vector_binary(self, e: Any, t: DType) -> str:
        raise NotImplementedError

    def takes_vectors(self, function: str, t: DType) -> bool:
        """Whether a function of the language's library takes vectors."""
        return False

    def use(self, function: str) -> str:
        """A function that the program calls by name: the preamble may have to define it."""
        return function

    # -- memory

    def load_element(self, buffer: Buffer, at: str, t: DType) -> str:
        text = f"{self.pointer(buffer.data, parse(buffer.dtype).element)}[{at}]"
        return self.from_memory(text, t)

    def store_element(self, buffer: Buffer, at: str, value: str, t: DType) -> str:
        place = f"{self.pointer(buffer.data, t.element)}[{at}]"
        return f"{place} = {self.to_memory(value, t)};"

    def store_value(self, buffer: Buffer, at: str, value: Any, t: DType) -> str:
        """The statement that writes a scalar to memory."""
        return self.store_element(buffer, at, self.stored(value), t)

    def stored(self, value: Any) -> str:
        """The text of a scalar that is written to memory."""
        return bare(self.expr(value))

    def from_memory(self, text: str, t: DType) -> str:
        return f"({text} != 0)" if t.is_bool else text

    def to_memory(self, text: str, t: DType) -> str:
        return text

    def load_vector(self, buffer: Buffer, base: Any, t: DType) -> str | None:
        """The vector of elements base, base + 1, ... by one access; None where that is not to be
        had."""
        return None

    def store_vector(self, buffer: Buffer, base: Any, value: Any, t: DType) -> str | None:
        return None

    def declare_array(self, buffer: Buffer, size: int) -> None:
        raise NotImplementedError

    def bind_handle(self, var: E.Var, value: Any) -> None:
        """`let var = pointer`: the type behind it is what the address has."""
        data = pointed_data(value)
        text = self.expr(value)
        element = self.types.get(var) or (self.pointee.get(data) if data is not None else None)
        scope = self.scope_of.get(data, "global") if data is not None else "global"
        dtype = element or "int8"
        if data is not None:
            self.require_align(data, parse(dtype).nbytes)
        name = self.names.define(var, var.name)
        kind = f"{self.space(scope)}{self.memory_type(dtype)}*"
        const = "const " if data is not None and data in self.constant else ""
        self.line(f"{const}{kind} {name} = ({const}{kind}){text};")
        self.define_pointer(var, name, dtype, scope, 1)

    constant: frozenset[E.Var] = frozenset()

    def bind_thread(self, node: Any, extent: Any) -> None:
        name = getattr(getattr(node, "var", node), "name", str(node))
        raise CompileError(
            f"loop {name} is bound to a GPU thread, but the target is a CPU; "
            "use s[...].parallel(axis) there, or build for a GPU target"
        )

    def import_c(self, source: Any) -> None:
        """Put the user's own source in front of the kernels."""
        items = source if isinstance(source, (tuple, list)) else [source]
        for item in items:
            self.need(f"import {getattr(item, 'value', item)}")

    def check(self, condition: str, message: str) -> None:
        raise NotImplementedError

    def no_memory(self, buffer: Buffer) -> CompileError:
        return CompileError(
            f"{self.language} has no memory {buffer.scope()!r} (buffer {buffer.name} of kernel "
            f"{self.func.name}); use scope 'shared' or 'local', or a target that has it"
        )

    def no_barrier(self, scope: str) -> CompileError:
        help_text = (
            "the blocks of a kernel cannot wait for each other: split the computation into two "
            "kernels"
            if scope == "global"
            else "the scopes of barriers are 'shared' and 'warp'"
        )
        return CompileError(
            f"{self.language} has no barrier of scope {scope!r} inside a kernel (kernel "
            f"{self.func.name}); {help_text}"
        )


def pointed_data(e: Any) -> E.Var | None:
    """The data variable that a pointer expression leads to."""
    if isinstance(e, E.Var):
        return e
    if isinstance(e, E.Call) and e.op.name == "tir.tvm_access_ptr":
        return e.args[1] if isinstance(e.args[1], E.Var) else None
    if isinstance(e, E.Call) and e.op.name == "tir.address_of":
        return e.args[0].buffer.data if isinstance(e.args[0], E.BufferLoad) else None
    return None


def function_of(part: str) -> str:
    """The name of the function that a part of the preamble defines."""
    return part.replace(" ", "_")
