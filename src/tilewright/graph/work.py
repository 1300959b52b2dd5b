"""How much work kernels are: operations on elements, and bytes that have to be read or written."""

from __future__ import annotations

from ..base.errors import TilewrightError
from ..measure.flop import count_flop
from ..rt.plan import Work
from .kernel import tensors
from .passes.fuse import Group


def work_of(group: Group) -> Work:
    """The work of a group's kernel: each element of each operation once, each array once.

    What an extern operation computes cannot be counted, and counts nothing.
    """
    moved = sum(v.nbytes for v in (*group.inputs, group.output))
    try:
        return Work(count_flop([tensors(group)[1].op]), moved)
    except TilewrightError:
        return Work(0, moved)
