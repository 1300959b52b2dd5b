"""What the system says of this machine's CPU, in LLVM's names: where there is no LLVM to ask."""

from __future__ import annotations

import ctypes
import platform
import re
from functools import cache
from pathlib import Path

_HWCAP, _HWCAP2 = 16, 26
_AARCH64 = {
    (_HWCAP, 0): "fp-armv8", (_HWCAP, 1): "neon", (_HWCAP, 3): "aes", (_HWCAP, 6): "sha2",
    (_HWCAP, 7): "crc", (_HWCAP, 8): "lse", (_HWCAP, 10): "fullfp16", (_HWCAP, 12): "rdm",
    (_HWCAP, 13): "jsconv", (_HWCAP, 14): "complxnum", (_HWCAP, 15): "rcpc",
    (_HWCAP, 17): "sha3", (_HWCAP, 20): "dotprod", (_HWCAP, 22): "sve", (_HWCAP, 23): "fp16fml",
    (_HWCAP2, 1): "sve2", (_HWCAP2, 13): "i8mm", (_HWCAP2, 14): "bf16", (_HWCAP2, 23): "sme",
}  # fmt: skip
"""Features by their bits in the words that Linux gives a process ("ELF hwcaps" of the kernel's
documentation for AArch64)."""

_X86 = (
    "adx", "aes", "avx", "avx2", "avx512bf16", "avx512bitalg", "avx512bw", "avx512cd",
    "avx512dq", "avx512f", "avx512fp16", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vl",
    "avx512vnni", "avx512vpopcntdq", "avxvnni", "amx-tile", "amx-int8", "amx-bf16", "bmi2",
    "f16c", "fma", "fma4", "gfni", "movbe", "popcnt", "sse", "sse2", "sse4.1", "sse4.2",
    "sse4a", "ssse3", "vaes", "vpclmulqdq",
)  # fmt: skip
_X86_OTHER = {"bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq", "sha": "shani", "sse3": "pni"}


def triple() -> str:
    """LLVM's triple of this machine."""
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    if platform.system() == "Darwin":
        return f"{machine}-apple-darwin"
    return f"{machine}-unknown-linux-gnu"


@cache
def features() -> tuple[frozenset[str], frozenset[str]]:
    """The features that the system can tell, and those of them that this machine's CPU has. Both
    are empty where it tells none."""
    if platform.system() == "Linux" and platform.machine() in ("aarch64", "arm64"):
        return of_words({word: _auxiliary(word) for word in (_HWCAP, _HWCAP2)})
    try:
        return of_flags(Path("/proc/cpuinfo").read_text())
    except OSError:
        return frozenset(), frozenset()


def of_words(words: dict[int, int]) -> tuple[frozenset[str], frozenset[str]]:
    """`features` by an AArch64 process's two words of capabilities."""
    there = (name for (word, bit), name in _AARCH64.items() if words[word] >> bit & 1)
    return frozenset(_AARCH64.values()), frozenset(there)


def of_flags(cpuinfo: str) -> tuple[frozenset[str], frozenset[str]]:
    """`features` by the flags of an x86 CPU in /proc/cpuinfo."""
    found = re.search(r"(?m)^flags\s*:(.*)$", cpuinfo)
    if found is None:
        return frozenset(), frozenset()
    flags = set(found[1].replace("_", "").split())
    names = {**{n: re.sub(r"[.-]", "", n) for n in _X86}, **_X86_OTHER}
    return frozenset(names), frozenset(n for n, flag in names.items() if flag in flags)


def _auxiliary(kind: int) -> int:
    """A word that Linux hands to each process."""
    ask = ctypes.CDLL(None).getauxval
    ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
    return int(ask(kind))
