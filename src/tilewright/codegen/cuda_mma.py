"""Tensor cores in CUDA: WMMA fragments, mma, ldmatrix and asynchronous copies as inline PTX.

See the PTX ISA, "Warp-level Matrix Instructions" and "Data Movement and Conversion Instructions:
cp.async". No header is needed: mma.h is not part of what pip installs.

A fragment is a few registers a thread: an array in local memory that the compiler keeps in
registers. How its elements lie in them is the hardware's business; a fragment array of `n` tiles is
`unsigned int f[n][registers]`, of floats `float f[n][registers]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..base.errors import CompileError, InternalError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.stmt import PrimFunc
from ..loopir.visit import nodes
from .c_family import ExprRule, bare
from .cuda_types import memory_name

_D = "__device__ __forceinline__"
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


def declare(p: Any, buffer: Buffer, name: str, size: int) -> None:
    """A fragment array for `size` elements."""
    f = p.fragments.get(buffer.data)
    if f is None:
        raise CompileError(f"fragment {buffer.name} of kernel {p.func.name} is never used")
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


def _list(name: str, count: int, write: bool, floats: bool) -> str:
    kind = f"{'=' if write else ''}{'f' if floats else 'r'}"
    return ", ".join(f'"{kind}"({name}[{i}])' for i in range(count))


def _numbers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def _make_load(
    name: str, role: str, layout: str, geometry: str, dtype: str, ptx: str, count: str
) -> str:
    n, floats = int(count), role == "d" and dtype == "float32"
    element = "float" if floats else "unsigned int"
    letter = "c" if role == "d" else role
    text = f"wmma.load.{letter}.sync.aligned.{layout}.{geometry}.{ptx}"
    convert = ""
    if ptx == "tf32":
        convert = (
            f"#pragma unroll\n  for (int i = 0; i < {n}; ++i) {{\n"
            '    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(f[i]) : "f"(__uint_as_float(f[i])));\n  }\n'
        )
    inside = (
        f'  asm volatile("{text} {_numbers(0, n)}, [%{n}], %{n + 1};"\n'
        f"      : {_list('f', n, True, floats)}\n"
        f'      : "l"(p), "r"(stride)\n      : "memory");\n{convert}'
    )
    head = f"{_D} void {name}({element} (&f)[{n}], const {memory_name(dtype)}* p, int stride)"
    return f"{head} {{\n{_from(ptx, geometry, inside)}}}\n"


def _make_store(name: str, layout: str, geometry: str, dtype: str, count: str) -> str:
    n, floats = int(count), dtype == "float32"
    element = "float" if floats else "unsigned int"
    text = f"wmma.store.d.sync.aligned.{layout}.{geometry}.{_PTX[dtype]}"
    inside = (
        f'  asm volatile("{text} [%0], {_numbers(1, n)}, %{n + 1};"\n'
        f'      :\n      : "l"(p), {_list("f", n, False, floats)}, "r"(stride)\n'
        f'      : "memory");\n'
    )
    head = f"{_D} void {name}({memory_name(dtype)}* p, const {element} (&f)[{n}], int stride)"
    return f"{head} {{\n{_from('', geometry, inside)}}}\n"


def _make_mma(
    name: str, layouts: str, geometry: str, ptx: str, d: str, a: str, b: str, types: str
) -> str:
    floats = types.startswith("f32")
    counts = [int(x) for x in (d, a, b)]
    element = "float" if floats else "unsigned int"
    text = f"wmma.mma.sync.aligned.{layouts}.{geometry}.{types}"
    at = [0, counts[0], counts[0] + counts[1], sum(counts)]
    inside = (
        f'  asm volatile("{text} {_numbers(at[0], counts[0])}, {_numbers(at[1], counts[1])}, "\n'
        f'      "{_numbers(at[2], counts[2])}, {_numbers(at[3], counts[0])};"\n'
        f"      : {_list('d', counts[0], True, floats)}\n"
        f"      : {_list('a', counts[1], False, False)}, {_list('b', counts[2], False, False)},\n"
        f"        {_list('c', counts[0], False, floats)});\n"
    )
    parts = [f"{element} (&d)[{d}]", f"const unsigned int (&a)[{a}]"]
    parts += [f"const unsigned int (&b)[{b}]", f"const {element} (&c)[{d}]"]
    return f"{_D} void {name}({', '.join(parts)}) {{\n{_from(ptx, geometry, inside)}}}\n"


def _from(ptx: str, geometry: str, inside: str) -> str:
    """bfloat16 and tf32 begin with sm_80; before it such a kernel stops."""
    if ptx not in ("bf16", "tf32") and geometry != "m16n16k8":
        return inside
    return f"#if __CUDA_ARCH__ >= 800\n{inside}#else\n  __trap();\n#endif\n"


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


def _load(p: Any, e: E.Call) -> str:
    """(fragment, m, n, k, index, address, stride, layout)"""
    f = _fragment(p, e.args[0])
    name = _part(p, "load", f.role, _layout(e.args[7]), f.geometry, f.dtype, f.ptx, f.registers)
    tile, stride = _tile(p, e.args[0], e.args[4]), bare(p.expr(e.args[6]))
    return f"{name}({tile}, {bare(p.expr(e.args[5]))}, {stride})"


def _store(p: Any, e: E.Call) -> str:
    f = _fragment(p, e.args[0])
    name = _part(p, "store", _layout(e.args[7]), f.geometry, f.dtype, f.registers)
    tile, stride = _tile(p, e.args[0], e.args[4]), bare(p.expr(e.args[6]))
    return f"{name}({bare(p.expr(e.args[5]))}, {tile}, {stride})"


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


# -- mma and ldmatrix on plain registers

_TYPES = {
    "fp16": "f16", "float16": "f16", "bf16": "bf16", "bfloat16": "bf16", "tf32": "tf32",
    "float32": "f32", "fp32": "f32", "int8": "s8", "uint8": "u8", "int32": "s32",
}  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s8": 8, "u8": 8, "s32": 32}


def _mma(p: Any, e: E.Call) -> str:
    """(shape, layout of a, of b, type of a, b, c, then a, b, c with an index each, saturate)"""
    shape, *layouts = (str(getattr(x, "value", x)) for x in e.args[:3])
    ta, tb, tc = (_TYPES.get(str(getattr(x, "value", x)), "") for x in e.args[3:6])
    if ta == "f32":
        ta = tb = "tf32"
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if found is None or not (ta and tb and tc):
        raise CompileError(f"ptx_mma of shape {shape} and types {e.args[3:6]} is not known")
    m, n, k = map(int, found.groups())
    counts = [m * n * _BITS[tc] // 1024, m * k * _BITS[ta] // 1024, k * n * _BITS[tb] // 1024]
    pointers = [
        f"({bare(p.expr(e.args[6 + 2 * i]))} + {p.expr(e.args[7 + 2 * i])})" for i in range(3)
    ]
    words = ["unsigned int", "unsigned int", "float" if tc == "f32" else "unsigned int"]
    casts = [f"({w}*){x}" for w, x in zip(words, pointers)]
    saturate = ".satfinite" if tc == "s32" and const_int(e.args[12]) else ""
    text = f"{shape}.{layouts[0][:3]}.{layouts[1][:3]}{saturate}.{tc}.{ta}.{tb}.{tc}"
    name = _part(p, "registers", text, *counts)
    return f"{name}({casts[2]}, {casts[0]}, {casts[1]})"


def _make_registers(name: str, what: str, d: str, a: str, b: str) -> str:
    """mma on arrays of registers; shapes that came with sm_80 stop the kernel before it."""
    counts = [int(x) for x in (d, a, b)]
    floats = what.endswith(".f32")
    element = "float" if floats else "unsigned int"
    at = [0, counts[0], counts[0] + counts[1], sum(counts)]
    inside = (
        f'  asm volatile("mma.sync.aligned.{what} {_numbers(at[0], counts[0])}, "\n'
        f'      "{_numbers(at[1], counts[1])}, {_numbers(at[2], counts[2])}, "\n'
        f'      "{_numbers(at[3], counts[0])};"\n'
        f"      : {_list('d', counts[0], True, floats)}\n"
        f"      : {_list('a', counts[1], False, False)}, {_list('b', counts[2], False, False)},\n"
        f"        {_list('d', counts[0], False, floats)});\n"
    )
    if not (what.startswith("m16n8k8.") and ".f16." in what):
        inside = f"#if __CUDA_ARCH__ >= 800\n{inside}#else\n  __trap();\n#endif\n"
    head = f"{_D} void {name}({element}* d, const unsigned int* a, const unsigned int* b)"
    return f"{head} {{\n{inside}}}\n"


def _ldmatrix(p: Any, e: E.Call) -> str:
    """(transposed, matrices, type, registers, offset, shared memory, offset)"""
    flip, count = bool(const_int(e.args[0])), const_int(e.args[1]) or 1
    registers = f"((unsigned int*)({bare(p.expr(e.args[3]))} + {p.expr(e.args[4])}))"
    source = f"{p.expr(e.args[5])} + {p.expr(e.args[6])}"
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if flip else ''}.shared.b16"
    p.line(f'asm volatile("{text} {_numbers(0, count)}, [%{count}];"')
    p.line(f"    : {_list(registers, count, True, False)}")
    p.line(f'    : "r"((unsigned int)__cvta_generic_to_shared({source})) : "memory");')
    return "0"


_MAKERS: dict[str, Any] = {
    "load": _make_load,
    "store": _make_store,
    "mma": _make_mma,
    "registers": _make_registers,
}

# -- asynchronous copies

ASYNC = f"""\
template <int N>
{_D} void tw_cp_async(void* to, const void* from, bool some) {{
#if __CUDA_ARCH__ >= 800
  unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  int size = some ? N : 0;
  if (N == 16) {{
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;"
                 :: "r"(place), "l"(from), "n"(N), "r"(size) : "memory");
  }} else {{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(place), "l"(from), "n"(N), "r"(size) : "memory");
  }}
#else
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {{
    ((unsigned int*)to)[i] = some ? ((const unsigned int*)from)[i] : 0u;
  }}
#endif
}}
{_D} void tw_cp_commit() {{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}}
template <int N>
{_D} void tw_cp_wait() {{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}}
"""
MMA_PARTS: dict[str, str] = {"cp.async": ASYNC}


def _copy(p: Any, e: E.Call) -> str:
    """(to, offset, from, offset, bytes [, predicate]); where that is false zeros are written."""
    p.need("cp.async")
    size = const_int(e.args[4])
    if size not in (4, 8, 16):
        raise CompileError(f"ptx_cp_async copies 4, 8 or 16 bytes, not {e.args[4]}")
    to, source = (f"{p.expr(e.args[i])} + {p.expr(e.args[i + 1])}" for i in (0, 2))
    some = bare(p.expr(e.args[5])) if len(e.args) > 5 else "true"
    return f"tw_cp_async<{size}>({to}, {source}, {some})"


def _commit(p: Any, e: E.Call) -> str:
    p.need("cp.async")
    return "tw_cp_commit()"


def _wait(p: Any, e: E.Call) -> str:
    p.need("cp.async")
    most = const_int(e.args[0]) if e.args else 0
    if most is None:
        raise CompileError("ptx_wait_group waits for a constant number of groups")
    return f"tw_cp_wait<{most}>()"


MMA_CALLS: dict[str, ExprRule] = {
    "tir.tvm_fill_fragment": _fill,
    "tir.tvm_load_matrix_sync": _load,
    "tir.tvm_store_matrix_sync": _store,
    "tir.tvm_mma_sync": _multiply,
    "tir.ptx_mma": _mma,
    "tir.ptx_ldmatrix": _ldmatrix,
    "tir.ptx_cp_async": _copy,
    "tir.ptx_commit_group": _commit,
    "tir.ptx_wait_group": _wait,
}
