"""Checks of what users pass to primitives: whole numbers, storage scopes, lists of tensors."""

from __future__ import annotations

import operator
import re
from typing import Any

from ...loopir.expr import Var
from ...loopir.iter import IterVar
from ...loopir.visit import walk
from ...tensor.tensor import Tensor
from ..state import Illegal

SCOPES = ("global", "shared", "warp", "local", "wmma", "m16n8k8", "texture")
_SCOPE = re.compile(rf"({'|'.join(SCOPES)})(\.\w+)*")


def whole_number(value: Any, what: str, axis: Any = None) -> int:
    """`value` as an int: an int, a NumPy integer or an integer constant, but no bool or float."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise Illegal(f"{what} must be an integer, got {value!r}", axis)


def check_scope(scope: Any) -> None:
    """A storage scope is one of SCOPES, perhaps with tags: "shared.dyn", "wmma.matrix_a"."""
    if not isinstance(scope, str) or (scope and not _SCOPE.fullmatch(scope)):
        raise Illegal(
            f"unknown storage scope {scope!r}",
            legal=f"{', '.join(SCOPES)}, perhaps with a tag as in shared.dyn",
        )


def tensor_list(value: Any, what: str) -> list[Tensor]:
    """One tensor or several, as a list."""
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    for item in items:
        if not isinstance(item, Tensor):
            raise Illegal(f"{what} must be a tensor or a list of tensors, got {item!r}")
    return items


def thread_axes(value: Any) -> tuple[IterVar, ...]:
    """One thread axis or several."""
    items = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for item in items:
        if not isinstance(item, IterVar) or item.iter_type != IterVar.ThreadIndex:
            raise Illegal(
                f"expected thread axes, got {item!r}", legal='te.thread_axis("threadIdx.x")'
            )
    return items


def require_own_domains(op: Any, primitive: str) -> None:
    """Illegal where how far a reduction of `op` goes depends on the element that it computes."""
    data = {axis.var for axis in op.axis}
    for axis in op.reduce_axis:
        ends = () if axis.dom is None else (axis.dom.min, axis.dom.extent)
        if any(isinstance(e, Var) and e in data for end in ends for e in walk(end)):
            raise Illegal(
                f"{primitive}: the extent of {axis.var.name} depends on the element that is "
                "computed",
                axis,
            )
