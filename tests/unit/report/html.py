"""Reads pages with Python's parser of HTML."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from tilewright.report.page import unpacked

VOID = frozenset(("meta", "br", "img", "input", "link", "hr"))


class Parsed(HTMLParser):
    """A page: elements as (tag, attributes), texts of scripts by id, cells of tables by section.

    `errors`: tags that are not closed where they should be."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.errors: list[str] = []
        self.text: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        self.errors += [f"{tag} is never closed" for tag, _ in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag not in VOID:
            self._open.append((tag, found))
        if tag == "tr":
            self._rows().append([])
        elif tag in ("td", "th"):
            self._rows()[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        tag, attrs = self._open[-1] if self._open else ("", {})
        if tag == "script" and attrs.get("id"):
            self.scripts[str(attrs["id"])] = data
        elif tag in ("td", "th"):
            self._rows()[-1][-1] += data
        elif tag not in ("script", "style"):
            self.text.append(data)

    def _rows(self) -> list[list[str]]:
        sections = [str(a.get("id")) for t, a in self._open if t == "section"]
        return self.tables.setdefault(sections[-1] if sections else "", [])

    @property
    def data(self) -> Any:
        """What the page's scripts read."""
        return json.loads(self.scripts["data"])

    @property
    def kernels(self) -> list[Any]:
        """The kernels, unpacked."""
        names = [name for name in self.scripts if name.startswith("blob-")]
        return [unpacked(self.scripts[name]) for name in names]
