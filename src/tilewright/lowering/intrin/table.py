"""The compiler's own lowering rules of a target, as `lower_intrinsics` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from ...loopir.intrin_rules import Rule
from ...target.target import Target
from .c import C
from .cuda import CUDA
from .default import DEFAULT
from .opencl import opencl_rules


def rule_kinds(kind: str) -> list[str]:
    """Whose rules count for a kind of target, best first."""
    return [kind, "default"]


def rules(target: Target) -> Mapping[tuple[str, str], Rule]:
    """The rules by (kind, operation): the target's own, and the default ones."""
    return _table(target.kind.name, target.has_fp16)


@cache
def _table(kind: str, native_half: bool) -> Mapping[tuple[str, str], Rule]:
    own = {"cuda": CUDA, "c": C}.get(kind, {})
    if kind == "opencl":
        own = opencl_rules(native_half)
    table = {(kind, op): rule for op, rule in own.items()}
    table.update((("default", op), rule) for op, rule in DEFAULT.items())
    return MappingProxyType(table)
