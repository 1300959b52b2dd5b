"""Loops of their own over the lines of a tensor along one axis, for what a line needs one element
after another: sorting, running sums.

On a CPU the lines are shared out among its threads; on a device each of its threads has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import prod
from typing import Any

from ..base.errors import TilewrightError
from ..loopir import op as O
from ..loopir.ir_builder import IRBuilder
from ..target.target import Target
from ..tensor.axes import thread_axis
from ..tensor.extents import dimension
from ..tensor.tensor import Tensor
from .utils import get_const_tuple, unravel_index

_THREADS = 64  # of a block
_PARALLEL = 1 << 14  # steps that are worth waking threads for


class Lines:
    """The lines of `x` along `axis`, in the order in which they begin in memory. Extents that are
    no constants stay expressions, where `fixed` does not refuse them."""

    def __init__(self, x: Tensor, axis: int, fixed: bool = True) -> None:
        self.shape: list[Any] = [*get_const_tuple(x.shape)]
        if fixed and not all(isinstance(d, int) for d in self.shape):
            raise TilewrightError(f"the extents of {x!r} must be constants here")
        self.axis = dimension(axis, len(self.shape))
        self.length = self.shape[self.axis]
        self.others = [*self.shape[: self.axis], *self.shape[self.axis + 1 :]]
        self.count = prod(self.others)

    def with_length(self, length: Any) -> list[Any]:
        """The tensor's shape with other lines."""
        return [*self.shape[: self.axis], length, *self.shape[self.axis + 1 :]]

    def at(self, line: Any, place: Any) -> tuple[Any, ...]:
        """The indices of an element of a line."""
        places = unravel_index(line, self.others)
        return (*places[: self.axis], place, *places[self.axis :])


def on_device() -> bool:
    """Whether code is made for a device, whose threads take the place of parallel loops."""
    target = Target.current(allow_none=True)
    return target is not None and "gpu" in target.keys


def threads_of(most: int, shared: int = 0) -> int:
    """A power of two, at most so many threads of a block that the target allows, each of which
    needs so many bytes of shared memory."""
    target = Target.current(allow_none=False)
    assert target is not None, "asked for on a device"
    most = min(most, target.max_num_threads)
    if shared:
        most = max(1, min(most, target.max_shared_memory_per_block // shared))
    return 1 << (most.bit_length() - 1)


def each(
    ib: IRBuilder, count: Any, steps: Any, threads: int = _THREADS
) -> AbstractContextManager[Any]:
    """A loop over `count` independent pieces of work, `steps` in all; on a device in blocks of at
    most so many threads. Numbers that are not known are taken for small ones."""
    if not on_device():
        many = isinstance(steps, int) and isinstance(count, int) and count > 1
        kind = "parallel" if many and steps >= _PARALLEL else "serial"
        return ib.for_range(0, count, name="line", kind=kind)
    threads = threads_of(threads)
    return _Threads(ib, count, min(threads, count) if isinstance(count, int) else threads)


@contextmanager
def kernel(ib: IRBuilder, blocks: Any, threads: Any) -> Iterator[tuple[Any, Any]]:
    """The statements of one kernel; gives the numbers of the block and of its thread."""
    block, thread = thread_axis("blockIdx.x"), thread_axis("threadIdx.x")
    with ib.new_scope():
        ib.scope_attr(block, "thread_extent", blocks)
        ib.scope_attr(thread, "thread_extent", threads)
        yield block.var, thread.var


class _Threads:
    """As a loop, by threads of a device."""

    def __init__(self, ib: IRBuilder, count: Any, threads: int) -> None:
        self.ib = ib
        self.count, self.threads = count, threads
        self.scopes = ExitStack()

    def __enter__(self) -> Any:
        threads = self.threads
        block, thread = self.scopes.enter_context(
            kernel(self.ib, -(-self.count // threads), threads)
        )
        line = block * threads + thread
        if not isinstance(self.count, int) or self.count % threads:
            self.scopes.enter_context(self.ib.if_scope(line < self.count))
        return line

    def __exit__(self, *error: Any) -> None:
        self.scopes.__exit__(*error)


def bisected(ib: IRBuilder, low: Any, high: Any, ahead: Callable[[Any], Any]) -> Any:
    """How far `ahead` holds of low, ..., high - 1, which it does up to some number and not beyond:
    the first of which it does not, or `high`."""
    first, end = variable(ib, "int32", low, "low"), variable(ib, "int32", high, "high")
    with ib.while_loop(first[0] < end[0]):
        middle = ib.let("middle", O.floordiv(first[0] + end[0], 2))
        with ib.if_scope(ahead(middle)):
            first[0] = middle + 1
        with ib.else_scope():
            end[0] = middle
    return first[0]


def variable(ib: IRBuilder, dtype: str, value: Any, name: str) -> Any:
    """A number that changes: `v[0]`."""
    v = ib.allocate(dtype, 1, name=name, scope="local")
    v[0] = value
    return v
