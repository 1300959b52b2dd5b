"""What steers the lowering of one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base import config
from ..loopir.stmt import PrimFunc
from ..target.target import Target

UserPass = Callable[[PrimFunc], PrimFunc]


@dataclass(frozen=True)
class LowerOptions:
    """Options of the pipeline; `LowerOptions.current()` reads them from base.config.

    simple_mode leaves loop partitioning out. unroll_*: see unroll_loops. user_passes: pairs of a
    phase, 0 to 3, and a function PrimFunc -> PrimFunc that runs at the end of that phase, in order.
    """

    target: Target | None = None
    simple_mode: bool = False
    unroll_max_step: int = 0
    unroll_max_depth: int = 8
    unroll_max_extent: int = 0
    unroll_explicit: bool = True
    unroll_local_access: bool = False
    partition_const_loop: bool = False
    no_unroll_loop_with_extent_one: bool = False
    double_buffer_split_loop: int = 1
    disable_vectorize: bool = False
    disable_storage_rewrite: bool = False
    disable_cse: bool = False
    disable_assert: bool = False
    bound_checks: bool = False
    disabled_pass: tuple[str, ...] = ()
    user_passes: tuple[tuple[int, UserPass], ...] = ()
    verify: bool = False

    @classmethod
    def current(
        cls,
        target: Target | None = None,
        simple_mode: bool = False,
        user_passes: tuple[tuple[int, UserPass], ...] = (),
    ) -> LowerOptions:
        """The options that hold in the present context of base.config."""
        own = ("target", "simple_mode", "user_passes")
        fields = {f: config.get(f) for f in cls.__dataclass_fields__ if f not in own}
        return cls(target=target, simple_mode=simple_mode, user_passes=user_passes, **fields)
