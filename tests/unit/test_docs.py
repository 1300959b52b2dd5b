"""The documentation's listings are what the programs beside them print; its pages build."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tilewright.base import errors
from tilewright.cli.main import main
from tools.make_listings import DOCS, PAIR, run_document
from tools.tutorials import cells, tutorials

ROOT = DOCS.parent
PAGES = sorted(p.name for p in DOCS.glob("*.md"))
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)[^)]*\)")


@pytest.mark.parametrize("page", PAGES)
def test_listings_are_up_to_date(page: str) -> None:
    text = (DOCS / page).read_text()
    assert run_document(text) == text, "run: python -m tools.make_listings"


@pytest.mark.parametrize("page", ["coming-from-tvm", "layout", "pipeline", "primitives"])
def test_the_programs_of_a_page_are_whole(page: str, tmp_path: Path) -> None:
    """Pasted one after the other they run, without names that the page does not say."""
    pasted = [found["code"] for found in PAIR.finditer((DOCS / f"{page}.md").read_text())]
    (tmp_path / "pasted.py").write_text("\n\n".join(pasted))
    done = subprocess.run(
        [sys.executable, "pasted.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_navigation() -> None:
    config = (DOCS.parent / "mkdocs.yml").read_text()
    made = [f"tutorials/{path.stem}.md" for path in tutorials()]
    assert [page for page in [*PAGES, *made] if f": {page}" not in config] == []


def test_a_stale_listing_is_noticed() -> None:
    stale = "```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n"
    assert run_document(stale) == stale.replace("41", "42")


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), *tutorials()],
    ids=lambda path: path.name,
)
def test_links_lead_to_files_of_the_clone(path: Path) -> None:
    text = path.read_text()
    if path.suffix == ".py":
        text = "\n\n".join(cell.source for cell in cells(text) if cell.markdown)
    links = LINK.findall(CODE.sub("", text))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_a_dead_link_is_noticed() -> None:
    text = "[a](gone.md#here), [b\nc](gone.py), [d](https://e.f/g), [h](#i), `x[0](y)`"
    assert LINK.findall(CODE.sub("", text)) == ["gone.md", "gone.py"]


def test_pages_build_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=DOCS.parent,
        env={**os.environ, "RUN_TUTORIALS": "false"},  # tests/exec/test_tutorials.py runs them
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "primitives" / "index.html").is_file()
    for path in tutorials():
        assert (tmp_path / "tutorials" / path.stem / "index.html").is_file()
    # what links name in a clone are programs; in the site they lead to what is made from them
    start = (tmp_path / "index.html").read_text()
    assert 'href="tutorials/01_first_schedule/"' in start
    assert '<a href="api/">API reference</a>' in start
    for html in (*tmp_path.glob("*/index.html"), *tmp_path.glob("tutorials/*/index.html")):
        programs = re.findall(r"<a [^>]*\.py\"[^>]*>", html.read_text())
        assert [link for link in programs if "download" not in link] == [], html


def test_every_class_of_error_is_produced_on_the_page_of_troubles() -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    classes = [name for name, value in vars(errors).items() if isinstance(value, type)]
    for name in (*classes, "SimtError"):
        assert f"\n{name}: " in sections[name], f"no program raises {name} in its section"


def test_the_page_of_the_installation_lists_every_extra() -> None:
    project = (DOCS.parent / "pyproject.toml").read_text()
    table = re.search(r"^\[project\.optional-dependencies\]\n(.*?)^\[", project, re.M | re.S)
    assert table is not None
    extras = re.findall(r"^(\w+) = \[", table[1], re.MULTILINE)
    rows = re.findall(r"^\|(.*?)\|", (DOCS / "install.md").read_text(), re.MULTILINE)
    listed = re.findall(r"'\.\[(\w+)\]'", "".join(rows))
    assert len(extras) > 5
    assert sorted(listed) == sorted(extras)


def commands(group: click.Group, name: str = "tilewright") -> Iterator[tuple[str, click.Command]]:
    """Every command by its whole name, those of groups among them."""
    for inner, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {inner}")
        else:
            yield f"{name} {inner}", command


def usages(text: str) -> dict[str, str]:
    """What the page of the command line says may stand behind each command, by its name."""
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    found: dict[str, str] = {}
    for usage in re.split(r"^(?=tilewright )", blocks, flags=re.MULTILINE)[1:]:
        named = re.match(r"tilewright( [a-z]+)+(?= |$)", usage)
        assert named is not None
        found[named[0]] = found.get(named[0], "") + usage
    return found


def test_the_page_of_the_command_line_has_every_option_and_choice() -> None:
    found = usages((DOCS / "cli.md").read_text())
    missing, unknown = [], []
    for name, command in commands(main):
        usage = found.pop(name, "")
        words = re.findall(r"(?<![\w-])--?[a-z][\w-]*", usage)
        options = [p for p in command.params if isinstance(p, click.Option)]
        for option in options:
            if option.opts[0] not in words:
                missing.append(f"{name} {option.opts[0]}")
            if isinstance(option.type, click.Choice) and not all(
                re.search(rf"\b{choice}\b", usage) for choice in option.type.choices
            ):
                missing.append(f"{name} {option.opts[0]} {option.type.choices}")
        known = {spelling for option in options for spelling in option.opts}
        unknown += [f"{name} {word}" for word in words if word not in known]
    assert (missing, unknown, list(found)) == ([], [], [])
