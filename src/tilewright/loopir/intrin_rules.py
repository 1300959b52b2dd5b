"""Users' rules that lower an intrinsic for a target; the built-in ones stand in lowering/intrin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.errors import TilewrightError
from .expr import Call, Op

Rule = Callable[[Call], Any]

BUILTIN_LEVEL = 10

_rules: dict[tuple[str, str], tuple[int, Rule]] = {}


def register_intrin_lowering(
    op_name: str, target: Any, f: Rule | None = None, level: int = BUILTIN_LEVEL
) -> Any:
    """Lower calls of `op_name` on targets of kind `target` by `f`, from the next build on.

    `f(call)` returns the expression that takes the call's place, or the call itself where it has
    none. Of the rules of one op and target the one with the highest level counts, of equal levels
    the latest (built-in rules have level 10). "default" is every target's last resort. Without
    `f` this is a decorator. Raises TilewrightError where op_name or target is not text, or level no
    integer.
    """
    kind = getattr(getattr(target, "kind", target), "name", getattr(target, "kind", target))
    if not isinstance(kind, str) or not isinstance(op_name, str):
        raise TilewrightError(
            f"register_intrin_lowering takes the names of an op and a target kind, "
            f"got {op_name!r} and {target!r}"
        )

    if not isinstance(level, int):
        raise TilewrightError(f"the level of the rule of {op_name} is an integer, got {level!r}")

    def register(rule: Rule) -> Rule:
        if not callable(rule):
            raise TilewrightError(f"the lowering rule of {op_name} must be callable, got {rule!r}")
        Op.named(op_name)
        known = _rules.get((kind, op_name))
        if known is None or level >= known[0]:
            _rules[kind, op_name] = (level, rule)
        return rule

    return register if f is None else register(f)


def find_rule(
    target_kinds: Sequence[str],
    op_name: str,
    builtin: Mapping[tuple[str, str], Rule] | None = None,
) -> Rule | None:
    """The rule for an op on the first of `target_kinds` that has one, or None.

    `builtin` maps (kind, op name) to the compiler's own rules. Callers pass, for example,
    `["cuda", "default"]`.
    """
    for kind in target_kinds:
        own = _rules.get((kind, op_name))
        if own is not None and own[0] >= BUILTIN_LEVEL:
            return own[1]
        inner = builtin.get((kind, op_name)) if builtin else None
        if inner is not None:
            return inner
        if own is not None:
            return own[1]
    return None


def user_rules(target_kinds: Sequence[str]) -> dict[tuple[str, str], Rule]:
    """The registered rules that could take part in a build for these target kinds."""
    return {key: rule for key, (_, rule) in _rules.items() if key[0] in target_kinds}


def remove_rule(op_name: str, target_kind: str) -> None:
    """Forget the rule registered for an op on a target kind, if there is one."""
    _rules.pop((target_kind, op_name), None)
