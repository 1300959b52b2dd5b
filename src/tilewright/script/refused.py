"""What scripts of TVM may hold and this compiler has not: refused with what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base.errors import UsageError

_WHY = (
    "T.{} belongs to TensorIR's blocks, which this compiler does not have: its programs are loops "
    "over buffers, and schedules are written on tensors (te.create_schedule). Write the block's "
    "body in the loops themselves, its axes as the expressions they are bound to, its T.init as an "
    "`if` on the first iteration; or describe the computation with te.compute and schedule that"
)


class Refused:
    """A name that raises UsageError when it is used."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UsageError(_WHY.format(self.__name__))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Refused(f"{self.__name__}.{name}")


block = Refused("block")
sblock = Refused("sblock")
block_name_suffix_context = Refused("block_name_suffix_context")
axis = Refused("axis")
init = Refused("init")
where = Refused("where")
reads = Refused("reads")
writes = Refused("writes")
block_attr = Refused("block_attr")


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> NoReturn:
    """UsageError: boxes of buffers that come to be are not read from scripts."""
    raise UsageError(
        "T.realize is not read: make memory with T.allocate or T.alloc_buffer, or build the "
        "statement itself, tir.BufferRealize"
    )
