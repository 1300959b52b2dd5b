"""`tvm.topi.tag`: tags of operations, by which schedules know them."""

from .utils import is_injective_tag

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether a tag says element-wise or broadcasting."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether a tag says element-wise, broadcasting or another injection."""
    return is_injective_tag(tag)
