"""What this machine's CPU can do, by LLVM's names of features, without LLVM.

Linux says it in /proc/cpuinfo, by names of its own, and leaves out what programs may not use.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_SAME_X86 = """
    cmov cx8 cx16 mmx sse sse2 ssse3 sse4a avx avx2 fma fma4 xop tbm f16c bmi2 adx aes popcnt movbe
    avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi vaes vpclmulqdq gfni sha512
    sm3 sm4 rdpid clzero movdiri movdir64b
"""
_X86: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in _SAME_X86.split()},
    "lm": ("64bit",), "pni": ("sse3",), "sse4_1": ("sse4.1",), "sse4_2": ("sse4.2", "crc32"),
    "abm": ("lzcnt",), "bmi1": ("bmi",), "pclmulqdq": ("pclmul",), "sha_ni": ("sha",),
    "rdrand": ("rdrnd",), "avx512_vbmi2": ("avx512vbmi2",), "avx512_vnni": ("avx512vnni",),
    "avx512_bitalg": ("avx512bitalg",), "avx512_vpopcntdq": ("avx512vpopcntdq",),
    "avx512_bf16": ("avx512bf16",), "avx512_fp16": ("avx512fp16",),
    "avx512_vp2intersect": ("avx512vp2intersect",), "avx_vnni": ("avxvnni",),
    "amx_tile": ("amx-tile",), "amx_int8": ("amx-int8",), "amx_bf16": ("amx-bf16",),
    "amx_fp16": ("amx-fp16",), "amx_complex": ("amx-complex",),
}  # fmt: skip
_ARM: dict[str, tuple[str, ...]] = {
    "fp": ("fp-armv8",), "asimd": ("neon",), "aes": ("aes",), "sha2": ("sha2",),
    "crc32": ("crc",), "atomics": ("lse",), "asimdhp": ("fullfp16",), "asimdrdm": ("rdm",),
    "jscvt": ("jsconv",), "fcma": ("complxnum",), "lrcpc": ("rcpc",), "asimddp": ("dotprod",),
    "sha3": ("sha3",), "sm4": ("sm4",), "asimdfhm": ("fp16fml",), "sve": ("sve",),
    "sve2": ("sve2",), "i8mm": ("i8mm",), "bf16": ("bf16",), "flagm": ("flagm",),
}  # fmt: skip
_TABLES: dict[str, dict[str, tuple[str, ...]]] = {"x86_64": {**_X86}, "aarch64": {**_ARM}}


def machine() -> str:
    """The architecture of this machine, by `Target`'s names."""
    name = platform.machine()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name)


@cache
def _features(path: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The features that are there, of those that the tables know; empty where nothing says."""
    table = _TABLES.get(machine(), {})
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            return frozenset(f for name in value.split() for f in table.get(name, ()))
    return frozenset()


def gap(architecture: str, features: Iterable[str]) -> str:
    """Why code for an architecture that uses these features cannot run here; empty where it can, as
    far as the system says: a feature that it has no name for counts as there."""
    here = machine()
    if here != architecture:
        return f"it is for {architecture}, this machine is {here}"
    known = {f for names in _TABLES.get(here, {}).values() for f in names}
    have = _features()
    lacking = sorted(f for f in features if f in known and f not in have) if have else []
    return f"this CPU lacks {', '.join(lacking)}" if lacking else ""
