"""bfloat16 in CUDA, without headers.

In registers a bfloat16 is a float that has been rounded, so its bits are the upper half. What goes
to memory is made of bits where it can be: copies, and sums and products, which are one instruction
from sm_80 on, as rounding is, for pairs of lanes too: those operations are fused
multiply-adds (PTX ISA, "Half Precision Floating-Point Instructions"), whose one rounding gives what
float32's and then bfloat16's give: 24 bits are more than twice 8 and 2 (Figueroa, "When is double
rounding innocuous?", 1995), denormals apart, where the two may differ in the last bit.
"""

from __future__ import annotations

from typing import Any

from ..base.deep import recursive
from ..base.dtype import DType, parse
from ..loopir import expr as E
from .c_calls import either
from .c_family import bare

_D = "__device__ __forceinline__"
_SINCE = "#if __CUDA_ARCH__ >= 800\n"

BFLOAT = f"""\
{_D} float tw_from_bfloat16(unsigned short x) {{
  return __uint_as_float((unsigned int)x << 16);
}}
{_D} unsigned short tw_bits_bfloat16(float x) {{
  return (unsigned short)(__float_as_uint(x) >> 16);
}}
{_D} unsigned short tw_to_bfloat16(float x) {{
{_SINCE}\
  unsigned short r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
#else
  unsigned int u = __float_as_uint(x);
  if (x != x) return (unsigned short)(u >> 16 | 0x40);
  return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}}
{_D} float tw_round_bfloat16(float x) {{ return tw_from_bfloat16(tw_to_bfloat16(x)); }}
"""

# x * y - 0, x * 1 + y, y * -1 + x, each exact but for the one rounding
_OPERATIONS: dict[type[Any], tuple[str, str, tuple[str, str, str]]] = {
    E.Mul: ("tw_mul_bfloat16", "*", ("a", "b", "0x8000")),
    E.Add: ("tw_add_bfloat16", "+", ("a", "0x3f80", "b")),
    E.Sub: ("tw_sub_bfloat16", "-", ("b", "0xbf80", "a")),
}
_FROM = "tw_from_bfloat16("
_FMA = "tw_fma_bfloat16"
_GIVEN = {name: operands for name, _, operands in _OPERATIONS.values()} | {_FMA: ("a", "b", "c")}


def _operation(name: str, slow: str) -> str:
    names = "abc" if name == _FMA else "ab"
    params = ", ".join(f"unsigned short {x}" for x in names)
    given = ", ".join(f'"h"((unsigned short){x})' for x in _GIVEN[name])
    return (
        f"{_D} unsigned short {name}({params}) {{\n{_SINCE}"
        f'  unsigned short r;\n  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r) : {given});\n'
        f"  return r;\n#else\n  return tw_to_bfloat16({slow});\n#endif\n}}\n"
    )


def _parts() -> dict[str, str]:
    product = "tw_round_bfloat16(tw_from_bfloat16(a) * tw_from_bfloat16(b))"
    parts = {_FMA: _operation(_FMA, f"{product} + tw_from_bfloat16(c)")}
    for name, symbol, _ in _OPERATIONS.values():
        parts[name] = _operation(name, f"tw_from_bfloat16(a) {symbol} tw_from_bfloat16(b)")
    return parts


OPERATIONS = _parts()
"""Parts of the preamble by their keys."""


def vector_operation(key: str) -> str:
    """A part of the preamble: an operation on vectors, such as `tw_fma_bfloat16 bfloat16x8`. Loops,
    and arrays in structures, of hundreds of calls take the compiler minutes: there are none."""
    name, dtype = key.split(" ")[:2]
    names, bits = "abc" if name == _FMA else "ab", f"tw_bits_{dtype}"
    params = ", ".join(f"{bits} {x}" for x in names)
    fast, slow = [], []
    for i in range(parse(dtype).lanes // 2):
        r = _word("r", dtype, i)
        words = [_word(x, dtype, i) if len(x) == 1 else f"{x}{x[2:]}u" for x in _GIVEN[name]]
        given = ", ".join(f'"r"({x})' for x in words)
        fast.append(f'  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"({r}) : {given});\n')
        low, high = (
            ", ".join(f"(unsigned short)({_word(x, dtype, i)}{shift})" for x in names)
            for shift in ("", " >> 16")
        )
        slow.append(f"  {r} = {name}({low}) | (unsigned int){name}({high}) << 16;\n")
    return (
        f"{_D} {bits} {name}{dtype[8:]}({params}) {{\n  {bits} r;\n{_SINCE}{''.join(fast)}#else\n"
        f"{''.join(slow)}#endif\n  return r;\n}}\n"
    )


_BUILTIN = {2: "unsigned int", 4: "uint2", 8: "uint4"}


def _word(x: str, dtype: str, i: int) -> str:
    """The `i`th pair of lanes of a vector's bits."""
    lanes = parse(dtype).lanes
    return f"{x}.w[{i}]" if lanes not in _BUILTIN else x if lanes == 2 else f"{x}.{'xyzw'[i]}"


def vector_bits(dtype: str, word: str, width: int) -> str:
    """A part of the preamble: the bits of a vector of bfloat16, an even number of lanes, in memory
    (by words of `width` bytes) and in registers, where they are floats."""
    lanes, floats, bits = parse(dtype).lanes, f"tw_{dtype}", f"tw_bits_{dtype}"
    struct = f"struct __align__({width}) {bits} {{\n  unsigned int w[{lanes // 2}];\n}};\n"
    if lanes in _BUILTIN:
        struct = f"typedef {_BUILTIN[lanes]} {bits};\n"
        places = ["*({0}*)&{1}"]
    else:
        places = [f"(({{0}}*){{1}}.w)[{k}]" for k in range(2 * lanes // width)]
    load, some, store = [], [], []
    for k, place in enumerate(places):
        own, there = place.format(word, "r"), f"((const {word}*)p)[{k}]"
        load.append(f"  {own} = {there};\n")
        some.append(f"  {own} = some ? {there} : none;\n")
        store.append(f"  (({word}*)p)[{k}] = {place.format(word, 'x')};\n")
    to_floats, to_bits, rounded, slow = [], [], [], []
    for i in range(lanes // 2):
        w, r = _word("x", dtype, i), _word("r", dtype, i)
        low, high = f"x.s[{2 * i}]", f"x.s[{2 * i + 1}]"
        to_floats += [f"  r.s[{2 * i}] = __uint_as_float({w} << 16);\n"]
        to_floats += [f"  r.s[{2 * i + 1}] = __uint_as_float({w} & 0xffff0000u);\n"]
        to_bits += [
            f"  {r} = __byte_perm(__float_as_uint({low}), __float_as_uint({high}), 0x7632);\n"
        ]
        rounded += [
            f'  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"({r}) : "f"({high}), "f"({low}));\n'
        ]
        slow += [f"  {r} = tw_to_bfloat16({low}) | (unsigned int)tw_to_bfloat16({high}) << 16;\n"]
    none = f"  {word} none = {{0}};\n"
    either = [_SINCE, *rounded, "#else\n", *slow, "#endif\n"]

    def function(result: str, name: str, params: str, lines: list[str]) -> str:
        body = "".join(lines)
        if result != "void":
            body = f"  {result} r;\n{body}  return r;\n"
        return f"{_D} {result} {name}({params}) {{\n{body}}}\n"

    return struct + "".join(
        (
            function(bits, f"tw_load_bits_{dtype}", "const void* p", load),
            function(bits, f"tw_load_bits_{dtype}", "const void* p, bool some", [none, *some]),
            function("void", f"tw_store_bits_{dtype}", f"void* p, {bits} x", store),
            function(floats, "tw_floats_of", f"{bits} x", to_floats),
            function(bits, "tw_bits_of", f"{floats} x", to_bits),
            function(bits, "tw_rounded_bits_of", f"{floats} x", either),
        )
    )


@recursive
def bits(p: Any, e: Any) -> str:
    """The bits of a bfloat16, or of a vector of them. What legalize_types makes of an operation on
    two is one on bits, and of a product that is added one that rounds once (SEMANTICS.md,
    contraction). A value that is used several times is in a variable, as a float."""
    t = parse(e.dtype)
    p.need("bfloat16" if t.lanes == 1 else f"bits {t.text} ")
    if t.lanes == 1 and _is_choice(e) and id(e) not in p.shared:
        return either(p, e, "unsigned short", lambda x: bits(p, x))
    sides = _sides(p, e)
    if sides is None:
        return _bits_of_float(p, e, t)
    kind, a, b = sides
    for x, y in ((a, b), (b, a)) if kind is E.Add else ():
        product = _sides(p, x)
        if product is not None and product[0] is E.Mul:
            return f"{_named(p, _FMA, t)}({', '.join(bits(p, v) for v in (*product[1:], y))})"
    return f"{_named(p, _OPERATIONS[kind][0], t)}({bits(p, a)}, {bits(p, b)})"


def _is_choice(e: Any) -> bool:
    """Whether a scalar is one of two values, by a condition."""
    return isinstance(e, E.Call) and e.op.name == "tir.if_then_else"


def _named(p: Any, name: str, t: DType) -> str:
    p.need(name if t.lanes == 1 else f"{name} {t.text} ")
    return name if t.lanes == 1 else f"{name}x{t.lanes}"


def _bits_of_float(p: Any, e: Any, t: DType) -> str:
    wide = e.value if isinstance(e, E.Cast) and id(e) not in p.shared else None
    if wide is not None and parse(wide.dtype).element == "float32":
        if t.lanes == 1:
            return f"tw_to_bfloat16({bare(p.expr(wide))})"
        return f"tw_rounded_bits_of({p.make(t.text, [bare(x) for x in p.lanes_of(wide)])})"
    text = bare(p.expr(e))
    if t.lanes > 1:
        inner = text.removeprefix("tw_floats_of(")
        return inner[:-1] if inner != text else f"tw_bits_of({text})"
    if isinstance(e, E.BufferLoad) and e.predicate is None and text.startswith(_FROM):
        return text[len(_FROM) : -1]
    return f"tw_bits_bfloat16({text})"


def _sides(p: Any, e: Any) -> tuple[type[Any], Any, Any] | None:
    """The kind and the operands of an operation on bfloat16, where it was computed in float32."""
    if not isinstance(e, E.Cast) or {id(e), id(e.value)} & p.shared:
        return None
    wide: Any = e.value
    sides = (wide.a, wide.b) if type(wide) in _OPERATIONS else ()
    narrow = [isinstance(x, E.Cast) and parse(x.value.dtype).code == "bfloat" for x in sides]
    if not sides or not all(narrow):
        return None
    return type(wide), sides[0].value, sides[1].value
