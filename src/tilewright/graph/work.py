"""How much work kernels are: operations on elements, and bytes that have to be read or written."""

from __future__ import annotations

from ..base.errors import TilewrightError
from ..measure.flop import count_flop
from ..rt.plan import Work
from .kernel import tensors
from .passes.fuse import Group

LOOKS_UP = ("take", "take_along", "gather_elements", "gather_nd")
"""Operations that read some elements of their first input, by the indices that others hold."""


def work_of(group: Group) -> Work:
    """The work of a group's kernel: each element of each operation once, each array once; of a
    table in which it only looks up, as much as it takes out.

    What an extern operation computes cannot be counted, and counts nothing.
    """
    moved = group.output.nbytes
    for v in group.inputs:
        readers = [n for n in group.nodes if v in n.inputs]
        looked_up = all(n.op in LOOKS_UP and v not in n.inputs[1:] for n in readers)
        taken = sum(n.output.nbytes for n in readers)
        moved += min(v.nbytes, taken) if readers and looked_up else v.nbytes
    try:
        return Work(count_flop([tensors(group)[1].op]), moved)
    except TilewrightError:
        return Work(0, moved)
