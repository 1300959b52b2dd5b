"""What passes share that put something in the place of stores that follow each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ..loopir import stmt as S
from ..loopir.rewrite import Rewriter, handles


class RunsOfStores(Rewriter):
    """Replaces runs of statements; of what is no such run, the parts."""

    @abstractmethod
    def length(self, first: S.Stmt) -> int:
        """Of the run that may begin with a statement; 0 for none."""

    @abstractmethod
    def replaced(self, run: Sequence[Any], length: int) -> S.Stmt | None:
        """What stands for a run, which is shorter where no more follows; None where it stays."""

    @handles(S.SeqStmt)
    def _seq(self, s: S.SeqStmt) -> Any:
        parts: list[Any] = []
        changed, at = False, 0
        while at < len(s.seq):
            length = self.length(s.seq[at])
            run = s.seq[at : at + length]
            made = self.replaced(run, length) if length else None
            if made is not None:
                parts.append(made)
                changed, at = True, at + length
                continue
            part = self.stmt(s.seq[at])
            changed = changed or part is not s.seq[at]
            parts.append(part)
            at += 1
        return S.seq(parts) if changed else s
