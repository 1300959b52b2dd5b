"""Attention in one kernel by Hopper's warp groups (sm_90a), as attention_kernel.py tells of it but
for what is here.

A warp group has 64 rows; its products read keys and values, and the first one queries, from shared
memory by matrix descriptors, and the second one powers from registers: sums of the first are laid
out as the first operand of the second (PTX ISA, "Register Fragments for wgmma.mma_async.m64k16").
While the second product of a tile is under way the first one of the next tile, started before it,
ends, and its powers are made (Shah et al.: FlashAttention-3, 2024, algorithm 2): keys come a tile
before values. Copies of threads fill the tiles; one barrier a tile says that they are there, and
that those of the tile before are free.
"""

from __future__ import annotations

from typing import Any

from ...loopir import hopper_calls as H
from ...loopir import op as O
from ...loopir.buffer import Buffer
from ...loopir.calls import tvm_warp_shuffle
from ...loopir.expr import Call, Var, const, convert
from ...loopir.stmt import Evaluate, For, ForKind, IfThenElse, LetStmt, Stmt, seq
from ..tensor_intrin.warp_group_tile import GROUP, GROUP_ROWS, KINDS, SPAN
from .attention_fragments import Fragments
from .attention_group_plan import GroupPlan
from .attention_kernel import Kernel
from .warp_registers import LANES, PART, SUMS, TILE

_ATOM = 8 * SPAN  # bytes after which the swizzle begins anew
_UNUSED, _UNIT = 16, 16  # an offset that a layout has not; bytes that addresses count
_WARPS = GROUP // LANES


class Groups(Fragments):
    """As `Fragments`, by products of warp groups: what a thread has is the same."""

    plan: GroupPlan

    def __init__(self, plan: GroupPlan, warp: Any, lane: Any) -> None:
        super().__init__(plan, warp, lane)
        del self.registers.buffers["q"], self.registers.buffers["f"]
        self.group = Var("group", "int32")

    def hold(self, queries: Buffer) -> list[Stmt]:
        """Nothing: queries are read where they are."""
        return []

    def with_group(self, body: Stmt) -> Stmt:
        """A statement where the number of the warp group is known, of lane 0, so that it is the
        same for a warp."""
        if self.plan.groups == 1:
            return LetStmt(self.group, const(0), body)
        number = O.indexdiv(self.warp, _WARPS)
        number = tvm_warp_shuffle(const(0xFFFFFFFF, "uint32"), number, 0, LANES, LANES)
        return LetStmt(self.group, number, body)

    def _descriptor(self, tile: Buffer, leading: int, at: int, first: Any = 0) -> Any:
        """Of a tile in shared memory, from element `at` on behind its `first`."""
        panels, rows, panel = (int(n) for n in tile.shape)
        count = panels * rows * panel
        args = (const(0, self.plan.dtype), tile.data, convert(first), const(count), const(1))
        pointer = Call("handle", "tir.tvm_access_ptr", args)
        whole = H.ptx_wgmma_descriptor(pointer, leading, _ATOM, SPAN)
        nbytes = at * SPAN // panel
        return whole + const(nbytes // _UNIT, "uint64") if at else whole

    def _started(self, products: list[Call]) -> list[Stmt]:
        return [Evaluate(x) for x in (*products, H.ptx_wgmma_commit_group())]

    def start_scores(self, queries: Buffer, keys: Buffer) -> list[Stmt]:
        """Start the first product, whose sums become "s"."""
        plan, own = self.plan, self.registers.buffers["s"]
        kind, each = KINDS[plan.dtype], plan.panel // TILE
        products = []
        for k in range(plan.deep):
            part, step = divmod(k, each)
            a, b = (
                self._descriptor(x, _UNUSED, part * rows * plan.panel + step * TILE, first)
                for x, rows, first in (
                    (queries, plan.rows, self.group * (GROUP_ROWS * plan.panel)),
                    (keys, plan.keys, 0),
                )
            )
            shape = f"m64n{plan.keys}k{TILE}"
            products.append(H.ptx_wgmma(SUMS, shape, kind, own.data, 0, a, b, const(int(k > 0))))
        return self._started(products)

    def start_weighing(self, values: Buffer) -> list[Stmt]:
        """Start the second product, of powers "p", which is added to "o"."""
        plan, r = self.plan, self.registers.buffers
        kind, shape = KINDS[plan.dtype], f"m64n{plan.wide * TILE}k{TILE}"
        products = []
        for k in range(plan.keys // TILE):
            b = self._descriptor(values, plan.keys * SPAN, k * TILE * plan.panel)
            given = (r["o"].data, 0, r["p"].data, k * PART, b, const(1), True)
            products.append(H.ptx_wgmma_rs(SUMS, shape, kind, *given))
        return self._started(products)

    def fence(self) -> Stmt:
        """Let products have the registers that were used."""
        return Evaluate(H.ptx_wgmma_fence())

    def wait(self, name: str, most: int, after: Any = None) -> Stmt:
        """Until sums of that name are there, where so many products started later; `after`: what
        is computed before."""
        own = self.registers.buffers[name]
        return Evaluate(H.ptx_wgmma_wait_group(most, own.data, int(own.shape[0]), after))


class GroupKernel(Kernel):
    """The statements of the kernel."""

    plan: GroupPlan
    core: Groups

    def _core(self) -> Groups:
        assert isinstance(self.plan, GroupPlan)
        return Groups(self.plan, self.warp, self.lane)

    def _first_tiles(self, keys: list[Buffer], values: list[Buffer]) -> list[Stmt]:
        return [self._load_keys(keys[0], self.begin).begin]

    def _blocks(self) -> int | None:
        return self.plan.blocks

    def _powers_of(self, step: Any) -> list[Stmt]:
        """From scores to powers, in "s"."""
        scored, self.powers = self._scored(step)
        return [*scored, *self._softmax(self.powers)]

    def _steps(self, q: Buffer, keys: list[Buffer], values: list[Buffer]) -> Stmt:
        """All tiles: the first product of each begins before the second one of the tile before."""
        core, begin = self.core, self.begin
        made = [core.fence(), *core.start_scores(q, keys[0])]
        if len(keys) > 1:
            made.append(self._there(begin + 1, self._load_keys(keys[1], begin + 1).begin))
        made += [
            self._load_values(values[0], begin).begin,
            core.wait("s", 0),
            *self._powers_of(begin),
            *core.keep_powers(),
            *([self._two_a_turn(keys, values, q)] if len(keys) > 1 else []),
            self._last_sums(values),
        ]
        body = seq(*made)
        if self.parts > 1 and self.sizes.window is not None:  # which may leave a part without any
            body = IfThenElse(begin < self.end, body)
        return core.with_group(body)

    def _there(self, step: Any, body: Stmt) -> Stmt:
        """What is done if there is such a tile."""
        return IfThenElse(step < self.end, body)

    def _two_a_turn(self, keys: list[Buffer], values: list[Buffer], q: Buffer) -> Stmt:
        count = self._turns()
        turn = Var("turn", "int32")
        halves = []
        for n in (0, 1):
            step = self.begin + turn * 2 + n
            half = self._step(keys, values, q, n, step)
            whole = n == 0 or (count is not None and count % 2)
            halves.append(half if whole else self._there(step + 1, half))
        turns = O.indexdiv(self.end - self.begin if count is None else count, 2)
        return For(turn, 0, turns, ForKind.SERIAL, seq(*halves))

    def _step(self, keys: list[Buffer], values: list[Buffer], q: Buffer, n: int, step: Any) -> Stmt:
        """The sums of a tile, and the powers of the next."""
        core, r = self.core, self.registers
        made = r.load("total", 0) + r.load("total", 1)  # of all powers
        return seq(
            core.fence(),
            *core.start_scores(q, keys[1 - n]),
            *core.start_weighing(values[n]),
            self._there(step + 2, self._load_keys(keys[n], step + 2).begin),
            self._load_values(values[1 - n], step + 1).begin,
            core.wait("s", 1),
            *self._powers_of(step + 1),
            core.wait("o", 0, made),
            *self._scaled_sums(),
            *core.keep_powers(),
        )

    def _last_sums(self, values: list[Buffer]) -> Stmt:
        """Those of the last tile."""
        core, count = self.core, self._turns()
        sums = [seq(core.fence(), *core.start_weighing(v), core.wait("o", 0)) for v in values]
        if count is not None or len(values) == 1:
            return sums[0 if count is None else (count - 1) % 2]
        odd = O.indexmod(self.end - self.begin, 2).equal(1)
        return IfThenElse(odd, *sums)
