"""What default schedules decide between: each choice has a name and a list of options, the one that
a model of the machine likes best first.

Alone a default schedule takes the first of each. A search may give other answers: so the family of
schedules that the rules span is a space too, whose origin is the default. What was asked is kept,
for the search to know the space.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...base.errors import ScheduleError

Value = tuple[int, ...]
MOST_OPTIONS = 32  # of a choice, that a search is told of


class NotOffered(ScheduleError):
    """An answer is none of the options of its `question`."""

    def __init__(self, message: str, question: str) -> None:
        super().__init__(message)
        self.question = question


class Decisions:
    """Answers that were `given`, by the names of questions; the options of what was `asked`, and
    the answers `taken`.

    Operations of the same name share their answers.
    """

    __slots__ = ("asked", "given", "taken")

    def __init__(self, given: Mapping[str, Value] | None = None) -> None:
        self.given = dict(given or {})
        self.asked: dict[str, tuple[Value, ...]] = {}
        self.taken: dict[str, Value] = {}

    def choose(self, operation: str, question: str, options: Iterable[Sequence[int]]) -> Value:
        """The given one of some options, best first, or the first; NotOffered where what is
        given is none of them."""
        name = f"{operation}.{question}"
        found = tuple(dict.fromkeys(tuple(map(int, o)) for o in options))
        self.asked.setdefault(name, found[:MOST_OPTIONS])
        answer = self.given.get(name, found[0])
        if answer not in found:
            some = ", ".join(str(list(o)) for o in found[:8])
            more = ", ..." if len(found) > 8 else ""
            text = f"{name} is {list(answer)}, and the default schedule has it one of {some}{more}"
            raise NotOffered(text, name)
        self.taken[name] = answer
        return answer
