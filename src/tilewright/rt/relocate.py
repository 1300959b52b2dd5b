"""Relocations of x86-64 and AArch64: what each one needs of the linker, and how it is put in place.

The kinds are those of code with 64-bit addresses that may lie anywhere, in the small code model:
its parts are within 2 GiB (AArch64: 4) of each other. Sources: "System V ABI, AMD64 Architecture
Processor Supplement", table 4.9; "ELF for the Arm 64-bit Architecture", 5.7. What another kind
would take (addresses of 32 bits, thread-local variables) has no place in a shared object of ours,
and is refused by name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from .elf import AARCH64, X86_64, LinkError

Need = Literal["none", "address", "near", "call", "got"]
"""none: nothing; address: the absolute address, of 64 bits; near: what lies in the same file; call:
a function, here or elsewhere; got: an entry of the table of addresses (GOT)."""

_BITS = {8: "<B", 16: "<h", 32: "<i", 64: "<q"}


@dataclass(frozen=True)
class Kind:
    """One kind of relocation: `form` is what is put in place (`_put`)."""

    name: str
    need: Need
    form: str


def _kinds(*rows: tuple[int, str, Need, str]) -> dict[int, Kind]:
    return {number: Kind(name, need, form) for number, name, need, form in rows}


_X86 = _kinds(
    (0, "R_X86_64_NONE", "none", ""),
    (1, "R_X86_64_64", "address", "abs64"),
    (2, "R_X86_64_PC32", "near", "rel32"),
    (4, "R_X86_64_PLT32", "call", "rel32"),
    (9, "R_X86_64_GOTPCREL", "got", "rel32"),
    (24, "R_X86_64_PC64", "near", "rel64"),
    (41, "R_X86_64_GOTPCRELX", "got", "rel32"),
    (42, "R_X86_64_REX_GOTPCRELX", "got", "rel32"),
)
_ARM = _kinds(
    (0, "R_AARCH64_NONE", "none", ""),
    (257, "R_AARCH64_ABS64", "address", "abs64"),
    (260, "R_AARCH64_PREL64", "near", "rel64"),
    (261, "R_AARCH64_PREL32", "near", "rel32"),
    (273, "R_AARCH64_LD_PREL_LO19", "near", "branch19"),
    (274, "R_AARCH64_ADR_PREL_LO21", "near", "adr"),
    (275, "R_AARCH64_ADR_PREL_PG_HI21", "near", "page"),
    (277, "R_AARCH64_ADD_ABS_LO12_NC", "near", "low1"),
    (278, "R_AARCH64_LDST8_ABS_LO12_NC", "near", "low1"),
    (279, "R_AARCH64_TSTBR14", "near", "branch14"),
    (280, "R_AARCH64_CONDBR19", "near", "branch19"),
    (282, "R_AARCH64_JUMP26", "call", "branch26"),
    (283, "R_AARCH64_CALL26", "call", "branch26"),
    (284, "R_AARCH64_LDST16_ABS_LO12_NC", "near", "low2"),
    (285, "R_AARCH64_LDST32_ABS_LO12_NC", "near", "low4"),
    (286, "R_AARCH64_LDST64_ABS_LO12_NC", "near", "low8"),
    (299, "R_AARCH64_LDST128_ABS_LO12_NC", "near", "low16"),
    (311, "R_AARCH64_ADR_GOT_PAGE", "got", "page"),
    (312, "R_AARCH64_LD64_GOT_LO12_NC", "got", "low8"),
    (314, "R_AARCH64_PLT32", "call", "rel32"),
)
KINDS = {X86_64: _X86, AARCH64: _ARM}
_REFUSED = {
    X86_64: {
        3: "R_X86_64_GOT32", 10: "R_X86_64_32", 11: "R_X86_64_32S", 12: "R_X86_64_16",
        19: "R_X86_64_TLSGD", 20: "R_X86_64_TLSLD", 21: "R_X86_64_DTPOFF32",
        22: "R_X86_64_GOTTPOFF", 23: "R_X86_64_TPOFF32", 25: "R_X86_64_GOTOFF64",
        26: "R_X86_64_GOTPC32", 34: "R_X86_64_GOTPC32_TLSDESC", 35: "R_X86_64_TLSDESC_CALL",
    },
    AARCH64: {
        258: "R_AARCH64_ABS32", 259: "R_AARCH64_ABS16", 262: "R_AARCH64_PREL16",
        263: "R_AARCH64_MOVW_UABS_G0", 264: "R_AARCH64_MOVW_UABS_G0_NC",
        265: "R_AARCH64_MOVW_UABS_G1", 266: "R_AARCH64_MOVW_UABS_G1_NC",
        267: "R_AARCH64_MOVW_UABS_G2", 268: "R_AARCH64_MOVW_UABS_G2_NC",
        269: "R_AARCH64_MOVW_UABS_G3", 276: "R_AARCH64_ADR_PREL_PG_HI21_NC",
        513: "R_AARCH64_TLSGD_ADR_PAGE21", 562: "R_AARCH64_TLSDESC_ADR_PAGE21",
    },
}  # fmt: skip

# in a linked file: an address of the file's own, of a symbol in the GOT, of a symbol and a number
RELATIVE, GLOB_DAT, ADDRESS = (
    {X86_64: 8, AARCH64: 1027},
    {X86_64: 6, AARCH64: 1025},
    {X86_64: 1, AARCH64: 257},
)
STUB_BYTES = 16


def kind_of(machine: int, number: int, place: str, symbol: str) -> Kind:
    """The kind of a relocation; LinkError, with what it is and its symbol, for one that no shared
    object of ours can have. `place` says where it stands."""
    found = KINDS[machine].get(number)
    if found is None:
        name = _REFUSED[machine].get(number, f"number {number}")
        raise LinkError(
            f"{place}: relocation {name} of {symbol!r} is not supported: code has to be position "
            "independent (reloc=pic, code model small), without thread-local variables"
        )
    return found


def apply(out: bytearray, at: int, kind: Kind, place: int, value: int, what: str) -> None:
    """Put `value` (a symbol's, its stub's or its GOT entry's address, with the addend) into the
    bytes at `at`, whose address is `place`. LinkError, which says `what`, where it is too far."""
    form = kind.form
    if form.startswith("abs"):
        _store(out, at, int(form[3:]), value, kind, what)
    elif form.startswith("rel"):
        _store(out, at, int(form[3:]), value - place, kind, what)
    elif form.startswith("low"):
        unit = int(form[3:])
        low = value & 0xFFF
        if low % unit:
            raise LinkError(f"{what}: {kind.name} needs a multiple of {unit} bytes, got {low}")
        _insert(out, at, low // unit, 10, 12)
    elif form in ("page", "adr"):
        distance = (value >> 12) - (place >> 12) if form == "page" else value - place
        _require_fits(distance, 21, kind, what)
        _insert(out, at, distance & 3, 29, 2)
        _insert(out, at, distance >> 2 & 0x7FFFF, 5, 19)
    elif form.startswith("branch"):
        bits, distance = int(form[6:]), value - place
        if distance & 3:
            raise LinkError(f"{what}: {kind.name} to an address that is no instruction's")
        _require_fits(distance >> 2, bits, kind, what)
        _insert(out, at, distance >> 2 & (1 << bits) - 1, 0 if bits == 26 else 5, bits)


def _store(out: bytearray, at: int, bits: int, value: int, kind: Kind, what: str) -> None:
    if bits < 64:
        _require_fits(value, bits, kind, what)
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    if at + bits // 8 > len(out):
        raise LinkError(f"{what}: {kind.name} at the end of a section")
    struct.pack_into(_BITS[bits], out, at, value)


def _require_fits(value: int, bits: int, kind: Kind, what: str) -> None:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise LinkError(f"{what}: {kind.name} reaches {bits} bits far, and this is {value}")


def _insert(out: bytearray, at: int, value: int, shift: int, bits: int) -> None:
    """Bits of the instruction at `at`."""
    if at + 4 > len(out):
        raise LinkError("an instruction to relocate at the end of a section")
    (word,) = struct.unpack_from("<I", out, at)
    mask = ((1 << bits) - 1) << shift
    struct.pack_into("<I", out, at, word & ~mask | value << shift & mask)


def stub(machine: int, place: int, entry: int) -> bytes:
    """Code at address `place` that jumps to where the GOT entry at address `entry` points."""
    if machine == X86_64:  # jmp *entry(%rip)
        return b"\xff\x25" + struct.pack("<i", entry - place - 6) + b"\xcc" * 10
    code = bytearray(struct.pack("<4I", 0x90000010, 0xF9400211, 0xD61F0220, 0xD503201F))
    apply(code, 0, _ARM[311], place, entry, "a stub")  # adrp x16, entry
    apply(code, 4, _ARM[312], place + 4, entry, "a stub")  # ldr x17, [x16, entry]; br x17; nop
    return bytes(code)
