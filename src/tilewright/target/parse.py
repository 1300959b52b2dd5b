"""Reading targets from text and JSON, and writing them back."""

from __future__ import annotations

import json
import operator
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ..base.errors import TargetError
from .kinds import Attribute, TargetKind, find_kind

Items = tuple[tuple[str, Any], ...]

_BOOLS = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def split_text(text: str) -> dict[str, Any]:
    """Read "llvm -mcpu=x -mattr=+a", "llvm -mcpu x" or a JSON object into a dict with a "kind"."""
    if text.lstrip().startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise TargetError(f"target {text!r} is not valid JSON: {error}") from None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"target {text!r} cannot be read: {error}") from None
    if not words:
        raise TargetError("the target is empty; expected for example 'llvm -mcpu=native'")
    config: dict[str, Any] = {"kind": words[0]}
    kind = find_kind(words[0])
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not name:
            raise TargetError(f"target {text!r}: expected -NAME=VALUE, got {word!r}")
        attribute = None if name == "host" else kind.find_attribute(name)
        if not equals:
            value = "1" if attribute and attribute.type is bool else next(rest, "")
        own = attribute.name if attribute else name
        if own in config:
            raise TargetError(f"target {text!r} gives {own!r} twice")
        config[own] = value
    return config


def read_attributes(kind: TargetKind, config: Mapping[str, Any]) -> Items:
    """Checked, typed and sorted attributes of `config`, without those that say nothing."""
    items: dict[str, Any] = {}
    for name, value in config.items():
        if value is None:
            continue
        attribute = kind.find_attribute(name)
        items[attribute.name] = convert(kind, attribute, value)
    if items.get("mcpu") == "native" and "mtriple" not in items:
        del items["mcpu"]
    return tuple(sorted(items.items()))


def convert(kind: TargetKind, attribute: Attribute, value: Any) -> Any:
    """`value` as the type of the attribute; TargetError where it does not fit."""
    try:
        if attribute.type is list:
            if isinstance(value, Mapping):
                raise TypeError
            words: Iterable[Any] = value.split(",") if isinstance(value, str) else value
            return tuple(_word(w) for w in words if w != "")
        if attribute.type is bool:
            return value if isinstance(value, bool) else _BOOLS[str(value).lower()]
        return _word(value, attribute.form) if attribute.type is str else _number(attribute, value)
    except (ValueError, KeyError, TypeError):
        raise TargetError(
            f"target kind {kind.name!r}: attribute {attribute.name!r} takes {_wanted(attribute)}, "
            f"got {value!r}"
        ) from None


def _word(value: Any, form: str = "") -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError
    if form and not re.fullmatch(form, value):
        raise ValueError
    return value


def _number(attribute: Attribute, value: Any) -> int:
    number = int(value) if isinstance(value, str) else operator.index(value)
    if isinstance(value, bool) or number < attribute.least:
        raise ValueError
    if attribute.choices and number not in attribute.choices:
        raise ValueError
    return number


def _wanted(attribute: Attribute) -> str:
    if attribute.choices:
        return f"one of {', '.join(map(str, attribute.choices))}"
    if attribute.example:
        return f"a name such as {attribute.example}"
    if attribute.type is int:
        return f"int, at least {attribute.least}"
    return "a list" if attribute.type is list else attribute.type.__name__


def write_text(kind: TargetKind, items: Items) -> str:
    """The text that `split_text` reads back."""
    words = [kind.name]
    for name, value in items:
        if isinstance(value, tuple):
            value = ",".join(value)
        words.append(shlex.quote(f"-{name}={int(value) if isinstance(value, bool) else value}"))
    return " ".join(words)
