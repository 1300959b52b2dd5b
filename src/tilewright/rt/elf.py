"""Relocatable ELF64 objects as data: sections, symbols, relocations, each checked as it is read.

Little-endian objects with explicit addends, which are what LLVM emits for x86-64 and AArch64; the
linker (`link`) and the joiner (`join`) work on these. Names of constants are those of the standard:
System V ABI, "Object Files" (https://gabi.xinuos.com).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from ..base.errors import TilewrightError

X86_64, AARCH64 = 62, 183
MACHINES = {X86_64: "x86-64", AARCH64: "AArch64"}

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 1, 2, 3, 4, 8, 9
SHT_GROUP, SHT_SYMTAB_SHNDX, SHT_X86_64_UNWIND = 17, 18, 0x70000001
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
SHN_UNDEF, SHN_RESERVED, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF
LOCAL, GLOBAL, WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_FILE, STT_TLS, STT_IFUNC = 0, 1, 2, 3, 4, 6, 10
DEFAULT, INTERNAL, HIDDEN, PROTECTED = 0, 1, 2, 3

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QIIq")
IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)
MOST_ALIGN = 1 << 16
"""The largest page of the two machines: nothing is aligned to more."""


class LinkError(TilewrightError):
    """Object code that cannot be linked: damaged, of the wrong kind, or not fitting together."""


class Relocation(NamedTuple):
    """At `offset` of its section, put symbol number `symbol` plus `addend`, as `kind` says."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass
class Section:
    """A section; `data` is empty where it takes memory only."""

    name: str
    kind: int
    flags: int
    align: int
    size: int
    data: memoryview
    entry_size: int = 0
    relocations: list[Relocation] = field(default_factory=list)

    @property
    def is_loaded(self) -> bool:
        return bool(self.flags & SHF_ALLOC)


@dataclass
class Symbol:
    """A symbol; `section` is a number of the object's sections or one of the reserved ones."""

    name: str
    binding: int
    kind: int
    visibility: int
    section: int
    value: int
    size: int


@dataclass
class Object:
    """A relocatable object. `sections` are numbered as in the file; None stands where one was
    dropped or is of the format's own (tables of symbols, of names, of relocations)."""

    name: str
    machine: int
    sections: list[Section | None]
    symbols: list[Symbol]
    groups: list[tuple[str, list[int]]]
    """Signature and members of each group of which a program has one only (COMDAT)."""


def read_object(data: bytes, name: str = "an object") -> Object:
    """The object in the bytes of a file; LinkError, which calls it `name`, for anything else."""
    try:
        return _Reader(memoryview(data), name).read()
    except (struct.error, ValueError, IndexError) as error:
        raise LinkError(f"{name} is damaged: {error}") from None


def is_linkable(data: bytes) -> bool:
    """Whether bytes are an object of a machine that `link` knows."""
    return data[:7] == IDENT[:7] and int.from_bytes(data[18:20], "little") in MACHINES


class _Reader:
    """One object as it is read. Whatever lies outside of the file or of its table is an IndexError,
    struct.error or ValueError."""

    def __init__(self, data: memoryview, name: str) -> None:
        self.data = data
        self.name = name

    def read(self) -> Object:
        data = self.data
        if bytes(data[:4]) != b"\x7fELF":
            raise LinkError(f"{self.name} is not an ELF object")
        if bytes(data[:7]) != IDENT[:7]:
            raise LinkError(f"{self.name} is not a little-endian ELF object of 64 bits")
        _, kind, machine, _, _, _, start, _, _, _, _, size, count, names = HEADER.unpack_from(data)
        if kind != 1:
            raise LinkError(f"{self.name} is linked already: an object to link is relocatable")
        if machine not in MACHINES:
            known = ", ".join(MACHINES.values())
            raise LinkError(f"{self.name} is for machine {machine}; linked is code for {known}")
        if size != SECTION.size or count == 0 or start == 0:
            raise ValueError("no table of sections")
        self.heads = [SECTION.unpack_from(data, start + k * size) for k in range(count)]
        self.names = self._part(names)
        sections = [self._section(k) for k in range(count)]
        symbols = self._symbols(count)
        made = Object(self.name, machine, sections, symbols, [])
        for k, head in enumerate(self.heads):
            if head[1] == SHT_RELA:
                self._relocations(made, k)
            elif head[1] == SHT_REL and self.heads[head[7]][2] & SHF_ALLOC:
                raise LinkError(f"{self.name}: relocations without addends are not supported")
            elif head[1] == SHT_GROUP:
                words = struct.unpack(f"<{head[5] // 4}I", self._part(k)[: head[5] // 4 * 4])
                if words[0] & 1:
                    members = [w for w in words[1:] if sections[w] is not None]
                    made.groups.append((symbols[head[7]].name, members))
        return made

    def _part(self, k: int) -> memoryview:
        """The bytes of a section."""
        offset, size = self.heads[k][4], self.heads[k][5]
        if offset + size > len(self.data):
            raise ValueError(f"section {k} ends behind the file")
        return self.data[offset : offset + size]

    def _text(self, table: memoryview, at: int) -> str:
        if at >= len(table):
            raise ValueError("a name lies behind its table")
        stop = at
        while table[stop]:
            stop += 1
        return bytes(table[at:stop]).decode()

    def _section(self, k: int) -> Section | None:
        name, kind, flags, _, _, size, _, _, align, entry = self.heads[k]
        if kind in (0, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_REL, SHT_GROUP, SHT_SYMTAB_SHNDX):
            return None
        data = self.data[:0] if kind == SHT_NOBITS else self._part(k)
        if align & (align - 1) or align > MOST_ALIGN or size >= 1 << 40:
            raise ValueError(f"section {k} has alignment {align}, {size} bytes")
        text = self._text(self.names, name)
        return Section(text, kind, flags, max(align, 1), size, data, entry)

    def _symbols(self, count: int) -> list[Symbol]:
        tables = [k for k, head in enumerate(self.heads) if head[1] == SHT_SYMTAB]
        if len(tables) != 1:
            raise ValueError(f"{len(tables)} tables of symbols")
        if any(head[1] == SHT_SYMTAB_SHNDX for head in self.heads):
            raise LinkError(f"{self.name}: more than {SHN_RESERVED} sections are not supported")
        names = self._part(self.heads[tables[0]][6])
        symbols = []
        for name, info, other, section, value, size in SYMBOL.iter_unpack(self._part(tables[0])):
            if section >= count and section < SHN_RESERVED:
                raise ValueError(f"a symbol of section {section} of {count}")
            text = self._text(names, name) if name else ""
            made = Symbol(text, info >> 4, info & 15, other & 3, section, value, size)
            symbols.append(made)
        return symbols

    def _relocations(self, made: Object, k: int) -> None:
        link, into = self.heads[k][6], self.heads[k][7]
        section = made.sections[into]
        if section is None or self.heads[link][1] != SHT_SYMTAB:
            raise ValueError(f"section {k} relocates none")
        if not section.is_loaded:
            return
        for offset, kind, symbol, addend in RELA.iter_unpack(self._part(k)):
            if offset >= section.size or symbol >= len(made.symbols):
                raise ValueError(f"a relocation of {section.name} lies outside of it")
            section.relocations.append(Relocation(offset, kind, symbol, addend))
