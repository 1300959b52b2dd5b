"""The reference: a page for each public module, with signature, text and source of each name.

Pages are made from the modules themselves when the documentation is built (tools/docs_hooks.py).
Faces (base/face.py) resolve their names when used, which readers of source text cannot follow; here
they are imported. A name that an earlier page has is described there, and only linked.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tilewright
from tilewright.base.face import FACES
from tools.api_types import types_of

PACKAGE = "tilewright"
ROOT = Path(tilewright.__file__).resolve().parent
WIDTH = 96
NAMES_ONLY = ("te", "tir", "ir", "runtime", "autotvm", "contrib", "script", "relay")
"""Packages that hold names only: every module below them is public."""
HIDDEN = ("_ffi", "interp")
EXTRA = ("interp.simt",)
NO_TEXT = "Nothing is said of it."


@dataclass(frozen=True)
class Entry:
    """A public name of a module."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def modules() -> list[str]:
    """The public modules, parents before children."""
    found: list[str] = []

    def visit(name: str) -> None:
        if name in found:
            return
        home = import_module(name)
        found.append(name)
        inner = name.removeprefix(f"{PACKAGE}.")
        children = list(FACES[name].modules) if name in FACES else []
        if inner.split(".")[0] in NAMES_ONLY and hasattr(home, "__path__"):
            children += [module.name for module in pkgutil.iter_modules(home.__path__)]
        for child in sorted(set(children)):
            if not child.startswith("_") and f"{inner}.{child}" not in HIDDEN:
                if name == PACKAGE and child in HIDDEN:
                    continue
                visit(f"{name}.{child}")

    visit(PACKAGE)
    for extra in EXTRA:
        visit(f"{PACKAGE}.{extra}")
    return found


def entries(module: str) -> list[Entry]:
    """The public names of a module that are no modules."""
    home = import_module(module)
    if module in FACES:
        names = [n for n in FACES[module].names() if n not in FACES[module].modules]
    else:
        names = list(getattr(home, "__all__", None) or _declared(home))
    found = [Entry(module, name, getattr(home, name)) for name in names]
    return [entry for entry in found if not isinstance(entry.value, ModuleType)]


def _declared(home: ModuleType) -> list[str]:
    """What a module without `__all__` offers: what it defines, and what it imports as itself.

    A package offers whatever of tilewright it imports.
    """
    if home.__file__ is None:
        return []
    path = Path(home.__file__)
    names: list[str] = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.ImportFrom):
            whole = path.name == "__init__.py" and (node.level or 0) > 0
            names += [a.asname or a.name for a in node.names if whole or a.asname == a.name]
    public = [name for name in names if not name.startswith("_") and hasattr(home, name)]
    return [name for name in dict.fromkeys(public) if not _foreign(getattr(home, name))]


def _foreign(value: Any) -> bool:
    """Aliases of types, which stand in modules for annotations only, and what others define."""
    return not str(getattr(value, "__module__", PACKAGE)).startswith(PACKAGE)


def page_of(module: str) -> str:
    """Where the page of a module lies, below docs/."""
    inner = module.removeprefix(PACKAGE).lstrip(".")
    return f"api/{inner.replace('.', '/') if inner else 'tilewright'}.md"


def pages() -> dict[str, str]:
    """All pages by their places below docs/, the index among them."""
    homes: dict[int, Entry] = {}
    kept: list[Any] = []  # so that identities stay theirs
    made = {}
    for module in modules():
        made[page_of(module)] = _page(module, homes, kept)
    made["api/index.md"] = _index()
    return made


def _index() -> str:
    rows = []
    for module in modules():
        home = import_module(module)
        link = page_of(module).removeprefix("api/")
        rows.append(f"| [{module}]({link}) | {_escape(_first_sentence(home))} |")
    return (
        "# API reference\n\nFor programmers who know what they look for: every public name, with "
        "its signature, what it does, and where it is defined. In examples `tvm` is "
        "`import tilewright as tvm`.\n\n| module | what it holds |\n| --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    )


def _page(module: str, homes: dict[int, Entry], kept: list[Any]) -> str:
    home = import_module(module)
    blocks = [f"# {module}", f"For programmers: the public names of `{module}`.", text_of(home)]
    groups: dict[str, list[str]] = {"Classes": [], "Functions": [], "Values": []}
    for entry in sorted(entries(module), key=lambda e: e.name.lower()):
        known = homes.get(id(entry.value))
        if known is not None and not isinstance(entry.value, (str, int, float, bool)):
            link = _link(module, known)
            block = f"### {entry.name} {{ #{entry.path} }}\n\nThe same as {link}."
        else:
            homes[id(entry.value)] = entry
            kept.append(entry.value)
            block = _entry(entry)
        groups[_kind(entry.value)].append(block)
    for title, described in groups.items():
        if described:
            blocks += [f"## {title}", *described]
    return "\n\n".join(blocks) + "\n"


def _link(module: str, known: Entry) -> str:
    here, there = page_of(module), page_of(known.module)
    up = "../" * (here.count("/") - 1)
    place = up + there.removeprefix("api/") if here != there else ""
    return f"[{known.path}]({place}#{known.path})"


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return "Classes"
    return "Functions" if callable(value) else "Values"


def _entry(entry: Entry) -> str:
    value = entry.value
    head = f"### {entry.name} {{ #{entry.path} }}"
    if _kind(value) == "Values":
        shown = repr(value)
        return f"{head}\n\n```python\n{entry.name} = {shown[:200]}\n```"
    typed = types_of(entry.module, value)
    blocks = [head, _signature(entry.name, value), text_of(value), typed, _source(value)]
    if isinstance(value, type):
        blocks += _members(entry)
    return "\n\n".join(block for block in blocks if block)


def _members(entry: Entry) -> Iterator[str]:
    """The methods and properties that a class defines, and the names of inherited ones."""
    cls = entry.value
    for name, own in vars(cls).items():
        if not name.startswith("_") and _member(own):
            call = getattr(own, "__func__", own)
            head = f"#### {entry.name}.{name} {{ #{entry.path}.{name} }}"
            shown = _attribute(name, own) or _signature(name, call)
            text = text_of(getattr(cls, name))
            yield "\n\n".join(block for block in (head, shown, text) if block not in ("", NO_TEXT))
    for base in cls.__mro__[1:]:
        names = [n for n, own in vars(base).items() if not n.startswith("_") and _member(own)]
        if names and base.__module__.startswith(PACKAGE):
            listed = ", ".join(f"`{name}`" for name in names)
            yield f"From `{base.__name__}`: {listed}."


def _attribute(name: str, own: Any) -> str:
    """The type of a property."""
    if not isinstance(own, property) or own.fget is None:
        return ""
    given = own.fget.__annotations__.get("return", Any)
    return f"```python\n{name}: {_typed(_plain(given))}\n```"


def _member(own: Any) -> bool:
    return isinstance(own, (property, classmethod, staticmethod)) or inspect.isfunction(own)


class _Raw:
    """An annotation that is written as it stands in the source."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain(annotation: Any) -> Any:
    return _Raw(annotation) if isinstance(annotation, str) else annotation


def _signature(name: str, value: Any) -> str:
    """`def` or `class` with the parameters, one a line where they do not fit in one."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=_plain(p.annotation)) for p in signature.parameters.values()]
    gives = "" if isinstance(value, type) else _plain(signature.return_annotation)
    after = f" -> {_typed(gives)}" if gives not in ("", inspect.Signature.empty) else ""
    word = "class" if isinstance(value, type) else "def"
    parts = list(_parameters(parameters))
    whole = f"{word} {name}({', '.join(parts)}){after}"
    if len(whole) > WIDTH:
        inner = "".join(f"    {part},\n" for part in parts)
        whole = f"{word} {name}(\n{inner}){after}"
    return f"```python\n{whole}\n```"


def _typed(annotation: Any) -> str:
    return (
        repr(annotation) if isinstance(annotation, _Raw) else inspect.formatannotation(annotation)
    )


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    for k, parameter in enumerate(parameters):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        yield re.sub(r"<(?:function|class|object) ?'?([\w.]*).*?>", r"\1", str(parameter))
        last = k + 1 == len(parameters) or parameters[k + 1].kind is not parameter.kind
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and last:
            yield "/"


def _source(value: Any) -> str:
    try:
        file = inspect.getsourcefile(inspect.unwrap(value))
        line = inspect.getsourcelines(inspect.unwrap(value))[1]
    except (OSError, TypeError):
        return ""
    if file is None or not Path(file).is_relative_to(ROOT):
        return ""
    return f"*Source: {Path(file).relative_to(ROOT)}, line {line}*"


def text_of(value: Any) -> str:
    """A docstring as Markdown: paragraphs, lists, and what is indented or drawn as listings."""
    doc = inspect.getdoc(value)
    if isinstance(value, type) and not vars(value).get("__doc__"):
        doc = next((inspect.cleandoc(c.__doc__) for c in value.__mro__ if c.__doc__), doc)
    if not doc:
        return NO_TEXT
    blocks = []
    for block in re.split(r"\n\s*\n", doc):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines):
            blocks.append("```text\n" + inspect.cleandoc("\n" + block) + "\n```")
        elif len(lines) > 1 and all(line.startswith(" ") for line in lines[1:]):
            head, *rest = lines
            if head.endswith(":"):
                listing = inspect.cleandoc("\n".join(["", *rest]))
                blocks.append(f"{_escape(head)}\n\n```text\n{listing}\n```")
            else:
                blocks.append(_escape(" ".join(line.strip() for line in lines)))
        else:
            blocks.append("\n".join(_escape(line) for line in lines))
    return "\n\n".join(blocks)


def _first_sentence(value: Any) -> str:
    doc = " ".join((inspect.getdoc(value) or NO_TEXT).split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", doc)[0].replace("|", "/")


def _escape(text: str) -> str:
    """Text in which only code between backticks is markup."""
    parts = re.split(r"(``.+?``|`[^`]*`)", text)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"([\\*_\[\]<>#])", r"\\\1", parts[k])
    return "".join(parts)
