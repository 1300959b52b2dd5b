"""The inventory: every name is marked, every mark is true of what is there, the files are tidy."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tilewright.vocabulary import Entry, InventoryError, find, inventory, read_entries, refusal
from tilewright.vocabulary.entries import files
from tilewright.vocabulary.verdict import has_field

FILES = files()


def entries(path: Path) -> list[Entry]:
    return read_entries(path.read_text(encoding="utf-8").splitlines(), path.name)


def resolve(name: str) -> Any:
    """What ``tilewright.NAME`` is: the longest module, then attributes; else an error."""
    value: Any = import_module("tilewright")
    path = "tilewright"
    parts = name.split(".")
    for n, part in enumerate(parts):
        path += f".{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            if inspect.ismodule(value):
                value = import_module(path)
            elif n == len(parts) - 1 and inspect.isclass(value) and has_field(value, part):
                return None
            else:
                raise
    return value


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_what_is_said_to_be_there_is_there(path: Path) -> None:
    missing = []
    for entry in entries(path):
        if entry.mark == "absent" or entry.is_module:
            continue
        try:
            resolve(entry.name)
        except (AttributeError, ImportError) as error:
            missing.append(f"{entry.place}: {entry.name}: {error}")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_absent_names_are_absent(path: Path) -> None:
    """A name that works may not be marked absent: that entry was forgotten."""
    found = []
    for entry in entries(path):
        if entry.mark != "absent":
            continue
        try:
            value = resolve(entry.name.removesuffix(".*"))
        except Exception:  # of a refusal: any error of ours
            continue
        if not callable(value):  # what refuses when it is called may stand there
            found.append(f"{entry.place}: {entry.name} is there")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_absent_names_say_why(path: Path) -> None:
    bare = [e.place for e in entries(path) if e.mark == "absent" and len(e.note.split()) < 3]
    assert not bare


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_files_are_sorted(path: Path) -> None:
    names = [e.name for e in entries(path)]
    assert names == sorted(names)


def test_no_name_stands_twice() -> None:
    seen: dict[str, str] = {}
    twice = []
    for path in FILES:
        for entry in entries(path):
            if entry.name in seen:
                twice.append(f"{entry.place} and {seen[entry.name]}: {entry.name}")
            seen[entry.name] = entry.place
    assert not twice, "\n".join(twice)


def test_names_are_names() -> None:
    for name in inventory():
        assert not name.startswith("tvm."), name
        assert all(p.isidentifier() for p in name.removesuffix(".*").split(".")), name


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("te.compute", "f.txt:2: expected 'NAME | same'"),
        ("te.compute | equal", "f.txt:2: expected 'NAME | same'"),
        ("te.compute | differs", "'differs' needs a reason"),
        ("te.compute | same | but", "nothing follows 'same'"),
    ],
)
def test_a_line_of_another_format_is_refused(line: str, message: str) -> None:
    with pytest.raises(InventoryError) as caught:
        read_entries(["# names", line], "f.txt")
    assert message in str(caught.value)


def test_lines_are_read() -> None:
    lines = ["# x", "", "te.a | same", "te.b | differs | by | one", "m.* | absent | no such thing"]
    first, second, third = read_entries(lines, "f.txt")
    assert first == Entry("te.a", "same", "", "f.txt:3")
    assert (second.note, third.is_module) == ("by | one", True)


def test_modules_that_are_absent_whole_are_found() -> None:
    for name in ("relay", "tvm.relay", "relay.frontend.from_onnx"):
        entry = find(name)
        assert entry is not None and entry.mark == "absent" and "onnx" in entry.note.lower()
    assert find("relayed") is None and find("te.no_such_name") is None


def test_a_refusal_says_what_instead() -> None:
    text = refusal("tvm.relay.frontend")
    assert text.startswith("tvm.relay.frontend is not in tilewright: ") and "onnx" in text.lower()
    assert refusal("te.no_such_name") == ""
