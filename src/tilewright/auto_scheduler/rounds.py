"""The rounds of a search that are out: what was found, and is not yet learned from.

On one machine a round is found, measured and learned from before the next is found; of its
candidates the first are built while others are looked for. Where others measure (`fleet.ahead`),
the search finds a round more as soon as the candidates that are out would not keep them busy any
longer, and learns from each round when all of it is in: a device that is slow, or has died, holds
up the rounds that it has candidates of, and not the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class RoundPolicy(Protocol):
    """What drives the search of one task, round by round. One that has `propose_round`, which gives
    candidates as it finds them, and `finish_round` besides, as SketchPolicy, can have several
    rounds out."""

    def continue_search_one_round(
        self, num_measure: int, measurer: Any
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Measure up to `num_measure` candidates; nothing where none is left."""
        ...


@dataclass
class _Round:
    label: int
    policy: Any
    inputs: Sequence[Any]
    results: Sequence[Any] | None = None


class Rounds:
    """Rounds that `measurer` measures."""

    def __init__(self, measurer: Any) -> None:
        self._measurer = measurer
        self._out: list[_Round] = []

    @property
    def trials(self) -> int:
        """Candidates that are out."""
        return sum(len(r.inputs) for r in self._out)

    def of(self, label: int) -> int:
        """Rounds of this label that are out."""
        return sum(r.label == label for r in self._out)

    @property
    def has_room(self) -> bool:
        """Whether one more may be out."""
        if not self._out:
            return True
        ahead = getattr(self._measurer, "ahead", None)  # measurers of users need not have it
        limit = ahead() if ahead is not None else 0
        waiting = [r.inputs for r in self._out if r.results is None]
        return limit > 0 and self._measurer.left(waiting) <= limit

    def begin(self, policy: Any, count: int, label: int = 0) -> int:
        """Find the next candidates of a policy, up to `count`, and have them measured; how many
        there are. The first are built while others are found. A policy that cannot have rounds out
        waits for its own."""
        if hasattr(policy, "propose_round"):
            found = _Round(label, policy, begun(policy, count, self._measurer))
        else:
            found = _Round(label, policy, *policy.continue_search_one_round(count, self._measurer))
        if found.inputs or found.results:
            self._out.append(found)
        return len(found.inputs)

    def finish(self) -> tuple[int, Sequence[Any]]:
        """Wait until a round is measured, and have its policy learn from it; its label, and its
        results."""
        place = next((n for n, r in enumerate(self._out) if r.results is not None), 0)
        one = self._out[place]
        if one.results is None and len(self._out) > 1:
            place = self._measurer.first_done([r.inputs for r in self._out])
            one = self._out[place]
        del self._out[place]
        if one.results is None:
            one.results = one.policy.finish_round(one.inputs, self._measurer)
        return one.label, one.results or ()

    def drop(self) -> None:
        """Give up what is out."""
        for one in self._out:
            if one.results is None:
                _drop(one.inputs, self._measurer)
        self._out.clear()


def begun(policy: Any, count: int, measurer: Any) -> list[Any]:
    """What a policy proposes as its next round, of which a measurer that can begins each candidate
    as it is found."""
    found: list[Any] = []
    begin = getattr(measurer, "begin", None)
    try:
        for item in policy.propose_round(count):
            found.append(item)
            if begin is not None:
                begin(policy.task, policy, [item])
    except BaseException:
        _drop(found, measurer)
        raise
    return found


def _drop(inputs: Sequence[Any], measurer: Any) -> None:
    if hasattr(measurer, "drop"):
        measurer.drop(inputs)
