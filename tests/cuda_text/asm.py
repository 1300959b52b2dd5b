"""asm statements of CUDA source as calls of ptx.h's functions."""

from __future__ import annotations

import re

_STATEMENT = re.compile(r"\basm(?: volatile)?\((?P<inside>.*?)\);", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MMA = re.compile(
    r"mma\.sync\.aligned\.m(\d+)n8k(\d+)\.row\.col(?:\.satfinite)?\.(\w+)\.(\w+)\.(\w+)\.\w+ "
)
_MATRICES = re.compile(
    r"ldmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.shared\.b16 .*\[%\d+\+(-?\d+)"
)
_PLAIN = re.compile(r"((?:cvt|ex2|min|max|add|sub|mul|fma)\.[\w.]+) [%\d, ]+;")
_SUMS = {"f32": "float", "s32": "unsigned int"}
_NOTHING = ("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")


def without_asm(text: str) -> str:
    """CUDA source with calls in the place of asm statements."""
    return _STATEMENT.sub(lambda found: _call(found["inside"]), text)


def _call(inside: str) -> str:
    """A block that does what one statement says."""
    first, *groups = _apart(inside, ":")
    text = " ".join("".join(_STRING.findall(first)).replace("\\n", " ").split())
    given = [x for group in groups[:2] for x in _apart(group, ",") if x.strip()]
    operands = [re.sub(r'^\s*"[^"]*"\s*', "", x).strip() for x in given]
    operands = [x[1:-1] for x in operands]
    if text.startswith(_NOTHING):
        return ";"
    if "cp.async.c" in text:
        return f"ptx::cp_async({', '.join(operands)});"
    found = _MATRICES.match(text)
    if found:
        count = int(found[1])
        results = " ".join(f"{operands[n]} = tw_r[{n}];" for n in range(count))
        how = f"{count}, {'true' if found[2] else 'false'}"
        return (
            f"{{ unsigned int tw_r[{count}]; ptx::ldmatrix<{how}>(tw_r, {operands[count]}, "
            f"{found[3]}); {results} }}"
        )
    found = _MMA.match(text)
    if found:
        return _product(found, text, operands)
    found = _PLAIN.fullmatch(text)
    if not found:
        raise NotImplementedError(f"no C++ stands for the instruction {text!r}")
    return f"ptx::{found[1].replace('.', '_')}({', '.join(operands)});"


def _product(found: re.Match[str], text: str, operands: list[str]) -> str:
    rows, steps, sums, a, b = found.groups()
    if sums not in _SUMS:
        raise NotImplementedError(f"no C++ stands for sums of {sums} in {text!r}")
    groups = [[int(n) for n in re.findall(r"%(\d+)", g)] for g in re.findall(r"\{(.*?)\}", text)]
    d, x, y = ([operands[n] for n in group] for group in groups[:3])
    places = ", ".join(f"&({v})" for v in d)
    return (
        f"{{ {_SUMS[sums]}* tw_d[] = {{{places}}}; unsigned int tw_a[] = {{{', '.join(x)}}}, "
        f"tw_b[] = {{{', '.join(y)}}}; ptx::mma<{rows}, {steps}, ptx::{a}, ptx::{b}>("
        f"tw_d, tw_a, {len(x)}, tw_b, {len(y)}); }}"
    )


def _apart(text: str, by: str) -> list[str]:
    """The parts between separators that stand in no string and in no brackets; `::` are two."""
    parts, start, depth, quoted = [], 0, 0, False
    for k, c in enumerate(text):
        if c == '"' and text[k - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (c in "([{") - (c in ")]}")
            if c == by and not depth:
                parts.append(text[start:k])
                start = k + 1
    return [*parts, text[start:]]
