"""LLVM IR that says for each instruction from which line of the loop IR it comes.

Locations are debug locations, which LLVM carries through its passes to the assembly's `.loc`
directives (Source Level Debugging with LLVM, DILocation); the machine code is the same with and
without them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...base.deep import deep_call
from ...loopir import stmt as S
from ...target.target import Target
from .emitter import Emitter
from .module import GeneratedModule, ModuleBuilder

FILE = "loops"
"""The file that the locations name."""

_LOCATION = re.compile(r"^!(\d+) = !DILocation\(line: (\d+),.*$")
_USE = re.compile(r", !dbg !(\d+)$")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_DEBUG_SECTION = re.compile(r"^\s*\.section\s+[\"']?\.debug")
_SECTION = re.compile(r"^\s*\.(section|text|data|bss)\b")
_NOISE = re.compile(r"^\s*\.(loc|file|cfi_)|^\.L(tmp|func_begin|func_end|sec_end|debug|info)")


@dataclass(frozen=True)
class Located:
    """Lines of text, and for each the line (from 1) of the loop IR from which it comes, or 0."""

    lines: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def generate_located(
    functions: Mapping[str, S.PrimFunc], target: Target, places: Mapping[int, int]
) -> GeneratedModule:
    """As `module.generate`, with debug locations. `places`: the line of each statement, by its
    identity (loopir/print_lines.py)."""
    return deep_call(_generate, functions, target, places)


def _generate(
    functions: Mapping[str, S.PrimFunc], target: Target, places: Mapping[int, int]
) -> GeneratedModule:
    module = LocatedBuilder(target, places)
    generated = [module.entry(name, func) for name, func in functions.items()]
    module.check_calls()
    return GeneratedModule(module.text(), tuple(generated), tuple(module.imports))


class LocatedBuilder(ModuleBuilder):
    """A module whose instructions have locations."""

    def __init__(self, target: Target, places: Mapping[int, int]) -> None:
        super().__init__(target)
        self.places = places
        self.file = self._meta(f'!DIFile(filename: "{FILE}", directory: "")')
        self.unit = self._meta(
            f"distinct !DICompileUnit(language: DW_LANG_C99, file: {self.file}, "
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
        )
        self.version = self._meta('!{i32 2, !"Debug Info Version", i32 3}')
        self.kind = self._meta("!DISubroutineType(types: !{null})")

    def emitter(self, name: str) -> Emitter:
        """An emitter for an entry function."""
        return LocatedEmitter(self, name)

    def subprogram(self, name: str) -> str:
        """The metadata of a function."""
        return self._meta(
            f'distinct !DISubprogram(name: "{name}", scope: {self.file}, file: {self.file}, '
            f"line: 1, type: {self.kind}, unit: {self.unit}, "
            "spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )

    def location(self, scope: str, line: int) -> str:
        """The metadata of a line of a function."""
        return self._meta(f"!DILocation(line: {line}, column: 0, scope: {scope})")

    def text(self) -> str:
        named = f"!llvm.dbg.cu = !{{{self.unit}}}\n!llvm.module.flags = !{{{self.version}}}\n"
        return super().text() + named


class LocatedEmitter(Emitter):
    """Writes a function, and remembers where the instructions of which line begin."""

    __slots__ = ("begins", "place", "places")

    def __init__(self, module: LocatedBuilder, name: str, place: int = 0) -> None:
        super().__init__(module, name)
        self.places = module.places
        self.place = place
        self.begins: list[tuple[int, int]] = [(0, place)]

    def child(self, name: str) -> Emitter:
        """An emitter for a function that is cut out of this one."""
        assert isinstance(self.module, LocatedBuilder)
        return LocatedEmitter(self.module, name, self.place)

    def stmt(self, s: object) -> None:
        """Write a statement."""
        before = self.place
        self._move(self.places.get(id(s), before))
        super().stmt(s)
        self._move(before)

    def _move(self, place: int) -> None:
        if place != self.place:
            self.place = place
            self.begins.append((len(self.lines), place))

    def text(self, signature: str, attributes: str) -> str:
        """The whole function."""
        module = self.module
        assert isinstance(module, LocatedBuilder)
        scope = module.subprogram(self.name)
        known: dict[int, str] = {}
        ends = [at for at, _ in self.begins[1:]] + [len(self.lines)]
        for (begin, place), end in zip(self.begins, ends):
            if end > begin and place not in known:
                known[place] = module.location(scope, place)
            for k in range(begin, end):
                if self.lines[k].startswith("  "):
                    self.lines[k] += f", !dbg {known[place]}"
        return super().text(signature, f"{attributes} !dbg {scope}")


def located_ir(text: str) -> Located:
    """LLVM IR without the metadata of locations, each line with its place."""
    rows: list[tuple[str, str]] = []
    lines: dict[str, int] = {}
    for line in text.rstrip("\n").split("\n"):
        found = _LOCATION.match(line)
        if found is not None:
            lines[found[1]] = int(found[2])
        elif not line.startswith(("!llvm.dbg", "!llvm.module")) and "!DI" not in line[:40]:
            if '"Debug Info Version"' in line:
                continue
            use = _USE.search(line)
            plain = line if use is None else line[: use.start()]
            rows.append((re.sub(r" !dbg !\d+ \{$", " {", plain), use[1] if use else ""))
    return Located(tuple(r[0] for r in rows), tuple(lines.get(r[1], 0) for r in rows))


def located_assembly(text: str) -> Located:
    """Assembly without directives and sections of debug information, each line with its place."""
    kept: list[str] = []
    places: list[int] = []
    place, skipping = 0, False
    for line in text.rstrip("\n").split("\n"):
        if _SECTION.match(line):
            skipping = bool(_DEBUG_SECTION.match(line))
        found = _LOC.match(line)
        if found is not None:
            place = int(found[1])
        if skipping or _NOISE.match(line):
            continue
        if line[:1] not in ("\t", " ", ".", "") and line.rstrip().endswith(":"):
            place = 0  # another function
        kept.append(line)
        code = line[:1] in ("\t", " ") and not line.lstrip().startswith(".")
        places.append(place if code else 0)
    return Located(tuple(kept), tuple(places))
