"""What a target can do: the facts that schedules and code generators ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.dtype import parse
from .dots import Dot, arm_dots, x86_dots


@dataclass(frozen=True)
class Capabilities:
    """Facts about one core.

    `vector_bytes`: width of a full vector register (the target computes on scalars where it is
    the width of one). `has_fp16`, `has_bf16`: arithmetic, not only conversion, in hardware.
    `dots`: what adds up products of neighbours, best first. `matrix_products`: (type of operands,
    type of sums) of products of fragments (WMMA, mma). `async_copies`: whether there are copies to
    shared memory that no thread waits for. `warp_groups`: whether there are products of warp groups
    on tiles in shared memory (wgmma), which tensor maps bring there. `masked_bytes`: size of the
    smallest elements that one instruction reads some lanes of; 0: there is none.
    """

    vector_bytes: int
    num_vector_registers: int
    has_fma: bool
    has_fp16: bool
    has_bf16: bool
    has_fp16_convert: bool
    has_bf16_convert: bool
    dots: tuple[Dot, ...] = ()
    matrix_products: frozenset[tuple[str, str]] = frozenset()
    async_copies: bool = False
    warp_groups: bool = False
    masked_bytes: int = 0

    @property
    def copying_registers(self) -> int:
        """Registers of a thread that may hold what is on its way to shared memory, where nothing
        copies by itself: the others are for what is computed meanwhile."""
        return 0 if self.async_copies else self.num_vector_registers // 4


def architecture(triple: str) -> str:
    """The family of a triple: x86_64, x86, aarch64, arm, riscv64, riscv32, or LLVM's own name."""
    arch = triple.partition("-")[0]
    if arch in ("amd64", "x86_64", "x86_64h"):
        return "x86_64"
    if arch in ("i386", "i486", "i586", "i686"):
        return "x86"
    if arch.startswith(("aarch64", "arm64")):
        return "aarch64"
    if arch.startswith(("arm", "thumb")):
        return "arm"
    return arch


_SYSTEM_NAMES = """
    linux darwin macos ios windows win32 cygwin uefi freebsd netbsd openbsd android wasi fuchsia
    none
"""
_SYSTEMS = tuple(_SYSTEM_NAMES.split())
_CPU_NAMES = """
    x86_64 x86 aarch64 arm riscv64 riscv32 wasm32 wasm64 s390x powerpc64le ppc64le loongarch64
"""
_CPUS = frozenset(_CPU_NAMES.split())


def is_cpu(triple: str) -> bool:
    """Whether LLVM's code for a triple is for a CPU that all of our code can be selected for; on
    others, such as GPUs, LLVM aborts the process."""
    return architecture(triple) in _CPUS


def system(triple: str) -> str:
    """The operating system of a triple, with "-x32" for that ABI; empty where it names none."""
    parts = triple.lower().split("-")[1:]
    found = next((s for p in parts for s in _SYSTEMS if p.startswith(s)), "")
    return f"{found}-x32" if parts and parts[-1].endswith("x32") else found


def capabilities_of(triple: str, features: frozenset[str]) -> Capabilities:
    """Capabilities of an architecture with these extensions switched on."""
    arch = architecture(triple)
    if arch in ("x86_64", "x86"):
        return _x86(arch, features)
    if arch in ("aarch64", "arm"):
        wide = arch == "aarch64"
        half = "fullfp16" in features
        return Capabilities(
            vector_bytes=16 if wide or "neon" in features else 8,
            num_vector_registers=32 if wide else 16,
            has_fma=wide or "vfp4" in features,
            has_fp16=half,
            has_bf16=False,
            has_fp16_convert=wide or half or "fp16" in features,
            has_bf16_convert="bf16" in features,
            dots=arm_dots(features) if wide else (),
        )
    if arch.startswith("riscv"):
        vector = "v" in features
        return Capabilities(
            vector_bytes=16 if vector else 8,
            num_vector_registers=32,
            has_fma="f" in features,
            has_fp16=bool(features & {"zvfh", "zfh"}),
            has_bf16=False,
            has_fp16_convert=bool(features & {"zvfh", "zfh", "zvfhmin", "zfhmin"}),
            has_bf16_convert=bool(features & {"zfbfmin", "zvfbfmin"}),
        )
    return Capabilities(16, 16, False, False, False, False, False)


def shuffled(dtype: str) -> bool:
    """Whether lanes of a warp hand each other elements of a type without shared memory, where they
    do at all."""
    t = parse(dtype)
    return t.lanes == 1 and (dtype == "float16" or t.bits in (32, 64))


_MATRIX_PRODUCTS = (
    ("float16", "float16"),
    ("float16", "float32"),
    ("int8", "int32"),
    ("uint8", "int32"),
    ("bfloat16", "float32"),
)  # the last one from sm_80 on; products of float32, which round it to tf32, are asked for


# Bytes a cycle that go on coming from the second-level cache where they are not 64, and loads of a
# full vector a cycle from the first where they are not two (Agner Fog, The microarchitecture of
# Intel, AMD and VIA CPUs; AMD, Software optimization guides; Intel, Optimization reference manual,
# of which the peak is 64). While Intel's servers fill a line of the first-level cache, nothing is
# loaded from it, as the execution-cache-memory model has it (H. Stengel, J. Treibig, G. Hager,
# G. Wellein, Quantifying performance bottlenecks of stencil computations using the
# execution-cache-memory model, ICS 2015): the two times add up.
_BYTES_FROM_L2 = dict.fromkeys(("znver1", "znver2", "znver3", "znver4"), 32)
_IN_TURNS = ("skylake-avx512", "cascadelake", "cooperlake", "icelake-client", "icelake-server")
_BYTES_FROM_L2 |= dict.fromkeys(_IN_TURNS, 48)
_LOADS_FROM_L1 = {"znver1": 1, "znver4": 1}


def load_rates(cpu: str, vector_bytes: int) -> tuple[int, int]:
    """Bytes a cycle that a core loads from its first-level cache, in full vectors, and from the
    second."""
    near, far = vector_bytes * _LOADS_FROM_L1.get(cpu, 2), _BYTES_FROM_L2.get(cpu, 64)
    return near, round(1 / (1 / near + 1 / far)) if cpu in _IN_TURNS else far


PAGE = 4096
WAYS = 4
OWN_BYTES = 16
"""Parts of registers within which processors interleave in one step, however wide the whole is."""


def way_of(triple: str, l1_bytes: int) -> int:
    """Bytes of a way of a first-level data cache of so many bytes. On x86 they are those of a page,
    so that a set is found while the page is; caches of others have four ways for the most part
    (Arm's technical reference manuals: Cortex-A53 to A78, Neoverse N1 to V2)."""
    paged = architecture(triple) in ("x86_64", "x86")
    return PAGE if paged else max(PAGE, l1_bytes // WAYS)


def gpu_capabilities(kind: str, attributes: Mapping[str, Any]) -> Capabilities:
    """Capabilities of a GPU target, of its attributes."""
    if kind == "cuda":
        number = int("".join(c for c in str(attributes.get("arch", "")) if c.isdigit()) or 0)
        bf16 = number >= 80
        products = _MATRIX_PRODUCTS[: 5 if bf16 else 4] if number >= 75 else ()
        return Capabilities(
            16, 255, True, number >= 53, bf16, True, bf16, (), frozenset(products), number >= 80,
            attributes.get("arch") == "sm_90a",
        )  # fmt: skip
    half = bool(attributes.get("fp16"))
    width = int(attributes.get("vector_bytes", 16))
    return Capabilities(width, 64, True, half, False, True, False)


def _x86(arch: str, features: frozenset[str]) -> Capabilities:
    full = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features
    registers = 8 if arch == "x86" else 32 if full else 16
    return Capabilities(
        vector_bytes=64 if full else 32 if "avx2" in features or "avx" in features else 16,
        num_vector_registers=registers,
        has_fma="fma" in features or full,
        has_fp16="avx512fp16" in features,
        has_bf16=bool(features & {"avx10.2", "avx10.2-512"}),
        has_fp16_convert="f16c" in features or full,
        has_bf16_convert="avx512bf16" in features,
        dots=x86_dots(features, full),
        masked_bytes=1 if full else 4 if "avx2" in features else 0,
    )
