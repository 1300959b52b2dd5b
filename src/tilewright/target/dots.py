"""Instructions that add up products of neighbours: pairs of bfloat16 or int16, fours of bytes."""

from __future__ import annotations

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

    def takes(self, row: str, column: str, sums: str) -> bool:
        """Whether it computes sums of products of these types: its own, or bytes as int16."""
        if sums != self.sums:
            return False
        own = (row, column) == (self.row, self.column)
        widened = self.row == "int16" and {row, column} <= {"int8", "uint8", "int16"}
        return own or widened


def x86_dots(features: frozenset[str], full: bool) -> tuple[Dot, ...]:
    """Those of x86, best first; `full`: AVX-512 with all that vectors of 64 bytes need."""
    found: list[Dot] = []
    if full:
        if "avx512bf16" in features:
            name = "llvm.x86.avx512bf16.dpbf16ps.512"
            found.append(Dot("bfloat16", "bfloat16", "float32", 2, 16, name))
        if "avx512vnni" in features:
            found.append(_bytes("llvm.x86.avx512.vpdpbusd.512", 16))
            found.append(_pairs("llvm.x86.avx512.vpdpwssd.512", 16))
        else:
            found.append(_pairs("llvm.x86.avx512.pmaddw.d.512", 16, adds=False))
    elif "avx2" in features:
        if "avxvnni" in features:
            found.append(_bytes("llvm.x86.avx512.vpdpbusd.256", 8))
            found.append(_pairs("llvm.x86.avx512.vpdpwssd.256", 8))
        else:
            found.append(_pairs("llvm.x86.avx2.pmadd.wd", 8, adds=False))
    else:
        found.append(_pairs("llvm.x86.sse2.pmadd.wd", 4, adds=False))
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


def _bytes(name: str, lanes: int) -> Dot:
    return Dot("uint8", "int8", "int32", 4, lanes, name)


def _pairs(name: str, lanes: int, adds: bool = True) -> Dot:
    return Dot("int16", "int16", "int32", 2, lanes, name, "int32" if adds else "int16", adds)
