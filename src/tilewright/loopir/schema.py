"""The schema of the IR's nodes, from which walks, equality, hashes and files are derived.

Each class names its fields in order, with the form of each: `schema = "<var:var value:expr
>body:expr"`. Forms: expr, stmt, range (what walks enter), var, buffer, iter, reducer, type, int,
count (an int that users see as a constant), float, str, op, text (a StringImm that is no part of
the program), any, dict, map, functions; `*`
stands for a tuple of them, `?` for one or None. `<` marks what the node defines: a variable, or the
variable of an axis or buffer; `>` marks the fields in which it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

ENTERED = ("expr", "stmt", "range")


class Field(NamedTuple):
    """A field of a class of nodes."""

    name: str
    form: str
    defines: bool
    scoped: bool

    @property
    def is_variable(self) -> bool:
        """Whether it holds variables themselves."""
        return self.form.rstrip("*") == "var"


@cache
def fields_of(schema: str) -> tuple[Field, ...]:
    """The fields that a schema names."""
    found = []
    for part in schema.split():
        name, _, form = part.lstrip("<>").partition(":")
        found.append(Field(name, form, part[0] == "<", part[0] == ">"))
    return tuple(found)


class Scopes(NamedTuple):
    """The fields of a class that defines variables: those that define, those outside and inside."""

    defining: tuple[str, ...]
    outside: tuple[str, ...]
    inside: tuple[str, ...]


@cache
def scopes_of(schema: str) -> Scopes | None:
    """How a class with this schema defines variables; None if it does not.

    What is defined by an axis or a buffer has parts of its own, which count as inside.
    """
    fields = fields_of(schema)
    defining = tuple(f.name for f in fields if f.defines)
    if not defining:
        return None
    inside = tuple(f.name for f in fields if f.scoped or (f.defines and not f.is_variable))
    outside = tuple(f.name for f in fields if not (f.scoped or f.defines))
    return Scopes(defining, outside, inside)


def defined_by(node: Any) -> tuple[Any, ...]:
    """The variables that a node defines."""
    scopes = scopes_of(node.schema)
    if scopes is None:
        return ()
    return tuple(v for name in scopes.defining for v in variables_in(getattr(node, name)))


def variables_in(value: Any) -> tuple[Any, ...]:
    """The variable of a field that defines, or those of a tuple: its own, an axis's, a buffer's."""
    if isinstance(value, tuple):
        return tuple(v for x in value for v in variables_in(x))
    for own in ("var", "data"):
        value = getattr(value, own, value)
    return (value,)


def classes(root: Any) -> list[Any]:
    """The classes below `root` that have a schema and stand for nodes."""
    found = []
    for kind in root.__subclasses__():
        if getattr(kind, "schema", "") and not vars(kind).get("abstract"):
            found.append(kind)
        found += classes(kind)
    return found


def children_getter(kind: Any, order: tuple[str, ...] = ()) -> Callable[[Any], tuple[Any, ...]]:
    """A function of a node that gives its children; `order` names their fields in another order.

    It is made as text, so that it is what one would write: walks spend their time in it.
    """
    parts = {f.name: f for f in fields_of(kind.schema) if f.form.rstrip("*?") in ENTERED}
    given = [parts[name] for name in order or parts]
    texts = [_all_of(f) for f in given if f.form[-1] != "?"]
    always = texts[0] if len(texts) == 1 and texts[0][0] != "*" else None
    plain = f"({''.join(f'{t}, ' for t in texts)})"
    if len(given) == 1 and given[0].form[-1] == "*" and given[0].form != "range*":
        plain = f"e.{given[0].name}"
    elif len(texts) == 1 and always is None and given[0].form != "range*":
        plain = texts[0][1:]
    for f in given:
        if f.form[-1] == "?":
            more = f"({''.join(f'{t}, ' for t in [*texts, f'e.{f.name}'])})"
            plain = f"{plain} if e.{f.name} is None else {more}"
    getter: Callable[[Any], tuple[Any, ...]] = eval(f"lambda e: {plain}")
    return getter


def _all_of(field: Field) -> str:
    if field.form == "range*":
        return f"*[x for r in e.{field.name} for x in (r.min, r.extent)]"
    return f"*e.{field.name}" if field.form[-1] == "*" else f"e.{field.name}"
