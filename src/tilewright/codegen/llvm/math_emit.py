"""A small writer of LLVM IR text for vector math: values with operators, one line an instruction.

Every value is an SSA name (or a constant) with the LLVM type of one lane; the emitter knows the
number of lanes. Float instructions carry no fast-math flags: the math functions rely on exact
IEEE rounding, and write the fused multiply-adds that they want.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from tilewright.base.errors import InternalError

Number = int | float


class Format:
    """An IEEE binary format: LLVM types and the numbers that range reductions need."""

    __slots__ = ("name", "kind", "integer", "bits", "mantissa", "bias")

    def __init__(self, name: str, kind: str, bits: int, mantissa: int) -> None:
        self.name = name
        self.kind = kind
        self.integer = f"i{bits}"
        self.bits = bits
        self.mantissa = mantissa
        self.bias = (1 << (bits - mantissa - 2)) - 1

    def encode(self, x: float) -> int:
        """The bits of x, rounded to the format."""
        if self.bits == 32:
            return int(struct.unpack("<I", struct.pack("<f", x))[0])
        return int(struct.unpack("<Q", struct.pack("<d", x))[0])

    def round(self, x: float) -> float:
        """x rounded to the format."""
        if self.bits == 32:
            return float(struct.unpack("<f", struct.pack("<f", x))[0])
        return x

    @property
    def rounder(self) -> float:
        """Adding and subtracting it rounds |x| < 2^(mantissa-1) to an integer."""
        return math.ldexp(1.5, self.mantissa)

    @property
    def smallest_normal(self) -> float:
        return math.ldexp(1.0, 1 - self.bias)

    @property
    def sign_mask(self) -> int:
        return 1 << (self.bits - 1)


F32 = Format("f32", "float", 32, 23)
F64 = Format("f64", "double", 64, 52)

_FLOAT_KINDS = ("half", "float", "double")
_BITS_OF_KIND = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


class Value:
    """One SSA value: its text and the LLVM type of a lane. `wide`: a float as a double, before it
    was rounded."""

    __slots__ = ("emitter", "text", "kind", "wide")

    def __init__(self, emitter: Emitter, text: str, kind: str) -> None:
        self.emitter = emitter
        self.text = text
        self.kind = kind
        self.wide: Value | None = None

    def _binary(self, float_op: str, int_op: str, other: Value | Number) -> Value:
        op = float_op if self.kind in _FLOAT_KINDS else int_op
        e = self.emitter
        return e.op(f"{op} {e.type(self.kind)} {self.text}, {e.lift(other, self.kind)}", self.kind)

    def __add__(self, other: Value | Number) -> Value:
        return self._binary("fadd", "add", other)

    def __sub__(self, other: Value | Number) -> Value:
        return self._binary("fsub", "sub", other)

    def __mul__(self, other: Value | Number) -> Value:
        return self._binary("fmul", "mul", other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self._binary("fdiv", "", other)

    def __and__(self, other: Value | Number) -> Value:
        return self._binary("", "and", other)

    def __or__(self, other: Value | Number) -> Value:
        return self._binary("", "or", other)

    def __xor__(self, other: Value | Number) -> Value:
        return self._binary("", "xor", other)

    def __lshift__(self, other: Value | Number) -> Value:
        return self._binary("", "shl", other)

    def __rshift__(self, other: Value | Number) -> Value:
        """Arithmetic shift."""
        return self._binary("", "ashr", other)

    def lshr(self, other: Value | Number) -> Value:
        return self._binary("", "lshr", other)

    def __neg__(self) -> Value:
        e = self.emitter
        return e.op(f"fneg {e.type(self.kind)} {self.text}", self.kind)

    def __invert__(self) -> Value:
        return self ^ -1

    def _compare(self, float_op: str, int_op: str, other: Value | Number) -> Value:
        e = self.emitter
        op = f"fcmp {float_op}" if self.kind in _FLOAT_KINDS else f"icmp {int_op}"
        return e.op(f"{op} {e.type(self.kind)} {self.text}, {e.lift(other, self.kind)}", "i1")

    def lt(self, other: Value | Number) -> Value:
        """Less than; false for NaN, signed for integers (le, gt, ge alike)."""
        return self._compare("olt", "slt", other)

    def le(self, other: Value | Number) -> Value:
        return self._compare("ole", "sle", other)

    def gt(self, other: Value | Number) -> Value:
        return self._compare("ogt", "sgt", other)

    def ge(self, other: Value | Number) -> Value:
        return self._compare("oge", "sge", other)

    def eq(self, other: Value | Number) -> Value:
        return self._compare("oeq", "eq", other)

    def ne(self, other: Value | Number) -> Value:
        """Not equal; true for NaN."""
        return self._compare("une", "ne", other)

    def below(self, other: Value | Number) -> Value:
        """Less than, of unsigned integers."""
        return self._compare("", "ult", other)

    def not_above(self, other: Value | Number) -> Value:
        """Not greater than: true for NaN."""
        return self._compare("ule", "sle", other)

    def unordered(self, other: Value) -> Value:
        """Whether one of the two floats is NaN."""
        return self._compare("uno", "", other)


class Emitter:
    """Collects the instructions of one function body and the intrinsics that it declares. `fused`:
    the target has multiply-adds that round once. Without, floats stay doubles from one to the next,
    unless the function `rounds`, since it counts on what rounding leaves out."""

    __slots__ = (
        "format", "lanes", "name", "fused", "rounds", "lines", "declares", "others", "_block",
        "_next",
    )  # fmt: skip

    def __init__(self, fmt: Format, lanes: int, name: str, fused: bool = True) -> None:
        self.format = fmt
        self.fused = fused
        self.rounds = False
        self.lanes = lanes
        self.name = name
        self.lines: list[str] = []
        self.declares: set[str] = set()
        self.others: list[str] = []
        self._block = "entry"
        self._next = 0

    def fork(self, name: str) -> Emitter:
        """An emitter for a helper function beside this one, of the same format and lanes."""
        other = Emitter(self.format, self.lanes, name, self.fused)
        other.rounds = self.rounds
        return other

    def type(self, kind: str) -> str:
        """LLVM type of a value whose lanes are `kind`."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def suffix(self, kind: str) -> str:
        """Overload suffix of an intrinsic on this type."""
        short = f"f{_BITS_OF_KIND[kind]}" if kind in _BITS_OF_KIND else kind
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def fresh(self, prefix: str = "v") -> str:
        self._next += 1
        return f"{prefix}{self._next}"

    def op(self, text: str, kind: str) -> Value:
        """Append an instruction and return its result."""
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        return Value(self, name, kind)

    def constant(self, x: Number, kind: str) -> Value:
        """The number in every lane; floats are rounded to the type."""
        if kind == "i1":
            text = "true" if x else "false"
        elif kind.startswith("i"):
            bits = int(kind[1:])
            n = int(x) & ((1 << bits) - 1)
            text = str(n - (1 << bits) if n >> (bits - 1) else n)
        elif kind == "float":
            text = f"0x{F64.encode(F32.round(x)):016X}"
        elif kind == "double":
            text = f"0x{F64.encode(x):016X}"
        else:
            raise InternalError(f"no constants of type {kind} in math code")
        return Value(self, text if self.lanes == 1 else f"splat ({kind} {text})", kind)

    def lift(self, x: Value | Number, kind: str) -> str:
        """Operand text of a value, or of a number taken as `kind`."""
        if isinstance(x, Value):
            if x.kind != kind:
                raise InternalError(f"math code mixes {x.kind} with {kind} in {self.name}")
            return x.text
        return self.constant(x, kind).text

    def real(self, x: Number) -> Value:
        """A float constant of the emitter's format."""
        return self.constant(x, self.format.kind)

    def call(self, intrinsic: str, kind: str, *args: Value | Number) -> Value:
        """Call llvm.<intrinsic> overloaded on `kind`, all arguments and the result of that type."""
        vector = self.type(kind)
        callee = f"@llvm.{intrinsic}.{self.suffix(kind)}"
        self.declares.add(f"declare {vector} {callee}({', '.join([vector] * len(args))})")
        text = ", ".join(f"{vector} {self.lift(a, kind)}" for a in args)
        return self.op(f"call {vector} {callee}({text})", kind)

    def fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """a * b + c, rounded once; without such an instruction off by less than 0.501 units."""
        if self.fused:
            return self.call("fma", a.kind, a, b, c)
        b, c = (self._as_value(x, a) for x in (b, c))
        if a.kind == "float":  # a double has room for all of the product
            a, b, c = (self._wide(x) for x in (a, b, c))
            return self._narrow(a * b + c)
        return self._sum_of_parts(a, b, c)

    def _wide(self, x: Value) -> Value:
        return x.wide if x.wide is not None else self.cast("fpext", x, "double")

    def _narrow(self, x: Value) -> Value:
        narrow = self.cast("fptrunc", x, "float")
        narrow.wide = None if self.rounds else x
        return narrow

    def _sum_of_parts(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c of doubles: the product and the sum with what their rounding leaves out, exact
        but for its last bits (Dekker: A floating-point technique for extending the available
        precision, 1971; Knuth's sum of two)."""
        large = self.abs(c).gt(2.0**900)  # or the product overflows where the sum does not
        b, c = (x * self.select(large, self.constant(2.0**-64, "double"), 1.0) for x in (b, c))
        product = a * b
        (a_high, a_low), (b_high, b_low) = (self._halves(x) for x in (a, b))
        lost = a_high * b_high - product + a_high * b_low + a_low * b_high + a_low * b_low
        total = product + c
        other = total - product
        lost = lost + ((product - (total - other)) + (c - other))
        whole = total + lost
        whole = self.select(self.abs(whole).lt(math.inf), whole, total)
        return whole * self.select(large, self.constant(2.0**64, "double"), 1.0)

    def _halves(self, x: Value) -> tuple[Value, Value]:
        """A double as the sum of two of 26 digits."""
        rounded = (self.bits(x) + (1 << 26)) & -(1 << 27)
        high = self.cast("bitcast", rounded, "double")
        return high, x - high

    def abs(self, x: Value) -> Value:
        return self.call("fabs", x.kind, x)

    def sqrt(self, x: Value) -> Value:
        return self.call("sqrt", x.kind, x)

    def trunc(self, x: Value) -> Value:
        return self.call("trunc", x.kind, x)

    def rint(self, x: Value) -> Value:
        return self.call("rint", x.kind, x)

    def copysign(self, x: Value | Number, sign: Value) -> Value:
        return self.call("copysign", sign.kind, x, sign)

    def select(self, condition: Value, yes: Value | Number, no: Value | Number) -> Value:
        kind = yes.kind if isinstance(yes, Value) else ""
        if not kind:
            kind = no.kind if isinstance(no, Value) else self.format.kind
        vector = self.type(kind)
        return self.op(
            f"select {self.type('i1')} {condition.text}, {vector} {self.lift(yes, kind)}, "
            f"{vector} {self.lift(no, kind)}",
            kind,
        )

    def at_most(self, x: Value, bound: Number) -> Value:
        """min(x, bound) that keeps NaN."""
        return self.select(x.gt(bound), bound, x)

    def at_least(self, x: Value, bound: Number) -> Value:
        """max(x, bound) that keeps NaN."""
        return self.select(x.lt(bound), bound, x)

    def bits(self, x: Value) -> Value:
        """The float's bits as an integer of its width."""
        return self.cast("bitcast", x, f"i{_BITS_OF_KIND[x.kind]}")

    def from_bits(self, x: Value) -> Value:
        """The float of the emitter's format with these bits."""
        return self.cast("bitcast", x, self.format.kind)

    def cast(self, op: str, x: Value, kind: str) -> Value:
        """bitcast, zext, sext, trunc, fpext, fptrunc, sitofp, ... to lanes of type `kind`."""
        return self.op(f"{op} {self.type(x.kind)} {x.text} to {self.type(kind)}", kind)

    def poly(self, x: Value, coefficients: Sequence[float]) -> Value:
        """A polynomial, coefficients lowest power first.

        Long ones are paired up (G. Estrin, 1960) until Horner's chain is short: the iterations of
        a loop do not overlap enough to hide a long one.
        """
        if not self.fused and x.kind == "float":
            wide = self._wide(x)
            total: Value = self.constant(coefficients[-1], "double")
            for one in reversed(coefficients[:-1]):
                total = total * wide + one
            return self._narrow(total)
        row: list[Value | float] = list(coefficients)
        while len(row) > 7:
            odd = len(row) % 2
            ends = [row[-1]] if odd else []
            pairs = zip(row[::2], row[1::2])
            row = [*(self.fma(self._as_value(b, x), x, a) for a, b in pairs), *ends]
            x = x * x
        result = self._as_value(row[-1], x)
        for c in reversed(row[:-1]):
            result = self.fma(result, x, c)
        return result

    def _as_value(self, c: Value | float, like: Value) -> Value:
        return c if isinstance(c, Value) else self.constant(c, like.kind)

    def reduce(self, op: str, condition: Value) -> str:
        """A scalar i1: whether the condition holds in some lane ("or"), in every lane ("and")."""
        if self.lanes == 1:
            return condition.text
        callee = f"@llvm.vector.reduce.{op}.v{self.lanes}i1"
        self.declares.add(f"declare i1 {callee}({self.type('i1')})")
        return self.op(f"call i1 {callee}({self.type('i1')} {condition.text})", "i1").text

    def unless_all(
        self, condition: Value, helper: Emitter, args: Sequence[Value], values: Sequence[Value]
    ) -> list[Value]:
        """The values; in lanes where the condition fails those that `helper`, whose function has
        been written, computes from the arguments. It is called only when there is such a lane."""
        label = self.fresh("b")
        result = self._result_type(values)
        given = ", ".join(f"{self.type(a.kind)} {a.text}" for a in args)
        all_lanes, before = self.reduce("and", condition), self._block
        self.lines += [
            f"  br i1 {all_lanes}, label %{label}.done, label %{label}.rare",
            f"{label}.rare:",
            f"  %{label} = call {result} {helper.name}({given})",
        ]
        rare = []
        for i, value in enumerate(values):
            taken = Value(self, f"%{label}", value.kind)
            if len(values) > 1:
                taken = self.op(f"extractvalue {result} %{label}, {i}", value.kind)
            rare.append(self.select(condition, value, taken))
        self.lines += [f"  br label %{label}.done", f"{label}.done:"]
        self._block = f"{label}.done"
        self.declares |= helper.declares
        return [
            self._phi(old.kind, (old.text, before), (new.text, f"{label}.rare"))
            for old, new in zip(values, rare)
        ]

    def repeat_while(
        self, start: Value, active: Callable[[Value], Value], step: Callable[[Value], Value]
    ) -> Value:
        """Apply `step` to the lanes that are `active`, until no lane is."""
        label, before = self.fresh("b"), self._block
        self.lines += [f"  br label %{label}.head", f"{label}.head:"]
        state = self._phi(start.kind, (start.text, before), (f"%{label}.next", f"{label}.body"))
        going = active(state)
        some = self.reduce("or", going)
        self.lines += [
            f"  br i1 {some}, label %{label}.body, label %{label}.done",
            f"{label}.body:",
        ]
        new, kind = step(state), self.type(start.kind)
        self.lines += [
            f"  %{label}.next = select {self.type('i1')} {going.text}, {kind} {new.text}, "
            f"{kind} {state.text}",
            f"  br label %{label}.head",
            f"{label}.done:",
        ]
        self._block = f"{label}.done"
        return state

    def _phi(self, kind: str, *incoming: tuple[str, str]) -> Value:
        pairs = ", ".join(f"[ {text}, %{block} ]" for text, block in incoming)
        return self.op(f"phi {self.type(kind)} {pairs}", kind)

    def _result_type(self, values: Sequence[Value]) -> str:
        kinds = [self.type(v.kind) for v in values]
        return kinds[0] if len(kinds) == 1 else f"{{ {', '.join(kinds)} }}"

    def function(
        self, args: Sequence[Value], results: Sequence[Value], attributes: str = "alwaysinline"
    ) -> str:
        """Text of an internal function with the collected body, after those it calls."""
        result = self._result_type(results)
        returned = results[0].text
        if len(results) > 1:
            returned = "poison"
            for i, value in enumerate(results):
                step = f"insertvalue {result} {returned}, {self.type(value.kind)} {value.text}, {i}"
                returned = self.op(step, value.kind).text
        parameters = ", ".join(f"{self.type(a.kind)} {a.text}" for a in args)
        head = f"define internal {result} {self.name}({parameters}) "
        head += f"{attributes} nounwind willreturn memory(none) {{"
        tail = f"  ret {result} {returned}"
        return "\n".join([*self.others, head, "entry:", *self.lines, tail, "}", ""])
