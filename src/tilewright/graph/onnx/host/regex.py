"""Patterns in the syntax of RE2, which ONNX names, as Python's.

Both know the same constructs, but some are written otherwise or mean something else: classes such
as \\w are of ASCII there, `$` is the end of the text alone, flags hold to the end of their group.
Whether a text matches as a whole does not depend on which repetitions are greedy. What RE2 refuses
(references to groups, looking ahead) is refused too. Python's matching goes back where RE2's does
not, so that some patterns take long on some texts.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ....base.errors import TilewrightError
from ..node import HostNode

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_PERL = {"d": "0-9", "s": r"\t\n\f\r ", "w": "0-9A-Za-z_"}
_PLAIN = {"a": r"\a", "f": r"\f", "n": r"\n", "r": r"\r", "t": r"\t", "v": r"\v"}
_WORD = "(?<![0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])"


def compiled(node: HostNode, pattern: str) -> re.Pattern[str]:
    """The pattern of a node; an error says what is wrong with it."""
    try:
        return _compiled(pattern)
    except (re.error, _PatternError, OverflowError) as error:
        raise node.error(f"pattern {pattern!r}: {error}") from None


class _PatternError(TilewrightError):
    pass


@lru_cache(64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_Translator(pattern).run())


@lru_cache(64)
def _category(name: str) -> str:
    """The members of a Unicode category, as ranges of a class."""
    ranges = _ranges(lambda c: unicodedata.category(c).startswith(name))
    if not ranges or name != name[:1].upper() + name[1:].lower():
        raise _PatternError(f"{name!r} is no category of Unicode; scripts are not supported")
    return ranges


def _ranges(wanted: Callable[[str], Any]) -> str:
    """The characters that are wanted, as ranges of a class."""
    spans: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if wanted(chr(code)):
            if spans and spans[-1][1] == code - 1:
                spans[-1][1] = code
            else:
                spans.append([code, code])
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in spans)


class _Translator:
    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.multi = self.dot_all = False
        self.out: list[str] = []
        self.flags: list[str] = []  # groups of Python's that flags of this group opened
        self.groups: list[tuple[bool, bool, list[str]]] = []  # the same of those around it
        self.repeats = False  # whether the last piece was a repetition

    def run(self) -> str:
        while self.at < len(self.text):
            repeats = self._piece()
            self.repeats = repeats
        if self.groups:
            raise _PatternError("missing )")
        return "".join(self.out) + ")" * len(self.flags)

    def _taken(self, pattern: str) -> re.Match[str] | None:
        """What stands here, if it is of this form; then it is left behind."""
        found = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def _piece(self) -> bool:
        """Translate the next piece; whether it was a repetition."""
        if found := self._taken(r"[*+?]|\{\d+(,\d*)?\}"):
            self._taken(r"\?")  # greedy or not
            if self.repeats:
                raise _PatternError(f"bad repetition operator at {found.start()}")
            if any(int(n) > 1000 for n in re.findall(r"\d+", found[0])):
                raise _PatternError(f"bad repetition operator {found[0]}: more than 1000 times")
            self.out.append(found[0])
            return True
        c = self.text[self.at]
        if c == "\\":
            self.out.append(self._escape(False))
        elif c == "[":
            self.out.append(self._class())
        elif c == "(":
            self._open()
        elif c == ")":
            self.at += 1
            if not self.groups:
                raise _PatternError("unexpected )")
            self.out.append(")" * (len(self.flags) + 1))
            self.multi, self.dot_all, self.flags = self.groups.pop()
        else:
            self.at += 1
            self.out.append(self._character(c))
        return False

    def _character(self, c: str) -> str:
        if c == ".":
            return r"[\s\S]" if self.dot_all else r"[^\n]"
        if c == "^":
            return r"(?:\A|(?<=\n))" if self.multi else r"\A"
        if c == "$":
            return r"(?=\n|\Z)" if self.multi else r"\Z"
        if c == "|":  # flags hold in what follows too
            return ")" * len(self.flags) + "|" + "".join(self.flags)
        return re.escape(c)

    def _open(self) -> None:
        if found := self._taken(r"\(\?P?<([A-Za-z_0-9]+)>"):
            self._enter(f"(?P<{found[1]}>" if found[1].isidentifier() else "(")
        elif found := self._taken(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])"):
            on, off = found[1], found[2] or ""
            opened = "(?-i:" if "i" in off else "(?i:" if "i" in on else "(?:"
            if found[3] == ":":
                self._enter(opened)
            else:
                self.flags.append(opened)
                self.out.append(opened)
            self.multi = (self.multi or "m" in on) and "m" not in off
            self.dot_all = (self.dot_all or "s" in on) and "s" not in off
        elif self.text.startswith("(?", self.at):
            raise _PatternError(f"invalid perl operator at {self.at}")
        else:
            self.at += 1
            self._enter("(")

    def _enter(self, opened: str) -> None:
        self.groups.append((self.multi, self.dot_all, self.flags))
        self.flags = []
        self.out.append(opened)

    def _escape(self, inside: bool) -> str:
        """An escape sequence, `inside` of a class or not."""
        if found := self._taken(r"\\Q(.*?)(\\E|\Z)"):
            return re.escape(found[1])
        if found := self._taken(r"\\([pP])(\{\^?\w+\}|\w)"):
            name = found[2].strip("{}")
            return _as_class(
                _category(name.lstrip("^")), (found[1] == "P") ^ (name[0] == "^"), inside
            )
        if found := self._taken(r"\\([dswDSW])"):
            return _as_class(_PERL[found[1].lower()], found[1].isupper(), inside)
        if found := self._taken(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))"):
            code = int(found[1] or found[2], 16)
            if code > sys.maxunicode:
                raise _PatternError(f"no character {found[0]}")
            return f"\\U{code:08x}"
        if found := self._taken(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})"):
            return f"\\U{int(found[1], 8):08x}"
        if found := self._taken(r"\\([afnrtv])"):
            return _PLAIN[found[1]]
        if not inside and (found := self._taken(r"\\([AzbB])")):
            word = {"b": f"(?:{_WORD})", "B": f"(?!{_WORD})"}
            return {"A": r"\A", "z": r"\Z", **word}[found[1]]
        if found := self._taken(r"\\([^0-9A-Za-z])"):
            return re.escape(found[1])
        raise _PatternError(f"invalid escape sequence {self.text[self.at : self.at + 2]}")

    def _class(self) -> str:
        found = self._taken(r"\[(\^?)")
        negated = found is not None and bool(found[1])
        parts: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise _PatternError("missing ]")
            if parts and self._taken(r"\]"):
                break
            if found := self._taken(r"\[:(\^?)(\w+):\]"):
                if found[2] not in _POSIX:
                    raise _PatternError(f"invalid character class {found[0]}")
                parts.append(_as_class(_POSIX[found[2]], bool(found[1]), True))
            elif self.text[self.at] == "\\":
                parts.append(self._escape(True))
            elif self.text[self.at] == "-" and parts and not self.text.startswith("-]", self.at):
                self.at += 1
                parts.append("-")
            else:
                parts.append(re.escape(self.text[self.at]))
                self.at += 1
        return f"[{'^' if negated else ''}{''.join(parts)}]"


def _as_class(ranges: str, negated: bool, inside: bool) -> str:
    """A class of these ranges, or what stands for it inside of another class."""
    if not inside:
        return f"[{'^' if negated else ''}{ranges}]"
    return _others(ranges) if negated else ranges


@lru_cache(64)
def _others(ranges: str) -> str:
    """The ranges of all other characters."""
    return _ranges(re.compile(f"[^{ranges}]").match)
