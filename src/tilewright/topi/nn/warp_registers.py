"""Registers of the threads of a warp, and what tensor cores and shuffles do with them (CUDA, from
sm_75 on): fragments of 16 x 16 elements, of which each thread has eight.

PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix". Sums of 16 x 16 are those of two
instructions, of 16 x 8 each; four threads have a row of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any

from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.calls import tvm_warp_shuffle
from ...loopir.expr import Broadcast, BufferLoad, Call, StringImm, const
from ...loopir.stmt import Evaluate, Stmt, vstore

LANES, TILE, PART = 32, 16, 8  # of a warp; a fragment's side, and a thread's elements of it
QUAD = 4  # threads that have a row of sums
OPERANDS = {"float16": "fp16", "bfloat16": "bf16"}
SUMS = "float32"


class Registers:
    """Arrays of a thread's own, by their names: elements and types. Operands are of `dtype`, the
    second one of a product is in "f"; `lane` is the thread's number in its warp."""

    def __init__(self, dtype: str, lane: Any, arrays: Mapping[str, tuple[int, str]]) -> None:
        self.dtype, self.lane = dtype, lane
        self.buffers: dict[str, Buffer] = {
            name: decl_buffer((count,), kind, name, scope="local")
            for name, (count, kind) in arrays.items()
        }

    def load(self, name: str, at: int) -> Any:
        return BufferLoad(self.buffers[name], [const(at)])

    def store(self, name: str, at: int, value: Any) -> Stmt:
        return vstore(self.buffers[name], [const(at)], value)

    def zeros(self, name: str) -> list[Stmt]:
        count = int(self.buffers[name].shape[0])
        lanes = gcd(count, PART)
        none = Broadcast(const(0, SUMS), lanes)
        return [self.store(name, at, none) for at in range(0, count, lanes)]

    def fetch(
        self, name: str, start: int, tile: Buffer, at: tuple[Any, Any], turned: bool = False
    ) -> Stmt:
        """Four matrices of 8 x 8 to a fragment, from addresses in a tile that lanes give."""
        rows, pitch = (int(d) for d in tile.shape)
        whole = (const(0, self.dtype), tile.data, const(0), const(rows * pitch), const(1))
        pointer = Call("handle", "tir.tvm_access_ptr", whole)
        args = (
            const(turned, "bool"), const(4), StringImm(".b16"),
            self.buffers[name].data, const(start), pointer, at[0] * pitch + at[1],
        )  # fmt: skip
        return Evaluate(Call(self.dtype, "tir.ptx_ldmatrix", args))

    def multiply(self, a: tuple[str, int], sums: tuple[str, int]) -> list[Stmt]:
        """A fragment of 16 x 16 by that in "f", added to sums."""
        kind = OPERANDS[self.dtype]
        kinds = [StringImm(x) for x in ("m16n8k16", "row", "col", kind, kind, "fp32")]
        own, second, added = (self.buffers[n].data for n in (a[0], "f", sums[0]))
        made: list[Stmt] = []
        for n in (0, 1):
            half = n * PART // 2
            places = (own, const(a[1]), second, const(half), added, const(sums[1] + half))
            args = (*kinds, *places, const(False, "bool"))
            made.append(Evaluate(Call(SUMS, "tir.ptx_mma", args)))
        return made

    def of_lanes(
        self, name: str, at: int, far: Sequence[int], join: Callable[[Any, Any], Any]
    ) -> list[Stmt]:
        """What threads have whose numbers differ in these bits, joined, in each of them."""
        made = []
        for bit in far:
            own = self.load(name, at)
            made.append(self.store(name, at, join(own, self.other(own, bit))))
        return made

    def other(self, value: Any, bit: int) -> Any:
        """What the thread has whose number differs in a bit."""
        mask = const(0xFFFFFFFF, "uint32")
        return tvm_warp_shuffle(mask, value, self.lane ^ bit, LANES, LANES)
