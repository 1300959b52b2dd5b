"""What compiled kernels are made of: SASS instructions, registers, shared memory, occupancy.

Needs NVRTC or nvcc, and nvdisasm or cuobjdump, but no GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..rt.drivers import nvrtc
from ..rt.drivers.cuda_parts import compile_parts

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)")
_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_JUMP = re.compile(r"\bBRA\b.*`\((\.L_x_\d+)\)")

# by compute capability: threads, blocks and kilobytes of shared memory of a multiprocessor (CUDA
# C++ Programming Guide, "Technical Specifications per Compute Capability"); 64 Ki registers each
_MULTIPROCESSOR = {
    70: (2048, 32, 96),
    75: (1024, 16, 64),
    80: (2048, 32, 164),
    86: (1536, 16, 100),
    87: (1536, 16, 164),
    89: (1536, 24, 100),
    90: (2048, 32, 228),
    100: (2048, 32, 228),
    120: (1536, 24, 100),
}
_REGISTERS, _WARP, _RESERVED = 65536, 32, 1024


@dataclass(frozen=True)
class Static:
    """One kernel as compiled for one architecture.

    `everything`: its instructions by name; `loop`: those of the loop with the most arithmetic
    (empty where the kernel has no loop); `products`: those from the first to the last one that
    multiplies and adds (see `_products`); `shared` (static and dynamic), `stack`: bytes; `spills`:
    bytes stored and loaded; `blocks`: that one multiprocessor holds at once; `losses`: how often
    ptxas says that it makes code which is slow, as products that wait for each other.
    """

    name: str
    arch: str
    threads: int
    registers: int
    shared: int
    stack: int
    spills: int
    blocks: int
    everything: Counter[str]
    loop: Counter[str]
    products: Counter[str]
    losses: int = 0

    @property
    def occupancy(self) -> float:
        """Threads that run at once over those that could, in percent."""
        return 100.0 * self.blocks * self.threads / _multiprocessor(self.arch)[0]

    def count(self, prefix: str, loop: bool = False) -> int:
        """Instructions whose name begins with `prefix`, of the loop or the whole kernel."""
        return sum(n for k, n in (self.loop if loop else self.everything).items() if _is(k, prefix))

    def share(self, prefix: str) -> float:
        """Percentage of such instructions in the loop."""
        total = self.loop.total()
        return 100.0 * self.count(prefix, loop=True) / total if total else 0.0


def _is(name: str, prefix: str) -> bool:
    """LDG.E.128 is LDG..128 whatever stands between."""
    head, _, tail = prefix.partition("..")
    return name.startswith(head) and (not tail or name.endswith(f".{tail}") or f".{tail}." in name)


def compiled(built: Any, arch: str) -> list[Static]:
    """The kernels of a built module, compiled for `arch`."""
    module = built.imported_modules[0]
    return compiled_module(module, compile_parts(module.get_source(), arch), arch)


def compiled_module(module: Any, made: Iterable[tuple[bytes, str]], arch: str) -> list[Static]:
    """The kernels of a module of CUDA source, of which `compile_parts` made those images, with
    logs, for `arch`."""
    code = module.device_code
    asked = {k.name: k.shared_bytes for k in code.kernels} if code is not None else {}
    source = module.get_source()
    return [k for one in made for k in compiled_source(source, *one, arch, asked)]


def compiled_source(
    source: str, image: bytes, log: str, arch: str, asked: Mapping[str, int]
) -> list[Static]:
    """The kernels of CUDA source; `asked`: bytes of dynamic shared memory, by kernel."""
    usage = nvrtc.resource_usage(image, log)
    parts = _by_kernel(nvrtc.disassemble(image))
    bounds = launch_bounds(source)
    found = []
    for name, used in usage.items():
        lines = parts.get(name, [])
        shared, spills = used.shared + asked.get(name, 0), used.spill_stores + used.spill_loads
        threads = bounds.get(name, _WARP)
        blocks = resident(arch, threads, used.registers, shared)
        found.append(
            Static(
                name,
                arch,
                threads,
                used.registers,
                shared,
                used.stack,
                spills,
                blocks,
                _count(lines),
                _hot_loop(lines),
                _products(lines),
                sum(kernel == name for kernel, _ in nvrtc.performance_losses(log)),
            )
        )
    return found


def launch_bounds(source: str) -> dict[str, int]:
    """Threads of a block, by kernel."""
    found = re.findall(r"__launch_bounds__\((\d+)(?:, \d+)?\) (\w+)\(", source)
    return {name: int(threads) for threads, name in found}


def _multiprocessor(arch: str) -> tuple[int, int, int]:
    """Of an architecture such as "sm_90a"; of the newest before it where it is not known."""
    number = int(re.sub(r"\D", "", arch))
    known = [n for n in _MULTIPROCESSOR if n <= number]
    return _MULTIPROCESSOR[max(known, default=min(_MULTIPROCESSOR))]


def resident(arch: str, threads: int, registers: int, shared: int) -> int:
    """Blocks that one multiprocessor holds at once."""
    most_threads, most_blocks, kilobytes = _multiprocessor(arch)
    warps = -(-threads // _WARP)
    taken = warps * (-(-registers * _WARP // 256) * 256)
    by_shared = kilobytes * 1024 // (shared + _RESERVED) if shared else most_blocks
    return min(most_threads // (warps * _WARP), most_blocks, _REGISTERS // taken, by_shared)


def _by_kernel(sass: str) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in sass.splitlines():
        head = re.match(r"\s*(?:\.text\.(\w+):|Function : (\w+))", line)
        if head:
            lines = parts.setdefault(head[1] or head[2], [])
        lines.append(line)
    return parts


def _count(lines: list[str]) -> Counter[str]:
    # what a predicate never lets run only spaces others apart
    found = (_name(line) for line in lines if "@!PT" not in line)
    return Counter(name for name in found if name not in ("", "NOP"))


def _name(line: str) -> str:
    """The instruction of a line; products with zero only move what is added."""
    m = _INSTRUCTION.search(line)
    if m is None:
        return ""
    moves = m[1].startswith("IMAD.MOV") or (m[1].startswith("HFMA2") and " -RZ, RZ," in line)
    return "MOV" if moves else m[1]


def _hot_loop(lines: list[str]) -> Counter[str]:
    """The instructions between a label and the last jump back to it. Behind the end of a kernel
    lies what waits beside its loops, which goes back without a condition."""
    labels: dict[str, int] = {}
    best: Counter[str] = Counter()
    end = len(lines)
    for at, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.search(line)
        if label:
            labels[label[1]] = at
        if _name(line) == "EXIT" and "@" not in line:
            end = min(end, at)
        returns = at > end and "@" not in line
        if jump and not (returns and labels.get(jump[1], end) < end) and jump[1] in labels:
            inside = _count(lines[labels[jump[1]] : at + 1])
            if inside.total() > 1 and _weight(inside) > _weight(best):
                best = inside
    return best


GROUPS = ("HGMMA", "IGMMA", "QGMMA")  # products of warp groups
_MULTIPLIES = ("FFMA", "HFMA2", "HMMA", "IMMA", *GROUPS)


def _products(lines: list[str]) -> Counter[str]:
    """The instructions from the first to the last that multiplies and adds; of those between two
    barriers none behind the last such: where a kernel has one copy of its code for whole blocks and
    one for those at an edge, the first stores its results and the second fills its tiles there."""
    found = [_name(line) for line in lines]
    places = [n for n, name in enumerate(found) if name.startswith(_MULTIPLIES)]
    if not places:
        return Counter()
    total: Counter[str] = Counter()
    part: list[str] = []
    for line in [*lines[places[0] : places[-1] + 1], ""]:
        part.append(line)
        if not line or _name(line).startswith("BAR"):
            while part and not _name(part[-1]).startswith(_MULTIPLIES):
                part.pop()
            total += _count(part)
            part = []
    return total


def _weight(found: Counter[str]) -> tuple[int, int]:
    """Of loops with as much arithmetic the shortest counts: what waits beside the others jumps
    back to it from behind all of them."""
    arithmetic = sum(n for k, n in found.items() if k.startswith(_MULTIPLIES))
    return arithmetic, -found.total() if arithmetic else found.total()


def figures(s: Static) -> dict[str, Any]:
    """What a reader of a kernel wants to know first, by names for people: bytes, instructions, and
    percentages of what a multiprocessor has."""
    hot = s.loop or s.products or s.everything
    found: dict[str, Any] = {
        "registers": s.registers,
        "shared_bytes": s.shared,
        "stack_bytes": s.stack,
        "spill_bytes": s.spills,
        "threads_a_block": s.threads,
        "blocks_a_multiprocessor": s.blocks,
        "percent_occupancy": round(s.occupancy, 1),
    }
    for title, name in (("loads", "LDG"), ("async_copies", "LDGSTS"), ("stores", "STG")):
        count = s.count(name) - (s.count("LDGSTS") + s.count("LDGDEPBAR") if name == "LDG" else 0)
        wide = s.count(f"{name}..128") - (s.count("LDGSTS..128") if name == "LDG" else 0)
        if count:
            found[f"global_{title}"] = count
            found[f"global_{title}_of_128_bits"] = wide
    if s.losses:
        found["performance_losses"] = s.losses
    if any(k.startswith(_USEFUL) for k in hot):
        found["percent_products_of_arithmetic"] = round(arithmetic_share(s), 1)
    found["instructions"] = s.everything.total()
    found["hottest_instructions"] = dict(hot.most_common(_SHOWN))
    return found


_SHOWN = 8
_TENSOR = ("HMMA", "IMMA", *GROUPS)
_USEFUL = ("FFMA", "HFMA2", "IDP", *_TENSOR)
# what moves data and steers is not arithmetic
_OTHERS = (
    "LD", "ST", "BAR", "BRA", "BSSY", "BSYNC", "DEPBAR", "LDSM", "MOV", "UMOV", "S2R", "CS2R",
    "S2UR", "WARPSYNC", "EXIT", "NOP", "R2UR", "SHFL", "CALL", "RET", "PLOP3", "ULDC", "MEMBAR",
    "ERRBAR", "CCTL", "YIELD", "BREAK", "BMOV", "PRMT", "ELECT", "VOTE", "SYNCS", "UTMA",
    "WARPGROUP", "ARRIVES", "R2P", "P2R", "SEL", "FENCE",
)  # fmt: skip


def tensor_instructions(s: Static) -> int:
    """Of tensor cores, in the whole kernel."""
    return sum(s.count(name) for name in _TENSOR)


def arithmetic_share(main: Static) -> float:
    """Percentage of the arithmetic in a kernel's hottest loop that multiplies and adds."""
    # what is written out whole has no loop of products: then from the first of them to the last
    loop = main.loop if any(k.startswith(_USEFUL) for k in main.loop) else None
    hot = loop or main.products or main.loop or main.everything
    arithmetic = {k: n * _weight_of(k) for k, n in hot.items() if not k.startswith(_OTHERS)}
    useful = sum(n for k, n in arithmetic.items() if k.startswith(_USEFUL))
    return 100.0 * useful / max(1, sum(arithmetic.values()))


def _weight_of(name: str) -> int:
    """How many instructions one is worth: of a warp group, as many as a warp of it would have for
    16 rows, each of 8 columns."""
    columns = re.match(rf"(?:{'|'.join(GROUPS)})\.64x(\d+)x", name)
    return int(columns[1]) // 8 if columns else 1
