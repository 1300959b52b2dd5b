"""Users' own rules, tried before the built-in ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import TilewrightError
from ..state import State
from .rule import Condition, Results, SketchRule


class PreloadCustomSketchRule(SketchRule):
    """A rule from two functions, as `init_search_callbacks` of a policy takes it.

    `meet_condition_func(policy, state, stage_id)` gives PASS, APPLY or APPLY_AND_SKIP_REST;
    `apply_func(policy, state, stage_id)` a list of [state, next stage], next_stage -1 to end. The
    functions get copies: they may change the state they are given. Raises TilewrightError where a
    rule's condition or action is no function.
    """

    PASS, APPLY, APPLY_AND_SKIP_REST = 0, 1, 2

    def __init__(
        self,
        meet_condition_func: Callable[..., int],
        apply_func: Callable[..., Any],
        rule_name: str = "CustomSketchRule",
    ) -> None:
        for what, function in (("condition", meet_condition_func), ("action", apply_func)):
            if not callable(function):
                raise TilewrightError(f"{rule_name}: the {what} is a function, got {function!r}")
        self.name = rule_name
        self._meet, self._apply = meet_condition_func, apply_func

    def meet(self, policy: Any, state: State, stage_id: int) -> Condition:
        value = self._meet(policy, state.copy(), stage_id)
        try:
            return Condition(int(value))
        except (TypeError, ValueError):
            raise TilewrightError(
                f"the condition of {self.name} gives PASS, APPLY or APPLY_AND_SKIP_REST, got "
                f"{value!r}"
            ) from None

    def apply(self, policy: Any, state: State, stage_id: int) -> Results:
        found = self._apply(policy, state.copy(), stage_id)
        results: Results = []
        for item in found if isinstance(found, (list, tuple)) else [None]:
            pair = list(item) if isinstance(item, (list, tuple)) else []
            if len(pair) != 2 or not isinstance(pair[0], State):
                raise TilewrightError(
                    f"the action of {self.name} gives a list of [state, next stage], got {found!r}"
                )
            results.append((pair[0], int(pair[1])))
        return results
