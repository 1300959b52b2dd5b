"""Pieces of inline PTX."""

from __future__ import annotations

from typing import Any

from .c_family import ExprRule

DEVICE = "__device__ __forceinline__"
PLACE = "(unsigned int)__cvta_generic_to_shared"
"""What makes the address of shared memory that instructions take of a pointer."""


def guarded(feature: str, body: str) -> str:
    """Statements for where there is a feature; elsewhere the kernel stops."""
    return f"#if {feature}\n{body}#else\n  __trap();\n#endif\n"


def function(head: str, body: str, feature: str = "__CUDA_ARCH__ >= 900") -> str:
    """A function that gives nothing, for where there is a feature."""
    return f"{DEVICE} void {head} {{\n{guarded(feature, body)}}}\n"


def alone(part: str, name: str) -> ExprRule:
    """How a call without arguments is written, of a function of a part of the preamble."""

    def write(p: Any, e: Any) -> str:
        p.need(part)
        return f"{name}()"

    return write


def numbers(first: int, count: int) -> str:
    """Operands by number: "{%4, %5}"."""
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def operands(name: str, count: int, write: bool, floats: bool) -> str:
    """The registers name[0], name[1], ... as operands of an asm statement."""
    kind = f"{'=' if write else ''}{'f' if floats else 'r'}"
    return ", ".join(f'"{kind}"({name}[{i}])' for i in range(count))
