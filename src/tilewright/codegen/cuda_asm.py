"""Pieces of inline PTX."""

from __future__ import annotations

DEVICE = "__device__ __forceinline__"


def numbers(first: int, count: int) -> str:
    """Operands by number: "{%4, %5}"."""
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def operands(name: str, count: int, write: bool, floats: bool) -> str:
    """The registers name[0], name[1], ... as operands of an asm statement."""
    kind = f"{'=' if write else ''}{'f' if floats else 'r'}"
    return ", ".join(f'"{kind}"({name}[{i}])' for i in range(count))
