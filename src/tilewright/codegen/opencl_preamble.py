"""What generated OpenCL source may need in front of its kernels, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..base.dtype import parse
from ..base.errors import InternalError
from .c_preamble import any_division
from .opencl_calls import BARRIER
from .opencl_stmt import LOOP_END, OWN
from .opencl_types import memory_name, type_name

_D = "static inline"
_POCL = "#if defined(POCL_DEVICE_ADDRESS_BITS) && !defined(__SPIR__) && !defined(__SPIRV__)"


class _Parts:
    def __init__(self, native_half: bool, struct: Callable[[str, bool], str]) -> None:
        self.half = native_half
        self.struct = struct

    def type(self, dtype: str) -> str:
        return type_name(dtype, self.half)

    def pragma(self, key: str) -> str:
        name = key.split(" ")[1]
        return f"#pragma OPENCL EXTENSION {name} : enable\n"

    def structure(self, key: str) -> str:
        return self.struct(key.split(" ")[1], self.half)

    def extreme(self, key: str) -> str:
        _, kind, dtype = key.split("_", 2)
        c, op = self.type(dtype), "<" if kind == "min" else ">"
        test = f"a {op} b || a != a ? a : b"
        if parse(dtype).lanes > 1:
            test = f"select(b, a, (a {op} b) | (a != a))"
        return f"{_D} {c} {key}({c} a, {c} b) {{ return {test}; }}\n"

    def floor_division(self, key: str) -> str:
        _, what, dtype = key.split("_", 2)
        c = self.type(dtype)
        if what == "floordiv":
            body = f"  {c} q = a / b, r = a % b;\n  return r != 0 && (r ^ b) < 0 ? q - 1 : q;\n"
        else:
            body = f"  {c} r = a % b;\n  return r != 0 && (r ^ b) < 0 ? r + b : r;\n"
        return f"{_D} {c} {key}({c} a, {c} b) {{\n{body}}}\n"

    def any_division(self, key: str) -> str:
        t = parse(key.rsplit("_", 1)[1])
        return any_division(key, _D, self.type(t.text), self.type(f"uint{max(t.bits, 32)}"))

    def saturate(self, key: str) -> str:
        """Float to integer as SEMANTICS.md has it: towards zero, clamped, NaN is 0."""
        _, source, dtype = key.split(" ")
        t, a, b = parse(source), self.type(source), self.type(dtype)
        name = key.replace(" ", "_")
        mask = f"convert_{b}(x == x)" if t.lanes > 1 else ""
        value = f"convert_{b}_sat_rtz(x)"
        text = f"x == x ? {value} : 0" if t.lanes == 1 else f"{value} & {mask}"
        return f"{_D} {b} {name}({a} x) {{ return {text}; }}\n"

    def to_bits(self, key: str) -> str:
        """float16 or bfloat16 (a float32 in registers) to its bits, to nearest even."""
        t = parse(key.split(" ")[1])
        f, name = self.type(parse("float32").with_lanes(t.lanes)), key.replace(" ", "_")
        n = "" if t.lanes == 1 else str(t.lanes)
        if t.code == "float" and n == "":  # as a vector: see from_bits
            body = "  float8 v = (float8)(x);\n  ushort8 u;\n"
            body += "  vstore_half8_rte(v, 0, (__private half*)&u);\n  return u.s0;\n"
            return f"{_D} ushort {name}({f} x) {{\n{body}}}\n"
        if t.code == "float":
            body = (
                f"  ushort{n} u;\n  vstore_half{n}_rte(x, 0, (__private half*)&u);\n  return u;\n"
            )
            return f"{_D} ushort{n} {name}({f} x) {{\n{body}}}\n"
        nan = "x != x ? u >> 16 | 0x40 : r" if n == "" else "select(r, u >> 16 | 0x40u, x != x)"
        return (
            f"{_D} ushort{n} {name}({f} x) {{\n  uint{n} u = as_uint{n}(x);\n"
            f"  uint{n} r = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;\n"
            f"  return convert_ushort{n}({nan});\n}}\n"
        )

    def from_bits(self, key: str) -> str:
        t = parse(key.split(" ")[1])
        f, name = self.type(parse("float32").with_lanes(t.lanes)), key.replace(" ", "_")
        n = "" if t.lanes == 1 else str(t.lanes)
        if t.code == "float" and n == "":
            # PoCL converts vectors by the processor's instruction, single numbers by a function
            # that takes ten times as long; elsewhere the other lanes are dead
            load = "vload_half8(0, (__private const half*)&v)"
            return f"{_D} {f} {name}(ushort u) {{ ushort8 v = (ushort8)(u); return {load}.s0; }}\n"
        if t.code == "float":
            value = f"vload_half{n}(0, (__private const half*)&u)"
        else:
            value = f"as_float{n}(convert_uint{n}(u) << 16)"
        return f"{_D} {f} {name}(ushort{n} u) {{ return {value}; }}\n"

    def round(self, key: str) -> str:
        _, element, wide = key.split(" ")
        narrow = parse(element).with_lanes(parse(wide).lanes)
        f = self.type(wide)
        value = f"tw_from_{narrow}(tw_to_{narrow}(x))"
        return f"{_D} {f} {key.replace(' ', '_')}({f} x) {{ return {value}; }}\n"

    def odd(self, key: str) -> str:
        """Rounding to odd (Boldo and Melquiond 2008), so that a second rounding is right."""
        dtype = key.split(" ")[1]
        t, c, name = parse(dtype), self.type(dtype), key.replace(" ", "_")
        n = "" if t.lanes == 1 else str(t.lanes)
        back = f"convert_{c}(r) != x"
        if t.is_float:
            back = f"({back}) {'&' if n else '&&'} (x == x)"
        flag = f"convert_uint{n}({back}) & 1u" if n else f"({back} ? 1u : 0u)"
        return (
            f"{_D} float{n} {name}({c} x) {{\n  float{n} r = convert_float{n}_rtz(x);\n"
            f"  return as_float{n}(as_uint{n}(r) | ({flag}));\n}}\n"
        )

    def bits(self, key: str) -> str:
        _, source, dtype = key.split(" ")
        a, b, name = self.type(source), self.type(dtype), key.replace(" ", "_")
        return (
            f"{_D} {b} {name}({a} x) {{\n  union {{\n    {a} from;\n    {b} to;\n  }} u;\n"
            f"  u.from = x;\n  return u.to;\n}}\n"
        )

    def atomic(self, key: str) -> str:
        """Atomic addition of floats by compare and exchange, which every device has."""
        _, space, dtype = key.split(" ")
        c, name = self.type(dtype), key.replace(" ", "_")
        i, cas = ("int", "atomic_cmpxchg") if parse(dtype).bits == 32 else ("long", "atom_cmpxchg")
        return (
            f"{_D} {c} {name}(volatile __{space} {c}* p, {c} x) {{\n"
            f"  volatile __{space} {i}* q = (volatile __{space} {i}*)p;\n"
            f"  {i} old, seen = *q;\n  do {{\n    old = seen;\n"
            f"    seen = {cas}(q, old, as_{i}(as_{c}(old) + x));\n"
            f"  }} while (seen != old);\n  return as_{c}(old);\n}}\n"
        )

    def shuffles(self, key: str) -> str:
        return (
            "#ifdef cl_khr_subgroup_shuffle\n"
            "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n"
            "#define tw_shuffle(x, lane) sub_group_shuffle(x, lane)\n#else\n"
            "#pragma OPENCL EXTENSION cl_intel_subgroups : enable\n"
            "#define tw_shuffle(x, lane) intel_sub_group_shuffle(x, lane)\n#endif\n"
        )

    def barrier(self, key: str) -> str:
        """See opencl_calls: nothing that is run, in PoCL's programs for processors."""
        return (
            f"{_POCL}\n"
            f'#define {key}(fences) do {{ {key}(fences); __asm__ volatile(""); }} while (0)\n'
            "#endif\n"
        )

    def loop_end(self, key: str) -> str:
        """See opencl_stmt: a barrier for PoCL, which defines this macro for its compiler."""
        return (
            f"#ifdef POCL_DEVICE_ADDRESS_BITS\n#define {key} barrier(CLK_GLOBAL_MEM_FENCE)\n"
            f"#else\n#define {key}\n#endif\n"
        )

    def own(self, key: str) -> str:
        """See opencl_stmt: the value itself, which LLVM cannot look into."""
        value = '__typeof__(x) tw_x = (x); __asm__("" : "+r"(tw_x)); tw_x;'
        return f"{_POCL}\n#define {key}(x) ({{ {value} }})\n#else\n#define {key}(x) (x)\n#endif\n"

    def user(self, key: str) -> str:
        return key[len("import ") :].rstrip() + "\n"


_MADE: tuple[tuple[str, Callable[[_Parts, str], str]], ...] = (
    ("pragma ", _Parts.pragma),
    ("struct ", _Parts.structure),
    ("tw_min_", _Parts.extreme),
    ("tw_max_", _Parts.extreme),
    ("tw_floordiv_", _Parts.floor_division),
    ("tw_floormod_", _Parts.floor_division),
    ("tw_any", _Parts.any_division),
    ("tw_sat ", _Parts.saturate),
    ("tw_to ", _Parts.to_bits),
    ("tw_from ", _Parts.from_bits),
    ("tw_round ", _Parts.round),
    ("tw_odd ", _Parts.odd),
    ("tw_bits ", _Parts.bits),
    ("tw_atomic_add ", _Parts.atomic),
    ("tw_shuffle", _Parts.shuffles),
    (BARRIER, _Parts.barrier),
    (LOOP_END, _Parts.loop_end),
    (OWN, _Parts.own),
    ("import ", _Parts.user),
)


def _dependencies(key: str) -> tuple[str, ...]:
    if key.startswith("tw_round "):
        _, element, wide = key.split(" ")
        narrow = parse(element).with_lanes(parse(wide).lanes)
        return (f"tw_to {narrow}", f"tw_from {narrow}")
    if key.startswith("tw_bits "):
        words = key.split(" ")[1:]
        return tuple(f"struct {w}" for w in words if type_name(w, False).startswith("tw_"))
    return ()


def preamble(needs: Iterable[str], native_half: bool, struct: Callable[[str, bool], str]) -> str:
    """The text of the parts asked for: extensions and the user's source first."""
    parts = _Parts(native_half, struct)
    keys = sorted(needs, key=lambda k: (not k.startswith("pragma "), not k.startswith("import ")))
    done: dict[str, str] = {}

    def add(key: str) -> None:
        if key in done:
            return
        for other in _dependencies(key):
            add(other)
        for prefix, make in _MADE:
            if key.startswith(prefix):
                done[key] = make(parts, key)
                return
        raise InternalError(f"no such part of the OpenCL preamble: {key}")

    for key in keys:
        add(key)
    return "\n".join(done.values())


__all__ = ["memory_name", "preamble"]
