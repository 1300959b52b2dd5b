"""What stays in the parser: values that are not made variables of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class meta_var:
    """`n = T.meta_var(value)`: `n` is the value itself, not a variable that holds it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __iter__(self) -> Iterator[meta_var]:
        return (meta_var(v) for v in self.value)
