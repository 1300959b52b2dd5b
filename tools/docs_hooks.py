"""What `mkdocs build` makes beside the pages of docs/: tutorials with their outputs, the reference.

A clone has neither as pages; its links lead to what stands for them there, and those of the site to
the pages.

`RUN_TUTORIALS=false mkdocs build` leaves the tutorials unrun, which takes seconds.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import api_pages, tutorials

# a link to the program of a tutorial, unless it is for downloading it
PROGRAM = re.compile(r"(\]\((?:tutorials/)?\d\d_\w+)\.py(#[^)\s]*)?\)(?!\{)")
REFERENCE = "](install.md#these-pages-as-a-site)", "](api/index.md)"


def on_config(config: Any) -> Any:
    """Put the pages of the reference into the navigation, as modules lie in each other."""
    config.nav.append({"API": ["api/index.md", *_nested("tilewright", api_pages.modules())]})
    return config


def _nested(parent: str, names: list[str]) -> list[Any]:
    """Entries of the modules below one: a page, or a page with the pages below it."""
    made: list[Any] = []
    if parent == "tilewright":
        made.append({"tilewright": api_pages.page_of(parent)})
    for name in names:
        inner = name.removeprefix(f"{parent}.")
        if not name.startswith(f"{parent}.") or any(
            name != other and name.startswith(f"{other}.") and other != parent
            for other in names
            if other.startswith(f"{parent}.")
        ):
            continue
        below = _nested(name, names)
        page = api_pages.page_of(name)
        made.append({inner: [{name.removeprefix("tilewright."): page}, *below] if below else page})
    return made


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from programs."""
    run = bool(config.extra.get("run_tutorials", True))
    for path in tutorials.tutorials():
        page, notebook = tutorials.rendered(path, run)
        _add(files, config, f"tutorials/{path.stem}.md", page)
        if notebook:
            _add(files, config, f"tutorials/{path.stem}.ipynb", notebook)
    for place, page in api_pages.pages().items():
        _add(files, config, place, page)
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to programs and to how the reference is made lead to the pages made from them."""
    return PROGRAM.sub(r"\1.md\2)", markdown.replace(*REFERENCE))


def _add(files: Files, config: Any, place: str, content: str) -> None:
    files.append(File.generated(config, place, content=content))
