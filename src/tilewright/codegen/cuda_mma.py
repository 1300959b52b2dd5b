"""mma, ldmatrix and asynchronous copies on plain registers in CUDA, as inline PTX.

See the PTX ISA, "Warp-level Matrix Instructions" and "Data Movement and Conversion Instructions:
cp.async". The WMMA fragments of cuda_wmma.py are the other way to the tensor cores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import const_int
from ..loopir.visit import nodes
from .c_family import ExprRule, bare
from .c_language import pointed_data
from .c_stmt import STMTS
from .cuda_address import divided
from .cuda_asm import DEVICE, numbers, operands
from .cuda_types import require_arch

_TYPES = {
    "fp16": "f16", "float16": "f16", "bf16": "bf16", "bfloat16": "bf16", "tf32": "tf32",
    "float32": "f32", "fp32": "f32", "int8": "s8", "uint8": "u8", "int32": "s32",
}  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s8": 8, "u8": 8, "s32": 32}


def _mma(p: Any, e: E.Call) -> str:
    """(shape, layout of a, of b, type of a, b, c, then a, b, c with an index each, saturate); of
    `ptx_mma_sp`, whose a has two of four elements, before the last which they are, with an index,
    and which threads say so"""
    sparse = e.op.name == "tir.ptx_mma_sp"
    shape, *layouts = (str(getattr(x, "value", x)) for x in e.args[:3])
    ta, tb, tc = (_TYPES.get(str(getattr(x, "value", x)), "") for x in e.args[3:6])
    if ta == "f32":
        ta = tb = "tf32"
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if found is None or not (ta and tb and tc):
        raise CompileError(f"ptx_mma of shape {shape} and types {e.args[3:6]} is not known")
    m, n, k = map(int, found.groups())
    older = not sparse and (shape, ta) in _OLDER
    require_arch(p, 75 if older else 80, f"mma{'.sp' if sparse else ''}.{shape} on {ta}")
    kept = k // 2 if sparse else k
    counts = [m * n * _BITS[tc] // 1024, m * kept * _BITS[ta] // 1024, k * n * _BITS[tb] // 1024]
    pointers = [
        f"({bare(p.expr(e.args[6 + 2 * i]))} + {p.expr(e.args[7 + 2 * i])})" for i in range(3)
    ]
    words = ["unsigned int", "unsigned int", "float" if tc == "f32" else "unsigned int"]
    casts = [f"({w}*){x}" for w, x in zip(words, pointers)]
    saturate = ".satfinite" if tc == "s32" and const_int(e.args[15 if sparse else 12]) else ""
    text = f"{shape}.{layouts[0][:3]}.{layouts[1][:3]}{saturate}.{tc}.{ta}.{tb}.{tc}"
    if not sparse:
        name = part_name(p.need(" ".join(["tw_mma", text, *map(str, counts)])))
        return f"{name}({casts[2]}, {casts[0]}, {casts[1]})"
    which = const_int(e.args[14])
    if which not in range(4):
        raise CompileError(f"ptx_mma_sp: the sparse selector is 0 to 3, got {e.args[14]}")
    name = part_name(p.need(" ".join(["tw_mma_sp", text, *map(str, counts), str(which)])))
    data = f"((unsigned int*)({bare(p.expr(e.args[12]))}))[{bare(p.expr(e.args[13]))}]"
    return f"{name}({casts[2]}, {casts[0]}, {casts[1]}, {data})"


def part_name(key: str) -> str:
    """The function that a part of the preamble defines."""
    return key.replace(" ", "_").replace(".", "_")


def mma_part(key: str) -> str:
    """mma on arrays of registers; before sm_80 by smaller shapes, or the kernel stops."""
    _, what, d, a, b, *which = key.split(" ")
    counts = [int(x) for x in (d, a, b)]
    floats = what.endswith(".f32")
    element = "float" if floats else "unsigned int"
    (whole,) = _whole(*counts)
    inside = _instruction(what, whole, which)
    shape, _, *types = what.split(".")
    smaller, pieces = ("", None) if which else _OLDER.get((shape, types[-2]), ("", None))
    if smaller != shape:
        before = "  __trap();\n"
        if pieces is not None:
            less = what.replace(shape, smaller, 1)
            before = "".join(_instruction(less, piece) for piece in pieces(*counts))
        inside = f"#if __CUDA_ARCH__ >= 800\n{inside}#else\n{before}#endif\n"
    last = ", unsigned int places" if which else ""
    head = (
        f"{DEVICE} void {part_name(key)}({element}* d, const unsigned int* a, const unsigned int* b"
    )
    return f"{head}{last}) {{\n{inside}}}\n"


Slice = tuple[str, int, int]  # an array of registers, the first of them and how many


def _instruction(what: str, slices: list[Slice], which: Sequence[str] = ()) -> str:
    """One instruction on registers of d, a and b."""
    floats = what.endswith(".f32")
    sums, *others = (n for _, _, n in slices)
    at = list(accumulate((sums, *others), initial=0))
    named = [f"({name} + {first})" if first else name for name, first, _ in slices]
    last = f", %{at[3] + sums}, 0x{which[0]}" if which else ""
    more = ', "r"(places))' if which else ")"
    return (
        f'  asm volatile("mma{".sp" if which else ""}.sync.aligned.{what} '
        f'{numbers(at[0], sums)}, "\n'
        f'      "{numbers(at[1], others[0])}, {numbers(at[2], others[1])}, "\n'
        f'      "{numbers(at[3], sums)}{last};"\n'
        f"      : {operands(named[0], sums, True, floats)}\n"
        f"      : {operands(named[1], others[0], False, False)},\n"
        f"        {operands(named[2], others[1], False, False)},\n"
        f"        {operands(named[0], sums, False, floats)}"
        f"{more};\n"
    )


def _whole(d: int, a: int, b: int) -> list[list[Slice]]:
    return [[("d", 0, d), ("a", 0, a), ("b", 0, b)]]


def _by_steps(d: int, a: int, b: int) -> list[list[Slice]]:
    """m16n8k16 as two m16n8k8, whose fragments are halves of its own."""
    return [[("d", 0, d), ("a", n * a // 2, a // 2), ("b", n * b // 2, b // 2)] for n in range(2)]


def _by_rows(d: int, a: int, b: int) -> list[list[Slice]]:
    """m16n8k32 of bytes as four m8n8k16: for both halves of the steps the upper rows and the
    lower."""
    return [
        [("d", row * d // 2, d // 2), ("a", 2 * step + row, 1), ("b", step, 1)]
        for step in range(2)
        for row in range(2)
    ]


# by shape and type of operands: what sm_75 has instead (PTX ISA, "Matrix Fragments": mma.m16n8k8,
# mma.m8n8k16, mma.m16n8k16 with floating point type, mma.m16n8k32)
_OLDER: dict[tuple[str, str], tuple[str, Callable[[int, int, int], list[list[Slice]]]]] = {
    ("m16n8k8", "f16"): ("m16n8k8", _whole),
    ("m16n8k16", "f16"): ("m16n8k8", _by_steps),
    ("m16n8k32", "s8"): ("m8n8k16", _by_rows),
    ("m16n8k32", "u8"): ("m8n8k16", _by_rows),
}


def _fill(p: Any, e: E.Call) -> str:
    """(registers, array, offset)"""
    count, kind = p.expr(e.args[0]), p.type(e.dtype)
    to = f"(({kind}*){p.expr(e.args[1])})[{p.expr(e.args[2])} + tw_i]"
    p.line(f"for (int tw_i = 0; tw_i < {count}; ++tw_i) {to} = ({kind})0;")
    return "0"


def _store(p: Any, e: E.Call) -> str:
    """(m, n, to, from, offset, stride): the eight registers that each lane has of a tile; see the
    PTX ISA, "Matrix Fragments for mma.m16n8k16": rows of lanes / 4 and eight below, pairs of
    columns and eight to the right."""
    m, n = const_int(e.args[0]), const_int(e.args[1])
    if (m, n) != (16, 16):
        raise CompileError(f"mma_store stores tiles of 16 x 16, not {e.args[0]} x {e.args[1]}")
    kind = p.type(e.dtype)
    to, source = f"(({kind}*){p.expr(e.args[2])})", f"(({kind}*){p.expr(e.args[3])})"
    row = "(threadIdx.x % 32 / 4 + 8 * (tw_i / 2 % 2))"
    column = "(threadIdx.x % 4 * 2 + 8 * (tw_i / 4) + tw_i % 2)"
    p.line("for (int tw_i = 0; tw_i < 8; ++tw_i)")
    p.line(
        f"  {to}[{row} * {p.expr(e.args[5])} + {column}] = {source}[{p.expr(e.args[4])} + tw_i];"
    )
    return "0"


def _ldmatrix(p: Any, e: E.Call) -> str:
    """(transposed, matrices, type, registers, offset, shared memory, offset)"""
    flip, count = bool(const_int(e.args[0])), const_int(e.args[1]) or 1
    registers = f"((unsigned int*)({bare(p.expr(e.args[3]))} + {p.expr(e.args[4])}))"
    source, at = divided(p, e.args[5], e.args[6])
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if flip else ''}.shared.b16"
    p.line(f'asm volatile("{text} {numbers(0, count)}, [%{count}+{at}];"')
    p.line(f"    : {operands(registers, count, True, False)}")
    p.line(f'    : "r"({p.shared_place(source)}) : "memory");')
    return "0"


# -- asynchronous copies

ASYNC = f"""\
template <int N, int To, int From>
{DEVICE} void tw_cp_async(void* to, const void* from, bool some) {{
#if __CUDA_ARCH__ >= 800
  unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  int size = some ? N : 0;
  if (N == 16) {{
    asm volatile("cp.async.cg.shared.global [%0+%4], [%1+%5], %2, %3;"
                 :: "r"(place), "l"(from), "n"(N), "r"(size), "n"(To), "n"(From) : "memory");
  }} else {{
    asm volatile("cp.async.ca.shared.global [%0+%4], [%1+%5], %2, %3;"
                 :: "r"(place), "l"(from), "n"(N), "r"(size), "n"(To), "n"(From) : "memory");
  }}
#else
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {{
    ((unsigned int*)to)[i + To / 4] = some ? ((const unsigned int*)from)[i + From / 4] : 0u;
  }}
#endif
}}
template <int N, int To, int From>
{DEVICE} void tw_cp_async(void* to, const void* from, bool some, bool here) {{
#if __CUDA_ARCH__ >= 800
  unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
  int size = some ? N : 0, go = here;
  if (N == 16) {{
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %6, 0; "
                 "@p cp.async.cg.shared.global [%0+%4], [%1+%5], %2, %3;}}"
                 :: "r"(place), "l"(from), "n"(N), "r"(size), "n"(To), "n"(From), "r"(go)
                 : "memory");
  }} else {{
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %6, 0; "
                 "@p cp.async.ca.shared.global [%0+%4], [%1+%5], %2, %3;}}"
                 :: "r"(place), "l"(from), "n"(N), "r"(size), "n"(To), "n"(From), "r"(go)
                 : "memory");
  }}
#else
  if (here) tw_cp_async<N, To, From>(to, from, some);
#endif
}}
{DEVICE} void tw_cp_commit() {{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}}
template <int N>
{DEVICE} void tw_cp_wait() {{
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
    data = pointed_data(e.args[2])
    if data is not None:
        p.require_align(data, size)
    to, first = divided(p, e.args[0], e.args[1])
    # in a loop ptxas adds to 64 bits itself, and better; of steps that are written out it gives
    # each two registers and two instructions
    source, second = divided(p, e.args[2], e.args[3], p.written_out)
    some = bare(p.expr(e.args[5])) if len(e.args) > 5 else "true"
    return f"tw_cp_async<{size}, {first}, {second}>({to}, {source}, {some})"


def branch(p: Any, s: S.IfThenElse) -> S.Stmt | None:
    """A condition of copies becomes one of each instruction: in a branch of their own addresses
    would be computed anew each time, and nothing be moved over it."""
    body = s.then_case.seq if type(s.then_case) is S.SeqStmt else [s.then_case]
    calls = [x.value for x in body if type(x) is S.Evaluate]
    copies = [e for e in calls if isinstance(e, E.Call) and e.op.name == "tir.ptx_cp_async"]
    loads = any(type(x) is E.BufferLoad for e in (s.condition, *copies) for x in nodes(e))
    constant = isinstance(s.condition, E.IntImm)
    if s.else_case is not None or len(copies) < len(body) or loads or constant:
        return STMTS[S.IfThenElse](p, s)
    p.statement(s.condition)
    here = bare(p.expr(s.condition))
    for copy in copies:
        p.statement(copy)
        p.line(f"{_copy(p, copy)[:-1]}, {here});")
    return None


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
    "tir.ptx_mma": _mma,
    "tir.ptx_mma_sp": _mma,
    "tir.mma_fill": _fill,
    "tir.mma_store": _store,
    "tir.ptx_ldmatrix": _ldmatrix,
    "tir.ptx_cp_async": _copy,
    "tir.ptx_commit_group": _commit,
    "tir.ptx_wait_group": _wait,
}
