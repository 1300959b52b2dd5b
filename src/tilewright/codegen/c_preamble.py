"""What generated C source may need in front of its functions, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..base.dtype import parse
from ..base.errors import InternalError

_D = "static inline"
_HEAD = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"


def _c(dtype: str) -> str:
    t = parse(dtype)
    if t.is_float:
        return "double" if t.bits == 64 else "float"
    return f"{dtype}_t"


def _struct(key: str) -> str:
    _, dtype, element = key.split(" ")
    return f"typedef struct {{\n  {element} s[{parse(dtype).lanes}];\n}} tw_{dtype};\n"


def _extreme(key: str) -> str:
    _, kind, dtype = key.split("_", 2)
    c, op = _c(dtype), "<" if kind == "min" else ">"
    nan = " || a != a" if parse(dtype).is_float else ""
    return f"{_D} {c} {key}({c} a, {c} b) {{ return a {op} b{nan} ? a : b; }}\n"


def _floor_division(key: str) -> str:
    _, what, dtype = key.split("_", 2)
    c = _c(dtype)
    if what == "floordiv":
        body = f"  {c} q = ({c})(a / b), r = ({c})(a % b);\n"
        body += f"  return ({c})(r != 0 && (r ^ b) < 0 ? q - 1 : q);\n"
    else:
        body = f"  {c} r = ({c})(a % b);\n  return ({c})(r != 0 && (r ^ b) < 0 ? r + b : r);\n"
    return f"{_D} {c} {key}({c} a, {c} b) {{\n{body}}}\n"


def any_division(key: str, head: str, c: str, unsigned: str) -> str:
    """Division by what may be zero, which gives zero, or -1, by which the quotient wraps.

    `head` stands before the function, `c` and `unsigned` name its type and what wraps.
    """
    _, what, dtype = key.split("_", 2)
    quotient, floor = what.endswith("div"), "floor" in what and parse(dtype).is_int
    wrapped = f"({c})(({unsigned})a * ({unsigned})b)"
    special = "b == 0 || b == -1" if parse(dtype).is_int else "b == 0"
    body = f"  int special = {special};\n  {c} d = special ? ({c})1 : b;\n"
    if floor:
        body += f"  {c} r = ({c})(a % d);\n"
    if quotient:
        down = " - (r != 0 && (r ^ d) < 0)" if floor else ""
        body += f"  return special ? {wrapped} : ({c})(a / d{down});\n"
    elif floor:
        body += f"  return ({c})(r != 0 && (r ^ d) < 0 ? r + d : r);\n"
    else:
        body += f"  return ({c})(a % d);\n"
    return f"{head} {c} {key}({c} a, {c} b) {{\n{body}}}\n"


def _any_division(key: str) -> str:
    t = parse(key.rsplit("_", 1)[1])
    return any_division(key, _D, _c(t.text), f"uint{max(t.bits, 32)}_t")


def _saturate(key: str) -> str:
    """Float to integer as SEMANTICS.md has it: towards zero, clamped, NaN is 0."""
    _, source, dtype = key.split(" ")
    t, a, b = parse(dtype), _c(source), _c(dtype)
    low, high = int(t.min_value), int(t.max_value)
    least = f"{'U' if t.is_uint else ''}INT{t.bits}"
    top, bottom = f"{least}_MAX", "0" if t.is_uint else f"{least}_MIN"
    return (
        f"{_D} {b} {key.replace(' ', '_')}({a} x) {{\n  if (x != x) return 0;\n"
        f"  if (x <= ({a}){float(low)!r}) return {bottom};\n"
        f"  if (x >= ({a}){float(high + 1)!r}) return {top};\n  return ({b})x;\n}}\n"
    )


def _bits(key: str) -> str:
    _, source, dtype = key.split(" ")
    a, b = _c(source), _c(dtype)
    return (
        f"{_D} {b} {key.replace(' ', '_')}({a} x) {{\n  {b} r;\n"
        "  memcpy(&r, &x, sizeof r);\n  return r;\n}\n"
    )


_WORD = f"""\
{_D} uint32_t tw_word(float x) {{
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}}
{_D} float tw_float(uint32_t u) {{
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}}
"""
_FROM_HALF = f"""\
{_D} float tw_from_float16(uint16_t h) {{
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  float x = rest >= 0x7c00u ? tw_float(rest << 13 | 0x7f800000u)
                            : tw_float(rest << 13) * 0x1p112f;
  return tw_float(tw_word(x) | sign);
}}
"""
_TO_HALF = f"""\
{_D} uint16_t tw_to_float16(float x) {{
  uint32_t u = tw_word(x), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
  if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (rest < 0x38800000u) {{
    /* the last bit of 0.5f weighs what that of a denormal does, so the sum rounds to even */
    return (uint16_t)(sign | (tw_word(tw_float(rest) + 0.5f) - 0x3f000000u));
  }}
  return (uint16_t)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}}
"""
_FROM_BFLOAT = (
    f"{_D} float tw_from_bfloat16(uint16_t h) {{ return tw_float((uint32_t)h << 16); }}\n"
)
_TO_BFLOAT = f"""\
{_D} uint16_t tw_to_bfloat16(float x) {{
  uint32_t u = tw_word(x);
  if (x != x) return (uint16_t)(u >> 16 | 0x40u);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}}
"""
# Rounding to odd (Boldo and Melquiond 2008), so that a second rounding is right
_ODD = {
    "float64": f"""\
{_D} float tw_odd_float64(double x) {{
  float r = (float)x;
  if (x != x || (double)r == x) return r;
  if (fabs((double)r) > fabs(x)) r = nextafterf(r, 0.0f);
  return tw_float(tw_word(r) | 1u);
}}
""",
    "uint64": f"""\
{_D} float tw_odd_uint64(uint64_t x) {{
  int shift = 0;
  uint64_t kept = x;
  while (kept >> 24) {{
    kept >>= 1;
    ++shift;
  }}
  if (kept << shift != x) kept |= 1u;
  return ldexpf((float)kept, shift);
}}
""",
    "int64": f"""\
{_D} float tw_odd_int64(int64_t x) {{
  return x < 0 ? -tw_odd_uint64(0u - (uint64_t)x) : tw_odd_uint64((uint64_t)x);
}}
""",
}

_FIXED: dict[str, tuple[tuple[str, ...], str]] = {
    "word": ((), _WORD),
    "tw_from_float16": (("word",), _FROM_HALF),
    "tw_to_float16": (("word",), _TO_HALF),
    "tw_from_bfloat16": (("word",), _FROM_BFLOAT),
    "tw_to_bfloat16": (("word",), _TO_BFLOAT),
    "tw_odd_float64": (("word",), _ODD["float64"]),
    "tw_odd_uint64": ((), _ODD["uint64"]),
    "tw_odd_int64": (("tw_odd_uint64",), _ODD["int64"]),
    **{
        f"tw_round_{t}": (
            (f"tw_to_{t}", f"tw_from_{t}"),
            f"{_D} float tw_round_{t}(float x) {{ return tw_from_{t}(tw_to_{t}(x)); }}\n",
        )
        for t in ("float16", "bfloat16")
    },
}
_MADE: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("struct ", _struct),
    ("tw_min_", _extreme),
    ("tw_max_", _extreme),
    ("tw_floordiv_", _floor_division),
    ("tw_floormod_", _floor_division),
    ("tw_any", _any_division),
    ("tw_sat ", _saturate),
    ("tw_bits ", _bits),
    ("include ", lambda key: f"#include <{key.split(' ')[1]}>\n"),
    ("import ", lambda key: key[len("import ") :].rstrip() + "\n"),
)


def preamble(needs: Iterable[str]) -> str:
    """The headers and the text of the parts asked for, each after what it needs itself."""
    done: dict[str, str] = {}

    def add(key: str) -> None:
        if key in done:
            return
        if key in _FIXED:
            for other in _FIXED[key][0]:
                add(other)
            done[key] = _FIXED[key][1]
            return
        for prefix, make in _MADE:
            if key.startswith(prefix):
                done[key] = make(key)
                return
        raise InternalError(f"no such part of the C preamble: {key}")

    for key in sorted(needs, key=lambda k: not k.startswith(("include ", "import "))):
        add(key)
    return "\n".join([_HEAD, *done.values()])
