"""Writes the text of one LLVM function: names, blocks, value numbering, scopes.

Values are operand texts ("%v12", "0", "splat (float 0x3FF0000000000000)"); their types follow from
the dtype of the expression. Pure instructions are numbered by their text within the blocks that
they dominate, so what is computed twice is written once; loads are numbered until the next side
effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...base.dtype import parse
from ...base.errors import InternalError
from ...loopir.expr import PrimExpr, Var
from .types import is_constant, memory_type, register_type, splat_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .module import ModuleBuilder

CALL_PACKED = "declare i32 @tw_call_packed(ptr, ptr, i32)"
MEMORY_IS_KEPT = -(1 << 30)
"""Codes below come from a Python function that keeps a view of its memory, see rt/packed.py."""


class Emitter:
    """The body of one function while it is being written.

    `env` gives the operand of a variable in its own type, `wide` of an integer variable of up to 32
    bits as i64 (either or both are there; the other is made where it is needed).
    """

    __slots__ = (
        "align",
        "around",
        "can_fail",
        "spread",
        "count",
        "current",
        "effects",
        "env",
        "expr_table",
        "head",
        "in_parallel",
        "index_table",
        "lines",
        "live_heap",
        "loads",
        "mask",
        "memo",
        "module",
        "name",
        "native_half",
        "reads",
        "stmt_table",
        "strided",
        "trail",
        "turning",
        "rows",
        "values",
        "wide",
        "workspace",
    )

    def __init__(self, module: ModuleBuilder, name: str) -> None:
        self.module = module
        self.name = name
        self.native_half = module.native_half
        self.expr_table: Mapping[type, Callable[..., str]] = module.expr_table
        self.stmt_table: Mapping[type, Callable[..., None]] = module.stmt_table
        self.index_table: Mapping[type, Callable[..., str]] = module.index_table
        self.head: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.reads = 0
        self.effects = 0
        self.current = "entry"
        self.can_fail = False
        self.spread: Any = None
        self.values: dict[str, str] = {}
        self.memo: dict[int, tuple[Any, str]] = {}
        self.trail: list[tuple[dict[Any, Any], Any]] = []
        self.loads: dict[Any, tuple[Any, str]] = {}
        self.env: dict[Var, str] = {}
        self.wide: dict[Var, str] = {}
        self.align: dict[Var, int] = {}
        self.mask: tuple[str, int] | None = None
        self.in_parallel = False
        self.live_heap: list[str] = []
        self.workspace: Any = None
        self.strided: Any = None
        self.turning = False
        self.rows: Any = None
        self.around: Var | None = None

    def child(self, name: str) -> Emitter:
        """An emitter for a function that is cut out of this one."""
        return Emitter(self.module, name)

    # -- types

    def type(self, dtype: str) -> str:
        """The register type of a dtype."""
        return register_type(dtype, self.native_half)

    def memory(self, dtype: str) -> str:
        """The memory type of a dtype."""
        return memory_type(dtype, self.native_half)

    # -- instructions

    def fresh(self, prefix: str = "%v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        """The result of a pure instruction, written where it is not known here already."""
        known = self.values.get(text)
        if known is not None:
            return known
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        self.values[text] = name
        self.trail.append((self.values, text))
        return name

    def effect(self, text: str) -> str:
        """The result of an instruction that must be run each time it is reached."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def read(self, text: str) -> str:
        """The result of an instruction that reads memory: known until the next side effect."""
        self.reads += 1
        known = self.loads.get(text)
        if known is not None:
            return known[1]
        name = self.effect(text)
        self.loads[text] = (None, name)
        return name

    def clobber(self) -> None:
        """Memory may have changed."""
        self.reads += 1
        self.effects += 1
        self.loads = {}

    def alloca(self, text: str) -> str:
        """A stack slot, taken at the function's entry."""
        name = self.fresh("%a")
        self.head.append(f"  {name} = alloca {text}")
        return name

    # -- blocks

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def block(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.current = label

    def branch(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def branch_if(self, condition: str, then: str, otherwise: str, note: str = "") -> None:
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{note}")

    @contextmanager
    def scope(self, expression: bool = False, straight: bool = False) -> Iterator[None]:
        """Values numbered inside are forgotten at the end, since they need not dominate what
        follows.

        `expression`: nothing inside writes memory, so loads known before stay known after.
        `straight`: the body runs once, right after what stands before, so these loads are known in
        it.
        """
        mark = len(self.trail)
        loads, effects = self.loads, self.effects
        self.loads = dict(loads) if expression or straight else {}
        try:
            yield
        finally:
            trail = self.trail
            while len(trail) > mark:
                table, key = trail.pop()
                table.pop(key, None)
            self.loads = loads if expression and self.effects == effects else {}

    def leave(self, code: str) -> None:
        """Return from the function with a code; what follows needs a block of its own."""
        for block in reversed(self.live_heap):
            self.free(block, code)
        self.line(f"ret i32 {code}")
        self.can_fail = True

    def free(self, block: str, code: str = "0") -> None:
        """Free a block; not where the code to return says that a Python function keeps a view."""
        block = self.unless_kept(block, code)
        self.module.declare("declare void @free(ptr)")
        self.line(f"call void @free(ptr {block})")

    def unless_kept(self, block: str, code: str) -> str:
        """A block, or null where the code to return says that a Python function keeps a view."""
        if code[0] != "%" or CALL_PACKED not in self.module.declarations:
            return block
        kept = self.op(f"icmp slt i32 {code}, {MEMORY_IS_KEPT}")
        return self.op(f"select i1 {kept}, ptr null, ptr {block}")

    # -- expressions

    def expr(self, e: PrimExpr) -> str:
        """The operand that holds the value of an expression."""
        key = id(e)
        known = self.memo.get(key)
        if known is not None:
            return known[1]
        known = self.loads.get(key)
        if known is not None:
            self.reads += 1
            return known[1]
        handler = self.expr_table.get(type(e))
        if handler is None:
            raise InternalError(f"code generator: no rule for a {type(e).__name__}")
        loads = self.loads
        before = self.reads
        result = handler(self, e)
        if result[0] == "%" and self.mask is None and self.loads is loads:
            if self.reads == before:
                self.memo[key] = (e, result)
                self.trail.append((self.memo, key))
            else:
                loads[key] = (e, result)
        return result

    def bind(self, var: Var, operand: str) -> None:
        """Give a variable its value in its own type."""
        self.env[var] = operand
        self.wide.pop(var, None)

    def stmt(self, s: Any) -> None:
        """Write a statement."""
        handler = self.stmt_table.get(type(s))
        if handler is None:
            raise InternalError(f"code generator: no rule for a {type(s).__name__}")
        handler(self, s)

    # -- vectors

    def splat(self, operand: str, element_type: str, lanes: int) -> str:
        """A scalar operand in every lane."""
        if lanes == 1:
            return operand
        if is_constant(operand):
            return splat_text(element_type, operand, lanes)
        vec = f"<{lanes} x {element_type}>"
        first = self.op(f"insertelement {vec} poison, {element_type} {operand}, i64 0")
        return self.op(
            f"shufflevector {vec} {first}, {vec} poison, <{lanes} x i32> zeroinitializer"
        )

    def lane(self, operand: str, vector_type: str, index: int) -> str:
        """One lane of a vector operand."""
        return self.op(f"extractelement {vector_type} {operand}, i64 {index}")

    def extend(self, operand: str, dtype: str) -> str:
        """A scalar integer operand of `dtype` as i64."""
        t = parse(dtype)
        if t.bits == 64 and not t.is_bool:
            return operand
        if is_constant(operand):
            value = 1 if operand == "true" else 0 if operand == "false" else int(operand)
            if t.is_uint and value < 0:
                value += 1 << t.bits
            return str(value)
        how = "sext" if t.is_int else "zext"
        return self.op(f"{how} {self.type(dtype)} {operand} to i64")

    def text(self, signature: str, attributes: str) -> str:
        """The whole function."""
        body = "\n".join(self.lines)
        head = "\n".join(self.head)
        start = f"{head}\n" if head else ""
        return f"define {signature} {attributes} {{\nentry:\n{start}{body}\n}}\n"
