"""`tvm.target.tag`: tags of targets, listed and made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import tags
from .target import Target


def list_tags() -> dict[str, Target]:
    """All tags with the targets that they stand for."""
    found: dict[str, Target] = {}
    for name in tags.names():
        config = tags.config_of(name)
        if config is not None:
            found[name] = Target(config)
    return found


def register_tag(name: str, config: Mapping[str, Any], override: bool = False) -> Target:
    """Make `name` stand for a target, given as a dict; TargetError where it does for another one
    already, unless `override` is set. Gives the target."""
    made = Target(config)
    tags.add(name, config, override)
    return made
