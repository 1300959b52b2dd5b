"""What is closed at the end of a `with`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

Own = TypeVar("Own", bound="Closing")


class Closing(ABC):
    """Use as a context manager, which closes it."""

    __slots__ = ()

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds."""
