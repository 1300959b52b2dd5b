"""What belongs to TensorIR's blocks: each name says that there are none, and what to use."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base.errors import UsageError

_WHY = (
    "TensorIR's blocks are not part of this project: write loops (tir.ir_builder, T.prim_func "
    "without T.block), or te.compute with te.create_schedule"
)


class _Refused:
    """Something of TensorIR's: making one is a UsageError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UsageError(f"{type(self).__name__}: {_WHY}")


class Block(_Refused):
    """A block of TensorIR: UsageError says what to use instead."""


class BlockRealize(_Refused):
    """The use of a block of TensorIR: UsageError says what to use instead."""


class MatchBufferRegion(_Refused):
    """A buffer that stands for a box of another one inside a block: UsageError says what to use."""


class StmtSRef(_Refused):
    """A place in a schedule of TensorIR: UsageError says what to use instead."""


class BlockScope(_Refused):
    """The blocks below a block: UsageError says what to use instead."""


class ScheduleState(_Refused):
    """The state of a schedule of TensorIR: UsageError says what to use instead."""


class Schedule(_Refused):
    """A schedule of TensorIR: UsageError says what to use instead."""


class BlockDependenceInfo(_Refused):
    """What blocks read of each other: UsageError says what to use instead."""


class TensorIntrin(_Refused):
    """An instruction as two functions of TensorIR: UsageError; te.decl_tensor_intrin makes ours."""

    @staticmethod
    def register(name: str, desc: Any, impl: Any, override: bool = False) -> NoReturn:
        """UsageError: use te.decl_tensor_intrin and Stage.tensorize."""
        refuse(f"TensorIntrin.register({name!r})")

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> Any:
        """None with `allow_missing`, else UsageError: there are none."""
        return None if allow_missing else refuse(f"TensorIntrin.get({name!r})")


class ScheduleError(UsageError):
    """What a schedule of TensorIR raises; never raised here."""


def refuse(name: str) -> NoReturn:
    """UsageError: `name` is about blocks."""
    raise UsageError(f"{name}: {_WHY}")
