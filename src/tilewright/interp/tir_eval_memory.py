"""Accesses of memory as Python source text: element offsets, checked to be in bounds."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from .tir_eval_text import MAX_DEPTH, Text, Writer

_MANY = 80  # characters of an index that is worth a temporary


class MemoryCode(Writer):
    """Writes reads of buffers, and places to write to.

    `memories` has the name of the flat array of each data variable and element type, `primary` the
    buffer that the memory was made for, `ranges` what is known of loop variables.
    """

    recursive = ("bounds",)

    def __init__(self) -> None:
        super().__init__()
        self.memories: dict[E.Var, dict[str, str]] = {}
        self.primary: dict[E.Var, Buffer] = {}
        self.ranges: dict[E.Var, tuple[int, int]] = {}

    def _load(self, e: E.BufferLoad) -> Text:
        t = parse(e.dtype)
        if t.lanes > 1:
            memory, at = self.lanes(e.buffer, e.indices, e.predicate)
            mask = self.mask(e.predicate)
            call = f"{self.helper('gather')}({memory}, {at}, {mask}, {t.lanes})"
            return Text(call, MAX_DEPTH)
        memory, at, depth = self.place(e.buffer, e.indices)
        item = f"{memory}[{at}]" if t.is_float else f"{memory}_item({at})"
        if e.predicate is None:
            return Text(item, depth + 1)
        zero = f"{self.float_type(t)}(0)" if t.is_float else "0"
        return Text(f"({item} if {self.code(e.predicate)} else {zero})", depth + 1)

    def memory(self, b: Buffer) -> str:
        """The name of a buffer's memory, as flat array of its element type."""
        views = self.memories.get(b.data)
        element = parse(b.dtype).element
        if views is None or element not in views:
            raise TilewrightError(
                f"tir_eval: buffer {b.name} has no memory: it is no parameter and not allocated"
            )
        return views[element]

    def place(self, b: Buffer, indices: tuple[Any, ...]) -> tuple[str, str, int]:
        """Memory, element offset (checked) and depth of a scalar access."""
        memory = self.memory(b)
        if len(indices) != b.ndim:
            raise TilewrightError(
                f"tir_eval: buffer {b.name} has {b.ndim} dimensions, got {len(indices)} indices"
            )
        own = self.primary.get(b.data) is b
        if b.ndim == 1 and not b.strides and const_int(b.elem_offset) == 0:
            limit = b.shape[0] if own else self.limit(b, memory)
            text = self.checked(b, 0, indices[0], limit)
            return memory, text.code, text.depth
        total = Text("0")
        if const_int(b.elem_offset) != 0:
            total = self.value(b.elem_offset)
        depth = total.depth
        terms = [] if total.code == "0" else [total.code]
        step = ""
        for d in reversed(range(b.ndim)):
            text = self.checked(b, d, indices[d], b.shape[d])
            depth = max(depth, text.depth)
            factor = self.code(b.strides[d]) if b.strides else step
            terms.append(f"{text.code} * {factor}" if factor else text.code)
            if not b.strides:
                extent = self.code(b.shape[d])
                step = f"{step} * {extent}" if step else extent
        flat = " + ".join(terms) or "0"
        if not own:
            name = self.fresh()
            flat = (
                f"{name} if 0 <= ({name} := {flat}) < {memory}_size else "
                f"{self.helper('out_of_bounds')}({b.name!r}, -1, {name}, {memory}_size)"
            )
        return memory, flat, depth + 1

    def limit(self, b: Buffer, memory: str) -> Any:
        """How many elements a flat view of a buffer may use: those of its memory, or fewer."""
        own, extent = self.primary.get(b.data), const_int(b.shape[0])
        if own is None or own.strides or extent is None or parse(own.dtype).bits < 8:
            return f"{memory}_size"
        size = 1
        for d in own.shape:
            known = const_int(d)
            if known is None:
                return f"{memory}_size"
            size *= known
        bytes_per = parse(own.dtype).nbytes * parse(own.dtype).lanes
        return E.const(min(extent, size * bytes_per // parse(b.dtype).nbytes))

    def checked(self, b: Buffer, d: int, index: Any, extent: Any) -> Text:
        """An index, with a test that it is in [0, extent) where that is not plain to see."""
        known = extent if isinstance(extent, str) else const_int(extent)
        text = self.value(index)
        if isinstance(known, int):
            low, high = self.bounds(index)
            if low >= 0 and high < known:
                return text
        if len(text.code) > _MANY:
            text = self.to_temporary(text.code, True)
        top = extent if isinstance(extent, str) else self.code(extent)
        name, test = text.code, text.code
        if not name.isidentifier() and not name.isdigit():
            name = self.fresh()
            test = f"({name} := {text.code})"
        fail = f"{self.helper('out_of_bounds')}({b.name!r}, {d}, {name}, {top})"
        return Text(f"({name} if 0 <= {test} < {top} else {fail})", text.depth + 1, True)

    def bounds(self, e: Any) -> tuple[float, float]:
        """Cheap bounds of an index from the ranges of loops."""
        kind = type(e)
        if kind is E.IntImm:
            return e.value, e.value
        if kind in (E.Var, E.SizeVar):
            return self.ranges.get(e, (float("-inf"), float("inf")))
        if kind is E.Add:
            (a, b), (c, d) = self.bounds(e.a), self.bounds(e.b)
            return a + c, b + d
        if kind is E.Mul and type(e.b) is E.IntImm and e.b.value > 0:
            a, b = self.bounds(e.a)
            return a * e.b.value, b * e.b.value
        if kind is E.FloorMod and type(e.b) is E.IntImm and e.b.value > 0:
            return 0, e.b.value - 1
        return float("-inf"), float("inf")

    def mask(self, predicate: Any) -> str:
        """A vector access's predicate, which stands in several places."""
        if predicate is None:
            return "None"
        text = self.value(predicate)
        if text.depth:
            text = self.memo[id(predicate)] = self.to_temporary(text.code, False)
        return text.code

    def lanes(self, b: Buffer, indices: tuple[Any, ...], predicate: Any) -> tuple[str, str]:
        """Memory and checked element offsets of a vector access."""
        memory = self.memory(b)
        mask = self.mask(predicate)
        check = self.helper("lanes_in")
        own = self.primary.get(b.data) is b
        element_lanes = parse(b.dtype).lanes
        flat = self.code(b.elem_offset)
        step = "1"
        for d in reversed(range(b.ndim)):
            plain = b.ndim == 1 and not b.strides and not own and element_lanes == 1
            top = self.limit(b, memory) if plain else b.shape[d]
            extent = top if isinstance(top, str) else self.code(top)
            at = f"{check}({b.name!r}, {d}, {self.code(indices[d])}, {extent}, {mask})"
            stride = self.code(b.strides[d]) if b.strides else step
            flat = f"{flat} + {at} * {stride}"
            step = f"{step} * {extent}"
        if element_lanes > 1:
            flat = f"{self.helper('expand')}({flat}, {element_lanes})"
        if not own:
            flat = f"{check}({b.name!r}, -1, {flat}, {memory}_size, {mask})"
        return memory, flat
