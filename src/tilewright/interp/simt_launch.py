"""One launch of a kernel: its arguments, its grid, and the batches of blocks that run together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import ArgumentError
from ..loopir import expr as E
from .simt_cluster import require_landed, require_met
from .simt_kernel import TAGS, Kernel
from .simt_memory import Memory, global_memory, is_shared
from .simt_report import SimtReport
from .simt_shadow import RaceShadow
from .simt_state import Geometry, Log, State
from .simt_tma import SimtMap
from .simt_traffic import Samples

_LANES = 1 << 15  # that run together, where memory allows
_BYTES = 1 << 28  # of shared and local memory with its shadows
_STEPS = 8  # of a loop that is sampled: more than a pipeline has stages


class SimtArray:
    """A flat array of which elements may be unwritten: memory that was allocated, not given.

    `written` says of each byte whether it has been; launches keep it up to date.
    """

    __slots__ = ("data", "written")

    def __init__(self, data: np.ndarray[Any, Any], written: Any = None) -> None:
        self.data = data
        size = data.size * data.itemsize
        self.written = np.zeros(size, np.bool_) if written is None else written


class Launch:
    """One run of a kernel."""

    def __init__(
        self,
        kernel: Kernel,
        grid: dict[str, int],
        args: Sequence[Any],
        warp_size: int,
        report: SimtReport,
        align: Sequence[int] = (),
    ) -> None:
        self.kernel = kernel
        self.report = report
        self.memory: dict[E.Var, Memory] = {}
        self.scalars: dict[int, Any] = {}
        self.partly: list[tuple[Memory, SimtArray]] = []
        self.maps: dict[E.Var, SimtMap] = {}
        if len(args) != len(kernel.params):
            names = ", ".join([p.name for p in kernel.params])
            raise ArgumentError(
                f"{kernel.name} takes {len(kernel.params)} arguments ({names}), got {len(args)}"
            )
        for at, (p, value) in enumerate(zip(kernel.params, args)):
            self._bind(p, value, align[at] if at < len(align) else 0)
        for b in kernel.buffers:
            self._sizes(b, args[list(kernel.params).index(b.data)])
        self.geometry = self._geometry(grid, warp_size)
        report.blocks, report.threads = self.geometry.blocks, self.geometry.threads
        self.log = Log(report, kernel.code.sites, self.geometry)
        for p, value in zip(kernel.params, args):
            if p.dtype == "handle" and p not in self.maps:
                self._shadow(p, value)

    def _bind(self, p: E.Var, value: Any, align: int) -> None:
        if p.dtype != "handle":
            t = parse(p.dtype)
            self.scalars[self.kernel.code.slots[p]] = np.asarray(value).astype(t.numpy)[()]
            return
        if isinstance(value, SimtMap):
            self.maps[p] = value
            return
        array = value.data if isinstance(value, SimtArray) else value
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
            raise ArgumentError(
                f"argument {p.name} of {self.kernel.name} must be a contiguous NumPy array, "
                f"got {type(array).__name__}"
            )
        types = self.kernel.units.get(p, ()) or (str(array.dtype),)
        unit = min([parse(t).numpy.itemsize for t in types])
        self.memory[p] = global_memory(self.report, p.name, array.reshape(-1), unit, align)

    def _sizes(self, b: Any, value: Any) -> None:
        """Give the variables of a buffer's shape and strides their values."""
        array = value.data if isinstance(value, SimtArray) else value
        steps = [n // array.itemsize for n in array.strides]
        for d, n in (*zip(b.shape, array.shape), *zip(b.strides, steps)):
            if isinstance(d, E.Var):
                number = parse(d.dtype).numpy.type(n)
                self.scalars.setdefault(self.kernel.code.slots[d], number)

    def _geometry(self, grid: dict[str, int], warp_size: int) -> Geometry:
        st = State.__new__(State)  # extents are of scalars alone
        st.env = [None] * len(self.kernel.code.slots)
        st.cache = [None] * self.kernel.code.caches
        st.mask, st.quiet = None, False
        for n, v in self.scalars.items():
            st.env[n] = v
        sizes = dict.fromkeys(TAGS, 1)
        for tag, f in self.kernel.grid_extents.items():
            sizes[tag] = int(f(st)) if tag not in grid else int(grid[tag])
            inner = self.kernel.extents[tag]
            if isinstance(inner, E.IntImm) and inner.value != sizes[tag]:
                raise ArgumentError(
                    f"{self.kernel.name} runs with {tag} = {inner.value}, not {sizes[tag]}"
                )
        for tag, n in grid.items():
            if tag not in TAGS:
                raise ArgumentError(f"{tag!r} is no thread axis; they are {', '.join(TAGS)}")
            sizes[tag] = int(n)
        if min(sizes.values()) < 0:
            raise ArgumentError(f"{self.kernel.name}: extents of the grid are {sizes}")
        x, y, z = [sizes[t] for t in TAGS[:3]]
        a, b, c = [sizes[t] for t in TAGS[3:]]
        if x % self.kernel.cluster:
            raise ArgumentError(
                f"{self.kernel.name} has clusters of {self.kernel.cluster} blocks along "
                f"blockIdx.x, which do not divide {x}"
            )
        return Geometry((x, y, z), (a, b, c), warp_size, self.kernel.cluster)

    def _shadow(self, p: E.Var, value: Any) -> None:
        """Shadow memory where threads can clash, or where elements may be unwritten."""
        m = self.memory[p]
        writes, reads = p in self.kernel.writes, p in self.kernel.reads
        units = m.raw.size // m.unit
        if isinstance(value, SimtArray):
            written = value.written[: units * m.unit].reshape(-1, m.unit).all(axis=1)
            if writes or not written.all():
                reads = reads and writes
                m.shadow = RaceShadow(units, True, written, reads, self.geometry.groups)
                self.partly.append((m, value))
        elif writes:
            m.shadow = RaceShadow(units, True, True, reads, self.geometry.groups)

    def sample(self) -> None:
        """Run one block, in the middle of the grid, and the first steps of each loop: its accesses
        are like those of others, its results mean nothing."""
        g, samples = self.geometry, Samples()
        if g.blocks and g.threads:
            middle = g.blocks // 2
            self._batch(middle - middle % g.cluster, g.cluster, 1, samples, _STEPS)
        self._count(samples)

    def run(self) -> None:
        g = self.geometry
        samples = Samples()
        if g.blocks and g.threads:
            each = g.blocks if self.kernel.whole_grid else self._blocks_at_once()
            clock = 1
            for first in range(0, g.blocks, each):
                count = min(each, g.blocks - first)
                clock = self._batch(first, count, clock, samples) + 1
        for m, array in self.partly:
            known = np.repeat(m.shadow.writes != 0, m.unit)
            array.written[: known.size] |= known
        self._count(samples)

    def _count(self, samples: Samples) -> None:
        if samples.accesses:
            self.report.bank_conflicts = samples.turns / samples.accesses
        if samples.moved:
            self.report.coalescing = samples.asked / samples.moved
            self.report.bytes_an_access = samples.asked / samples.requests

    def _blocks_at_once(self) -> int:
        g = self.geometry
        lanes = max(1, _LANES // g.threads)
        block_bytes = 1
        for s in self.kernel.allocated:
            count = parse(s.buffer.dtype).lanes * parse(s.buffer.dtype).nbytes
            for d in s.buffer.shape:
                count *= d.value if isinstance(d, E.IntImm) else 64
            block_bytes += count * 8 if is_shared(s.buffer.scope_name) else count * 2 * g.threads
        most = min(lanes, _BYTES // block_bytes, g.blocks)
        return max(g.cluster, most - most % g.cluster)

    def _batch(
        self, first: int, count: int, clock: int, samples: Samples, most_steps: int = sys.maxsize
    ) -> int:
        """Run blocks together; gives the time at their end."""
        code, g = self.kernel.code, self.geometry
        st = State(g, first, count, len(code.slots), self.log)
        st.cache = [None] * code.caches
        st.samples, st.most_steps = samples, most_steps
        st.maps = self.maps
        st.memory.update(self.memory)
        st.start(clock, 1)
        for n, v in self.scalars.items():
            st.env[n] = v
        for kind, number, dims in ((0, st.block, g.grid), (3, st.thread_in, g.block)):
            x, y, _ = dims
            for axis, v in enumerate((number % x, number // x % y, number // (x * y))):
                st.env[kind + axis] = v.astype(np.int32)
        self.kernel.run(st)
        require_met(st)
        require_landed(st)
        for m in self.memory.values():
            if m.taint is not None:  # was read, but is unwritten still
                m.shadow.writes[m.taint != 0] = 0
                m.taint = None
        return st.clock
