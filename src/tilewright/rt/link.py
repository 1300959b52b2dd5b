"""A static linker: relocatable ELF objects to one shared object, without tools of the machine.

`link_shared` takes what LLVM emits for position-independent code of the small code model, for
x86-64 or AArch64, whatever machine it runs on, and gives the bytes of an ELF file that `dlopen`
takes. In order:

1. *Symbols.* Each name is resolved: a strong definition before a common one (the largest) before a
   weak one; two strong ones are an error. Of sections of which a program has one only (COMDAT) the
   first is kept. A reference binds to the definition in the file, if there is one, whatever else
   the process has under that name. Names to be exported are given, all others are the file's own.
2. *Needs.* Each relocation says what it takes: an entry in the table of addresses (.got), a stub
   that jumps through such an entry (.plt) to a function elsewhere, a relocation that is left to the
   loader. All are bound when the file is loaded, so the tables are read-only from then on (RELRO).
3. *Layout* (`image`). Sections of a kind lie together; code, constants, relocated constants and
   variables have pages of their own, each with no more rights than it needs.
4. *Relocations* (`relocate`) put the addresses in.

What is not there is refused by name: thread-local variables, functions that run when the file is
loaded (.init_array), indirect functions, relocations in code or constants that the loader would
have to write to, writable code. Sections are not merged or dropped by content, and there is no
table of local symbols. All of it takes time in proportion to the size.

Sources: System V ABI, chapters 4 and 5 (https://gabi.xinuos.com); "AMD64 Architecture Processor
Supplement" (https://gitlab.com/x86-psABIs/x86-64-ABI); "ELF for the Arm 64-bit Architecture"
(https://github.com/ARM-software/abi-aa); "Linux Standard Base Core", chapter 10, for versions of
symbols.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from . import elf, relocate
from .elf import LinkError, Object, Section, Symbol, read_object
from .image import Bytes, Image, Output, Place

_SPECIAL = (14, 15, 16)  # .init_array, .fini_array, .preinit_array
_NOTE = 7


def link_shared(
    objects: Mapping[str, bytes],
    exports: Collection[str] | None = None,
    soname: str = "",
    data: Mapping[str, Bytes] | None = None,
) -> list[Bytes]:
    """The bytes, in parts, of a shared object made of relocatable ones.

    objects: by the names that errors call them by. exports: what other code may look up (default:
    every definition that is not hidden). soname: the name that programs linked with it look for.
    data: constants by their symbols, each at an address that is a multiple of 4096.

    Raises LinkError where an object is damaged or of another machine, a name is defined twice or
    not at all, or something is not supported.
    """
    if not objects:
        raise LinkError("nothing to link")
    return _Linker(objects, exports, soname, data or {}).link()


class _Linker:
    def __init__(
        self,
        objects: Mapping[str, bytes],
        exports: Collection[str] | None,
        soname: str,
        data: Mapping[str, Bytes],
    ) -> None:
        self.objects = [read_object(code, name) for name, code in objects.items()]
        first = self.objects[0]
        for other in self.objects[1:]:
            if other.machine != first.machine:
                here, there = elf.MACHINES[first.machine], elf.MACHINES[other.machine]
                raise LinkError(f"{first.name} is for {here}, {other.name} for {there}")
        self.machine = first.machine
        self.image = Image(self.machine, soname)
        self.exports = exports
        self.data = data
        self.places: list[list[Place]] = []  # by object, by number of the symbol
        self.named: dict[str, Place] = {}
        self.owner: dict[str, str] = {}  # of strong definitions

    def link(self) -> list[Bytes]:
        seen: set[str] = set()
        for o in self.objects:
            drop_repeated(o, seen)
        where = [[self._lay(o, s) for s in o.sections] for o in self.objects]
        for name, content in self.data.items():
            self._define_data(name, content)
        for o, sections in zip(self.objects, where):
            self.places.append([self._place(o, s, sections) for s in o.symbols])
        for place in self.named.values():
            if place.is_common:
                self.image.add_common(place)
        self._export()
        for o, places in zip(self.objects, self.places):
            for s in o.sections:
                if s is not None and s.is_loaded:
                    self._scan(o, s, places)
        self.image.lay_out()
        for o, sections, places in zip(self.objects, where, self.places):
            for s, at in zip(o.sections, sections):
                if s is not None and at is not None and s.relocations:
                    self._relocate(o, s, at, places)
        return self.image.write()

    # -- symbols

    def _lay(self, o: Object, s: Section | None) -> tuple[Output, int] | None:
        """Where a section comes to lie: which output section, how far into it."""
        if s is None or not s.is_loaded or s.kind == _NOTE:
            return None
        if s.kind in _SPECIAL or s.name.startswith((".ctors", ".dtors")):
            raise LinkError(
                f"{o.name}: section {s.name}: functions that run when a file is loaded or closed "
                "are not supported"
            )
        if s.flags & elf.SHF_TLS:
            raise LinkError(f"{o.name}: section {s.name}: thread-local variables are not supported")
        if s.kind not in (elf.SHT_PROGBITS, elf.SHT_NOBITS, elf.SHT_X86_64_UNWIND):
            raise LinkError(f"{o.name}: section {s.name} of type {s.kind:#x} is not supported")
        if s.flags & elf.SHF_WRITE and s.flags & elf.SHF_EXECINSTR:
            raise LinkError(f"{o.name}: section {s.name} is code that may be written")
        return self.image.add(s)

    def _define_data(self, name: str, content: Bytes) -> None:
        output, at = self.image.add_data(content)
        size = memoryview(content).nbytes
        self.named[name] = Place(name, elf.GLOBAL, elf.STT_OBJECT, elf.HIDDEN, output, at, size)
        self.owner[name] = "the data to link"

    def _place(self, o: Object, s: Symbol, sections: Sequence[tuple[Output, int] | None]) -> Place:
        """What a symbol of an object stands for."""
        if s.kind in (elf.STT_TLS, elf.STT_IFUNC):
            what = "a thread-local variable" if s.kind == elf.STT_TLS else "an indirect function"
            raise LinkError(f"{o.name}: {s.name!r} is {what}, which is not supported")
        made = Place(s.name, s.binding, s.kind, s.visibility, None, s.value, s.size)
        if s.section == elf.SHN_COMMON:
            made.is_common = True
        elif s.section == elf.SHN_UNDEF or s.section == elf.SHN_ABS:
            made.is_defined = s.section == elf.SHN_ABS or s.binding == elf.LOCAL
        elif s.section >= elf.SHN_RESERVED:
            raise LinkError(f"{o.name}: {s.name!r} stands in section {s.section:#x}")
        else:
            at = sections[s.section]
            made.is_defined = at is not None
            if at is not None:
                made.output, made.value = at[0], at[1] + s.value
        if s.binding == elf.LOCAL:
            return made
        if s.binding not in (elf.GLOBAL, elf.WEAK):
            raise LinkError(f"{o.name}: {s.name!r} has binding {s.binding}")
        return self._resolve(o, made)

    def _resolve(self, o: Object, new: Place) -> Place:
        """The one place of a name, after another of its definitions or references."""
        old = self.named.get(new.name)
        if old is None:
            old = self.named[new.name] = new
            old.is_wanted = not new.is_defined and new.binding != elf.WEAK
        else:
            if new.strength == old.strength == 3:
                raise LinkError(
                    f"{new.name!r} is defined twice: in {self.owner[new.name]} and in {o.name}"
                )
            hidden = {elf.HIDDEN, elf.INTERNAL} & {old.visibility, new.visibility}
            old.is_wanted |= not new.is_defined and new.binding != elf.WEAK
            larger = new.is_common and old.is_common and new.size > old.size
            if new.strength > old.strength or larger:
                old.take(new)
            old.visibility = elf.HIDDEN if hidden else max(old.visibility, new.visibility)
        if new.strength == 3:
            self.owner[new.name] = o.name
        return old

    def _export(self) -> None:
        if self.exports is None:
            chosen = [p for p in self.named.values() if p.is_here and p.is_visible]
        else:
            chosen = []
            for name in self.exports:
                place = self.named.get(name)
                if place is None or not place.is_here:
                    raise LinkError(f"cannot export {name!r}: no object defines it")
                chosen.append(place)
        for place in chosen:
            self.image.add_symbol(place)

    # -- relocations

    def _scan(self, o: Object, s: Section, places: Sequence[Place]) -> None:
        """Note what the relocations of a section need."""
        image = self.image
        for r in s.relocations:
            place = places[r.symbol]
            where = f"{o.name}, section {s.name}"
            kind = relocate.kind_of(self.machine, r.kind, where, place.name)
            if kind.need == "none" or (place.is_here and kind.need in ("near", "call")):
                continue
            if _is_of_dropped(s, place):
                continue
            if kind.need == "got":
                image.need_entry(place)
            elif kind.need == "call":
                image.need_stub(place)
            elif kind.need == "address":
                if not s.flags & elf.SHF_WRITE:
                    raise LinkError(
                        f"{where}: the loader would have to write the address of {place.name!r} "
                        f"({kind.name}) into what is read-only: code has to be position independent"
                    )
                image.need_address(place)
            else:
                raise LinkError(
                    f"{where}: {place.name!r} has to be in the same file ({kind.name}), and no "
                    "object defines it"
                )

    def _relocate(
        self, o: Object, s: Section, at: tuple[Output, int], places: Sequence[Place]
    ) -> None:
        """Put addresses into the bytes of a section."""
        output, start = at
        image, out = self.image, at[0].content
        if s.kind == elf.SHT_NOBITS:
            raise LinkError(f"{o.name}: relocations in section {s.name}, which has no bytes")
        for r in s.relocations:
            place = places[r.symbol]
            kind = relocate.KINDS[self.machine][r.kind]
            if kind.need == "none" or _is_of_dropped(s, place):
                continue
            here = start + r.offset
            if kind.need == "got":
                value = image.entry_address(place)
            elif kind.need == "address":
                image.leave_address(output.address + here, place, r.addend)
                if not place.is_here:
                    continue  # the loader adds both up
                value = place.address
            else:
                value = place.address if place.is_here else image.stub_address(place)
            what = f"{o.name}, section {s.name}, {place.name!r}"
            address = output.address + here
            relocate.apply(out, here, kind, address, value + r.addend, what)


def _is_of_dropped(s: Section, place: Place) -> bool:
    """Whether a reference is that of a row for unwinding to a function that was dropped."""
    return s.name == ".eh_frame" and place.binding == elf.LOCAL and not place.is_defined


def drop_repeated(o: Object, seen: set[str]) -> None:
    """Drop from an object the groups of sections (COMDAT) that were seen before."""
    for signature, members in o.groups:
        if signature in seen:
            for k in members:
                o.sections[k] = None
        seen.add(signature)
