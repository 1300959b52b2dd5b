"""scan: recurrences along the first dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import UsageError
from ..loopir.iter import IterVar, Range
from .arguments import as_attrs
from .axes import scoped_tag
from .extents import same_extent
from .op import PlaceholderOp, ScanOp, post_order
from .tensor import Tensor


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """The states of a recurrence, all of them, along the first dimension.

    Each argument is a tensor, or a list of them for several states. `init` (shape (k, ...)) holds
    the first k rows, `update` (shape (T, ...)) computes row t from rows of `state_placeholder`
    (shape (T, ...)) before t, for t = k ... T - 1. `inputs` may name the tensors that it reads.

    Raises TilewrightError where lengths, dtypes or shapes do not agree, or `init` reads a state. A
    step that provably reads other rows than those before it is refused when a schedule is lowered.
    """
    tag = scoped_tag(tag)
    inits, updates, states = _several(init), _several(update), _several(state_placeholder)
    if not len(inits) == len(updates) == len(states) or not inits:
        raise UsageError(
            "init, update, state_placeholder must have same length, got "
            f"{len(inits)}, {len(updates)}, {len(states)}"
        )
    for triple in zip(inits, updates, states):
        _check(*triple)
    early = next((s for s in states if s.op in post_order(inits)), None)
    if early is not None:
        raise UsageError(f"init holds the first rows of {early.name}, and must not read it")
    for i, u in zip(inits[1:], updates[1:]):
        _same("init.shape[0] of all states", inits[0], 0, i, 0)
        _same("update.shape[0] of all states", updates[0], 0, u, 0)
    dom = Range(inits[0].shape[0], updates[0].shape[0])
    axis = IterVar(dom, f"{name}.idx", IterVar.Ordered)
    op = ScanOp(name, tag, as_attrs(attrs), axis, inits, updates, states, _several(inputs))
    return op.output(0) if op.num_outputs == 1 else list(op.outputs)


def _several(item: Any) -> Sequence[Tensor]:
    if item is None:
        return []
    tensors = list(item) if isinstance(item, (list, tuple)) else [item]
    for t in tensors:
        if not isinstance(t, Tensor):
            raise UsageError(f"scan works on tensors, got {t!r}")
    return tensors


def _check(init: Tensor, update: Tensor, state: Tensor) -> None:
    if not isinstance(state.op, PlaceholderOp):
        raise UsageError(f"state_placeholder {state!r} must be made by te.placeholder")
    for t in (init, update):
        if t.dtype != state.dtype:
            raise UsageError(
                f"{t!r} is {t.dtype}, but state_placeholder {state.name} is {state.dtype}"
            )
    if not state.ndim:
        raise UsageError(f"state_placeholder {state!r} needs a dimension to scan along")
    if init.ndim != state.ndim:
        raise UsageError(
            "The dimension of init need to match state_placeholder: "
            f"{init!r} has {init.ndim}, {state!r} {state.ndim}"
        )
    if update.ndim != state.ndim:
        raise UsageError(
            "The update.ndim need to be state_placeholder.ndim: "
            f"{update!r} has {update.ndim}, {state!r} {state.ndim}"
        )
    _same(
        "state_placeholder.shape[0] need to match scan_axis.dom.min + scan_axis.dom.extent "
        "(update.shape[0])", update, 0, state, 0,
    )  # fmt: skip
    for k in range(1, state.ndim):
        _same("update and state_placeholder", update, k, state, k)
        _same("init and state_placeholder", init, k, state, k)


def _same(what: str, a: Tensor, i: int, b: Tensor, j: int) -> None:
    if not same_extent(a.shape[i], b.shape[j]):
        raise UsageError(
            f"{what}: extents differ: dimension {i} of {a!r} and dimension {j} of {b!r}"
        )
