"""gradient: reverse-mode differentiation of tensor programs, as tensor programs.

Each operation turns the adjoint of its output into sums over its reads. The sum for element j of an
input runs over those places of the operation that read element j, found by solving the index
equations (solve_reads.py): the gradient of a matmul is two matmuls, that of a convolution two plain
reductions, and no array of the size of a Jacobian comes up unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import op as tir
from ..loopir.expr import PrimExpr, Var, const
from ..loopir.iter import IterVar, ProducerLoad, Range, Reduce
from . import reduce as R
from .arguments import tensor_list
from .derivative import add, adjoints, where
from .extents import same_extent, same_tree
from .gradient_reduce import Source, reduction_sources
from .op import ComputeOp, Operation, PlaceholderOp, post_order
from .shared import substitute
from .solve_reads import solve_reads
from .tensor import Tensor


def gradient(output: Tensor, inputs: Any, head: Tensor | None = None) -> list[Tensor]:
    """The derivatives of `output` by each of `inputs` (a tensor or a list of them).

    `head`, of shape prefix + output.shape, is what the Jacobians are multiplied by (the adjoint of
    `output`, usually of its shape); results have shape prefix + input.shape. Without it the
    Jacobians themselves come back, of shape output.shape + input.shape. Ties of min and max go to
    the first operand; comparisons, indices and conversions to integers have no derivative.

    Raises TilewrightError for operations other than compute between output and inputs, and for
    functions without a known derivative; UsageError where `output`, `head` or one of `inputs` is no
    tensor.
    """
    wanted = tensor_list(inputs, "gradient: inputs must be tensors")
    tensor_list([output], "gradient: the output must be a tensor")
    if head is not None:
        tensor_list([head], "gradient: the head must be a tensor")
    for t in (output, *wanted):
        if not parse(t.dtype).is_float:
            raise TilewrightError(f"gradient: {t!r} is {t.dtype}; only floats have derivatives")
    tape = _Tape(output, wanted, head)
    tape.run()
    return [tape.adjoint(t) for t in wanted]


class _Term:
    """Part of the adjoint of a tensor: the sum of `value` over the `axes` where `indices` are met.

    `value` is written in `axes` and the variables `prefix`; `pinned` are equations axis == prefix.
    """

    __slots__ = ("axes", "indices", "pinned", "prefix", "value")

    def __init__(
        self,
        axes: Sequence[IterVar],
        indices: Sequence[PrimExpr],
        pinned: Sequence[tuple[PrimExpr, Var]],
        prefix: Sequence[Var],
        value: PrimExpr,
    ) -> None:
        self.axes = axes
        self.indices = indices
        self.pinned = pinned
        self.prefix = prefix
        self.value = value


class _Tape:
    def __init__(self, output: Tensor, inputs: Sequence[Tensor], head: Tensor | None) -> None:
        self.output = output
        self.inputs = inputs
        self.head = head
        self.prefix = _prefix_shape(output, head)
        self.order = post_order([output])
        self.terms: dict[Tensor, list[_Term]] = {}
        self.done: dict[Tensor, Tensor] = {}
        self.relevant = self._find_relevant()

    def _find_relevant(self) -> set[Tensor]:
        """The tensors through which an input reaches the output, the inputs among them."""
        relevant = set(self.inputs)
        for op in self.order:
            if any(t in relevant for t in op.input_tensors):
                relevant.update(op.outputs)
        return relevant

    def run(self) -> None:
        for op in reversed(self.order):
            if not any(t in self.relevant for t in op.input_tensors):
                continue
            for t in op.outputs:
                if t is self.output or t in self.terms:
                    self._through(op, t)

    def _through(self, op: Operation, t: Tensor) -> None:
        if isinstance(op, PlaceholderOp):
            return
        if not isinstance(op, ComputeOp):
            raise TilewrightError(f"Derivative of this op is not implemented: {op!r}")
        prefix = [Var(f"p{k}", d.dtype) for k, d in enumerate(self.prefix)]
        element = [a.var for a in op.axis]
        pinned: list[tuple[PrimExpr, Var]] = []
        if t is self.output and self.head is None:
            seed: PrimExpr = const(1, t.dtype)
            pinned = list(zip(element, prefix))
        else:
            seed = self.adjoint(t)(*prefix, *element)
        body = op.body[t.value_index]
        if isinstance(body, Reduce):
            sources = reduction_sources(op, body, seed, self.is_leaf)
        else:
            sources = [Source(op.axis, body, seed)]
        for s in sources:
            for load, value in adjoints(s.expr, s.adjoint, self.is_leaf):
                self._record(load, _Term(s.axes, load.indices, pinned, prefix, value))

    def is_leaf(self, node: Any) -> bool:
        return isinstance(node, ProducerLoad) and node.producer in self.relevant

    def _record(self, load: ProducerLoad, term: _Term) -> None:
        """Keep a term; one that reads at the same places as another is added to it."""
        terms = self.terms.setdefault(load.producer, [])
        for known in terms:
            alike = known.prefix is term.prefix and known.axes == term.axes
            if alike and all(same_tree(a, b) for a, b in zip(known.indices, term.indices)):
                known.value = add(known.value, term.value)
                return
        terms.append(term)

    # --- adjoints as tensors

    def adjoint(self, t: Tensor) -> Tensor:
        """The derivative of the output by `t`, all terms summed."""
        if t not in self.done:
            self.done[t] = self._make(t)
        return self.done[t]

    def _make(self, t: Tensor) -> Tensor:
        name = f"{t.op.name}.grad"
        if t is self.output:
            return self.head if self.head is not None else self._identity(t, name)
        axes = self._axes(t)
        if t not in self.terms:
            return ComputeOp(name, "", None, axes, [const(0, t.dtype)]).output(0)
        total: PrimExpr = const(0, t.dtype)
        several = len(self.terms[t]) > 1
        for n, term in enumerate(self.terms[t]):
            own = self._axes(t) if several else axes
            left, value = self._solve(t, term, own)
            if left:
                value = R.sum(value, axis=left)
                if not several:
                    return ComputeOp(name, "", None, axes, [value]).output(0)
                part = ComputeOp(f"{name}.{n}", "", None, own, [value]).output(0)
                value = part(*axes)
            elif several:
                value = substitute(value, {a.var: b.var for a, b in zip(own, axes)})
            total = add(total, value)
        return ComputeOp(name, "", None, axes, [total]).output(0)

    def _axes(self, t: Tensor) -> list[IterVar]:
        shape = (*self.prefix, *t.shape)
        return [IterVar(Range(0, d), f"ax{k}", IterVar.DataPar) for k, d in enumerate(shape)]

    def _identity(self, t: Tensor, name: str) -> Tensor:
        axes = self._axes(t)
        pairs = list(zip(axes[: t.ndim], axes[t.ndim :]))
        same = [a.var.equal(b.var) for a, b in pairs] or [const(True)]
        value = tir.select(tir.all(*same), const(1, t.dtype), const(0, t.dtype))
        return ComputeOp(name, "", None, axes, [value]).output(0)

    def _solve(
        self, t: Tensor, term: _Term, axes: Sequence[IterVar]
    ) -> tuple[list[IterVar], PrimExpr]:
        """A term written in the axes of its result, and the axes left to sum over."""
        count = len(self.prefix)
        given = [a.var for a in axes]
        prefix = dict(zip(term.prefix, given[:count]))
        equations: list[tuple[PrimExpr, PrimExpr]] = [(e, prefix[v]) for e, v in term.pinned]
        equations += list(zip(term.indices, given[count:]))
        known = {a.var: a.dom for a in axes if a.dom is not None}
        solution = solve_reads(term.axes, equations, known)
        value = substitute(term.value, {**solution.values, **prefix})
        analyzer = solution.analyzer
        if not solution.guards:
            return solution.left, analyzer.simplify(value)
        guard = tir.all(*solution.guards)
        with analyzer.enter_constraint(guard):
            value = analyzer.simplify(value)
        return solution.left, where(guard, value)


def _prefix_shape(output: Tensor, head: Tensor | None) -> tuple[PrimExpr, ...]:
    if head is None:
        return output.shape
    count = head.ndim - output.ndim
    fits = count >= 0 and all(same_extent(a, b) for a, b in zip(head.shape[count:], output.shape))
    if not fits or head.dtype != output.dtype:
        raise TilewrightError(
            f"gradient: head {head!r} of {head.dtype} must have shape prefix + "
            f"{list(output.shape)} and type {output.dtype}"
        )
    return head.shape[:count]
