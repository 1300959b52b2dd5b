"""Which operators say of which shape and type what they give is, and what they take.

An operator is a public function of topi, te or nd (or of the modules below topi that MODULES names)
that gives a tensor, an array, or several. Its docstring, or that of what it refers to ("as
`X`"), tells a shape where it names extents, `(N, C, H, W)`, or says whose shape it is; and a type
where it names one, or says whose it is.

`python -m tools.api_shapes` lists those that say too little.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tools.api_pages import PACKAGE, entries

MODULES = (
    "topi", "topi.nn", "topi.image", "topi.vision", "topi.random", "topi.sparse", "topi.scan",
    "topi.reduction", "topi.math", "te", "nd", "runtime",
)  # fmt: skip
SHAPE = (
    r"\((?:[\w*. +^/-]+, ?)+[\w*. +^/-]*\)|\bshapes?\b|\bscalar\b|\belement by element\b"
    r"|\bextents?\b|\beach element\b|\bdimensions?\b|\bbroadcast\b|\bmatri(?:x|ces)\b"
)
DTYPE = (
    r"\btypes?\b|dtype|\bfloats?\b|\bint(?:egers?|8|16|32|64)\b|\buint\d+|\bfloat\d+"
    r"|\bbool(?:eans?)?\b"
)
REFERENCE = r"\b(?:[Aa]s|[Ll]ike|[Ss]ee)\b(?: of| in| for)? `?(?:topi\.|nn\.)?([A-Za-z_]\w+)`?"


class Lack(NamedTuple):
    """An operator, and what it does not say: "shape" or "dtype"."""

    path: str
    what: str


def operators() -> Iterator[tuple[str, Any]]:
    """Each once, under the first of its names."""
    seen: set[int] = set()
    for module in MODULES:
        for entry in entries(f"{PACKAGE}.{module}"):
            value = entry.value
            if (
                not inspect.isfunction(value)
                or id(value) in seen
                or entry.name.startswith("schedule")
            ):
                continue
            seen.add(id(value))
            given = str(value.__annotations__.get("return", ""))
            made = re.search(r"\b(?:Tensor|NDArray)\b", given)
            if made or (given == "Any" and _takes_tensors(value)):
                yield entry.path, value


def _takes_tensors(value: Any) -> bool:
    return any("Tensor" in str(p.annotation) for p in inspect.signature(value).parameters.values())


def texts(value: Any) -> Iterator[str]:
    """The docstring, and those of operators that it refers to."""
    doc = " ".join((inspect.getdoc(value) or "").split())
    yield re.sub(r"\bRaises? .*?(?:\.(?= |$))", "", doc)
    for name in re.findall(REFERENCE, doc):
        other = getattr(value, "__globals__", {}).get(name)
        if inspect.isfunction(other) and other is not value:
            yield inspect.getdoc(other) or ""


def lacking() -> list[Lack]:
    """What is not said."""
    return [lack for path, value in operators() for lack in lacks(path, value)]


def lacks(path: str, value: Any) -> Iterator[Lack]:
    """What one operator does not say."""
    said = list(texts(value))
    for what, pattern in (("shape", SHAPE), ("dtype", DTYPE)):
        if not any(re.search(pattern, text, re.IGNORECASE) for text in said):
            yield Lack(path, what)


def main() -> None:
    """Print it."""
    for one in lacking():
        print(*one, sep=" | ")


if __name__ == "__main__":
    main()
