"""What the writers of CUDA, OpenCL and C share: one function as text, line by line.

A `Printer` turns a function into lines. `expr(e)` gives the text of a value: atomic, or in
parentheses, so that it can stand anywhere. Where a language has no vector arithmetic (CUDA, C), a
vector operation is one constructor over the lanes of named operands, so each becomes a statement
`float4 v1 = make_float4(v0.x + a.x, ...);`. Names are also given to large expressions that are used
several times (the IR is a graph, text is not). Statements needed by the side of a conditional that
may not be taken stay in that side.

Languages subclass `Printer`: tables say how each node type is written (`expr_table`,
`stmt_table`, `call_table`), methods how types, lanes, memory and threads are spelled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

from ..base.deep import Recursive, deep_call
from ..base.dtype import DType, parse
from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.data import data_lets, unknown_divisors
from ..loopir.effects import CallEffectKind, effect_of
from ..loopir.visit import children
from ..target.target import Target
from .c_names import UniqueNames

ExprRule = Callable[[Any, Any], str]
Alignments = dict[str, tuple[int, ...]]
"""By kernel, bytes that the address behind each parameter has to be a multiple of; 0: a scalar."""
StmtRule = Callable[[Any, Any], "S.Stmt | None"]

_ATOM = re.compile(r"[\w.]+(?:\[\d+\])?\Z")
_SHARED_SIZE = 12  # nodes from which on a subexpression that is used twice gets a name
_places: ContextVar[Mapping[int, int] | None] = ContextVar("tilewright_places", default=None)
_MARK = re.compile("\x01(\\d+)\x02")
_LEAVES = (E.Var, E.SizeVar, E.IntImm, E.FloatImm, E.StringImm)


@contextmanager
def marking(places: Mapping[int, int]) -> Iterator[None]:
    """Let source that is written in the body of the `with` say where its lines come from, for
    `split_marks`; `places`: the line of each statement of the loop IR, by its identity."""
    token = _places.set(places)
    try:
        yield
    finally:
        _places.reset(token)


def split_marks(text: str) -> tuple[str, list[int]]:
    """Source without marks, and for each of its lines that of the loop IR (0: not known)."""
    lines = text.split("\n")
    found = [_MARK.search(line) for line in lines]
    return _MARK.sub("", text), [0 if m is None else int(m[1]) for m in found]


def bare(text: str) -> str:
    """Text without the parentheses around all of it."""
    if text[:1] != "(" or text[-1:] != ")":
        return text
    depth = 0
    for at, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1]


class Printer(Recursive):
    """Writes one function; see the module's head."""

    recursive = ("divisor",)
    expr_table: ClassVar[dict[type, ExprRule]] = {}
    stmt_table: ClassVar[dict[type, StmtRule]] = {}
    call_table: ClassVar[dict[str, ExprRule]] = {}
    scalar_types: ClassVar[dict[str, str]] = {}
    language: ClassVar[str] = ""
    unroll_pragma: ClassVar[str] = "#pragma unroll"

    def __init__(self, func: S.PrimFunc, target: Target, needs: dict[str, None]) -> None:
        self.func = func
        self.target = target
        self.needs = needs  # keys of the preamble's parts, in order of first use
        self.names = UniqueNames()
        self.env: dict[E.Var, str] = {}
        self.pointee: dict[E.Var, str] = {}  # element type that a pointer is declared with
        self.scope_of: dict[E.Var, str] = {}
        self.align: dict[E.Var, int] = {}
        self.needed: dict[E.Var, int] = {}  # alignment that accesses need of the memory's start
        self.divisors: dict[E.Var, int] = {}
        self.lets = data_lets(func.body)
        self.unknown = unknown_divisors(func)
        self.head: list[str] = []  # declarations at the start of the function
        self.lines: list[str] = []
        self.written_out = True  # in no loop, or in one whose steps the compiler writes out
        self.depth = 1
        self.shared: set[int] = set()
        self.memo: dict[int, tuple[Any, str]] = {}
        self.places = _places.get()
        self.place = 0

    # -- what each language spells

    def type(self, dtype: str) -> str:
        """The type of a value."""
        raise NotImplementedError

    def memory_type(self, dtype: str) -> str:
        """The type of one element (of scalar `dtype`) in memory."""
        return self.type(dtype)

    def make(self, dtype: str, lanes: Sequence[str]) -> str:
        """A vector of these lanes."""
        raise NotImplementedError

    def lane(self, vector: str, t: DType, index: int) -> str:
        """One lane of a named vector of type `t`."""
        raise NotImplementedError

    def native_vector(self, t: DType) -> bool:
        """Whether the language computes on vectors of this type."""
        return False

    def space(self, scope: str) -> str:
        """What a pointer into memory of a scope is qualified with, with a space after it."""
        return ""

    # -- lines and names

    def line(self, text: str) -> None:
        mark = f"\x01{self.place}\x02" if self.place else ""
        self.lines.append("  " * self.depth + mark + text)

    def need(self, part: str) -> str:
        """Ask for a part of the preamble; gives back its key."""
        self.needs.setdefault(part)
        return part

    def temp(self, dtype: str, text: str, hint: str = "v") -> str:
        """A new variable with this value."""
        name = self.names.fresh(hint)
        self.line(f"{self.type(dtype)} {name} = {bare(text)};")
        return name

    def atom(self, e: Any) -> str:
        """The value of an expression as text that may be written several times."""
        text = self.expr(e)
        if _ATOM.match(text):
            return text
        name = self.temp(e.dtype, text)
        self.memo[id(e)] = (e, name)
        return name

    def lanes_of(self, e: Any) -> list[str]:
        """The text of each lane; a scalar is its only one. Broadcasts and ramps are taken apart."""
        kind = type(e)
        if kind is E.Broadcast:
            return [self.atom(e.value)] * e.lanes
        if kind is E.Ramp:
            return self.ramp_lanes(e)
        t = parse(e.dtype)
        if t.lanes == 1:
            return [self.expr(e)]
        name = self.atom(e)
        return [self.lane(name, t, i) for i in range(t.lanes)]

    def ramp_lanes(self, e: E.Ramp) -> list[str]:
        """The lanes of base, base + stride, ..."""
        base = self.atom(e.base)
        stride = e.stride.value if isinstance(e.stride, E.IntImm) else None
        text = "" if stride is not None else self.atom(e.stride)
        out = []
        for i in range(e.lanes):
            if stride is not None:
                step = self.offset(base, i * stride)
            else:
                step = base if i == 0 else f"({base} + {text if i == 1 else f'{text} * {i}'})"
            out.append(step)
        return out

    @staticmethod
    def offset(base: str, by: int) -> str:
        """`base` plus a constant."""
        if by == 0:
            return base
        if re.fullmatch(r"-?\d+", base):
            return str(int(base) + by)
        return f"({base} + {by})" if by > 0 else f"({base} - {-by})"

    def lanewise(self, e: Any, operands: Sequence[Any], write: Callable[..., str]) -> str:
        """The vector (or scalar) of `write(one lane of each operand)`."""
        t = parse(e.dtype)
        if t.lanes == 1:
            return write(*(self.expr(x) for x in operands))
        columns = [self.lanes_of(x) for x in operands]
        columns = [c * t.lanes if len(c) == 1 else c for c in columns]
        return self.make(e.dtype, [bare(write(*lane)) for lane in zip(*columns)])

    # -- dispatch

    def expr(self, e: Any) -> str:
        """The text of a value."""
        key = id(e)
        known = self.memo.get(key)
        if known is not None:
            return known[1]
        rule = self.expr_table.get(type(e))
        if rule is None:
            raise InternalError(f"{self.language} code generator: no rule for {type(e).__name__}")
        text = rule(self, e)
        if key in self.shared and not _ATOM.match(text):
            text = self.temp(e.dtype, text)
            self.memo[key] = (e, text)
        return text

    def stmt(self, s: Any) -> None:
        """Write a statement. Rules return what is left to write, so that long chains of nested
        statements need no recursion."""
        place = self.place
        while s is not None:
            if self.places is not None:
                self.place = self.places.get(id(s), self.place)
            rule = self.stmt_table.get(type(s))
            if rule is None:
                name = type(s).__name__
                raise InternalError(f"{self.language} code generator: no rule for {name}")
            s = rule(self, s)
        self.place = place

    def statement(self, *roots: Any) -> None:
        """Start of a statement that evaluates `roots`: finds what is used several times."""
        self.memo = {}
        self.shared = shared_nodes(roots)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """The lines of a nested block."""
        self.line(opening)
        with self.scope():
            self.depth += 1
            yield
            self.depth -= 1
        self.line("}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names given inside are not known behind."""
        memo, shared = self.memo, self.shared
        self.memo = dict(memo)
        yield
        self.memo, self.shared = memo, shared

    def captured(self, e: Any, write: Callable[[Any], str] | None = None) -> tuple[list[str], str]:
        """The statements that a value needs, and its text (by `write`, as an expression otherwise),
        without writing them."""
        lines, self.lines = self.lines, []
        with self.scope():
            text = write(e) if write else self.expr(e)
        lines, self.lines = self.lines, lines
        return lines, text

    # -- memory

    def define_pointer(self, var: E.Var, name: str, dtype: str, scope: str, align: int) -> None:
        """Make the memory of a data variable known."""
        self.env[var] = name
        self.pointee[var] = dtype
        self.scope_of[var] = scope
        self.align[var] = align

    def pointer(self, var: E.Var, element: str) -> str:
        """A pointer to elements of a scalar type in the memory of `var`."""
        name = self.env.get(var)
        if name is None:
            raise InternalError(f"buffer {var.name} has no memory in kernel {self.func.name}")
        self.require_align(var, parse(element).nbytes)
        if self.memory_type(self.pointee[var]) == self.memory_type(element):
            return name
        space = self.space(self.scope_of.get(var, "global"))
        return f"(({space}{self.memory_type(element)}*){name})"

    def require_align(self, var: E.Var, nbytes: int) -> None:
        """Note that an access is right only where the memory of `var` starts at a multiple of
        `nbytes`."""
        self.needed[var] = max(self.needed.get(var, 1), nbytes)

    def parameter_alignment(self) -> tuple[int, ...]:
        """What `KernelInfo.align` says of the function's parameters."""
        return tuple(
            self.needed.get(v, 1) if parse(v.dtype).is_handle else 0 for v in self.func.params
        )

    def divisor(self, e: Any) -> int:
        """A number that divides an index expression for certain (0: the expression is 0)."""
        kind = type(e)
        if kind is E.IntImm:
            return abs(int(e.value))
        if kind in (E.Var, E.SizeVar):
            return self.divisors.get(e, 1)
        if kind is E.Mul:
            return min(self.divisor(e.a) * self.divisor(e.b), 1 << 20)
        if kind in (E.Add, E.Sub, E.Min, E.Max):
            return _gcd(self.divisor(e.a), self.divisor(e.b))
        if kind is E.Select:
            return _gcd(self.divisor(e.true_value), self.divisor(e.false_value))
        if kind is E.Cast and parse(e.value.dtype).is_integer:
            return self.divisor(e.value)
        if kind is E.Call and e.op.name == "tir.shift_left" and isinstance(e.args[1], E.IntImm):
            return min(self.divisor(e.args[0]) << e.args[1].value, 1 << 20)
        return 1

    def aligned(self, var: E.Var, at: Any, element_bytes: int) -> int:
        """Bytes to which the address of element `at` is certainly aligned, a power of two."""
        known = self.align.get(var, element_bytes)
        step = self.divisor(at) * element_bytes
        while known > 1 and step % known:
            known //= 2
        return max(known, 1)

    def unsupported(self, what: str) -> CompileError:
        return CompileError(f"{self.language} has no code for {what} (kernel {self.func.name})")


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def shared_nodes(roots: Sequence[Any]) -> set[int]:
    """Identities of large subexpressions that occur several times below `roots`."""
    uses: dict[int, int] = {}
    order: list[Any] = []
    stack: list[tuple[Any, bool]] = [(r, False) for r in roots]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        count = uses.get(id(node), 0)
        uses[id(node)] = count + 1
        if count == 0 and type(node) not in _LEAVES:
            stack.append((node, True))
            stack.extend((c, False) for c in children(node))
    size: dict[int, int] = {}
    impure: set[int] = set()
    found: set[int] = set()
    for node in order:
        parts = children(node)
        total = 1 + sum(size.get(id(c), 1) for c in parts)
        if any(id(c) in impure for c in parts) or _has_effect(node):
            impure.add(id(node))
        elif uses[id(node)] > 1 and total >= _SHARED_SIZE:
            found.add(id(node))
            total = 1
        size[id(node)] = total
    return found


def _has_effect(node: Any) -> bool:
    return isinstance(node, E.Call) and effect_of(node.op) > CallEffectKind.ReadState


def kernel_texts(
    printer: Callable[..., Any],
    kernels: Mapping[str, S.PrimFunc],
    target: Target,
    needs: dict[str, None],
    align: Alignments | None,
) -> list[str]:
    """What printers of that class write of kernels; `align` is told what each needs."""

    def text(func: S.PrimFunc) -> str:
        one = printer(func, target, needs)
        written: str = one.write()
        if align is not None:
            align[func.name] = one.parameter_alignment()
        return written

    return [deep_call(text, func) for func in kernels.values()]
