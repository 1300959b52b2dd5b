"""Where something stands in a program: the fields and elements on the way to it from the root."""

from __future__ import annotations

from typing import Any

from . import expr as E
from .equal import SEQUENCES, Mismatch, first_mismatch
from .module import GlobalVar

_MISSING = "<missing>"


class ObjectPath:
    """A way from a root object: fields, elements of arrays, values of maps, or what is missing of
    these in one of two objects that are compared. Paths with equal steps are equal."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[tuple[str, Any], ...] = ()) -> None:
        self.steps = steps

    @staticmethod
    def root(root_name: str | None = None) -> ObjectPath:
        """The root; `root_name`: a variable that holds it."""
        return ObjectPath((("root", root_name),) if root_name else ())

    def _then(self, kind: str, what: Any = None) -> ObjectPath:
        return ObjectPath((*self.steps, (kind, what)))

    def attr(self, attr_key: str | None) -> ObjectPath:
        """The field of an object; None for one that the object lacks."""
        return self._then("attr", attr_key)

    def array_index(self, index: int) -> ObjectPath:
        """An element of an array."""
        return self._then("index", int(index))

    def missing_array_element(self, index: int) -> ObjectPath:
        """An element that only the other array has."""
        return self._then("missing index", int(index))

    def map_value(self, key: Any) -> ObjectPath:
        """The value of a map under a key."""
        return self._then("value", key)

    def missing_map_entry(self) -> ObjectPath:
        """An entry that only the other map has."""
        return self._then("missing value")

    @property
    def parent(self) -> ObjectPath | None:
        """The path without its last step; None of the root."""
        return ObjectPath(self.steps[:-1]) if self.steps else None

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether the other path goes on from here, or ends here."""
        return ObjectPath(other.steps[: len(self.steps)]) == self

    def get_prefix(self, length: int) -> ObjectPath:
        """The first steps, the root counted."""
        return ObjectPath(self.steps[: length - 1])

    def __len__(self) -> int:
        return len(self.steps) + 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectPath) or len(self.steps) != len(other.steps):
            return False
        return all(
            a[0] == b[0] and (a[1] is b[1] or (not isinstance(a[1], E.Node) and a[1] == b[1]))
            for a, b in zip(self.steps, other.steps)
        )

    def __hash__(self) -> int:
        return hash(tuple(kind for kind, _ in self.steps))

    def __repr__(self) -> str:
        text = "<root>"
        for kind, what in self.steps:
            if kind == "root":
                text = str(what)
            elif kind == "attr":
                text += "." + (what if what is not None else _MISSING)
            elif kind == "missing value":
                text += f"[{_MISSING}]"
            else:
                inner = f"<missing> #{what}" if kind == "missing index" else repr(what)
                if isinstance(what, GlobalVar):
                    inner = f'I.GlobalVar("{what}")'
                text += f"[{inner}]"
        return text


def get_first_structural_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> tuple[ObjectPath, ObjectPath] | None:
    """Where two programs differ first, in each of them; None where they are the same."""
    found = first_mismatch(lhs, rhs, map_free_vars)
    return None if found is None else ends(lhs, rhs, found)


def ends(lhs: Any, rhs: Any, found: Mismatch) -> tuple[ObjectPath, ObjectPath]:
    """The place of a mismatch, in each of the two programs."""
    left, right = (_along(side, found.keys) for side in (lhs, rhs))
    return _ends(found, left, right)


def _along(root: Any, keys: list[Any]) -> ObjectPath:
    path, node = ObjectPath.root(), root
    for key in keys:
        if isinstance(node, SEQUENCES):
            path, node = path.array_index(key), node[key]
        elif isinstance(node, dict):
            own = next((k for k in node if k == key or getattr(k, "name", None) == key), key)
            path, node = path.map_value(own), node.get(own)
        else:
            path, node = path.attr(str(key)), getattr(node, str(key), None)
    return path


def _ends(found: Mismatch, left: ObjectPath, right: ObjectPath) -> tuple[ObjectPath, ObjectPath]:
    a, b = found.left, found.right
    if isinstance(a, SEQUENCES) and isinstance(b, SEQUENCES) and len(a) != len(b):
        at = min(len(a), len(b))
        if len(a) < len(b):
            return left.missing_array_element(at), right.array_index(at)
        return left.array_index(at), right.missing_array_element(at)
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() != b.keys():
        return _entry(left, a, b), _entry(right, b, a)
    if type(a) is type(b) and isinstance(a, E.PrimExpr) and a.dtype != b.dtype:
        return left.attr("dtype"), right.attr("dtype")
    return left, right


def _entry(path: ObjectPath, own: dict[Any, Any], other: dict[Any, Any]) -> ObjectPath:
    """The entry that a map has and the other lacks, or that it lacks itself."""
    more = [k for k in own if k not in other]
    return path.map_value(more[0]) if more else path.missing_map_entry()
