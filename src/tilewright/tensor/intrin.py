"""Tensor intrinsics: an operation that one instruction or micro-kernel does as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..arith import Analyzer
from ..base.errors import TilewrightError
from ..loopir.buffer import Buffer, decl_buffer
from ..loopir.expr import Node, PrimExpr, Var, convert
from ..loopir.iter import IterVar, Range
from ..loopir.stmt import Evaluate, Stmt
from .op import Operation, PlaceholderOp
from .tensor import Tensor, TensorSlice


class TensorIntrin(Node):
    """What an operation `op` over placeholders does, as statements over buffers.

    `buffers` holds those of `inputs`, then those of the outputs. `body` computes the whole; for a
    reduction in parts, `reduce_init` resets the outputs and `reduce_update` adds to them (then
    `body` serves where one part is all). Called on slices it stands as the body of te.compute.
    `clips`: it reads nothing beyond the edges of the arrays that its inputs are parts of, but takes
    zeros, and sums over the whole reduction. `views`: of inputs that are views (set_scope) the
    variables that stand in `body` for the strides of the arrays in which they lie, but for the last
    one, which is 1; none are given where these have no gaps.
    """

    __slots__ = (
        "body", "buffers", "clips", "inputs", "name", "op", "reduce_init", "reduce_update",
        "scalar_params", "views",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        op: Operation,
        inputs: Sequence[Tensor],
        buffers: Sequence[Buffer],
        scalar_params: Sequence[Var],
        body: Stmt,
        reduce_init: Stmt | None = None,
        reduce_update: Stmt | None = None,
        clips: bool = False,
        views: Mapping[Tensor, Sequence[Var]] | None = None,
    ) -> None:
        self.name = name
        self.op = op
        self.inputs = tuple(inputs)
        self.buffers = tuple(buffers)
        self.scalar_params = tuple(scalar_params)
        self.body = body
        self.reduce_init = reduce_init
        self.reduce_update = reduce_update
        self.clips = clips
        self.views = {t: tuple(strides) for t, strides in (views or {}).items()}

    def __call__(self, *args: Any, reduce_axis: Any = ()) -> TensorIntrinCall:
        """Apply to slices such as `A[i, 0:k]`, with scalars for the scalar parameters."""
        slices = [x for x in args if isinstance(x, TensorSlice)]
        scalars = [convert(x) for x in args if not isinstance(x, TensorSlice)]
        if len(slices) != len(self.inputs) or len(scalars) != len(self.scalar_params):
            raise TilewrightError(
                f"intrinsic {self.name} takes {len(self.inputs)} tensors and "
                f"{len(self.scalar_params)} scalars, got {len(slices)} and {len(scalars)}"
            )
        axes = (reduce_axis,) if isinstance(reduce_axis, IterVar) else tuple(reduce_axis)
        regions = [_region(s) for s in slices]
        return TensorIntrinCall(self, [s.tensor for s in slices], regions, axes, scalars)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"


class TensorIntrinCall(Node):
    """An intrinsic applied to regions of tensors."""

    __slots__ = ("intrin", "reduce_axis", "regions", "scalar_inputs", "tensors")

    def __init__(
        self,
        intrin: TensorIntrin,
        tensors: Sequence[Tensor],
        regions: Sequence[Sequence[Range]],
        reduce_axis: Sequence[IterVar],
        scalar_inputs: Sequence[PrimExpr],
    ) -> None:
        self.intrin = intrin
        self.tensors = tuple(tensors)
        self.regions = tuple(tuple(r) for r in regions)
        self.reduce_axis = tuple(reduce_axis)
        self.scalar_inputs = tuple(scalar_inputs)


def _region(tensor_slice: TensorSlice) -> list[Range]:
    tensor, indices = tensor_slice.tensor, tensor_slice.indices
    if len(indices) > tensor.ndim:
        raise TilewrightError(
            f"Tensor dimension mismatch in read ndim = {tensor.ndim}, indices.size={len(indices)}"
        )
    region = []
    for k, extent in enumerate(tensor.shape):
        index = indices[k] if k < len(indices) else slice(None)
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise TilewrightError(f"a region has no steps: {tensor_slice!r}")
            begin = 0 if index.start is None else index.start
            end = extent if index.stop is None else index.stop
            region.append(Range.from_min_extent(begin, Analyzer().simplify(convert(end) - begin)))
        else:
            region.append(Range.from_min_extent(index, 1))
    return region


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Sequence[Var] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
    *,
    clips: bool = False,
    views: Mapping[Tensor, Sequence[Var]] | None = None,
) -> TensorIntrin:
    """Declare that `fcompute(ins, outs)` (buffers) does what the compute operation `op` does.

    `fcompute` gives one statement or call, or three: the whole, the reset, the update of a
    reduction (the last may be missing, the reset None). `binds` gives buffers for some tensors of
    `op`; `default_buffer_params` are arguments of decl_buffer for the others. `clips`, `views`: see
    TensorIntrin. Raises TilewrightError where op is no operation on placeholders, or fcompute gives
    not 1 to 3 statements.
    """
    if not isinstance(op, Operation):
        raise TilewrightError(f"expect Operation, got {op!r}")
    for t in op.input_tensors:
        if not isinstance(t.op, PlaceholderOp):
            raise TilewrightError(
                f"Do not yet support composition op: input {t.name} of {op.name} is no placeholder"
            )
    inputs = op.input_tensors
    buffers = [
        (binds or {}).get(t)
        or decl_buffer(t.shape, t.dtype, t.op.name, **(default_buffer_params or {}))
        for t in (*inputs, *op.outputs)
    ]
    ins, outs = buffers[: len(inputs)], buffers[len(inputs) :]
    given = fcompute(ins, outs, scalar_params) if scalar_params else fcompute(ins, outs)
    parts = list(given) if isinstance(given, (list, tuple)) else [given]
    if not parts or len(parts) > 3 or parts[0] is None:
        raise TilewrightError(f"intrinsic {name}: fcompute must give 1 to 3 statements")
    body, reset, update = ([as_stmt(p) for p in parts] + [None, None])[:3]
    assert body is not None
    rest = (body, reset, update, clips, views)
    return TensorIntrin(name, op, inputs, buffers, scalar_params or (), *rest)


def as_stmt(item: Any) -> Stmt | None:
    """A statement, a call as a statement, or None."""
    if item is None or isinstance(item, Stmt):
        return item
    if isinstance(item, PrimExpr):
        return Evaluate(item)
    raise TilewrightError(f"should return PrimExpr or Stmt, but it returned {type(item).__name__}")
