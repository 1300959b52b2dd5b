"""A kernel as function of the state, with what is known about it."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.expr import const_int
from ..loopir.hopper_calls import CLUSTER
from ..loopir.iter import IterVar
from ..loopir.visit import nodes
from . import simt_async as simt_async
from . import simt_atomic as simt_atomic
from . import simt_cluster as simt_cluster
from . import simt_mma as simt_mma
from . import simt_ptx as simt_ptx
from . import simt_sides as simt_sides
from . import simt_tma as simt_tma
from . import simt_warp as simt_warp
from . import simt_wgmma as simt_wgmma
from .simt_stmt import KernelCode

TAGS = tuple(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz")


class Kernel:
    """`run` runs it on a State; `units`, `reads`, `writes` say how each memory is used."""

    def __init__(self, func: S.PrimFunc) -> None:
        self.name = func.name  # the function itself must be free to go: it is a weak key
        self.buffers = tuple(func.buffer_map.values())
        self.params = tuple(
            func.buffer_map[p].data if p in func.buffer_map else p for p in func.params
        )
        self.units: dict[E.Var, tuple[str, ...]] = {}
        self.reads: set[E.Var] = set()
        self.writes: set[E.Var] = set()
        self.extents: dict[str, Any] = {}
        self.allocated: list[S.Allocate] = []
        self.whole_grid = False
        self.cluster = 1  # blocks
        self._look(func.body)
        scopes = {s.buffer.data: s.buffer.scope_name for s in self.allocated}
        self.code = KernelCode(self.units, scopes, {tag: n for n, tag in enumerate(TAGS)})
        for n, tag in enumerate(TAGS):
            self.code.slots[E.Var(tag)] = n
        for p in self.params:
            if p.dtype != "handle":
                self.code.slot(p)
                self.code.fixed.add(p)
        for b in self.buffers:
            for v in (*b.shape, *b.strides):
                if isinstance(v, E.Var):
                    self.code.slot(v)
                    self.code.fixed.add(v)
        self.grid_extents = {tag: self.code.value(e) for tag, e in self.extents.items()}
        self.run = self.code.block(func.body)

    def _look(self, body: S.Stmt) -> None:
        """Find how memory is used, and the thread axes."""
        units: dict[E.Var, dict[str, None]] = {}
        for x in nodes(body):
            kind = type(x)
            if kind is E.BufferLoad or kind is S.BufferStore:
                (self.reads if kind is E.BufferLoad else self.writes).add(x.buffer.data)
                units.setdefault(x.buffer.data, {})[parse(x.buffer.dtype).element] = None
            elif kind is S.Allocate:
                self.allocated.append(x)
                units.setdefault(x.buffer.data, {})[parse(x.buffer.dtype).element] = None
            elif kind is S.AttrStmt and x.attr_key == "thread_extent":
                if isinstance(x.node, IterVar):
                    tag = x.node.thread_tag or x.node.var.name
                    if tag in TAGS:
                        self.extents.setdefault(tag, x.value)
            elif kind is S.AttrStmt and x.attr_key == CLUSTER:
                self.cluster = max(self.cluster, const_int(x.value) or 1)
            elif kind is S.For and x.thread_binding is not None:
                if x.thread_binding.thread_tag in TAGS:
                    self.extents.setdefault(x.thread_binding.thread_tag, x.extent)
            elif kind is E.Call:
                self._call(x, units)
        self.units = {v: tuple(types) for v, types in units.items()}

    def _call(self, e: E.Call, units: dict[E.Var, dict[str, None]]) -> None:
        name = e.op.name
        if name == "tir.tvm_storage_sync" and getattr(e.args[0], "value", "") == "global":
            self.whole_grid = True
        handles = [a for a in e.args if isinstance(a, E.Var) and a.dtype == "handle"]
        if name == "tir.tvm_access_ptr":
            data: Any = e.args[1]
            units.setdefault(data, {})[parse(e.args[0].dtype).element] = None
            mask = e.args[4].value if isinstance(e.args[4], E.IntImm) else 3
            self.reads.update([data] if mask & 1 else [])
            self.writes.update([data] if mask & 2 else [])
            return
        elif name == "tir.address_of" and isinstance(e.args[0], E.BufferLoad):
            handles.append(e.args[0].buffer.data)
        for v in handles:  # a pointer may be used for anything
            self.reads.add(v)
            self.writes.add(v)
