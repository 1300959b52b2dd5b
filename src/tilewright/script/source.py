"""Where text came from, so that mistakes are shown in the lines that the user wrote."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from typing import Any

from ..base.errors import DiagnosticError, TilewrightError


class Source:
    """Text of functions with its place in a file: the number of its first line, and how far it was
    indented there."""

    def __init__(self, text: str, name: str = "<text>", line: int = 1, column: int = 0) -> None:
        self.text = text
        self.name = name
        self.line = line
        self.column = column

    @staticmethod
    def of(thing: Any) -> Source:
        """The source of a function or class; DiagnosticError where there is none."""
        try:
            lines, first = inspect.getsourcelines(thing)
        except (OSError, TypeError):
            raise DiagnosticError(
                f"the source of {getattr(thing, '__name__', thing)!r} is not there to be read: "
                "functions typed at a prompt or made by exec have none; give its text to "
                "tvm.script.from_source"
            ) from None
        text = "".join(lines)
        flat = textwrap.dedent(text)
        column = len(lines[0]) - len(flat.splitlines(keepends=True)[0])
        name = inspect.getsourcefile(thing) or "<text>"
        return Source(flat, name, max(first, 1), column)

    def tree(self) -> ast.Module:
        """The syntax tree; DiagnosticError where the text is no Python."""
        try:
            return ast.parse(self.text)
        except SyntaxError as error:
            found = self.show(error.lineno or 1, (error.offset or 1) - 1, None)
            raise DiagnosticError(f"{found[0]}: {error.msg}\n{found[1]}") from None
        except (RecursionError, MemoryError):
            raise DiagnosticError(f"{self.name}: the text is nested too deeply to read") from None
        except ValueError as error:
            raise DiagnosticError(f"{self.name}: {error}") from None

    def show(self, line: int, column: int, end: int | None) -> tuple[str, str]:
        """The place of a column (counted in characters) as text, and the line with a mark."""
        lines = self.text.splitlines()
        shown = lines[line - 1] if 0 < line <= len(lines) else ""
        number = self.line + line - 1
        width = max(1, (end if end is not None else column + 1) - column)
        pad = " " * (self.column + column)
        head = f"{number:6} | "
        mark = f"{head}{' ' * self.column}{shown}\n{' ' * (len(head) - 2)}| {pad}{'^' * width}"
        return f"{self.name}:{number}:{self.column + column + 1}", mark

    def error(self, node: Any, message: str) -> DiagnosticError:
        """An error that shows a node of the tree."""
        line = getattr(node, "lineno", 1)
        lines = self.text.splitlines()
        shown = lines[line - 1] if 0 < line <= len(lines) else ""

        def chars(count: int) -> int:  # the tree counts bytes
            return len(shown.encode()[:count].decode(errors="ignore"))

        column = chars(getattr(node, "col_offset", 0))
        last = getattr(node, "end_lineno", line)
        end = chars(getattr(node, "end_col_offset", 0)) if last == line else len(shown)
        place, mark = self.show(line, column, end)
        return DiagnosticError(f"{place}: {message}\n{mark}")


def told(error: BaseException) -> str:
    """An error's text, with its kind where it is not one of the project's."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, TilewrightError):
        return text
    return f"{type(error).__name__}: {text}"


def first_line(filename: str, line: int) -> str:
    """A line of a file, without the space around it."""
    return linecache.getline(filename, line).strip()
