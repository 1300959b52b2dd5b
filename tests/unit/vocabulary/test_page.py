"""The page of the inventory is what its files say."""

from __future__ import annotations

from tilewright.vocabulary import read_entries
from tools.make_inventory import PAGE, page

LINES = [
    "build | same",
    "relay.* | absent | a|b, take c",
    "te.Stage.split | differs | slowly",
    "te.compute | same",
    "topi.nn.dense | same",
]


def test_the_page_is_up_to_date() -> None:
    from tilewright.vocabulary import inventory

    want = page(inventory().values())
    assert PAGE.read_text(encoding="utf-8") == want, "run: python -m tools.make_inventory"


def test_names_stand_by_module_with_counts() -> None:
    text = page(read_entries(LINES, "f.txt"))
    assert "| [tvm](#tvm) | 1 | 0 | 0 | 1 |" in text
    assert "| [tvm.te](#tvmte) | 1 | 1 | 0 | 2 |" in text
    assert "| [tvm.topi.nn](#tvmtopinn) | 1 | 0 | 0 | 1 |" in text
    assert "| all | 3 | 1 | 1 | 5 |" in text
    assert "| `te.Stage.split` | differs | slowly |" in text
    assert "| `relay.*` | absent | a\\|b, take c |" in text
