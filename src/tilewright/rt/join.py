"""Several relocatable objects as one, in which only chosen names are left for others to see.

Sections stay as they are, one after the other; symbols are resolved as `link` does, and all that is
not exported becomes local, so that programs may hold several of the results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from . import elf
from .elf import LinkError, Object, Section, Symbol, read_object
from .link import drop_repeated

_ADDRALIGN = 8


@dataclass
class _Row:
    """A symbol of the result; `section` is a number of its sections."""

    symbol: Symbol
    section: int


def join_objects(
    objects: Mapping[str, bytes], exports: Collection[str], data: Mapping[str, bytearray]
) -> bytes:
    """The bytes of one relocatable object; arguments and errors as of `link.link_shared`."""
    return _Joiner(
        [read_object(code, name) for name, code in objects.items()], exports, data
    ).join()


class _Joiner:
    def __init__(
        self, objects: list[Object], exports: Collection[str], data: Mapping[str, bytearray]
    ) -> None:
        if len({o.machine for o in objects}) != 1:
            raise LinkError("objects to join are for one machine")
        self.objects = objects
        self.exports = exports
        self.sections: list[Section] = []
        self.number: dict[tuple[int, int], int] = {}
        self.named: dict[str, _Row] = {}
        self.rows: list[list[_Row]] = []
        for name, content in data.items():
            view = memoryview(content)
            self.sections.append(
                Section(".rodata.data", elf.SHT_PROGBITS, elf.SHF_ALLOC, 4096, len(view), view)
            )
            made = Symbol(name, elf.GLOBAL, elf.STT_OBJECT, elf.DEFAULT, 1, 0, len(view))
            self.named[name] = _Row(made, len(self.sections))

    def join(self) -> bytes:
        seen: set[str] = set()
        for k, o in enumerate(self.objects):
            drop_repeated(o, seen)
            for n, s in enumerate(o.sections):
                if s is not None and s.is_loaded:
                    self.sections.append(s)
                    self.number[k, n] = len(self.sections)
        for k, o in enumerate(self.objects):
            self.rows.append([self._row(o, k, s) for s in o.symbols])
        for name in self.exports:
            if name not in self.named or not self.named[name].section:
                raise LinkError(f"cannot export {name!r}: no object defines it")
        return self._write()

    def _row(self, o: Object, k: int, s: Symbol) -> _Row:
        """The symbol of the result that one of an object stands for."""
        if s.section >= elf.SHN_RESERVED and s.section != elf.SHN_ABS:
            raise LinkError(f"{o.name}: {s.name!r} stands in section {s.section:#x}")
        at = s.section if s.section == elf.SHN_ABS else self.number.get((k, s.section), 0)
        new = _Row(s, at)
        if s.binding == elf.LOCAL:
            return new
        old = self.named.setdefault(s.name, new)
        if old is not new and at:
            if not old.section or old.symbol.binding == elf.WEAK != s.binding:
                old.symbol, old.section = s, at
            elif s.binding != elf.WEAK:
                raise LinkError(f"{s.name!r} is defined twice, the second time in {o.name}")
        return old

    def _write(self) -> bytes:
        every = list({id(r): r for rows in self.rows for r in rows}.values())
        exported = set(self.exports)
        local = [r for r in every if r.symbol.binding == elf.LOCAL or self._is_own(r, exported)]
        kept = {id(r) for r in local}
        ordered = [*local, *(r for r in every if id(r) not in kept)]
        index = {id(r): n for n, r in enumerate(ordered, 1)}
        strings, table = bytearray(1), bytearray(elf.SYMBOL.size)
        for r in ordered:
            s = r.symbol
            at = 0
            if s.name:
                at = len(strings)
                strings += s.name.encode() + b"\0"
            binding = elf.LOCAL if id(r) in kept else s.binding
            table += elf.SYMBOL.pack(at, binding << 4 | s.kind, 0, r.section, s.value, s.size)
        return self._file(bytes(table), len(local) + 1, bytes(strings), index)

    @staticmethod
    def _is_own(r: _Row, exported: set[str]) -> bool:
        return bool(r.section) and r.symbol.name not in exported

    def _file(self, table: bytes, first: int, strings: bytes, index: dict[int, int]) -> bytes:
        owners = {n: (k, s) for (k, s), n in self.number.items()}
        symbols = len(self.sections) + 1
        heads: list[tuple[str, int, int, bytes | memoryview, int, int, int, int, int]] = [
            (s.name, s.kind, s.flags & 7, s.data, s.size, 0, 0, s.align, 0) for s in self.sections
        ]
        heads.append((".symtab", elf.SHT_SYMTAB, 0, table, len(table), symbols + 1, first, 8, 24))
        heads.append((".strtab", elf.SHT_STRTAB, 0, strings, len(strings), 0, 0, 1, 0))
        heads.append((".note.GNU-stack", elf.SHT_PROGBITS, 0, b"", 0, 0, 0, 1, 0))
        for n, s in enumerate(self.sections, 1):
            if s.relocations:
                rows = self.rows[owners[n][0]]
                text = b"".join(
                    elf.RELA.pack(r.offset, r.kind, index[id(rows[r.symbol])], r.addend)
                    if r.symbol
                    else elf.RELA.pack(r.offset, r.kind, 0, r.addend)
                    for r in s.relocations
                )
                name = f".rela{s.name}"
                heads.append((name, elf.SHT_RELA, 64, text, len(text), symbols, n, 8, 24))
        names, out, rows_out = bytearray(1), bytearray(elf.HEADER.size), [bytes(64)]
        for name, kind, flags, content, size, link, info, align, entry in heads:
            out += bytes(-len(out) % align)
            where = (flags, 0, len(out), size, link, info, align, entry)
            rows_out.append(elf.SECTION.pack(len(names), kind, *where))
            names += name.encode() + b"\0"
            out += content
        names_at = len(names)
        names += b".shstrtab\0"
        rows_out.append(elf.SECTION.pack(names_at, 3, 0, 0, len(out), len(names), 0, 0, 1, 0))
        out += names
        out += bytes(-len(out) % _ADDRALIGN)
        sizes = (elf.HEADER.size, 0, 0, elf.SECTION.size, len(rows_out), len(rows_out) - 1)
        table_at = len(out)
        machine = self.objects[0].machine
        elf.HEADER.pack_into(out, 0, elf.IDENT, 1, machine, 1, 0, 0, table_at, 0, *sizes)
        return bytes(out + b"".join(rows_out))
