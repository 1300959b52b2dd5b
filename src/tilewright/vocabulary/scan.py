"""Which names of TVM's a Python program uses, from its syntax tree: nothing is run."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .entries import inventory
from .evident import ATTRIBUTES, ELSEWHERE, ITEMS, called


class UnreadableError(ValueError):
    """A file is no Python program or notebook; the text says why."""


@dataclass(frozen=True)
class Use:
    """One use of a name: without the leading ``tvm.``, "" being tvm itself; where it stands.

    place: file:line, of a notebook file:cell N:line.
    """

    name: str
    place: str


@dataclass(frozen=True)
class _Known:
    """What an expression is: a name of TVM's, an object of the class of that name, or what such an
    object has under that name, of which no more is known."""

    path: str
    is_object: bool = False
    is_member: bool = False


_Value = _Known | tuple["_Value", ...] | None


def scan_file(path: Path) -> list[Use]:
    """The uses in a file (.py, .ipynb), in the order of lines; UnreadableError, OSError."""
    text = path.read_bytes()
    uses: list[Use] = []
    if path.suffix == ".ipynb":
        scan = _Scan()
        cells = [(f"{path}:cell {n}", source) for n, source in _cells(text)]
        trees = [(where, _parse(source, where)) for where, source in cells]
        for _, tree in trees:
            scan.begin(tree)
        for where, tree in trees:
            uses += [Use(name, f"{where}:{line}") for name, line in scan.read(tree)]
        return uses
    tree = _parse(text, str(path))
    scan = _Scan()
    scan.begin(tree)
    return [Use(name, f"{path}:{line}") for name, line in scan.read(tree)]


def scan_text(text: str) -> list[tuple[str, int]]:
    """The names that a program uses, with their lines."""
    tree = _parse(text, "<text>")
    scan = _Scan()
    scan.begin(tree)
    return scan.read(tree)


def _parse(text: str | bytes, where: str) -> ast.Module:
    try:
        return ast.parse(text, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        said = getattr(error, "msg", None) or str(error)
        raise UnreadableError(f"{where}{f':{line}' if line else ''}: {said}") from None


def _cells(text: bytes) -> Iterator[tuple[int, str]]:
    """The code cells of a notebook, with their numbers; lines that are IPython's are left empty."""
    try:
        notebook = json.loads(text)
        cells = notebook["cells"]
        for number, cell in enumerate(cells, 1):
            if cell["cell_type"] == "code":
                source = cell["source"]
                whole = source if isinstance(source, str) else "".join(source)
                if not whole.lstrip().startswith("%%"):
                    yield number, "\n".join(map(_without_magic, whole.split("\n")))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableError(f"it is no notebook: {type(error).__name__}: {error}") from None


def _without_magic(line: str) -> str:
    bare = line.lstrip()
    if bare.startswith(("%", "!", "?")) or bare.rstrip().endswith("?"):
        return line[: len(line) - len(bare)] + "pass"
    return line


class _Scan(ast.NodeVisitor):
    """Follows names through a program, scope by scope; of branches the last one counts."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, _Value]] = [{}]
        self.stars: list[str] = []
        self.found: list[tuple[str, int]] = []

    def begin(self, tree: ast.Module) -> None:
        """Know what the program imports, wherever a function uses it."""
        for node in _outside_functions(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._bind_import(node)

    def read(self, tree: ast.Module) -> list[tuple[str, int]]:
        """The uses of one tree, with lines, in their order."""
        self.found = []
        try:
            self.visit(tree)
        except RecursionError:
            raise UnreadableError("its expressions are nested too deeply") from None
        return sorted(dict.fromkeys(self.found), key=lambda use: use[1])

    # -- names

    def _set(self, key: str, value: _Value) -> None:
        scope = self.scopes[0] if key.startswith("self.") else self.scopes[-1]
        scope[key] = value

    def _get(self, key: str) -> _Value:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        for home in self.stars:
            path = f"{home}.{key}" if home else key
            if path in inventory():
                return _Known(path)
        return None

    def _use(self, path: str, node: ast.AST) -> None:
        self.found.append((path, getattr(node, "lineno", 0)))

    def _bind_import(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        """Bind what an import binds; the paths that it names."""
        paths = []
        if isinstance(node, ast.Import):
            for alias in node.names:
                first, _, rest = alias.name.partition(".")
                if first != "tvm":
                    self._set(alias.asname or first, None)
                    continue
                paths.append(rest)
                self._set(alias.asname or "tvm", _Known(rest if alias.asname else ""))
            return paths
        first, _, home = (node.module or "").partition(".")
        for alias in node.names:
            if first != "tvm" or node.level:
                self._set(alias.asname or alias.name, None)
            elif alias.name == "*":
                self.stars.append(home)
                paths.append(home)
            else:
                path = f"{home}.{alias.name}" if home else alias.name
                paths.append(path)
                self._set(alias.asname or alias.name, _Known(path))
        return paths

    def visit_Import(self, node: ast.Import) -> None:
        for path in self._bind_import(node):
            self._use(path, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for path in self._bind_import(node):
            self._use(path, node)

    # -- expressions

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            self.value(node)
        else:
            super().visit(node)

    def value(self, node: ast.expr) -> _Value:
        """What an expression is; its uses are noted."""
        if isinstance(node, ast.Name):
            found = self._get(node.id)
            bare = isinstance(found, _Known) and not (found.is_object or found.is_member)
            if isinstance(found, _Known) and bare and found.path:
                self._use(found.path, node)
            return found
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            result = self._called(self.value(node.func))
            for part in (*node.args, *(k.value for k in node.keywords)):
                self.value(part)
            return result
        if isinstance(node, ast.Subscript):
            owner = self.value(node.value)
            self.value(node.slice)
            if isinstance(owner, tuple):
                return owner[0] if len({*owner}) == 1 else None
            item = ITEMS.get(owner.path) if owner and owner.is_object else None
            return _Known(item, True) if item else None
        if isinstance(node, ast.BinOp):  # sums may be long, and are nested as deep
            while isinstance(node, ast.BinOp):
                self.value(node.right)
                node = node.left
            self.value(node)
            return None
        if isinstance(node, ast.Tuple):
            return tuple(self.value(part) for part in node.elts)
        if isinstance(node, ast.NamedExpr):
            value = self.value(node.value)
            self._set(node.target.id, value)
            return value
        if isinstance(node, ast.Lambda):
            self._function(node.args, [node.body])
            return None
        self.generic_visit(node)
        return None

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.value(node.iter)
        self._assign(node.target, None)
        for test in node.ifs:
            self.value(test)

    def generic_visit(self, node: ast.AST) -> None:
        """As usual, but the loops of a comprehension come before its element."""
        loops = getattr(node, "generators", [])
        for loop in loops:
            self.visit(loop)
        for name, value in ast.iter_fields(node):
            if name == "generators":
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    self.visit(part)

    def _attribute(self, node: ast.Attribute) -> _Value:
        key = _dotted(node)
        if key is not None:
            kept = self._get(key)
            if kept is not None:
                return kept
        mark = len(self.found)
        owner = self.value(node.value)
        if not isinstance(owner, _Known) or owner.is_member:
            return None
        path = f"{owner.path}.{node.attr}" if owner.path else node.attr
        if not owner.is_object:
            del self.found[mark:]  # of a.b.c the whole is used, not a.b besides
        self._use(path, node)
        result = ATTRIBUTES.get(path) if owner.is_object else None
        return _Known(result, True) if result else _Known(path, is_member=owner.is_object)

    def _called(self, value: _Value) -> _Value:
        if not isinstance(value, _Known) or value.is_object:
            return None
        made = called(value.path)
        if isinstance(made, tuple):
            return tuple(self._object(part) for part in made)
        return self._object(made)

    def _object(self, path: str | None) -> _Value:
        return _Known(path, True) if path and path not in ELSEWHERE else None

    # -- statements

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        hint = self.value(node.annotation)
        value = self.value(node.value) if node.value is not None else None
        self._assign(node.target, value or self._instance(hint))

    def _instance(self, hint: _Value) -> _Value:
        """An object of the class that an annotation names."""
        known = isinstance(hint, _Known) and not hint.is_object and hint.path
        return self._object(called(known)) if known else None  # type: ignore[arg-type]

    def _assign(self, target: ast.expr, value: _Value) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            many = value if isinstance(value, tuple) else ()
            for k, part in enumerate(target.elts):
                self._assign(part, many[k] if k < len(many) else None)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None)
        elif isinstance(target, ast.Name):
            self._set(target.id, value)
        elif isinstance(target, ast.Attribute):
            key = _dotted(target)
            if isinstance(self.value(target.value), _Known):
                self.value(target)  # an attribute of TVM's is set
            elif key is not None:
                self._set(key, value)
        else:
            self.visit(target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.value(node.iter)
        self._assign(node.target, None)
        for part in (*node.body, *node.orelse):
            self.visit(part)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.visit_For(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        value = self.value(node.context_expr)
        if node.optional_vars is not None:
            self._assign(node.optional_vars, value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in (*node.decorator_list, *filter(None, [node.returns])):
            self.value(part)
        self._set(node.name, None)
        self._function(node.args, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.value(part)
        self._set(node.name, None)
        self.scopes.append({})
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def _function(self, args: ast.arguments, body: list[ast.stmt] | list[ast.expr]) -> None:
        for default in (*args.defaults, *filter(None, args.kw_defaults)):
            self.value(default)
        scope: dict[str, _Value] = {}
        rest = filter(None, [args.vararg, args.kwarg])
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *rest):
            hint = self.value(arg.annotation) if arg.annotation is not None else None
            scope[arg.arg] = self._instance(hint)
        self.scopes.append(scope)
        for statement in body:
            self.visit(statement)
        self.scopes.pop()


def _dotted(node: ast.expr) -> str | None:
    """``self.x.y`` as text; None for what is no chain of names."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree that are not inside a function or class."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _outside_functions(node)
