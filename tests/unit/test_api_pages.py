"""The reference has every public name, with signature and text; what it makes of docstrings."""

from __future__ import annotations

import re

import pytest

from tilewright import te
from tilewright.base.face import FACES
from tools import api_pages
from tools.api_pages import NO_TEXT, Entry, entries, modules, pages, text_of
from tools.api_types import types_of


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def test_every_face_and_every_name_has_its_place(made: dict[str, str]) -> None:
    assert set(FACES) <= {*modules(), "tilewright.interp", "tilewright._ffi"} | {
        name for name in FACES if "._" in name
    }
    for module in modules():
        page = made[api_pages.page_of(module)]
        for entry in entries(module):
            assert f"### {entry.name} {{ #{entry.path} }}" in page


def test_every_public_name_says_what_it_does() -> None:
    silent = [
        entry.path
        for module in modules()
        for entry in entries(module)
        if callable(entry.value) and text_of(entry.value) == NO_TEXT
    ]
    assert silent == [], f"public names without a docstring: {', '.join(silent)}"
    assert [
        name for name in modules() if text_of(__import__(name, fromlist=["x"])) == NO_TEXT
    ] == []


def test_a_name_is_described_once_and_linked_elsewhere(made: dict[str, str]) -> None:
    assert "```python\ndef create_schedule(" in made["api/tilewright.md"]
    (link,) = re.findall(r"### create_schedule .*\n\n(.*)", made["api/te.md"])
    assert (
        link
        == "The same as [tilewright.create_schedule](tilewright.md#tilewright.create_schedule)."
    )


def test_signature_text_and_source_of_a_function() -> None:
    shown = api_pages._entry(Entry("tilewright.te", "placeholder", te.placeholder))
    assert re.search(r"```python\ndef placeholder\([^']*shape", shown)
    assert "*Source: tensor/compute.py, line " in shown
    assert "'" not in shown.split("```")[1].replace("'float32'", "").replace("'placeholder'", "")


class Documented:
    """A class.

    Words with *stars*, a_b_c, and `code_with_lines`; this paragraph
        goes on indented.

    before and after:
        for i in range(3):
            pass

        x = 1
    """

    @property
    def size(self) -> int:
        """How many."""
        return 3

    def grow(self, by: int = 1, *, twice: bool = False) -> Documented:
        """Larger."""
        return self

    def _own(self) -> None: ...


def test_what_becomes_of_docstrings() -> None:
    text = text_of(Documented)
    assert text.startswith("A class.\n\nWords with \\*stars\\*, a\\_b\\_c, and `code_with_lines`;")
    assert "before and after:\n\n```text\nfor i in range(3):\n    pass\n```" in text
    assert "```text\nx = 1\n```" in text


def test_members_of_a_class() -> None:
    size, grow = api_pages._members(Entry("m", "Documented", Documented))
    assert size == (
        "#### Documented.size { #m.Documented.size }\n\n```python\nsize: int\n```\n\nHow many."
    )
    assert "def grow(self, by: int = 1, *, twice: bool = False) -> Documented\n" in grow


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        (
            "tilewright.topi",
            "isnan",
            "float16, float32, float64, int8, int32, uint8 give bool; bool gives the same type",
        ),
        ("tilewright.topi", "isnan", "shape (2, 3) gives (2, 3)"),
        ("tilewright.topi", "argmax", "float64, int8, uint8, bool give int32"),
        ("tilewright.topi", "left_shift", "refused: float16, float32, float64"),
        (
            "tilewright.te",
            "exp",
            "float16, float32, float64, int8, int32, uint8, bool give the same type",
        ),
        ("tilewright.tir", "floordiv", "the same type"),
        ("tilewright.topi.nn", "softmax", "shape (2, 3) gives (2, 3)"),
    ],
)
def test_types_are_those_that_a_function_gives(module: str, name: str, text: str) -> None:
    (entry,) = [e for e in entries(module) if e.name == name]
    assert text in types_of(module, entry.value)


def test_most_functions_of_operands_say_their_types(made: dict[str, str]) -> None:
    assert made["api/topi.md"].count("*Types") > 100
    assert sum(page.count("*Types") for page in made.values()) > 220
    shown = api_pages._entry(Entry("tilewright.te", "placeholder", te.placeholder))
    assert "*Types" not in shown, "it takes no operands"
