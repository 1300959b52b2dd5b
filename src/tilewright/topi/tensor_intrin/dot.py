"""Tensor intrinsics of instructions that add up products of neighbours (target/dots.py).

A vector of columns at one group of steps of a reduction: c[j] += sum over k of a[k] * b[j, k]. The
group of the row side goes to all lanes; those of the columns lie one behind the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.dtype import parse
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.calls import call_llvm_pure_intrin
from ...loopir.expr import Broadcast, BufferLoad, Ramp, Var, cast, const
from ...loopir.iter import ProducerLoad
from ...loopir.op import reinterpret
from ...loopir.rewrite import Rewriter, handles
from ...loopir.stmt import Stmt
from ...loopir.visit import walk
from ...target.dots import Dot
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute, placeholder
from ...tensor.intrin import decl_tensor_intrin
from ...tensor.reduce import sum as reduce_sum
from ...tensor.tensor import Tensor

HIGHEST = 0x80  # the highest bit of a byte, 128 or -128
Places = Sequence[str]  # of a side's dimensions: "j", "k", or "" where there is one index


def dot_product(
    dot: Dot,
    product: Any,
    row: Tensor | None,
    places: tuple[Places, Places],
    swapped: bool = False,
) -> Any:
    """What `dot` does for a vector of columns, in the expression `product` (of reads, casts aside).

    `row`: the tensor of the row side; None where it is the byte HIGHEST at all steps. `places`:
    where columns and steps are among the dimensions of both sides, from the first on that has more
    than one index. `swapped`: the columns are the instruction's first operand.
    """
    lanes, terms = dot.lanes, dot.terms
    k = reduce_axis((0, terms), "k")
    sizes = {"j": lanes, "k": terms, "": 1}
    steps: dict[str, int] = {"j": terms, "k": 1, "": 0}
    declared: dict[Tensor, Tensor] = {}
    buffers: dict[Tensor, Buffer] = {}
    loads = [e.producer for e in walk(product) if type(e) is ProducerLoad]
    for t in dict.fromkeys(loads):
        where = places[0] if t is row else places[1]
        shape = tuple(sizes[p] for p in where)
        strides = [steps[p] if p else Var("stride", "int32") for p in where]
        declared[t] = placeholder(shape, t.dtype, t.op.name)
        buffers[declared[t]] = _buffer(shape, t.dtype, strides)
    (column,) = [t for t in declared if t is not row]

    def element(j: Any) -> Any:
        index = {"j": j, "k": k.var, "": const(0)}
        reads = {
            t: ProducerLoad(d, [index[p] for p in (places[0] if t is row else places[1])])
            for t, d in declared.items()
        }
        return reduce_sum(_Loads(reads).expr(product), axis=k)

    c = compute((lanes,), element, name="sums")
    out = _buffer((lanes,), dot.sums, [1])
    at = {declared[t]: n for n, t in enumerate(declared)}

    def body(ins: Any, outs: Any) -> tuple[Stmt, Stmt, Stmt]:
        left = _highest(dot)
        if row is not None:
            group = _operand(dot, _all_of(ins[at[declared[row]]], places[0], terms), terms)
            left = reinterpret(_vector(dot), Broadcast(group, lanes))
        count = lanes * terms
        right = _operand(dot, _all_of(ins[at[declared[column]]], places[1], count), count)
        return _updates(dot, left, reinterpret(_vector(dot), right), outs[0], swapped)

    return decl_tensor_intrin(c.op, body, binds={**buffers, c: out}, name=_name(dot))


def dot_along(dot: Dot, product: Any, row: Tensor | None, swapped: bool = False) -> Any:
    """What `dot` does for two vectors of neighbours, group by group, in the expression `product`:
    c[l] += sum over t of a[l * terms + t] * b[l * terms + t]. Arguments as of `dot_product`."""
    lanes, terms = dot.lanes, dot.terms
    k = reduce_axis((0, terms), "k")
    loads = dict.fromkeys(e.producer for e in walk(product) if type(e) is ProducerLoad)
    declared = {t: placeholder((lanes * terms,), t.dtype, t.op.name) for t in loads}
    (column,) = [t for t in declared if t is not row]

    def element(j: Any) -> Any:
        reads = {t: ProducerLoad(d, [j * terms + k.var]) for t, d in declared.items()}
        return reduce_sum(_Loads(reads).expr(product), axis=k)

    c = compute((lanes,), element, name="sums")
    at = {t: n for n, t in enumerate(declared)}

    def body(ins: Any, outs: Any) -> tuple[Stmt, Stmt, Stmt]:
        left = _highest(dot) if row is None else _along(dot, ins[at[row]])
        return _updates(dot, left, _along(dot, ins[at[column]]), outs[0], swapped)

    size = lanes * terms
    buffers = {d: _buffer((size,), d.dtype, [1]) for d in declared.values()}
    buffers[c] = _buffer((lanes,), dot.sums, [1])
    return decl_tensor_intrin(c.op, body, binds=buffers, name=_name(dot))


def _along(dot: Dot, buffer: Buffer) -> Any:
    """A vector of neighbours as an operand."""
    count = dot.lanes * dot.terms
    value = _operand(dot, BufferLoad(buffer, [Ramp(const(0), const(1), count)]), count)
    return reinterpret(_vector(dot), value)


def _highest(dot: Dot) -> Any:
    """An operand of which all bytes are HIGHEST."""
    group = const(int.from_bytes(bytes([HIGHEST]) * 4, "big", signed=True), "int32")
    return reinterpret(_vector(dot), Broadcast(group, dot.lanes))


def _vector(dot: Dot) -> str:
    """The type of an operand."""
    return f"{dot.operand}x{dot.lanes * 4 // parse(dot.operand).nbytes}"


def _updates(dot: Dot, left: Any, right: Any, sums: Any, swapped: bool) -> tuple[Stmt, Stmt, Stmt]:
    """The whole of a sum of one group, its start, and the addition of a group."""
    kind = f"{dot.sums}x{dot.lanes}"
    sides = (right, left) if swapped else (left, right)
    zero = Broadcast(const(0, dot.sums), dot.lanes)

    def multiplied(before: Any) -> Any:
        if dot.adds:
            return call_llvm_pure_intrin(kind, dot.intrinsic, before, *sides)
        return before + call_llvm_pure_intrin(kind, dot.intrinsic, *sides)

    old = sums.vload([0], kind)
    start = sums.vstore([0], multiplied(zero)), sums.vstore([0], zero)
    return *start, sums.vstore([0], multiplied(old))


def _name(dot: Dot) -> str:
    return "dot_" + dot.intrinsic.split(".")[-2 if dot.intrinsic[-1].isdigit() else -1]


def _all_of(buffer: Buffer, places: Places, count: int) -> BufferLoad:
    """All elements of a region that lie one behind the other, steps of a group innermost."""
    indices: list[Any] = [const(0)] * len(places)
    indices[-1] = Ramp(const(0), const(0), count)
    indices[list(places).index("k")] = Ramp(const(0), const(1), count)
    return BufferLoad(buffer, indices)


def _operand(dot: Dot, value: Any, count: int) -> Any:
    """Groups of terms as numbers of 32 bits."""
    if dot.row == "int16" and value.dtype != f"int16x{count}":
        value = cast(f"int16x{count}", value)
    groups = count // dot.terms
    return reinterpret("int32" if groups == 1 else f"int32x{groups}", value)


def _buffer(shape: Sequence[int], dtype: str, strides: Sequence[Any]) -> Buffer:
    nbytes = parse(dtype).nbytes
    return decl_buffer(shape, dtype, "part", None, strides, Var("offset", "int32"), "", nbytes, 1)


class _Loads(Rewriter):
    """Reads of tensors replaced by those of a table."""

    def __init__(self, table: Mapping[Tensor, Any]) -> None:
        self.reads = table

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        return self.reads[e.producer]
