"""bfloat16 in CUDA, without headers.

In registers a bfloat16 is a float that has been rounded, so its bits are the upper half. From sm_80
on rounding is one instruction, and so are sums and products whose bits are wanted: as fused
multiply-adds (PTX ISA, "Half Precision Floating-Point Instructions"), whose one rounding gives what
float32's and then bfloat16's give: 24 bits are more than twice 8 and 2 (Figueroa, "When is double
rounding innocuous?", 1995), denormals apart, where the two may differ in the last bit.
"""

from __future__ import annotations

from typing import Any

from ..base.deep import recursive
from ..base.dtype import parse
from ..loopir import expr as E
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


def _operation(name: str, params: str, operands: tuple[str, str, str], slow: str) -> str:
    given = ", ".join(f'"h"((unsigned short){x})' for x in operands)
    return (
        f"{_D} unsigned short {name}({params}) {{\n{_SINCE}"
        f'  unsigned short r;\n  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r) : {given});\n'
        f"  return r;\n#else\n  return tw_to_bfloat16({slow});\n#endif\n}}\n"
    )


def _parts() -> dict[str, str]:
    two = "unsigned short a, unsigned short b"
    product = "tw_round_bfloat16(tw_from_bfloat16(a) * tw_from_bfloat16(b))"
    parts = {
        _FMA: (f"{two}, unsigned short c", ("a", "b", "c"), f"{product} + tw_from_bfloat16(c)")
    }
    for name, symbol, operands in _OPERATIONS.values():
        parts[name] = two, operands, f"tw_from_bfloat16(a) {symbol} tw_from_bfloat16(b)"
    return {name: _operation(name, *rest) for name, rest in parts.items()}


OPERATIONS = _parts()
"""Parts of the preamble by their keys."""


@recursive
def bits(p: Any, e: Any) -> str:
    """The bits of a scalar of bfloat16. What legalize_types makes of an operation on two of them is
    one on bits, and of a product that is added one that rounds once (SEMANTICS.md, contraction). A
    value that is used several times is in a variable, as a float."""
    p.need("bfloat16")
    sides = _sides(p, e)
    if sides is None:
        if isinstance(e, E.Cast) and e.value.dtype == "float32" and id(e) not in p.shared:
            return f"tw_to_bfloat16({bare(p.expr(e.value))})"
        text = bare(p.expr(e))
        if isinstance(e, E.BufferLoad) and e.predicate is None and text.startswith(_FROM):
            return text[len(_FROM) : -1]
        return f"tw_bits_bfloat16({text})"
    kind, a, b = sides
    for x, y in ((a, b), (b, a)) if kind is E.Add else ():
        product = _sides(p, x)
        if product is not None and product[0] is E.Mul:
            return f"{p.need(_FMA)}({', '.join(bits(p, v) for v in (*product[1:], y))})"
    return f"{p.need(_OPERATIONS[kind][0])}({bits(p, a)}, {bits(p, b)})"


def _sides(p: Any, e: Any) -> tuple[type[Any], Any, Any] | None:
    """The kind and the operands of an operation on bfloat16, where it was computed in float32."""
    if not isinstance(e, E.Cast) or {id(e), id(e.value)} & p.shared:
        return None
    wide: Any = e.value
    sides = (wide.a, wide.b) if type(wide) in _OPERATIONS else ()
    if not sides or not all(isinstance(x, E.Cast) and x.value.dtype == "bfloat16" for x in sides):
        return None
    return type(wide), sides[0].value, sides[1].value


def access(what: str, dtype: str, name: str, vector: str, width: tuple[str, int]) -> str:
    """`tw_load`, `tw_store` or `tw_store_rounded` (of what is not rounded yet) of a vector of
    bfloat16, an even number of them, which is of floats in registers."""
    pairs = parse(dtype).lanes // 2
    word, nbytes = width
    copy = f"#pragma unroll\n  for (int i = 0; i < {4 * pairs // nbytes}; ++i) "
    loop = f"#pragma unroll\n  for (int i = 0; i < {pairs}; ++i)"
    words = f"__align__({nbytes}) unsigned int w[{pairs}]"
    if what == "tw_load":
        return (
            f"{_D} {vector} {name}(const void* p) {{\n  {vector} r;\n  {words};\n"
            f"{copy}(({word}*)w)[i] = ((const {word}*)p)[i];\n{loop} {{\n"
            "    r.s[2 * i] = __uint_as_float(w[i] << 16);\n"
            "    r.s[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);\n  }\n  return r;\n}\n"
        )
    low, high = "x.s[2 * i]", "x.s[2 * i + 1]"
    pack = f"    w[i] = __byte_perm(__float_as_uint({low}), __float_as_uint({high}), 0x7632);\n"
    if what == "tw_store_rounded":
        both = f"tw_to_bfloat16({low}) | (unsigned int)tw_to_bfloat16({high}) << 16"
        pack = (
            f'{_SINCE}    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w[i]) : "f"({high}), '
            f'"f"({low}));\n#else\n    w[i] = {both};\n#endif\n'
        )
    return (
        f"{_D} void {name}(void* p, {vector} x) {{\n  {words};\n{loop} {{\n{pack}  }}\n"
        f"{copy}(({word}*)p)[i] = (({word}*)w)[i];\n}}\n"
    )
