"""Instructions that add up products of neighbours: pairs of bfloat16 or int16, fours of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Dot:
    """sums[i] += the sum over t < `terms` of row[i][t] * column[i][t], exact in integers.

    `row`, `column`, `sums`: types of elements, which `lanes` groups of `terms` make vectors of.
    `intrinsic`: LLVM's name; `operand`: the type of the elements that it takes vectors of;
    `adds`: whether it adds to sums, or only gives the products of a group added up.
    """

    row: str
    column: str
    sums: str
    terms: int
    lanes: int
    intrinsic: str
    operand: str = "int32"
    adds: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors that it takes and gives."""
        return self.lanes * 4

    def fit(self, row: str, column: str, sums: str) -> Fit | None:
        """How it computes sums of products of these types; None where it does not."""
        if sums != self.sums:
            return None
        own = [(self.row, self.column), (self.column, self.row)]
        if (row, column) in own:
            return Fit(own.index((row, column)) == 1)
        if self.row == "int16" and {row, column} <= {"int8", "uint8", "int16"}:
            return Fit(widened=True)
        turned = (FLIPPED.get(row, ""), column)
        return Fit(own.index(turned) == 1, True) if turned in own else None

    def takes(self, row: str, column: str, sums: str) -> bool:
        """Whether it computes sums of products of these types as they are: its own, in either
        order, or bytes as int16."""
        fit = self.fit(row, column, sums)
        return fit is not None and not fit.flipped


FLIPPED = {"uint8": "int8", "int8": "uint8"}
"""What a byte becomes whose highest bit is turned over: 128 is taken off, or added to it."""


@dataclass(frozen=True)
class Fit:
    """How an instruction takes two sides: `swapped`, the columns are its first operand; `flipped`,
    the row side has its bytes' highest bits turned over first, so that sums have another 128 of all
    elements of the column; `widened`, bytes as int16."""

    swapped: bool = False
    flipped: bool = False
    widened: bool = False


def best_first(
    dots: Sequence[Dot], lanes: int, row: str, column: str, sums: str
) -> list[tuple[Dot, Fit]]:
    """The instructions for sums of products of these types in vectors of so many sums: those of
    most terms first, of these such that take the sides as they are."""
    fits = [(d, d.fit(row, column, sums)) for d in dots if d.lanes == lanes]
    found = [(d, fit) for d, fit in fits if fit is not None]
    return sorted(found, key=lambda x: (-x[0].terms, x[1].flipped))


_X86_WIDTHS = ((16, "512"), (8, "256"), (4, "128"))  # lanes of sums, and bits in LLVM's names
_PAIR_NAMES = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd"}


def x86_dots(features: frozenset[str], full: bool) -> tuple[Dot, ...]:
    """Those of x86, of wider vectors first, in each width best first; `full`: AVX-512 with all that
    vectors of 64 bytes need."""
    widest = 16 if full else 8 if "avx2" in features else 4
    vnni = "avx512vnni" in features if full else widest == 8 and "avxvnni" in features
    found: list[Dot] = []
    for lanes, bits in _X86_WIDTHS:
        if lanes > widest:
            continue
        if full and "avx512bf16" in features:
            name = f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
            found.append(Dot("bfloat16", "bfloat16", "float32", 2, lanes, name))
        if vnni:
            name = f"llvm.x86.avx512.vpdpbusd.{bits}"
            found.append(Dot("uint8", "int8", "int32", 4, lanes, name))
            found.append(_pairs(f"llvm.x86.avx512.vpdpwssd.{bits}", lanes))
        else:
            name = _PAIR_NAMES.get(lanes, "llvm.x86.sse2.pmadd.wd")
            found.append(_pairs(name, lanes, adds=False))
    return tuple(found)


def arm_dots(features: frozenset[str]) -> tuple[Dot, ...]:
    """Those of AArch64, best first."""
    kinds = [("usdot", "uint8", "int8", "i8mm"), ("sdot", "int8", "int8", "dotprod")]
    kinds.append(("udot", "uint8", "uint8", "dotprod"))
    return tuple(
        Dot(a, b, "int32", 4, 4, f"llvm.aarch64.neon.{name}.v4i32.v16i8", "int8")
        for name, a, b, feature in kinds
        if feature in features
    )


def _pairs(name: str, lanes: int, adds: bool = True) -> Dot:
    return Dot("int16", "int16", "int32", 2, lanes, name, "int32" if adds else "int16", adds)
