"""What LLVM and the system say about this machine, and about CPUs of other machines.

The one module of `target` that imports llvmlite, and only when asked: importing it takes 30 ms.
Where it is not installed (a device of a fleet, which compiles nothing) the system alone is asked.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from textwrap import fill
from typing import Any

from ..base.cores import cores, quota
from ..base.errors import TargetError
from . import cpuinfo

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_HELP = "help"  # LLVM's own name for the list of all
_NEAREST = 3  # names that an unknown one is told of
_ALIKE = 0.4  # of 0 to 1, as difflib counts: less is no resemblance


@cache
def _binding() -> Any:
    import llvmlite.binding

    return llvmlite.binding


@cache
def has_llvm() -> bool:
    """Whether llvmlite is installed."""
    return importlib.util.find_spec("llvmlite") is not None


@cache
def host_cpu() -> str:
    """LLVM's name of this machine's CPU; "generic" without LLVM."""
    return "generic" if not has_llvm() else str(_binding().get_host_cpu_name())


@cache
def host_features() -> frozenset[str]:
    """The features of this machine's CPU that are there and usable, by LLVM's names; without LLVM
    those that the system tells."""
    if not has_llvm():
        return cpuinfo.features()[1]
    return frozenset(name for name, there in _binding().get_host_cpu_features().items() if there)


@cache
def detectable_features() -> frozenset[str]:
    """The features that LLVM can see on CPUs like this machine's, there or not."""
    return frozenset(_binding().get_host_cpu_features())


def lacking(features: frozenset[str]) -> list[str]:
    """Those of the features that this machine's CPU is known to lack. Without LLVM not all of them
    can be told: code that uses another one dies when it runs."""
    known = features if has_llvm() else features & cpuinfo.features()[0]
    return sorted(known - host_features())


@cache
def host_feature_text() -> str:
    """LLVM's feature string of this machine: each known feature with + or -."""
    return str(_binding().get_host_cpu_features().flatten())


@cache
def host_triple() -> str:
    return cpuinfo.triple() if not has_llvm() else str(_binding().get_process_triple())


def host_cores() -> int:
    """CPU cores that this process may use, and has threads for by default."""
    return cores(_granted())


@cache
def _granted() -> float:
    return quota()  # files are read, and targets are asked for their cores again and again


@cache
def host_caches() -> tuple[int, int, int]:
    """Bytes of this machine's level 1 data, level 2 and level 3 cache; 0 where not known."""
    sizes = [0, 0, 0]
    for entry in sorted(_CACHES.glob("index*")):
        try:
            level = int((entry / "level").read_text())
            kind = (entry / "type").read_text().strip()
            text = (entry / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and 1 <= level <= 3 and text[:-1].isdigit():
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)
            sizes[level - 1] = int(text[:-1]) * unit
    return sizes[0], sizes[1], sizes[2]


@cache
def host_way() -> int:
    """Bytes of a way of this machine's level 1 data cache; 0 where not known."""
    for entry in sorted(_CACHES.glob("index*")):
        try:
            level, kind = ((entry / name).read_text().strip() for name in ("level", "type"))
            if level == "1" and kind != "Instruction":
                sets = int((entry / "number_of_sets").read_text())
                return sets * int((entry / "coherency_line_size").read_text())
        except (OSError, ValueError):
            continue
    return 0


@lru_cache(maxsize=256)
def probe_features(triple: str, cpu: str, features: str, abi: str = "") -> frozenset[str]:
    """The extensions that LLVM generates code with for a CPU that need not be this machine's.

    LLVM only warns about an unknown CPU and aborts the process on an impossible one, so a process
    of its own is asked (about 0.1 s). TargetError names what is near; for "help", all that exists.
    """
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None or not sys.executable:
        raise TargetError("cannot ask LLVM about CPUs: llvmlite or the Python executable not found")
    script = str(Path(__file__).with_name("llvm_probe.py"))
    parent = str(Path(spec.origin).parent.parent)
    command = [sys.executable, "-I", "-S", script, parent, triple, cpu, features, abi]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    what = f"CPU {cpu!r}{f' with {features}' if features else ''}, {triple}"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        reason = next((line for line in lines if "LLVM ERROR" in line), lines[-1])
        raise TargetError(f"LLVM cannot generate code for {what}: {reason}")
    if "target-abi" in done.stderr:
        raise TargetError(f"ABI {abi!r} does not fit {what}: {done.stderr.splitlines()[0]}")
    answer = json.loads(done.stdout)
    if "unknown" in answer:
        raise TargetError(_unknown(answer, triple))
    return frozenset(answer["features"])


def _unknown(answer: dict[str, Any], triple: str) -> str:
    what, name, known = answer["unknown"], answer["name"], answer["known"]
    if what == "triple":
        return f"unknown target triple {name!r}: {answer['detail'].strip()}"
    option = "-mcpu=" if what == "CPU" else "-mattr=+"
    if name == _HELP:
        listed = fill(", ".join(known), 100, break_on_hyphens=False)
        return f"{option}{_HELP}: {what}s that LLVM knows for {triple}:\n{listed}"
    near = get_close_matches(name.lower(), known, _NEAREST, _ALIKE)
    hint = f"; near in name: {', '.join(near)}" if near else ""
    everything = f"'llvm -mtriple={triple} {option}{_HELP}' lists all {len(known)}"
    return f"unknown {what} {name!r} for {triple}{hint}; {everything}"
