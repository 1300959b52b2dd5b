"""The layout and the tables of a shared object: what `link` puts its sections, symbols and
relocations into.

    file      permissions   holds
    segment 1 read          headers, tables for the loader, constants
    segment 2 execute       code, stubs
    segment 3 read (RELRO)  constants with addresses, the dynamic section, the table of addresses
    segment 4 write         variables
    segment 5 read          data given as bytes (weights)

Segments begin at multiples of 4096 in the file, and in memory as far behind a multiple of the
largest page (AArch64: 64 KiB), so that no page has the rights of two.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from . import elf, relocate
from .elf import LinkError, Section
from .image_names import VERSIONS, library_of
from .image_names import hash_name as _hash

Bytes = bytes | bytearray | memoryview

PAGE = 4096
_PAGES = {elf.X86_64: 4096, elf.AARCH64: 65536}
_R, _RX, _RELRO, _RW, _DATA = range(5)
_RIGHTS = {_R: 4, _RX: 5, _RELRO: 6, _RW: 6, _DATA: 4}
_PT_LOAD, _PT_DYNAMIC, _PT_STACK, _PT_RELRO = 1, 2, 0x6474E551, 0x6474E552
_PHDR = struct.Struct("<IIQQQQQQ")
_MOST = 1 << 31


@dataclass(eq=False)
class Output:
    """A section of the file that is made; `size` is more than its `content` in .bss."""

    name: str
    segment: int
    kind: int = elf.SHT_PROGBITS
    flags: int = elf.SHF_ALLOC
    align: int = 1
    entry_size: int = 0
    content: bytearray = field(default_factory=bytearray)
    parts: list[Bytes] = field(default_factory=list)  # instead of content, so that none is copied
    size: int = 0
    address: int = 0
    offset: int = 0
    link: str = ""
    info: int = 0


@dataclass(eq=False)
class Place:
    """What a symbol stands for: `value` in a section of the output, or of its own."""

    name: str
    binding: int
    kind: int
    visibility: int
    output: Output | None
    value: int
    size: int
    is_defined: bool = True
    is_common: bool = False
    is_wanted: bool = False  # by a reference that is not weak
    entry: int = -1  # number in the table of addresses
    stub: int = -1
    number: int = -1  # in the table of dynamic symbols

    @property
    def strength(self) -> int:
        if self.is_common:
            return 2
        return 0 if not self.is_defined else 1 if self.binding == elf.WEAK else 3

    @property
    def is_here(self) -> bool:
        """Whether it has an address in the file."""
        return self.is_defined and self.output is not None

    @property
    def is_visible(self) -> bool:
        return self.visibility in (elf.DEFAULT, elf.PROTECTED)

    @property
    def address(self) -> int:
        return self.value + (self.output.address if self.output is not None else 0)

    def take(self, other: Place) -> None:
        """Be what a stronger definition says."""
        self.binding, self.kind, self.output = other.binding, other.kind, other.output
        self.value, self.size = other.value, other.size
        self.is_defined, self.is_common = other.is_defined, other.is_common


class Image:
    """A shared object in the making. First everything is added and needed, then `lay_out` gives
    addresses, then relocations are left, then `write`."""

    def __init__(self, machine: int, soname: str) -> None:
        self.machine = machine
        self.soname = soname
        made = [
            Output(".hash", _R, 5, align=8, entry_size=4, link=".dynsym"),
            Output(".dynsym", _R, 11, align=8, entry_size=24, link=".dynstr", info=1),
            Output(".dynstr", _R, 3),
            Output(".gnu.version", _R, 0x6FFFFFFF, align=2, entry_size=2, link=".dynsym"),
            Output(".gnu.version_r", _R, 0x6FFFFFFE, align=8, link=".dynstr", info=1),
            Output(".rela.dyn", _R, 4, align=8, entry_size=24, link=".dynsym"),
            Output(".rodata", _R),
            Output(".eh_frame", _R),
            Output(".text", _RX, flags=elf.SHF_ALLOC | elf.SHF_EXECINSTR, align=16),
            Output(".plt", _RX, flags=elf.SHF_ALLOC | elf.SHF_EXECINSTR, align=16),
            Output(".data.rel.ro", _RELRO, flags=elf.SHF_ALLOC | elf.SHF_WRITE),
            Output(".dynamic", _RELRO, 6, elf.SHF_ALLOC | elf.SHF_WRITE, 8, 16, link=".dynstr"),
            Output(".got", _RELRO, flags=elf.SHF_ALLOC | elf.SHF_WRITE, align=8, entry_size=8),
            Output(".data", _RW, flags=elf.SHF_ALLOC | elf.SHF_WRITE),
            Output(".bss", _RW, elf.SHT_NOBITS, elf.SHF_ALLOC | elf.SHF_WRITE),
            Output(".data.const", _DATA, align=PAGE),
        ]
        self.sections = {s.name: s for s in made}
        self.symbols: list[Place] = []
        self.entries: list[Place] = []
        self.stubs: list[Place] = []
        self.addresses = 0
        self.relative: list[tuple[int, int]] = []
        self.symbolic: list[tuple[int, int, int, int]] = []
        self.strings = bytearray(1)
        self.string_at: dict[str, int] = {}

    # -- what it holds

    def add(self, s: Section) -> tuple[Output, int]:
        """Take a section; where it comes to lie."""
        if s.flags & elf.SHF_EXECINSTR:
            name = ".text"
        elif s.kind == elf.SHT_NOBITS:
            name = ".bss"
        elif s.flags & elf.SHF_WRITE:
            name = ".data.rel.ro" if s.name.startswith(".data.rel.ro") else ".data"
        else:
            name = ".eh_frame" if s.name == ".eh_frame" else ".rodata"
        output = self.sections[name]
        at = self._room(output, s.align, s.size)
        if output.kind != elf.SHT_NOBITS:
            fill = b"\xcc" if name == ".text" and self.machine == elf.X86_64 else b"\0"
            output.content += fill * (at - len(output.content)) + s.data
        return output, at

    def add_common(self, place: Place) -> None:
        """Give a common variable, whose `value` is its alignment, a place."""
        output = self.sections[".bss"]
        if not 0 < place.value <= elf.MOST_ALIGN or place.value & (place.value - 1):
            raise LinkError(f"{place.name!r} has alignment {place.value}")
        place.value = self._room(output, place.value, place.size)
        place.output, place.is_defined, place.is_common = output, True, False

    def add_data(self, content: Bytes) -> tuple[Output, int]:
        """Take bytes, which begin at a page."""
        output, view = self.sections[".data.const"], memoryview(content).cast("B")
        before = output.size
        at = self._room(output, PAGE, view.nbytes)
        output.parts += [bytes(at - before), view]
        return output, at

    def _room(self, output: Output, align: int, size: int) -> int:
        at = -(-output.size // align) * align
        output.size = at + size
        output.align = max(output.align, align)
        return at

    def add_symbol(self, place: Place) -> None:
        """Let the loader know a symbol, to export it or to look it up."""
        if place.number < 0:
            self.symbols.append(place)
            place.number = len(self.symbols)
            self._string(place.name)

    def need_entry(self, place: Place) -> None:
        """Have an entry of the table of addresses."""
        self._require_found(place)
        if place.entry < 0:
            place.entry = len(self.entries)
            self.entries.append(place)

    def need_stub(self, place: Place) -> None:
        """Have a stub for a function that is elsewhere."""
        self.need_entry(place)
        if place.stub < 0:
            place.stub = len(self.stubs)
            self.stubs.append(place)

    def need_address(self, place: Place) -> None:
        """Have room for a relocation that the loader does."""
        self._require_found(place)
        self.addresses += place.is_here or not place.is_defined

    def _require_found(self, place: Place) -> None:
        if place.is_defined:
            return
        if not place.is_visible:
            raise LinkError(f"{place.name!r} is hidden, and no object defines it")
        self.add_symbol(place)

    def _string(self, text: str) -> int:
        at = self.string_at.get(text)
        if at is None:
            at = self.string_at[text] = len(self.strings)
            self.strings += text.encode() + b"\0"
        return at

    # -- addresses

    def lay_out(self) -> None:
        """Give every section its place in the file and in memory."""
        self._size_tables()
        used = [s for s in self.sections.values() if s.size or s.name in (".dynsym", ".dynstr")]
        self.used = used
        self.segments = sorted({s.segment for s in used})
        self.headers = len(self.segments) + 3
        offset = elf.HEADER.size + self.headers * _PHDR.size
        address, page = offset, _PAGES[self.machine]
        previous = _R
        for s in used:
            if s.segment != previous:
                offset = -(-offset // PAGE) * PAGE
                address = -(-address // page) * page + offset % page
                previous = s.segment
            pad = -address % s.align
            s.offset, s.address = offset + pad, address + pad
            address = s.address + s.size
            offset = s.offset + (0 if s.kind == elf.SHT_NOBITS else s.size)
        if address > _MOST:
            raise LinkError(f"what is linked takes {address >> 20} MiB; a file holds 2 GiB")
        self.end = offset

    def _size_tables(self) -> None:
        sections = self.sections
        sections[".got"].size = 8 * len(self.entries)
        sections[".plt"].size = relocate.STUB_BYTES * len(self.stubs)
        found = sum(1 for p in self.entries if p.is_here or not p.is_defined)
        sections[".rela.dyn"].size = elf.RELA.size * (self.addresses + found)
        wanted = [p.name for p in self.symbols if not p.is_defined]
        self.needed = sorted({library_of(n) for n in wanted})
        table = VERSIONS[self.machine]
        self.versions = sorted({table[n] for n in wanted if n in table})
        self.version_of = {n: self.versions.index(table[n]) + 2 for n in wanted if n in table}
        for text in (*self.needed, *self.versions, *([self.soname] if self.soname else [])):
            self._string(text)
        count = len(self.symbols) + 1
        sections[".dynsym"].size = elf.SYMBOL.size * count
        sections[".dynstr"].size = len(self.strings)
        sections[".hash"].size = 4 * (2 + self._buckets + count)
        if self.versions:
            sections[".gnu.version"].size = 2 * count
            sections[".gnu.version_r"].size = 16 + 16 * len(self.versions)
        sections[".dynamic"].size = 16 * (15 + len(self.needed))

    @property
    def _buckets(self) -> int:
        return max(1, len(self.symbols) // 2)

    def entry_address(self, place: Place) -> int:
        """Address of the entry of a symbol in the table of addresses."""
        return self.sections[".got"].address + 8 * place.entry

    def stub_address(self, place: Place) -> int:
        """Address of the stub of a function."""
        return self.sections[".plt"].address + relocate.STUB_BYTES * place.stub

    def leave_address(self, where: int, place: Place, addend: int) -> None:
        """Let the loader put the address of a symbol, plus a number, at an address."""
        if place.is_here:
            self.relative.append((where, place.address + addend))
        elif not place.is_defined:
            kind = relocate.ADDRESS[self.machine]
            self.symbolic.append((where, kind, place.number, addend))

    # -- bytes

    def write(self) -> list[Bytes]:
        """The file, in parts."""
        self._fill_got()
        self._fill_symbols()
        self._fill_dynamic()
        return FileWriter(self).parts()

    def _fill_got(self) -> None:
        got, plt = self.sections[".got"], self.sections[".plt"]
        for place in self.entries:
            where = self.entry_address(place)
            if place.is_here:
                self.relative.append((where, place.address))
            elif not place.is_defined:
                kind = relocate.GLOB_DAT[self.machine]
                self.symbolic.append((where, kind, place.number, 0))
            got.content += struct.pack("<Q", place.address if place.is_defined else 0)
        for place in self.stubs:
            code = relocate.stub(self.machine, self.stub_address(place), self.entry_address(place))
            plt.content += code
        rela = self.sections[".rela.dyn"].content
        kind = relocate.RELATIVE[self.machine]
        for where, value in sorted(self.relative):
            rela += elf.RELA.pack(where, kind, 0, value)
        for where, kind, number, addend in sorted(self.symbolic):
            rela += elf.RELA.pack(where, kind, number, addend)

    def _fill_symbols(self) -> None:
        table, index = (
            self.sections[".dynsym"].content,
            {s.name: k for k, s in enumerate(self.used)},
        )
        table += bytes(elf.SYMBOL.size)
        for p in self.symbols:
            weak = p.binding == elf.WEAK and not (p.is_wanted and not p.is_defined)
            info = (elf.WEAK if weak else elf.GLOBAL) << 4 | (p.kind if p.is_defined else 0)
            section = 0 if not p.is_defined else elf.SHN_ABS
            if p.output is not None:
                section = index[p.output.name] + 1
            size = p.size if p.is_defined else 0
            value = p.address if p.is_defined else 0
            table += elf.SYMBOL.pack(self._string(p.name), info, 0, section, value, size)
        buckets, chains = [0] * self._buckets, [0] * (len(self.symbols) + 1)
        for number, p in enumerate(self.symbols, 1):
            k = _hash(p.name) % len(buckets)
            chains[number], buckets[k] = buckets[k], number
        words = [len(buckets), len(chains), *buckets, *chains]
        self.sections[".hash"].content += struct.pack(f"<{len(words)}I", *words)
        self.sections[".dynstr"].content += self.strings
        if self.versions:
            numbers = [0, *(self.version_of.get(p.name, 1) for p in self.symbols)]
            content = struct.pack(f"<{len(numbers)}H", *numbers)
            self.sections[".gnu.version"].content += content
            self._fill_versions()

    def _fill_versions(self) -> None:
        """What is needed of the C library, the only one with versions that matter."""
        out = self.sections[".gnu.version_r"].content
        out += struct.pack("<HHIII", 1, len(self.versions), self._string("libc.so.6"), 16, 0)
        for k, text in enumerate(self.versions):
            last = k == len(self.versions) - 1
            follows = 0 if last else 16
            out += struct.pack("<IHHII", _hash(text), 0, k + 2, self._string(text), follows)

    def _fill_dynamic(self) -> None:
        section = self.sections
        rows = [(1, self._string(name)) for name in self.needed]
        rows += [(14, self._string(self.soname))] if self.soname else []
        rows += [(4, section[".hash"].address), (5, section[".dynstr"].address)]
        rows += [(6, section[".dynsym"].address), (10, len(self.strings)), (11, elf.SYMBOL.size)]
        if section[".rela.dyn"].size:
            rows += [(7, section[".rela.dyn"].address), (8, section[".rela.dyn"].size)]
            rows += [(9, elf.RELA.size), (0x6FFFFFF9, len(self.relative))]
        rows += [(30, 8), (0x6FFFFFFB, 1)]  # bound when loaded
        if self.versions:
            rows += [(0x6FFFFFF0, section[".gnu.version"].address)]
            rows += [(0x6FFFFFFE, section[".gnu.version_r"].address), (0x6FFFFFFF, 1)]
        out = section[".dynamic"].content
        for tag, value in rows:
            out += struct.pack("<QQ", tag, value)
        out += bytes(section[".dynamic"].size - len(out))


class FileWriter:
    """The bytes of an image: headers, sections in order, the table of sections."""

    def __init__(self, image: Image) -> None:
        self.image = image

    def parts(self) -> list[Bytes]:
        image = self.image
        names = bytearray(1)
        rows = [bytes(elf.SECTION.size)]
        index = {s.name: k + 1 for k, s in enumerate(image.used)}
        for s in image.used:
            where = (s.flags, s.address, s.offset, s.size, index.get(s.link, 0), s.info)
            rows.append(elf.SECTION.pack(len(names), s.kind, *where, s.align, s.entry_size))
            names += s.name.encode() + b"\0"
        at = len(names)
        names += b".shstrtab\0"
        rows.append(elf.SECTION.pack(at, 3, 0, 0, image.end, len(names), 0, 0, 1, 0))
        table = -(-(image.end + len(names)) // 8) * 8
        out: list[Bytes] = [self._header(table, len(rows)), b"".join(self._program())]
        done = elf.HEADER.size + image.headers * _PHDR.size
        for s in image.used:
            if s.kind == elf.SHT_NOBITS:
                continue
            out += [bytes(s.offset - done), *(s.parts or [s.content])]
            done = s.offset + s.size
        out += [bytes(names), bytes(table - done - len(names)), b"".join(rows)]
        return out

    def _header(self, table: int, count: int) -> bytes:
        machine, headers = self.image.machine, self.image.headers
        sizes = (elf.HEADER.size, _PHDR.size, headers, elf.SECTION.size, count, count - 1)
        return elf.HEADER.pack(elf.IDENT, 3, machine, 1, 0, elf.HEADER.size, table, 0, *sizes)

    def _program(self) -> list[bytes]:
        image = self.image
        page = _PAGES[image.machine]
        rows = []
        relro = b""
        for segment in image.segments:
            held = [s for s in image.used if s.segment == segment]
            first, last = held[0], held[-1]
            start, address = (0, 0) if segment == _R else (first.offset, first.address)
            ends = [s.offset + s.size for s in held if s.kind != elf.SHT_NOBITS]
            in_file, in_memory = (
                max(ends, default=start) - start,
                last.address + last.size - address,
            )
            if segment == _RELRO:  # the loader protects whole pages
                in_memory = -(-(address + in_memory) // page) * page - address
                sizes = (start, address, address, in_file, in_memory)
                relro = _PHDR.pack(_PT_RELRO, 4, *sizes, 1)
            sizes = (start, address, address, in_file, in_memory)
            rows.append(_PHDR.pack(_PT_LOAD, _RIGHTS[segment], *sizes, page))
        d = image.sections[".dynamic"]
        rows.append(_PHDR.pack(_PT_DYNAMIC, 6, d.offset, d.address, d.address, d.size, d.size, 8))
        rows.append(_PHDR.pack(_PT_STACK, 6, 0, 0, 0, 0, 0, 16))
        return [*rows, relro]
