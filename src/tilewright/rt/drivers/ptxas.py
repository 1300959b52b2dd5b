"""What ptxas says of the kernels that it makes, and how many blocks it is told to make room for."""

from __future__ import annotations

import re

REPORT = re.compile(
    r"Compiling entry function '(\S+)' for '\w+'.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r"(?:\n[^\n]*Used (\d+) registers)?",
    re.S,
)
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\) (\w+)\(")
_REGISTERS = 1 << 16  # of a multiprocessor, from sm_50 on
_FEW_BLOCKS, _CLOSE = 4, 8  # of which one more tells, and registers that it may lack for it


def for_other_blocks(source: str, log: str) -> str:
    """CUDA source whose kernels say how many blocks there have to be on a multiprocessor, where
    ptxas, which is not told, missed by little.

    It plans for many blocks, and keeps some bytes in memory to have them, where one register more
    would do: of those that spill, for half as many. And of kernels that have few blocks it takes a
    register more than the next one would leave.
    """

    def bounds(m: re.Match[str]) -> str:
        threads, said = int(m[1]), used.get(m[2])
        if said is None:
            return m[0]
        registers, spilled = said
        blocks = _blocks(threads, registers)
        if spilled:
            wanted = max(1, blocks // 2)
        elif blocks < _FEW_BLOCKS and _blocks(threads, registers - _CLOSE) > blocks:
            wanted = blocks + 1
        else:
            return m[0]
        return f"__launch_bounds__({threads}, {wanted}) {m[2]}("

    used = _said(log)
    return _BOUNDS.sub(bounds, source)


def _said(log: str) -> dict[str, tuple[int, int]]:
    """By kernel, the registers and the bytes that are spilled, as ptxas says."""
    found = (m for m in REPORT.finditer(log) if m[5])
    return {m[1]: (int(m[5]), int(m[3]) + int(m[4])) for m in found}


def _blocks(threads: int, registers: int) -> int:
    """Blocks that a multiprocessor has registers for: threads take them by eights."""
    return _REGISTERS // (-(-threads // 32) * 32 * -(-registers // 8) * 8)


def ranked(source: str, log: str) -> tuple[int, int]:
    """First what spills least, of that what has the most blocks."""
    threads = {m[2]: int(m[1]) for m in _BOUNDS.finditer(source)}
    said = _said(log)
    blocks = sum(_blocks(n, said[name][0]) for name, n in threads.items() if name in said)
    return sum(spilled for _, spilled in said.values()), -blocks
