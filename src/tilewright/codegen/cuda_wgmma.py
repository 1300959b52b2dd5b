"""Products of Hopper's warp groups in CUDA, as inline PTX.

See the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

import re
from typing import Any

from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir.expr import const_int
from ..loopir.hopper_calls import MODES, WGMMA, WGMMA_RS
from .c_family import ExprRule, bare
from .cuda_asm import DEVICE, PLACE, alone, function, numbers, operands
from .cuda_mma import part_name

_TYPES = {"fp16": "f16", "float16": "f16", "bf16": "bf16", "bfloat16": "bf16", "int8": "s8"}
_INTEGERS = {"s8": ("s32", 32)}  # of operands: the type of sums, and steps of an instruction
_MOST_BYTES = (1 << 18) - 16  # that a field of 14 bits counts, in steps of 16
_ARCH = "defined(__CUDA_ARCH_FEAT_SM90_ALL)"
_WORDS = 4  # registers of A of a thread, where A is in registers
WGMMA_PARTS = "\n".join(
    (
        f"{DEVICE} unsigned long long tw_wgmma_descriptor(const void* tile, "
        "unsigned long long layout) {\n"
        f"  return (unsigned long long)(({PLACE}(tile) & 0x3ffffu) >> 4) | layout;\n}}\n",
        function(
            "tw_wgmma_fence()",
            '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n',
            _ARCH,
        ),
        function(
            "tw_wgmma_commit()",
            '  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");\n',
            _ARCH,
        ),
    )
)


def wgmma_part(key: str) -> str:
    """The product on an array of registers; of an A in registers, too, where it says so."""
    _, what, flips, *how = key.split(" ")
    shape = re.match(r"m64n(\d+)k", what)
    assert shape is not None
    count = int(shape[1]) // 2
    sums = "int" if ".s32." in what else "float"
    rest = "p" if sums == "int" else f"p, 1, 1, {', '.join(flips)}"
    given, first, words = '"l"(a)', f"%{count}", 1
    kind = "unsigned long long a"
    if how:
        given, words = operands("a", _WORDS, False, False), _WORDS
        first, kind = numbers(count, words), "const unsigned int* a"
    after = count + words
    text = (
        '  asm volatile("{\\n.reg .pred p;\\n"\n'
        f'      "setp.ne.b32 p, %{after + 1}, 0;\\n"\n'
        f'      "wgmma.mma_async.sync.aligned.{what} {numbers(0, count)}, "\n'
        f'      "{first}, %{after}, {rest};\\n}}"\n'
        f"      : {_both('d', count, sums)}\n"
        f'      : {given}, "l"(b), "r"(add));\n'
    )
    head = f"{part_name(key)}({sums}* d, {kind}, unsigned long long b, int add)"
    return function(head, text, _ARCH)


def wait_part(key: str) -> str:
    """The wait for all groups but some, before which no register of the accumulator is read."""
    _, most, count, sums, *after = key.split(" ")
    text = f'  asm volatile("wgmma.wait_group.sync.aligned {most};"'
    if count == "0":
        return function(f"{part_name(key)}()", f'{text} ::: "memory");\n', _ARCH)
    body = f'{text}\n      : {_both("d", int(count), sums)} :: "memory");\n'
    head = f"{sums}* d"
    if after:
        # ptxas moves arithmetic over a wait, but no wait over what may have an effect
        body = (
            '  asm volatile("{\\n.reg .pred p;\\nsetp.lt.f32 p, %0, 0fBF800000;\\n"\n'
            '               "@p pmevent 0;\\n}"\n'
            f'               :: "f"(after) : "memory");\n{body}'
        )
        head += ", float after"
    return function(f"{part_name(key)}({head})", body, _ARCH)


def _both(name: str, count: int, sums: str) -> str:
    """Registers that an asm statement reads and writes."""
    return operands(name, count, True, sums == "float").replace('"=', '"+')


def _descriptor(p: Any, e: E.Call) -> str:
    """(shared memory, leading byte offset, stride byte offset, bytes of the swizzle)"""
    p.need("wgmma")
    return f"tw_wgmma_descriptor({bare(p.expr(e.args[0]))}, {layout_bits(e):#x}ull)"


def layout_bits(e: E.Call) -> int:
    """All of a matrix descriptor but the address: bits 16 to 29, 32 to 45, and 62 to 63."""
    leading, stride, swizzle = (const_int(x) for x in e.args[1:4])
    for n in (leading, stride):
        if n is None or n % 16 or not 0 <= n <= _MOST_BYTES:
            raise CompileError(
                f"offsets of a matrix descriptor are constant multiples of 16 bytes, not {n}"
            )
    assert leading is not None and stride is not None
    if swizzle not in MODES:
        raise CompileError(f"a matrix descriptor knows swizzles of {tuple(MODES)} bytes")
    return leading >> 4 << 16 | stride >> 4 << 32 | MODES[swizzle] << 62


def _wgmma(p: Any, e: E.Call) -> str:
    """(shape, type, accumulator, its offset, descriptors of a and b, whether to add, flips)"""
    kind = _kind(p, e)
    flips = "".join(str(const_int(x) or 0) for x in e.args[7:9])
    if kind.endswith("s8") and flips != "00":
        raise CompileError(f"ptx_wgmma of {_text(e.args[1])} has K along the rows of both tiles")
    name = part_name(p.need(f"tw_wgmma {kind} {flips}"))
    a, b, add = (bare(p.expr(x)) for x in e.args[4:7])
    return f"{name}({_from(p, *e.args[2:4])}, {a}, {b}, {add})"


def _wgmma_rs(p: Any, e: E.Call) -> str:
    """(shape, type, accumulator, its offset, registers of a, their offset, descriptor of b, whether
    to add, flip of b)"""
    kind = _kind(p, e)
    if kind.endswith("s8"):
        raise CompileError(f"ptx_wgmma_rs of {_text(e.args[1])} is not known: it takes fp16, bf16")
    name = part_name(p.need(f"tw_wgmma {kind} {const_int(e.args[8]) or 0} rs"))
    b, add = (bare(p.expr(x)) for x in e.args[6:8])
    d, a = _from(p, *e.args[2:4]), _from(p, *e.args[4:6])
    return f"{name}({d}, (const unsigned int*)({a}), {b}, {add})"


def _text(x: Any) -> str:
    return str(getattr(x, "value", x))


def _from(p: Any, data: Any, index: Any) -> str:
    """Registers from an index on."""
    at = p.expr(index)
    return str(p.expr(data)) if at == "0" else f"{p.expr(data)} + {at}"


def _kind(p: Any, e: E.Call) -> str:
    """The shape and the types of a product; CompileError where there is none."""
    shape, given = map(_text, e.args[:2])
    kind = _TYPES.get(given)
    sums, steps = _INTEGERS.get(kind or "", ("f32", 16))
    found = re.fullmatch(rf"m64n(\d+)k{steps}", shape)
    columns = int(found[1]) if found else 0
    # of bytes, above 32 columns, there are multiples of 16 alone
    odd = columns % (16 if kind in _INTEGERS and columns > 32 else 8)
    if kind is None or not 8 <= columns <= 256 or odd:
        raise CompileError(f"ptx_wgmma of shape {shape} and type {given} is not known")
    require_warp_groups(p, f"wgmma.{shape}")
    return f"{shape}.{sums}.{kind}.{kind}"


def require_warp_groups(p: Any, what: str) -> None:
    """CompileError where the target names an architecture other than sm_90a."""
    arch = str(dict(p.target.items).get("arch", ""))
    if arch and arch != "sm_90a":
        raise CompileError(
            f"kernel {p.func.name} needs {what}, which sm_90a has alone, but the target is for "
            f"{arch}; build for 'cuda -arch=sm_90a'"
        )


def _wait(p: Any, e: E.Call) -> str:
    most = const_int(e.args[0])
    count = const_int(e.args[2]) if len(e.args) > 2 else 0
    if most is None or count is None:
        raise CompileError("ptx_wgmma_wait_group waits for a constant number of groups")
    # registers of sums are named by their type
    sums = "int" if count and p.pointee.get(e.args[1]) == "int32" else "float"
    after = [bare(p.expr(x)) for x in e.args[3:]]
    name = part_name(p.need(f"tw_wgmma_wait {most} {count} {sums}{' after' * len(after)}"))
    return f"{name}({', '.join([p.expr(e.args[1]), *after]) if count else ''})"


WGMMA_CALLS: dict[str, ExprRule] = {
    "tir.ptx_wgmma_descriptor": _descriptor,
    "tir.ptx_wgmma_fence": alone("wgmma", "tw_wgmma_fence"),
    WGMMA: _wgmma,
    WGMMA_RS: _wgmma_rs,
    "tir.ptx_wgmma_commit_group": alone("wgmma", "tw_wgmma_commit"),
    "tir.ptx_wgmma_wait_group": _wait,
}
