"""WMMA fragments in CUDA, as inline PTX (PTX ISA, "Warp-level Matrix Instructions").

No header is needed: mma.h is not part of what pip installs. A fragment is a few registers a thread:
an array in local memory that the compiler keeps in registers. How its elements lie in them is the
hardware's business; a fragment array of `n` tiles is `unsigned int f[n][registers]`, of float32
accumulators `float f[n][registers]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.stmt import PrimFunc
from ..loopir.visit import nodes
from .c_family import ExprRule, bare
from .c_language import pointed_data
from .cuda_address import divided
from .cuda_asm import DEVICE, numbers, operands
from .cuda_types import memory_name, require_arch

_PTX = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "s8",
    "uint8": "u8",
    "int32": "s32",
}
# 32-bit registers of a fragment, by role and type (PTX ISA, "Matrix Fragments for WMMA")
_REGISTERS = {
    ("a", "float16"): 8,
    ("b", "float16"): 8,
    ("a", "bfloat16"): 4,
    ("b", "bfloat16"): 4,
    ("a", "float32"): 4,
    ("b", "float32"): 4,
    ("d", "float32"): 8,
    ("d", "float16"): 4,
    ("d", "int32"): 8,
}
_INT8 = {("a", (16, 16)): 2, ("a", (32, 16)): 4, ("a", (8, 16)): 1}
_BFLOAT = {(16, 16): 4, (32, 16): 8, (8, 16): 2}
_ROLES = {"wmma.matrix_a": "a", "wmma.matrix_b": "b", "wmma.accumulator": "d"}
_SHAPES = {
    "float16": {(16, 16, 16), (32, 8, 16), (8, 32, 16)},
    "bfloat16": {(16, 16, 16), (32, 8, 16), (8, 32, 16)},
    "int8": {(16, 16, 16), (32, 8, 16), (8, 32, 16)},
    "uint8": {(16, 16, 16), (32, 8, 16), (8, 32, 16)},
    "float32": {(16, 16, 8)},
}


@dataclass
class Fragment:
    """What is known of one fragment array: its role, element type, (m, n, k) and layout."""

    role: str
    dtype: str
    shape: tuple[int, int, int]
    layout: str = "row"

    @property
    def ptx(self) -> str:
        if self.dtype == "float32" and self.role != "d":
            return "tf32"
        return _PTX[self.dtype]

    @property
    def is_float(self) -> bool:
        """Whether its registers are floats (accumulators of float32)."""
        return self.role == "d" and self.dtype == "float32"

    @property
    def registers(self) -> int:
        m, n, k = self.shape
        rows = (m if self.role == "a" else n, k)
        if self.dtype in ("int8", "uint8"):
            return _INT8["a", rows]
        if self.dtype == "bfloat16":
            return _BFLOAT[rows]
        return _REGISTERS[self.role, self.dtype]

    @property
    def element(self) -> str:
        return "float" if self.is_float else "unsigned int"

    @property
    def geometry(self) -> str:
        m, n, k = self.shape
        return f"m{m}n{n}k{k}"


_CALLS = ("tir.tvm_fill_fragment", "tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync")


def find_fragments(func: PrimFunc, buffers: dict[E.Var, Buffer]) -> dict[E.Var, Fragment]:
    """The fragment arrays of a kernel, from the calls that use them and where they live."""
    found: dict[E.Var, Fragment] = {}
    calls = [x for x in nodes(func.body) if isinstance(x, E.Call)]
    for e in calls:
        if e.op.name not in _CALLS:
            continue
        data, buffer = e.args[0], buffers.get(e.args[0])  # type: ignore[call-overload]
        if buffer is None or not isinstance(data, E.Var):
            raise CompileError(f"{e.op.name[4:]} in kernel {func.name} names no fragment")
        role = _ROLES.get(buffer.scope())
        if role is None:
            raise CompileError(f"{buffer.name} is used as a fragment, but its scope is not wmma.*")
        m, n, k = (const_int(x) or 0 for x in e.args[1:4])
        fragment = found.setdefault(data, Fragment(role, buffer.dtype, (m, n, k)))
        if e.op.name.endswith("load_matrix_sync"):
            fragment.layout = _layout(e.args[7])
    _check(func, found, calls)
    return found


def _check(func: PrimFunc, found: dict[E.Var, Fragment], calls: list[E.Call]) -> None:
    for e in calls:
        if e.op.name != "tir.tvm_mma_sync":
            continue
        d, a, b, c = (found.get(e.args[i]) for i in (0, 2, 4, 6))  # type: ignore[call-overload]
        if d is None or a is None or b is None or c is None:
            raise CompileError(f"kernel {func.name} multiplies a fragment that is never filled")
        if d.shape != a.shape or a.shape not in _SHAPES.get(a.dtype, ()) or a.dtype != b.dtype:
            raise CompileError(
                f"tensor cores have no product of {a.dtype} and {b.dtype} of shape {a.shape}; "
                f"for {a.dtype} there are {sorted(_SHAPES.get(a.dtype, ()))}"
            )


def _layout(e: Any) -> str:
    text = str(getattr(e, "value", ""))
    if text not in ("row_major", "col_major"):
        raise CompileError(f"the layout of a fragment is row_major or col_major, not {text!r}")
    return text[:3]


_FRAGMENT_BYTES = 32  # what addresses of matrices in memory are aligned to
_LEAST_ARCH = {"bf16": 80, "tf32": 80, "s8": 72, "u8": 72, "s32": 72}


def declare(p: Any, buffer: Buffer, name: str, size: int) -> None:
    """A fragment array for `size` elements."""
    f = p.fragments.get(buffer.data)
    if f is None:
        raise CompileError(f"fragment {buffer.name} of kernel {p.func.name} is never used")
    least = _LEAST_ARCH.get(f.ptx, 70)
    require_arch(p, least, f"tensor cores for {'tf32' if f.ptx == 'tf32' else f.dtype}")
    m, n, k = f.shape
    tile = {"a": m * k, "b": k * n, "d": m * n}[f.role]
    if size % tile:
        raise CompileError(f"fragment {buffer.name} of {size} elements is no number of tiles")
    p.line(f"{f.element} {name}[{size // tile}][{f.registers}];")


# -- the functions, made by what they are asked for


def _part(p: Any, *words: Any) -> str:
    key = " ".join(["tw_wmma", *map(str, words)])
    p.need(key)
    return key.replace(" ", "_").replace(".", "_")


def wmma_part(key: str) -> str:
    """The text of a part: "tw_wmma load a row m16n16k16 float16 8" and the like."""
    name, words = key.replace(" ", "_").replace(".", "_"), key.split(" ")[1:]
    return str(_MAKERS[words[0]](name, *words[1:]))


_AT = "template <int At>\n"  # bytes behind the pointer, which the instruction adds


def _make_load(
    name: str, role: str, layout: str, geometry: str, dtype: str, ptx: str, count: str, space: str
) -> str:
    n, floats = int(count), role == "d" and dtype == "float32"
    element = "float" if floats else "unsigned int"
    letter = "c" if role == "d" else role
    text = f"wmma.load.{letter}.sync.aligned.{layout}.{geometry}{_suffix(space)}.{ptx}"
    convert = ""
    if ptx == "tf32":
        convert = (
            f"#pragma unroll\n  for (int i = 0; i < {n}; ++i) {{\n"
            '    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(f[i]) : "f"(__uint_as_float(f[i])));\n  }\n'
        )
    inside = (
        f'  asm volatile("{text} {numbers(0, n)}, [%{n}+%{n + 2}], %{n + 1};"\n'
        f"      : {operands('f', n, True, floats)}\n"
        f'      : {_address(space)}, "r"(stride), "n"(At)\n      : "memory");\n{convert}'
    )
    head = f"{DEVICE} void {name}({element} (&f)[{n}], const {memory_name(dtype)}* p, int stride)"
    return f"{_AT}{head} {{\n{_from(ptx, geometry, inside)}}}\n"


def _make_store(name: str, layout: str, geometry: str, dtype: str, count: str, space: str) -> str:
    n, floats = int(count), dtype == "float32"
    element = "float" if floats else "unsigned int"
    text = f"wmma.store.d.sync.aligned.{layout}.{geometry}{_suffix(space)}.{_PTX[dtype]}"
    inside = (
        f'  asm volatile("{text} [%0+%{n + 2}], {numbers(1, n)}, %{n + 1};"\n'
        f'      :\n      : {_address(space)}, {operands("f", n, False, floats)}, "r"(stride),\n'
        '        "n"(At) : "memory");\n'
    )
    head = f"{DEVICE} void {name}({memory_name(dtype)}* p, const {element} (&f)[{n}], int stride)"
    return f"{_AT}{head} {{\n{_from('', geometry, inside)}}}\n"


def _suffix(space: str) -> str:
    """The state space in an instruction; "memory" is any."""
    return "" if space == "memory" else f".{space}"


def _address(space: str) -> str:
    """The operand for pointer p: only shared memory has addresses of its own."""
    return '"r"((unsigned int)__cvta_generic_to_shared(p))' if space == "shared" else '"l"(p)'


def _make_mma(
    name: str, layouts: str, geometry: str, ptx: str, d: str, a: str, b: str, types: str
) -> str:
    floats = types.startswith("f32")
    counts = [int(x) for x in (d, a, b)]
    element = "float" if floats else "unsigned int"
    text = f"wmma.mma.sync.aligned.{layouts}.{geometry}.{types}"
    at = [0, counts[0], counts[0] + counts[1], sum(counts)]
    inside = (
        f'  asm volatile("{text} {numbers(at[0], counts[0])}, {numbers(at[1], counts[1])}, "\n'
        f'      "{numbers(at[2], counts[2])}, {numbers(at[3], counts[0])};"\n'
        f"      : {operands('d', counts[0], True, floats)}\n"
        f"      : {operands('a', counts[1], False, False)},\n"
        f"        {operands('b', counts[2], False, False)},\n"
        f"        {operands('c', counts[0], False, floats)});\n"
    )
    parts = [f"{element} (&d)[{d}]", f"const unsigned int (&a)[{a}]"]
    parts += [f"const unsigned int (&b)[{b}]", f"const {element} (&c)[{d}]"]
    return f"{DEVICE} void {name}({', '.join(parts)}) {{\n{_from(ptx, geometry, inside)}}}\n"


def _from(ptx: str, geometry: str, inside: str) -> str:
    """bfloat16 and tf32 begin with sm_80; before it such a kernel stops."""
    if ptx not in ("bf16", "tf32") and geometry != "m16n16k8":
        return inside
    return f"#if __CUDA_ARCH__ >= 800\n{inside}#else\n  __trap();\n#endif\n"


_MAKERS: dict[str, Any] = {"load": _make_load, "store": _make_store, "mma": _make_mma}


# -- the calls


def _fragment(p: Any, data: Any) -> Fragment:
    f = p.fragments.get(data)
    if f is None:
        raise InternalError(f"{data} is no fragment of kernel {p.func.name}")
    return f  # type: ignore[no-any-return]


def _tile(p: Any, data: Any, index: Any) -> str:
    return f"{p.env[data]}[{bare(p.expr(index))}]"


def _fill(p: Any, e: E.Call) -> str:
    """(fragment, m, n, k, index, value)"""
    f = _fragment(p, e.args[0])
    value = p.expr(e.args[5])
    if f.dtype == "float16":
        bits = f"(unsigned int)__half_as_ushort({bare(value)})"
        value = f"({bits} | {bits} << 16)"
    elif not f.is_float:
        value = f"(unsigned int){value}"
    tile = _tile(p, e.args[0], e.args[4])
    p.line(p.unroll_pragma)
    counter = p.names.fresh("i")
    with p.block(f"for (int {counter} = 0; {counter} < {f.registers}; ++{counter}) {{"):
        p.line(f"{tile}[{counter}] = {bare(value)};")
    return "0"


def _space(p: Any, e: E.Call) -> str:
    """Where the memory lies that a fragment is loaded from or stored to. Without it the compiler
    takes generic loads of elements, not those of matrices from shared memory."""
    data = pointed_data(e.args[5])
    if data is not None:
        p.require_align(data, _FRAGMENT_BYTES)
    pointer: Any = e.args[5]
    if isinstance(pointer, E.Call) and pointer.op.name == "tir.tvm_access_ptr":
        pointer = pointer.args[1]
    elif isinstance(pointer, E.Call) and type(pointer.args[0]) is E.BufferLoad:
        pointer = pointer.args[0].buffer.data
    scope = p.scope_of.get(pointer, "") if isinstance(pointer, E.Var) else ""
    return "shared" if scope.startswith("shared") else "global" if scope == "global" else "memory"


def _load(p: Any, e: E.Call) -> str:
    """(fragment, m, n, k, index, address, stride, layout)"""
    f = _fragment(p, e.args[0])
    what = ("load", f.role, _layout(e.args[7]), f.geometry)
    name = _part(p, *what, f.dtype, f.ptx, f.registers, _space(p, e))
    tile, stride = _tile(p, e.args[0], e.args[4]), bare(p.expr(e.args[6]))
    place, at = divided(p, e.args[5])
    return f"{name}<{at}>({tile}, {place}, {stride})"


def _store(p: Any, e: E.Call) -> str:
    f = _fragment(p, e.args[0])
    what = ("store", _layout(e.args[7]), f.geometry, f.dtype)
    name = _part(p, *what, f.registers, _space(p, e))
    tile, stride = _tile(p, e.args[0], e.args[4]), bare(p.expr(e.args[6]))
    place, at = divided(p, e.args[5])
    return f"{name}<{at}>({place}, {tile}, {stride})"


def _multiply(p: Any, e: E.Call) -> str:
    """d = a b + c: four pairs of (fragment, index)."""
    d, a, b, c = (_fragment(p, e.args[i]) for i in (0, 2, 4, 6))
    if a.ptx == "f16":
        types = f"{d.ptx}.{c.ptx}"
    elif a.ptx in ("s8", "u8"):
        types = f"s32.{a.ptx}.{b.ptx}.s32"
    else:
        types = f"f32.{a.ptx}.{b.ptx}.f32"
    layouts = f"{a.layout}.{b.layout}"
    name = _part(p, "mma", layouts, a.geometry, a.ptx, d.registers, a.registers, b.registers, types)
    tiles = [_tile(p, e.args[i], e.args[i + 1]) for i in (0, 2, 4, 6)]
    return f"{name}({', '.join(tiles)})"


WMMA_CALLS: dict[str, ExprRule] = {
    "tir.tvm_fill_fragment": _fill,
    "tir.tvm_load_matrix_sync": _load,
    "tir.tvm_store_matrix_sync": _store,
    "tir.tvm_mma_sync": _multiply,
}
