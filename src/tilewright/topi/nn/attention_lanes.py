"""Both products of attention without tensor cores (attention_kernel.py): a thread has scores of
four rows with every eighth key of a tile, and as many sums of values; eight threads share a row.

Of queries, keys and powers vectors along the sum are read, of values vectors of neighbours: with 64
keys in a tile twelve vectors of 16 bytes are read for 128 products. The queries of a warp begin at
neighbouring rows, keys and powers too, whose pitches lead to other banks. Powers go through shared
memory to the other threads of their row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...loopir import op as O
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.expr import Var
from ...loopir.stmt import BufferStore, For, ForKind, Stmt, seq
from .attention_fragments import Neighbours
from .attention_plan import WARP_ROWS, Plan
from .warp_registers import LANES, SUMS, TILE, Registers

_SHARE = 8  # threads of a row
_STEP = 4  # of a sum, in a vector


class Lanes:
    """As `Fragments`, for float32."""

    count = WARP_ROWS * _SHARE // LANES

    def __init__(self, plan: Plan, warp: Any, lane: Any) -> None:
        self.plan, self.warp, self.lane = plan, warp, lane
        self.keys, self.columns = plan.keys // _SHARE, plan.wide * TILE // _SHARE
        self.share = lane % _SHARE
        rows = dict.fromkeys(("most", "total", "larger", "scale"), (self.count, SUMS))
        self.registers = Registers(
            SUMS,
            lane,
            {
                "s": (self.count * self.keys, SUMS),
                "o": (self.count * self.columns, SUMS),
                "a": (self.count * _STEP, SUMS),
                "b": (_STEP, SUMS),
                **rows,
            },
        )
        shape = (plan.rows, plan.powers_pitch)
        self.powers = decl_buffer(shape, SUMS, "powers", scope="shared", data_alignment=16)
        self.shared = [self.powers]

    # -- where things are

    def half(self, name: str, at: int) -> int:
        return at // (self.keys if name == "s" else self.columns)

    def row(self, h: int) -> Any:
        return self.warp * WARP_ROWS + O.indexdiv(self.lane, _SHARE) + h * (WARP_ROWS // self.count)

    def key(self, at: int) -> Any:
        return self.share + at % self.keys * _SHARE

    def first_of_row(self) -> Any:
        return self.share.equal(0)

    def of_row(self, name: str, h: int, join: Callable[[Any, Any], Any]) -> list[Stmt]:
        return self.registers.of_lanes(name, h, (1, 2, 4), join)

    def neighbours(self, h: int, width: int) -> tuple[list[Stmt], list[Neighbours]]:
        """Where sums of neighbouring columns are, of a thread's row."""
        first = h * self.columns
        return [], [Neighbours(c, lanes, "o", first + at) for c, lanes, at in self._vectors()]

    def _vectors(self) -> list[tuple[Any, int, int]]:
        """Columns of a thread: where vectors begin, how long they are, and the number of the first
        column."""
        found, first = [], 0
        while first < self.columns:
            lanes = _STEP if self.columns - first >= _STEP else 2
            found.append((self.share * lanes + first * _SHARE, lanes, first))
            first += lanes
        return found

    # -- products

    def hold(self, queries: Buffer) -> list[Stmt]:
        return []

    def _read(self, name: str, at: int, source: Buffer, place: list[Any], lanes: int) -> Stmt:
        return self.registers.store(name, at, source.vload(place, f"{SUMS}x{lanes}"))

    def _added(self, sums: str, at: int, a: int, b: int) -> Stmt:
        r = self.registers
        return r.store(sums, at, r.load(sums, at) + r.load("a", a) * r.load("b", b))

    def _rows(self, source: Buffer, column: Any) -> list[Stmt]:
        """So many neighbours of all of a thread's rows."""
        every = range(self.count)
        return [self._read("a", h * _STEP, source, [self.row(h), column], _STEP) for h in every]

    def _loop(self, extent: int, body: Callable[[Any], list[Stmt]]) -> Stmt:
        """Over a sum, two vectors a turn: the second ones are loaded while the first are multiplied
        with."""
        step = Var("step", "int32")
        both = [s for n in (0, 1) for s in body((step * 2 + n) * _STEP)]
        return For(step, 0, extent // (2 * _STEP), ForKind.SERIAL, seq(*both))

    def scores(self, queries: Buffer, keys: Buffer) -> list[Stmt]:
        def products(d: Any) -> list[Stmt]:
            made = self._rows(queries, d)
            for j in range(self.keys):
                made.append(self._read("b", 0, keys, [self.share + j * _SHARE, d], _STEP))
                for x in range(_STEP):
                    for h in range(self.count):
                        made.append(self._added("s", h * self.keys + j, h * _STEP + x, x))
            return made

        zeros = self.registers.zeros("s")
        return [*zeros, self._loop(self.plan.deep * TILE, products)]

    def keep_powers(self) -> list[Stmt]:
        made: list[Stmt] = []
        for at in range(self.count * self.keys):
            place = [self.row(self.half("s", at)), self.key(at)]
            made.append(BufferStore(self.powers, self.registers.load("s", at), place))
        return made

    def weigh(self, values: Buffer) -> list[Stmt]:
        def products(t: Any) -> list[Stmt]:
            made = self._rows(self.powers, t)
            for x in range(_STEP):
                for place, lanes, first in self._vectors():
                    made.append(self._read("b", 0, values, [t + x, place], lanes))
                    for h in range(self.count):
                        for i in range(lanes):
                            at = h * self.columns + first + i
                            made.append(self._added("o", at, h * _STEP + x, i))
            return made

        return [self._loop(self.plan.keys, products)]
