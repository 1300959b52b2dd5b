"""What compiled kernels are made of: SASS instructions, registers, shared memory, occupancy.

Needs NVRTC or nvcc, and nvdisasm or cuobjdump, but no GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tilewright.rt.drivers import nvrtc

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)")
_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_JUMP = re.compile(r"\bBRA\b.*`\((\.L_x_\d+)\)")

# by architecture: threads, blocks and kilobytes of shared memory of a multiprocessor (CUDA C++
# Programming Guide, "Technical Specifications per Compute Capability"); 64 Ki registers each
_MULTIPROCESSOR = {
    "sm_75": (1024, 16, 64),
    "sm_80": (2048, 32, 164),
    "sm_86": (1536, 16, 100),
    "sm_89": (1536, 24, 100),
    "sm_90": (2048, 32, 228),
    "sm_90a": (2048, 32, 228),
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
        return 100.0 * self.blocks * self.threads / _MULTIPROCESSOR[self.arch][0]

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
    source = module.get_source()
    return compiled_module(module, *nvrtc.compile_cuda(source, arch, "cubin"), arch)


def compiled_module(module: Any, image: bytes, log: str, arch: str) -> list[Static]:
    """The kernels of a module of CUDA source, of which NVRTC made that image for `arch`."""
    source = module.get_source()
    asked = {k.name: k.shared_bytes for k in module.device_code.kernels}
    usage = nvrtc.resource_usage(image, log)
    parts = _by_kernel(nvrtc.disassemble(image))
    bounds = launch_bounds(source)
    found = []
    for name, used in usage.items():
        lines = parts[name]
        shared, spills = used.shared + asked[name], used.spill_stores + used.spill_loads
        blocks = resident(arch, bounds[name], used.registers, shared)
        found.append(
            Static(
                name,
                arch,
                bounds[name],
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


def resident(arch: str, threads: int, registers: int, shared: int) -> int:
    """Blocks that one multiprocessor holds at once."""
    most_threads, most_blocks, kilobytes = _MULTIPROCESSOR[arch]
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
    """The instructions between a label and the last jump back to it."""
    labels: dict[str, int] = {}
    best: Counter[str] = Counter()
    for at, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.search(line)
        if label:
            labels[label[1]] = at
        if jump and jump[1] in labels:
            inside = _count(lines[labels[jump[1]] : at + 1])
            if inside.total() > 1 and _weight(inside) > _weight(best):
                best = inside
    return best


_MULTIPLIES = ("FFMA", "HFMA2", "HMMA", "IMMA")


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
    arithmetic = sum(n for k, n in found.items() if k.startswith(_MULTIPLIES))
    return arithmetic, found.total()


COLUMNS = (
    "kernel", "arch", "threads", "registers", "shared", "stack", "spills", "blocks", "occupancy",
    "LDG.128", "STG.128", "LDGSTS.128", "loop", "LDS.128", "LDS other", "LDSM", "FFMA", "HMMA",
)  # fmt: skip


def row(case: str, s: Static) -> list[str]:
    """A line of the table; from "loop" on, counts are those of the loop."""
    wide = s.count("LDS..128", loop=True)
    single = s.count("LDS", loop=True) - s.count("LDSM", loop=True) - wide
    numbers = [s.threads, s.registers, s.shared, s.stack, s.spills, s.blocks]
    whole = [s.count("LDG..128") - s.count("LDGSTS..128"), s.count("STG..128")]
    whole.append(s.count("LDGSTS..128"))
    loop = [s.loop.total(), wide, single, s.count("LDSM", True), s.count("FFMA", True)]
    texts = [*map(str, numbers), f"{s.occupancy:.0f} %", *map(str, [*whole, *loop])]
    return [case, s.arch, *texts, str(s.count("HMMA", True))]


def table(rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(r) + " |" for r in rows]
    return "\n".join(lines)
