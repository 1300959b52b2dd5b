"""`tvm.target.codegen`: facts about LLVM, about this machine, and about CPUs as LLVM knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import TargetError
from . import host


def llvm_version_major(allow_none: bool = False) -> int:
    """The major version of the LLVM that generates code."""
    import llvmlite.binding as llvm

    return int(llvm.llvm_version_info[0])


def llvm_get_system_triple() -> str:
    """LLVM's triple of this machine."""
    return host.host_triple()


def llvm_get_system_cpu() -> str:
    """LLVM's name of this machine's CPU."""
    return host.host_cpu()


def llvm_get_cpu_features(target: Any = None) -> dict[str, str]:
    """The extensions that code for a target (default: the current one, else this machine) may use;
    the values are empty, since LLVM's descriptions are not read."""
    return dict.fromkeys(sorted(_target(target).active_features), "")


def llvm_cpu_has_features(cpu_features: str | Sequence[str], target: Any = None) -> bool:
    """Whether a target's CPU has all of the extensions."""
    names = [cpu_features] if isinstance(cpu_features, str) else list(cpu_features)
    return all(name.lstrip("+") in _target(target).active_features for name in names)


target_has_features = llvm_cpu_has_features


def llvm_get_vector_width(target: Any = None) -> int:
    """Bits of a vector register of a target's CPU."""
    return int(_target(target).vector_bytes) * 8


def _target(given: Any) -> Any:
    from .target import Target

    found = Target.current(allow_none=True) or "llvm" if given is None else given
    made = Target(found)
    if made.kind.name not in ("llvm", "c"):
        raise TargetError(f"LLVM generates code for CPUs, not for {made}")
    return made
