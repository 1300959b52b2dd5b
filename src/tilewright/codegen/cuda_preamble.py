"""What generated CUDA source may need in front of its kernels, part by part.

A part is asked for by key (`Printer.need`): a function's name, or a template's name with types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..base.dtype import parse
from ..base.errors import InternalError
from . import cuda_bfloat
from . import cuda_half as H
from .c_language import function_of
from .c_preamble import any_division
from .cuda_hopper import (
    HOPPER_NEEDS,
    HOPPER_PARTS,
    cluster_load_part,
    tma_part,
)
from .cuda_mma import MMA_PARTS, mma_part
from .cuda_types import memory_name, struct_text, type_name
from .cuda_wgmma import WGMMA_PARTS, wait_part, wgmma_part
from .cuda_wmma import wmma_part

_D = "__device__ __forceinline__"


def _extreme(key: str) -> str:
    _, kind, dtype = key.split("_", 2)
    t, c, op = parse(dtype), type_name(dtype), "<" if kind == "min" else ">"
    if not t.is_float:
        return f"{_D} {c} {key}({c} a, {c} b) {{ return a {op} b ? a : b; }}\n"
    slow = f"  return a {op} b || a != a ? a : b;\n"
    if dtype != "float32":
        return f"{_D} {c} {key}({c} a, {c} b) {{\n{slow}}}\n"
    return (
        f"{_D} {c} {key}({c} a, {c} b) {{\n"
        "#if __CUDA_ARCH__ >= 800\n"
        f'  float r;\n  asm("{kind}.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));\n'
        f"  return r;\n#else\n{slow}#endif\n}}\n"
    )


def _floor_division(key: str) -> str:
    _, what, dtype = key.split("_", 2)
    c = type_name(dtype)
    if what == "floordiv":
        body = f"  {c} q = a / b, r = a % b;\n  return r != 0 && (r ^ b) < 0 ? q - 1 : q;\n"
    else:
        body = f"  {c} r = a % b;\n  return r != 0 && (r ^ b) < 0 ? r + b : r;\n"
    return f"{_D} {c} {key}({c} a, {c} b) {{\n{body}}}\n"


def _any_division(key: str) -> str:
    t = parse(key.rsplit("_", 1)[1])
    return any_division(key, _D, type_name(t.text), type_name(f"uint{max(t.bits, 32)}"))


def _saturate(key: str) -> str:
    """Float to integer as SEMANTICS.md has it: towards zero, clamped, NaN is 0."""
    _, source, dtype = key.split(" ")
    s, t = parse(source), parse(dtype)
    a, b = type_name(source), type_name(dtype)
    word = "float" if s.bits == 32 else "double"
    if t.bits >= 32:
        how = {("int", 32): "int", ("uint", 32): "uint", ("int", 64): "ll", ("uint", 64): "ull"}
        value = f"__{word}2{how[t.code, t.bits]}_rz(x)"
        if (s.bits, t.bits) != (32, 32):
            value = f"x != x ? 0 : {value}"
    else:
        suffix = "f" if s.bits == 32 else ""
        low, high = f"{t.min_value}.0{suffix}", f"{t.max_value}.0{suffix}"
        clamped = f"fmin{suffix}(fmax{suffix}(x, {low}), {high})"
        value = f"x != x ? 0 : ({b})__{word}2int_rz({clamped})"
    return f"{_D} {b} {function_of(key)}({a} x) {{ return {value}; }}\n"


def _bits(key: str) -> str:
    _, source, dtype = key.split(" ")
    a, b = type_name(source), type_name(dtype)
    return (
        f"{_D} {b} {function_of(key)}({a} x) {{\n"
        f"  union {{\n    {a} from;\n    {b} to;\n  }} u;\n  u.from = x;\n  return u.to;\n}}\n"
    )


def _words(size: int) -> tuple[str, int]:
    """What a vector of that many bytes is read and written by: a type, and its bytes."""
    types = (("uint4", 16), ("uint2", 8), ("unsigned int", 4), ("unsigned short", 2))
    return next((w, n) for w, n in types if size % n == 0)


def _bfloat_bits(key: str) -> str:
    dtype = key.split(" ")[1]
    return cuda_bfloat.vector_bits(dtype, *_words(2 * parse(dtype).lanes))


def _vector_access(key: str) -> str:
    """Vectors that CUDA lacks are read and written 16 (or 8, 4, 2) bytes at a time."""
    what, dtype, _ = key.split(" ")
    t, c = parse(dtype), type_name(dtype)
    size = t.nbytes * t.lanes
    word, width = _words(size)
    name = function_of(f"{what} {dtype}")
    loop = f"#pragma unroll\n  for (int i = 0; i < {size // width}; ++i)"
    if what == "tw_load_if":
        return (
            f"{_D} {c} {name}(const void* p, bool some) {{\n  {c} r;\n  {word} none = {{0}};\n"
            f"{loop} (({word}*)&r)[i] = some ? ((const {word}*)p)[i] : none;\n  return r;\n}}\n"
        )
    if what == "tw_load":
        return (
            f"{_D} {c} {name}(const void* p) {{\n  {c} r;\n{loop} "
            f"(({word}*)&r)[i] = ((const {word}*)p)[i];\n  return r;\n}}\n"
        )
    return f"{_D} void {name}(void* p, {c} x) {{\n{loop} (({word}*)p)[i] = (({word}*)&x)[i];\n}}\n"


def _half_vector(key: str) -> str:
    lanes = parse(key.split(" ")[1]).lanes
    return f"typedef tw_halves<{lanes}> half{lanes};\n"


# as TVM's prelude has them: the names without a mask are those of compilers before CUDA 9
_SHUFFLES = "".join(
    f"#define __shfl{kind}_sync(mask, var, {by}, width) \\\n"
    f"        __shfl{kind}((var), ({by}), (width))\n"
    for kind, by in (("", "lane"), ("_down", "offset"), ("_up", "offset"), ("_xor", "lane"))
)
_WARP = f"#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 700)\n{_SHUFFLES}#endif\n"

# exp2f and __expf take two multiplications and a comparison more, to keep denormal results
_EXP2 = f"""\
{_D} float tw_exp2(float x) {{
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}}
"""

_FIXED: dict[str, tuple[tuple[str, ...], str]] = {
    "warp": ((), _WARP),
    "half": ((), H.HALF),
    "half compare": (("half",), H.HALF_COMPARE),
    "half extremes": (("half",), H.HALF_EXTREMES),
    "half vectors": (("half",), H.HALF_VECTORS),
    "__habs": (("half",), H.HABS),
    "tw_hfma": (("half vectors",), H.PACKED_FMA),
    **{name: (("half",), H.half_math(name)) for name in H.HALF_MATH},
    **{
        f"half {symbol}": (("half vectors",), H.packed_operator(symbol, name))
        for symbol, name in (("+", "add"), ("-", "sub"), ("*", "mul"))
    },
    "bfloat16": ((), cuda_bfloat.BFLOAT),
    **{name: (("bfloat16",), text) for name, text in cuda_bfloat.OPERATIONS.items()},
    "to odd": ((), H.TO_ODD),
    "tw_exp2": ((), _EXP2),
    **{name: ((), text) for name, text in (*MMA_PARTS.items(), *HOPPER_PARTS.items())},
    "wgmma": ((), WGMMA_PARTS),
}
CALLED = frozenset(("__habs", "tw_exp2", *H.HALF_MATH))
"""Parts that are functions which programs call by name."""
FROM_HEADER = frozenset(("half", "half compare", "__habs", *H.HALF_MATH))
"""Parts that cuda_fp16.h has too, under the same names."""

_MADE: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("tw_min_", _extreme),
    ("tw_max_", _extreme),
    ("tw_floordiv_", _floor_division),
    ("tw_floormod_", _floor_division),
    ("tw_any", _any_division),
    ("tw_sat ", _saturate),
    ("tw_bits ", _bits),
    ("tw_load ", _vector_access),
    ("tw_load_if ", _vector_access),
    ("tw_store ", _vector_access),
    ("bits ", _bfloat_bits),
    *((f"{name} ", cuda_bfloat.vector_operation) for name in cuda_bfloat.OPERATIONS),
    ("struct ", lambda key: struct_text(key.split(" ")[1])),
    ("halves ", _half_vector),
    ("tw_wmma ", wmma_part),
    ("tw_mma ", mma_part),
    ("tw_mma_sp ", mma_part),
    ("tw_tma ", tma_part),
    ("tw_cluster_load ", cluster_load_part),
    ("tw_wgmma ", wgmma_part),
    ("tw_wgmma_wait ", wait_part),
    ("import ", lambda key: key[len("import ") :].rstrip() + "\n"),
)


def _dependencies(key: str) -> Iterable[str]:
    if key in _FIXED:
        return _FIXED[key][0]
    if key.startswith("halves "):
        return ("half vectors",)
    if key.startswith("struct "):
        return ()
    for prefix, part in HOPPER_NEEDS.items():
        if key.startswith(prefix):
            return (part,)
    if key.startswith(("tw_min_float16", "tw_max_float16")):
        return ("half extremes",)
    parts = []
    if key.startswith("bits "):
        parts = ["bfloat16"]
    elif key.split(" ")[0] in cuda_bfloat.OPERATIONS:
        parts = [key.split(" ")[0], f"bits {key.split(' ')[1]} "]
    for word in key.split(" ")[1:] if not key.startswith("import ") else ():
        if word[:1].isalpha() and word.startswith(("int", "uint", "float", "bfloat", "bool")):
            parts += type_parts(word)
    return parts


def type_parts(dtype: str) -> list[str]:
    """What must be defined for a type."""
    t = parse(dtype)
    half = ["half"] if t.element == "float16" else []
    if t.lanes == 1:
        return half
    name = type_name(dtype)
    if name.startswith("half"):
        return [f"halves {dtype}"]
    return [f"struct {dtype}"] if name.startswith("tw_") else half


def _text(key: str) -> str:
    if key in _FIXED:
        return _FIXED[key][1]
    if key.startswith(("tw_min_float16", "tw_max_float16")):
        return ""
    for prefix, make in _MADE:
        if key.startswith(prefix):
            return make(key)
    raise InternalError(f"no such part of the CUDA preamble: {key}")


def preamble(needs: Iterable[str]) -> str:
    """The text of the parts asked for, each after what it needs itself."""
    keys = list(needs)
    has_header = any(k.startswith("import ") and "cuda_fp16.h" in k for k in keys)
    keys.sort(key=lambda k: not k.startswith("import "))
    done: dict[str, str] = {}

    def add(key: str) -> None:
        if key in done:
            return
        for other in _dependencies(key):
            add(other)
        done[key] = "" if has_header and key in FROM_HEADER else _text(key)

    for key in keys:
        add(key)
    return "\n".join(text for text in done.values() if text)


__all__ = ["memory_name", "preamble", "type_parts"]
