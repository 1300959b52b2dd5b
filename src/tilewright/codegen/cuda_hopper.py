"""Hopper's barriers and copies by tensor maps in CUDA, as inline PTX.

See the PTX ISA, "mbarrier" and "cp.async.bulk.tensor". Barriers are an array in shared memory, a
tensor map is a parameter of the kernel.
"""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..base.tensor_map import most_offset
from ..loopir import expr as E
from ..loopir.expr import const_int
from ..loopir.hopper_calls import COPIES, copy_parts
from .c_family import ExprRule, bare
from .c_language import pointed_data
from .cuda_asm import DEVICE, PLACE, alone, function, guarded, numbers
from .cuda_mma import part_name
from .cuda_types import require_arch

BARRIERS = "tw_barriers"
_PIECE = 16  # bytes that copies count in

MAP = "struct __align__(128) tw_tensor_map {\n  unsigned char bytes[128];\n};\n"


_BARRIER = f'"r"({PLACE}(barrier))'


BARRIER_PARTS = "\n".join(
    (
        function(
            "tw_barrier_init(unsigned long long* barrier, int count)",
            '  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"\n'
            f'               :: {_BARRIER}, "r"(count) : "memory");\n',
        ),
        function(
            "tw_barrier_arrive(unsigned long long* barrier)",
            '  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"\n'
            f'               :: {_BARRIER} : "memory");\n',
        ),
        function(
            "tw_barrier_expect(unsigned long long* barrier, int bytes)",
            '  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"\n'
            f'               :: {_BARRIER}, "r"(bytes) : "memory");\n',
        ),
        function(
            "tw_barrier_wait(unsigned long long* barrier, int parity)",
            "  unsigned int done;\n  do {\n"
            '    asm volatile("{\\n.reg .pred p;\\n"\n'
            '                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n"\n'
            '                 "selp.u32 %0, 1, 0, p;\\n}"\n'
            f'                 : "=r"(done) : {_BARRIER}, "r"(parity) : "memory");\n'
            "  } while (!done);\n",
        ),
        function(
            "tw_barrier_arrive_after_copies(unsigned long long* barrier)",
            '  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];"\n'
            f'               :: {_BARRIER} : "memory");\n',
        ),
        function(
            "tw_fence_barrier_init()",
            '  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n',
        ),
        function(
            "tw_fence_proxy_async()",
            '  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n',
        ),
    )
)
CLUSTER_PARTS = "\n".join(
    (
        f"{DEVICE} int tw_cluster_rank() {{\n  int rank = 0;\n"
        + guarded(
            "__CUDA_ARCH__ >= 900",
            '  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));\n',
        )
        + "  return rank;\n}\n",
        function(
            "tw_cluster_sync()",
            '  asm volatile("barrier.cluster.arrive.release;\\n"\n'
            '               "barrier.cluster.wait.acquire;" ::: "memory");\n',
        ),
        function(
            "tw_cluster_meet()",
            '  asm volatile("barrier.cluster.arrive.relaxed;\\n"\n'
            '               "barrier.cluster.wait;" ::: "memory");\n',
        ),
        function(
            "tw_barrier_arrive_at(unsigned long long* barrier, int block)",
            # the address may be computed once, before a loop
            "  unsigned int there;\n"
            '  asm("mapa.shared::cluster.u32 %0, %1, %2;"\n'
            f'      : "=r"(there) : {_BARRIER}, "r"(block));\n'
            '  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];"\n'
            '               :: "r"(there) : "memory");\n',
        ),
    )
)
BULK = function(
    "tw_bulk(void* to, const void* from, int bytes, unsigned long long* barrier)",
    '  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"\n'
    '               " [%0], [%1], %2, [%3];"\n'
    f'               :: "r"({PLACE}(to)), "l"(from), "r"(bytes), {_BARRIER} : "memory");\n',
)
BAR_SYNC = (
    f"{DEVICE} void tw_bar_sync(int barrier, int threads) {{\n"
    '  asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");\n}\n'
)
HOPPER_PARTS = {
    "bar sync": BAR_SYNC,
    "bulk copy": BULK,
    "tensor map": MAP,
    "barriers": BARRIER_PARTS,
    "cluster": CLUSTER_PARTS,
}
HOPPER_NEEDS = {"tw_tma ": "tensor map"}


def tma_part(key: str) -> str:
    """The copy of a box of so many dimensions, or of a column, to several blocks or one."""
    rank, *how = key.split(" ")[1:]
    count = int(rank.removesuffix("d"))
    mode, to, rest, after = "", "", "", 3 + count
    places = ", ".join(f"int c{i}" for i in range(count))
    given = ", ".join(f'"r"(c{i})' for i in range(count))
    if "im2col" in how:
        offsets = range(count - 2)
        mode, rest = ".im2col", f", {numbers(after, len(offsets))}"
        after += len(offsets)
        places += "".join(f", int o{i}" for i in offsets)
        given += "".join(f', "h"((unsigned short)o{i})' for i in offsets)
    if "cluster" in how:
        to, rest = ".multicast::cluster", f"{rest}, %{after}"
        places, given = f"{places}, int blocks", f'{given}, "h"((unsigned short)blocks)'
    return function(
        f"{part_name(key)}(void* to, const tw_tensor_map* map, unsigned long long* barrier, "
        f"{places})",
        f'  asm volatile("cp.async.bulk.tensor.{rank}.shared::cluster.global{mode}"\n'
        f'               ".mbarrier::complete_tx::bytes{to} "\n'
        f'               "[%0], [%1, {numbers(3, count)}], [%2]{rest};"\n'
        f'               :: "r"({PLACE}(to)), "l"(map), {_BARRIER}, {given} : "memory");\n',
    )


# -- calls


def _barrier(p: Any, e: Any) -> str:
    require_arch(p, 90, "barriers that count bytes")
    p.need("barriers")
    at = p.expr(e)
    return BARRIERS if at == "0" else f"{BARRIERS} + {at}"


def _create(p: Any, e: E.Call) -> str:
    count = const_int(e.args[0])
    if count is None or count < 1:
        raise CompileError(f"create_barriers takes how many there are, got {e.args[0]}")
    if any(BARRIERS in line for line in p.head):
        raise CompileError(f"kernel {p.func.name} calls create_barriers twice")
    p.head.append(f"__shared__ __align__(8) unsigned long long {BARRIERS}[{count}];")
    return "0"


def _on_barrier(function: str) -> ExprRule:
    def write(p: Any, e: E.Call) -> str:
        rest = [bare(p.expr(a)) for a in e.args[1:]]
        return f"{function}({', '.join([_barrier(p, e.args[0]), *rest])})"

    return write


def _arrive_at(p: Any, e: E.Call) -> str:
    """(barrier, block)"""
    p.need("cluster")
    return f"tw_barrier_arrive_at({_barrier(p, e.args[0])}, {bare(p.expr(e.args[1]))})"


def _wait_at(p: Any, e: E.Call) -> str:
    """(barrier [, parity])"""
    parity = bare(p.expr(e.args[1])) if len(e.args) > 1 else "0"
    return f"tw_barrier_wait({_barrier(p, e.args[0])}, {parity})"


def _bar_sync(p: Any, e: E.Call) -> str:
    """(barrier, threads)"""
    number, threads = (const_int(x) for x in e.args)
    if number is None or not 1 <= number <= 15 or not threads or threads % 32:
        raise CompileError(
            f"ptx_bar_sync takes a barrier from 1 to 15 and whole warps of threads, not {e.args}"
        )
    p.need("bar sync")
    return f"tw_bar_sync({number}, {threads})"


def _meet(p: Any, e: E.Call) -> str:
    """(whether memory need not be seen)"""
    p.need("cluster")
    return "tw_cluster_meet()" if e.args and const_int(e.args[0]) else "tw_cluster_sync()"


def cluster_load_part(key: str) -> str:
    """A number, or a vector, of the shared memory of another block."""
    kind, lanes = key.split(" ")[1:]
    count = int(lanes)
    name = f"{kind}{count}" if count > 1 else kind
    wide = f".v{count}" if count > 1 else ""
    outs = ", ".join(f'"={"f" if kind == "float" else "r"}"(x[{n}])' for n in range(count))
    registers = numbers(0, count) if count > 1 else "%0"
    made = f"make_{name}({', '.join(f'x[{n}]' for n in range(count))})" if count > 1 else "x[0]"
    text = (
        '  asm volatile("{\\n.reg .b32 there;\\n"\n'
        f'               "mapa.shared::cluster.u32 there, %{count}, %{count + 1};\\n"\n'
        f'               "ld.shared::cluster{wide}.{"f" if kind == "float" else "s"}32 '
        f'{registers}, [there];\\n}}"\n'
        f'               : {outs} : "r"({PLACE}(from)), "r"(block) : "memory");\n'
    )
    head = f"{DEVICE} {name} {part_name(key)}(const void* from, int block) {{\n"
    body = guarded("__CUDA_ARCH__ >= 900", text)
    return f"{head}  {kind} x[{count}] = {{}};\n{body}  return {made};\n}}\n"


def _cluster_load(p: Any, e: E.Call) -> str:
    """(shared memory, block)"""
    require_arch(p, 90, "clusters of blocks")
    t = parse(e.dtype)
    if t.element not in ("float32", "int32") or t.lanes not in (1, 2, 4):
        raise CompileError(f"ptx_cluster_load of {e.dtype}: it reads 1, 2 or 4 float32 or int32")
    name = p.need(f"tw_cluster_load {'float' if t.is_float else 'int'} {t.lanes}")
    return f"{part_name(name)}({bare(p.expr(e.args[0]))}, {bare(p.expr(e.args[1]))})"


def _copy(p: Any, e: E.Call) -> str:
    """By a tensor map, of a box or of a column of pixels."""
    parts = copy_parts(e)
    source, places = parts.tensor_map, [*parts.coordinates, *parts.offsets]
    if not isinstance(source, E.Var):
        raise CompileError(
            f"kernel {p.func.name}: the tensor map of a copy is a parameter of the kernel, which "
            f"the host makes; got {source}"
        )
    rank = len(parts.coordinates)
    for n in map(const_int, parts.offsets):
        if n is not None and not 0 <= n <= most_offset(rank):
            raise CompileError(
                f"kernel {p.func.name}: a copy of {rank} coordinates takes offsets of 0 to "
                f"{most_offset(rank)}, not {n}"
            )
    how = " im2col" * bool(parts.offsets)
    if parts.blocks is not None:
        how += " cluster"
        places.append(parts.blocks)
    name = p.need(f"tw_tma {rank}d{how}")
    at = ", ".join(bare(p.expr(c)) for c in places)
    where = _barrier(p, parts.barrier_id)
    return f"{part_name(name)}({bare(p.expr(parts.shared_ptr))}, {p.expr(source)}, {where}, {at})"


def _bulk(p: Any, e: E.Call) -> str:
    """(shared memory, offset, memory, offset, bytes, barrier)"""
    to, to_offset, source, offset, count, barrier = e.args
    nbytes = const_int(count)
    if nbytes is not None and (nbytes % _PIECE or nbytes < 1):
        raise CompileError(f"ptx_cp_async_bulk copies multiples of 16 bytes, not {nbytes}")
    data = pointed_data(source)
    if data is not None:
        p.require_align(data, _PIECE)
    where = _barrier(p, barrier)
    p.need("bulk copy")
    places = []
    for pointer, more in ((to, to_offset), (source, offset)):
        at = p.expr(E.convert(more))
        text = bare(p.expr(pointer))
        places.append(text if at == "0" else f"({text}) + {at}")
    return f"tw_bulk({places[0]}, {places[1]}, {bare(p.expr(count))}, {where})"


HOPPER_CALLS: dict[str, ExprRule] = {
    "tir.create_barriers": _create,
    "tir.ptx_init_barrier_thread_count": _on_barrier("tw_barrier_init"),
    "tir.ptx_arrive_barrier": _on_barrier("tw_barrier_arrive"),
    "tir.ptx_cp_async_barrier": _on_barrier("tw_barrier_arrive_after_copies"),
    "tir.ptx_arrive_barrier_expect_tx": _on_barrier("tw_barrier_expect"),
    "tir.ptx_arrive_barrier_cluster": _arrive_at,
    "tir.ptx_wait_barrier": _wait_at,
    "tir.ptx_cluster_rank": alone("cluster", "tw_cluster_rank"),
    "tir.ptx_cluster_sync": _meet,
    "tir.ptx_cluster_load": _cluster_load,
    "tir.ptx_bar_sync": _bar_sync,
    "tir.ptx_fence_barrier_init": alone("barriers", "tw_fence_barrier_init"),
    "tir.ptx_fence_proxy_async": alone("barriers", "tw_fence_proxy_async"),
    **dict.fromkeys(COPIES.values(), _copy),
    "tir.ptx_cp_async_bulk": _bulk,
}
