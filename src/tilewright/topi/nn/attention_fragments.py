"""Both products of attention on tensor cores (attention_kernel.py): a warp's 16 rows, in fragments.

Powers, rounded to the operands' type, are an operand of the second product as they lie in
registers: the sums of m16n8 of two neighbouring instructions are what one of m16n8k16 takes of its
first operand (PTX ISA, "Matrix Fragments for mma.m16n8k16"). Four threads have a row's parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...loopir import op as O
from ...loopir.buffer import Buffer
from ...loopir.construct import cast
from ...loopir.expr import const
from ...loopir.stmt import Stmt
from .attention_plan import WARP_ROWS, Plan
from .warp_registers import PART, QUAD, SUMS, TILE, Registers


class Neighbours(NamedTuple):
    """Sums of so many neighbouring columns, from `column` on, in registers of that name."""

    column: Any
    lanes: int
    name: str
    at: int


class Fragments:
    """What a thread has of scores ("s") and of sums of values ("o"), and how these are made.
    `count`: rows of which a thread has something; element `at` of either is of the thread's
    row `half(name, at)`."""

    count = 2

    def __init__(self, plan: Plan, warp: Any, lane: Any) -> None:
        self.plan, self.warp, self.lane = plan, warp, lane
        tiles = plan.keys // TILE
        self.registers = Registers(
            plan.dtype,
            lane,
            {
                "q": ((plan.deep if plan.held else 1) * PART, plan.dtype),
                "s": (tiles * PART, SUMS),
                "p": (tiles * PART, plan.dtype),
                "o": (plan.wide * PART, SUMS),
                "f": (PART, plan.dtype),
                "e": (plan.wide * PART // self.count, SUMS),
                "x": (PART, SUMS),
                **dict.fromkeys(("most", "total", "larger", "scale"), (self.count, SUMS)),
            },
        )
        self.shared: list[Buffer] = []

    # -- where things are

    def half(self, name: str, at: int) -> int:
        return at % 4 // 2

    def row(self, h: int) -> Any:
        """The row of the block of a thread's row."""
        return self.warp * WARP_ROWS + O.indexdiv(self.lane, QUAD) + h * 8

    def key(self, at: int) -> Any:
        """The key of the tile of a score."""
        return self._column(at)

    def _column(self, at: int) -> Any:
        e, n, j = at // PART, at // 4 % 2, at % 2
        return self.lane % QUAD * 2 + (e * TILE + n * 8 + j)

    def first_of_row(self) -> Any:
        """Whether a thread is the first of those that share a row."""
        return (self.lane % QUAD).equal(0)

    def of_row(self, name: str, h: int, join: Callable[[Any, Any], Any]) -> list[Stmt]:
        """What the threads of a row have, joined, in each of them."""
        return self.registers.of_lanes(name, h, (1, 2), join)

    def neighbours(self, h: int, width: int) -> tuple[list[Stmt], list[Neighbours]]:
        """What brings sums of neighbouring columns together, up to `width`, of a thread's row, and
        where they are then. Four threads have pairs of each eight columns: of two eights, and then
        of two such, one thread gives what it has of the one for what another has of the other."""
        r, quad = self.registers, self.lane % QUAD
        made: list[Stmt] = []
        found: list[Neighbours] = []
        for at in range(0, 2 * self.plan.wide, 2):
            own = [[r.load("o", (at + n) * 4 + h * 2 + i) for i in (0, 1)] for n in (0, 1)]
            if width < 4:
                for n in (0, 1):
                    made += [r.store("e", (at + n) * 2 + i, own[n][i]) for i in (0, 1)]
                    found.append(Neighbours(quad * 2 + (at + n) * 8, 2, "e", (at + n) * 2))
                continue
            made += self._exchanged(own, 1, at * 2)
            column = (quad % 2 + at) * 8 + O.indexdiv(quad, 2) * 4
            found.append(Neighbours(column, 4, "e", at * 2))
        return made, self._doubled(found, made) if width >= 8 else found

    def _exchanged(self, own: list[list[Any]], bit: int, to: int) -> list[Stmt]:
        """Of two runs, the one of this thread before or behind that of another, where its number
        has another bit."""
        r, upper = self.registers, O.indexmod(O.indexdiv(self.lane, bit), 2).equal(1)
        made: list[Stmt] = []
        count = len(own[0])
        for i in range(count):
            given = O.select(upper, own[0][i], own[1][i])
            made.append(r.store("x", i, r.other(given, bit)))
            made.append(r.store("x", count + i, O.select(upper, own[1][i], own[0][i])))
        got, kept = ([r.load("x", n * count + i) for i in range(count)] for n in (0, 1))
        for i in range(count):
            made.append(r.store("e", to + i, O.select(upper, got[i], kept[i])))
            made.append(r.store("e", to + count + i, O.select(upper, kept[i], got[i])))
        return made

    def _doubled(self, found: list[Neighbours], made: list[Stmt]) -> list[Neighbours]:
        """Fours of a run of 16 columns and the next, as eights."""
        r, joined = self.registers, []
        for n in range(0, len(found) - 1, 2):
            own = [[r.load("e", x.at + i) for i in range(4)] for x in found[n : n + 2]]
            made += self._exchanged(own, 2, found[n].at)
            joined.append(Neighbours((self.lane % QUAD + 2 * n) * 8, 8, "e", found[n].at))
        return joined + found[2 * len(joined) :]

    # -- products

    def hold(self, queries: Buffer) -> list[Stmt]:
        """Queries to registers, where they stay there."""
        if not self.plan.held:
            return []
        return [self._query(queries, k, k * PART) for k in range(self.plan.deep)]

    def _query(self, queries: Buffer, k: int, at: int) -> Stmt:
        row = self.warp * WARP_ROWS + self.lane % TILE
        place = (row, O.indexdiv(self.lane, TILE) * 8 + k * TILE)
        return self.registers.fetch("q", at, queries, place)

    def scores(self, queries: Buffer, keys: Buffer) -> list[Stmt]:
        r, tiles, deep = self.registers, self.plan.keys // TILE, self.plan.deep
        low = self.lane % 8 + O.indexdiv(self.lane, 16) * 8
        high = O.indexdiv(self.lane, 8) % 2 * 8

        def product(p: int, k: int, own: int) -> list[Stmt]:
            fetched = r.fetch("f", 0, keys, (low + p * TILE, high + k * TILE))
            return [fetched, *r.multiply(("q", own), ("s", p * PART))]

        made = r.zeros("s")
        if self.plan.held:
            for p in range(tiles):
                for k in range(deep):
                    made += product(p, k, k * PART)
            return made
        for k in range(deep):
            made.append(self._query(queries, k, 0))
            for p in range(tiles):
                made += product(p, k, 0)
        return made

    def keep_powers(self) -> list[Stmt]:
        """Scores, which are powers now, as an operand."""
        r, made = self.registers, []
        for at in range(0, self.plan.keys // TILE * PART, 2):
            pair = r.buffers["s"].vload([const(at)], f"{SUMS}x2")
            made.append(r.store("p", at, cast(f"{self.plan.dtype}x2", pair)))
        return made

    def weigh(self, values: Buffer) -> list[Stmt]:
        r, made = self.registers, []
        low, high = self.lane % TILE, O.indexdiv(self.lane, TILE) * 8
        for p in range(self.plan.keys // TILE):
            for e in range(self.plan.wide):
                made.append(r.fetch("f", 0, values, (low + p * TILE, high + e * TILE), True))
                made += r.multiply(("p", p * PART), ("o", e * PART))
        return made
