"""te_eval: what a tensor program means, computed with NumPy, whatever its schedule.

Operations run in topological order, each on its whole grid of indices at once. In mode "exact"
every operation works in its own type (see loopir/SEMANTICS.md); in mode "wide" floats are float64,
as a reference for real data (te_bound.py tells how far a float32 program may lie from it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.deep import deep_call
from ..base.errors import TilewrightError
from ..loopir.expr import IntImm, Var
from ..loopir.iter import IterVar, Reduce
from ..tensor.analysis import scan_body
from ..tensor.op import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    TensorComputeOp,
    domain,
    post_order,
)
from ..tensor.tensor import Tensor
from .np_ops import Array
from .te_algebra import NumpyAlgebra
from .te_expr import BLOCK, Mask, Walker, blocks, bounded, gather
from .te_extern import run_extern
from .te_reduce import Reducer

Extern = Mapping[str, Callable[..., Any]]


def te_eval(
    outputs: Tensor | Sequence[Tensor],
    feeds: Mapping[Tensor, Any],
    *,
    symbols: Mapping[Var, int] | None = None,
    extern: Extern | None = None,
    dtype_mode: str = "exact",
) -> list[Array]:
    """The values of `outputs`, given arrays for placeholders (or for any tensors on the way).

    Symbolic extents are bound from the shapes of `feeds` and from `symbols` (which also gives
    scalar parameters). `extern` maps names of external functions to Python functions: of arrays for
    calls within expressions, of arrays to be filled for calls of extern operations.

    Raises TilewrightError for missing feeds, shapes or types that do not fit, unbound variables,
    reads out of bounds (but for those that a condition guards) and divisions by zero.
    """
    if dtype_mode not in ("exact", "wide"):
        raise TilewrightError(f"dtype_mode is 'exact' or 'wide', got {dtype_mode!r}")
    return evaluate(NumpyAlgebra(dtype_mode == "wide"), outputs, feeds, symbols, extern)


def evaluate(
    algebra: Any,
    outputs: Tensor | Sequence[Tensor],
    feeds: Mapping[Tensor, Any],
    symbols: Mapping[Var, int] | None,
    extern: Extern | None,
) -> list[Any]:
    """The values of `outputs` in any algebra."""
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    arrays = {t: np.asarray(a) for t, a in feeds.items()}
    program = Program(algebra, bind_symbols(arrays, symbols or {}), extern or {})
    for t, a in arrays.items():
        program.feed(t, a)
    with np.errstate(all="ignore"):
        deep_call(program.run, wanted)
    return [program.tables[t] for t in wanted]


def bind_symbols(feeds: Mapping[Tensor, Array], given: Mapping[Var, Any]) -> dict[Var, Any]:
    """Values of the variables in the shapes of fed tensors; checks the shapes."""
    symbols: dict[Var, Any] = {v: np.asarray(x).astype(v.dtype) for v, x in given.items()}
    for t, a in feeds.items():
        if a.ndim != t.ndim:
            raise TilewrightError(f"{t!r} has {t.ndim} dimensions, its array {a.ndim}")
        for d, n in zip(t.shape, a.shape):
            if isinstance(d, Var):
                symbols.setdefault(d, np.asarray(n, dtype=d.dtype))
    for t, a in feeds.items():
        for k, (d, n) in enumerate(zip(t.shape, a.shape)):
            extent = extent_of(d, symbols)
            if extent != n:
                raise TilewrightError(
                    f"{t!r}: dimension {k} is {d} = {extent}, its array has shape {a.shape}"
                )
    return symbols


def extent_of(e: Any, symbols: Mapping[Var, Any]) -> int:
    """The value of an integer expression over symbols."""
    if isinstance(e, IntImm):
        return e.value
    return int(Walker(NumpyAlgebra(), symbols, _NoReads(), {}).expr(e))


class _NoReads:
    def table(self, tensor: Any) -> Any:
        raise TilewrightError(f"{tensor.name} is read in a shape")

    def elements(self, tensor: Any, indices: list[Any], mask: Mask) -> Any:
        raise TilewrightError(f"{tensor.name} is read in a shape")


class Program:
    """The state of one evaluation: values of tensors so far, and symbols."""

    def __init__(self, algebra: Any, symbols: Mapping[Var, Any], extern: Extern) -> None:
        self.algebra = algebra
        self.symbols = {v: algebra.wrap(np.asarray(x), v.dtype) for v, x in symbols.items()}
        self.plain = symbols
        self.extern = extern
        self.tables: dict[Tensor, Any] = {}
        self.stepping: set[Operation] = set()  # operations found element by element in a scan
        self.rows: dict[tuple[Operation, int], list[Any]] = {}

    def feed(self, t: Tensor, a: Array) -> None:
        expected = self.algebra.numpy_type(t.dtype)
        if a.dtype != expected and not (self.algebra.wide and t.dtype.startswith(("f", "b"))):
            raise TilewrightError(f"{t!r} is {t.dtype}, its array {a.dtype}")
        self.tables[t] = self.algebra.wrap(a, t.dtype)

    def run(self, wanted: Sequence[Tensor]) -> None:
        """Evaluate all that `wanted` need."""
        order = post_order(wanted)
        inside = set().union(*(scan_body(op) for op in order if isinstance(op, ScanOp)))
        needed = self._needed(wanted)
        for op in order:
            if op not in inside and op in needed:
                self.step(op)

    def _needed(self, wanted: Sequence[Tensor]) -> set[Operation]:
        """Operations whose values are not fed, as far as some output needs them."""
        needed: set[Operation] = set()
        stack = [t for t in wanted if t not in self.tables]
        while stack:
            op = stack.pop().op
            if op not in needed:
                needed.add(op)
                stack += [t for t in op.input_tensors if t not in self.tables]
        return needed

    def step(self, op: Operation) -> None:
        if isinstance(op, ComputeOp):
            self._set(op, self._compute(op))
        elif isinstance(op, ScanOp):
            self._scan(op)
        elif isinstance(op, ExternOp):
            self._set(op, run_extern(self, op))
        elif isinstance(op, TensorComputeOp):
            self._set(op, self._tensor_compute(op))
        elif isinstance(op, PlaceholderOp):
            raise TilewrightError(f"no array was fed for {op.output(0)!r}")
        else:
            raise TilewrightError(f"te_eval does not know operations such as {op!r}")

    def _set(self, op: Operation, values: Sequence[Any]) -> None:
        for i, value in enumerate(values):
            self.tables.setdefault(op.output(i), value)

    def shape_of(self, t: Tensor) -> list[int]:
        return [max(0, extent_of(d, self.plain)) for d in t.shape]

    # --- computes

    def _compute(self, op: ComputeOp) -> list[Any]:
        """All elements, in slabs of the first dimension."""
        shape = self.shape_of(op.output(0))
        tables = [self.algebra.table(shape, e.dtype) for e in op.body]
        for box in blocks(shape, BLOCK * 2):
            values = self.box(op, box)
            for table, value in zip(tables, values):
                self.algebra.store(table, tuple(slice(lo, hi) for lo, hi in box), value)
        return tables

    def box(self, op: ComputeOp, box: Sequence[tuple[int, int]]) -> list[Any]:
        """The elements in a box of indices."""
        ndim = len(box)
        coords = [
            self.algebra.wrap(_along(np.arange(lo, hi), d, ndim), a.var.dtype)
            for d, (a, (lo, hi)) in enumerate(zip(op.axis, box))
        ]
        grid = {a.var: (d, lo, hi) for d, (a, (lo, hi)) in enumerate(zip(op.axis, box))}
        return self.at(op, coords, [hi - lo for lo, hi in box], grid, None)

    def at(
        self,
        op: ComputeOp,
        coords: Sequence[Any],
        shape: Sequence[int],
        grid: Mapping[Any, tuple[int, int, int]],
        mask: Mask,
    ) -> list[Any]:
        """The elements at `coords`, values that broadcast to `shape`."""
        algebra, ndim = self.algebra, len(shape)
        env = {**self.symbols, **{a.var: c for a, c in zip(op.axis, coords)}}
        outer = Walker(algebra, env, self, self.extern, grid, ndim)
        first = op.body[0]
        if not isinstance(first, Reduce):
            return [algebra.expand(outer.expr(e, mask), shape) for e in op.body]
        begins, extents = self.ranges(first.axis)
        count = len(extents)

        def make(box: list[tuple[int, int]]) -> Walker:
            inner = {**self.symbols}
            inner.update((a.var, algebra.trail(c, count)) for a, c in zip(op.axis, coords))
            inner_grid = dict(grid)
            for j, (a, begin, (lo, hi)) in enumerate(zip(first.axis, begins, box)):
                line = _along(np.arange(begin + lo, begin + hi), ndim + j, ndim + count)
                inner[a.var] = algebra.wrap(line, a.var.dtype)
                inner_grid[a.var] = (ndim + j, begin + lo, begin + hi)
            use = inner_grid if grid or not ndim else {}
            return Walker(algebra, inner, self, self.extern, use, ndim + count)

        values = Reducer(first, shape, extents).run(outer, mask, make)
        return [values[e.value_index] for e in op.body if isinstance(e, Reduce)]

    def ranges(self, axes: Sequence[IterVar]) -> tuple[list[int], list[int]]:
        """First values and extents of axes."""
        doms = [domain(a) for a in axes]
        begins = [extent_of(d.min, self.plain) for d in doms]
        return begins, [max(0, extent_of(d.extent, self.plain)) for d in doms]

    # --- reads (te_expr.Reads)

    def table(self, tensor: Tensor) -> Any:
        known = self.tables.get(tensor)
        if known is None and tensor.op not in self.stepping:
            raise TilewrightError(f"te_eval: {tensor!r} is read before it is computed")
        return known

    def elements(self, tensor: Tensor, indices: list[Any], mask: Mask) -> Any:
        """Elements of an operation inside a scan, at the present step."""
        op = tensor.op
        if not isinstance(op, ComputeOp):
            raise TilewrightError(f"te_eval does not evaluate {op!r} inside a scan's update")
        shape = self.shape_of(tensor)
        if indices and np.size(self.algebra.numbers(indices[0])) == 1:
            row = int(bounded(self.algebra, tensor.name, shape, indices, mask)[0].flat[0])
            if (op, row) not in self.rows:
                self.rows[op, row] = self.row(op, row, shape)
            first = self.algebra.wrap(self.algebra.numbers(indices[0]) * 0, "int32")
            table = self.rows[op, row][tensor.value_index]
            return gather(self.algebra, tensor.name, table, [first, *indices[1:]], mask)
        places = bounded(self.algebra, tensor.name, shape, indices, mask)
        everywhere = np.broadcast_shapes(*(p.shape for p in places), np.shape(mask))
        coords = [
            self.algebra.wrap(np.broadcast_to(p, everywhere), a.var.dtype)
            for p, a in zip(places, op.axis)
        ]
        return self.at(op, coords, everywhere, {}, mask)[tensor.value_index]

    def row(self, op: ComputeOp, index: int, shape: Sequence[int]) -> list[Any]:
        return self.box(op, [(index, index + 1), *((0, n) for n in shape[1:])])

    # --- scans

    def _scan(self, op: ScanOp) -> None:
        begins, extents = self.ranges([op.scan_axis])
        states = [self.algebra.table(self.shape_of(s), s.dtype) for s in op.state_placeholder]
        for table, init, placeholder in zip(states, op.init, op.state_placeholder):
            rows = min(begins[0], self.shape_of(placeholder)[0])
            self.algebra.store(table, (slice(0, rows),), self.algebra.head(self.tables[init], rows))
            self.tables[placeholder] = table
        for u in op.update:
            if not isinstance(u.op, ComputeOp):
                raise TilewrightError(f"te_eval does not evaluate a scan updated by {u.op!r}")
        before = self.stepping
        self.stepping = before | scan_body(op)
        for t in range(begins[0], begins[0] + extents[0]):
            self.rows.clear()
            for u in op.update:
                if (u.op, t) not in self.rows:
                    assert isinstance(u.op, ComputeOp)
                    self.rows[u.op, t] = self.row(u.op, t, self.shape_of(u))
            for table, u in zip(states, op.update):
                value = self.rows[u.op, t][u.value_index]
                self.algebra.store(table, (slice(t, t + 1),), value)
        self.rows.clear()
        self.stepping = before
        self._set(op, states)

    # --- tensor intrinsics

    def _tensor_compute(self, op: TensorComputeOp) -> list[Any]:
        """The intrinsic's own operation at each place of the outer axes, on its regions."""
        tables = [self.algebra.table(self.shape_of(t), t.dtype) for t in op.outputs]
        outer = op.axis[: op.schedulable_ndim]
        begins, extents = self.ranges(outer)
        reduce_begins, reduce_extents = self.ranges(op.reduce_axis)
        for place in np.ndindex(*extents):
            env = {a.var: b + p for a, b, p in zip(outer, begins, place)}
            total: list[Any] | None = None
            for step in np.ndindex(*reduce_extents):
                env.update((a.var, b + p) for a, b, p in zip(op.reduce_axis, reduce_begins, step))
                part = self._intrinsic(op, env)
                total = part if total is None else self._accumulate(op, total, part)
            for table, value in zip(tables, total or []):
                self.algebra.store(table, place, value)
        return tables

    def _intrinsic(self, op: TensorComputeOp, env: Mapping[Var, int]) -> list[Any]:
        symbols = {**self.plain, **{v: np.asarray(x, dtype=v.dtype) for v, x in env.items()}}
        inner = Program(self.algebra, symbols, self.extern)
        walker = Walker(self.algebra, inner.symbols, self, self.extern)
        for v, e in zip(op.intrin.scalar_params, op.scalar_inputs):
            inner.symbols[v] = walker.expr(e)
        for t, source, region in zip(op.intrin.inputs, op.tensors, op.regions):
            begins = [extent_of(r.min, symbols) for r in region]
            ends = [b + extent_of(r.extent, symbols) for b, r in zip(begins, region)]
            table = self.tables[source]
            shape = np.shape(self.algebra.numbers(table))
            if any(b < 0 or e > n for b, e, n in zip(begins, ends, shape)):
                raise TilewrightError(
                    f"te_eval: {op.name} reads {source.name} out of bounds: {begins} to {ends}"
                )
            part = self.algebra.part(table, tuple(map(slice, begins, ends)))
            inner.tables[t] = self.algebra.line(part, inner.shape_of(t))
        inner.run(op.intrin.op.outputs)
        return [inner.tables[t] for t in op.intrin.op.outputs]

    def _accumulate(self, op: TensorComputeOp, total: list[Any], part: list[Any]) -> list[Any]:
        first = op.intrin.op.body[0]
        if not isinstance(first, Reduce):
            raise TilewrightError(f"{op.name}: the intrinsic {op.intrin.name} does not reduce")
        env = {**dict(zip(first.combiner.lhs, total)), **dict(zip(first.combiner.rhs, part))}
        walker = Walker(self.algebra, env, self, self.extern)
        return [walker.expr(e) for e in first.combiner.result]


def _along(line: Array, dim: int, ndim: int) -> Array:
    return line.reshape([-1 if d == dim else 1 for d in range(ndim)])
