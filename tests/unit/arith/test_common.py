"""Common parts of expressions are counted by structure."""

from __future__ import annotations

from tilewright.arith import detect_common_subexpr
from tilewright.loopir import expr as E
from tilewright.loopir import op


def test_counts() -> None:
    x, y, z = (E.Var(n) for n in "xyz")
    part = op.floor(x + y + 0.5)
    found = detect_common_subexpr(part + x + z * op.floor(x + y + 0.5), 2)
    assert part in found and found[part] == 2 and found[x + y] == 2
    assert x not in found and (x * y) not in found
    assert len(found) == len(found.items()) and all(n == 2 for _, n in found.items())
