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

Places = Sequence[str]  # of a side's dimensions: "j", "k", or "" where there is one index


def dot_product(dot: Dot, product: Any, row: Tensor, places: tuple[Places, Places]) -> Any:
    """What `dot` does for a vector of columns, in the expression `product` (of reads, casts aside).

    `row`: the tensor of the row side. `places`: where columns and steps are among the dimensions of
    both sides, from the first on that has more than one index.
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
        a, b = ins[at[declared[row]]], ins[at[declared[column]]]
        z = outs[0]
        kind = f"{dot.sums}x{lanes}"
        group = _operand(dot, _all_of(a, places[0], terms), terms)
        operand = f"{dot.operand}x{lanes * 4 // parse(dot.operand).nbytes}"
        left = reinterpret(operand, Broadcast(group, lanes))
        right = _operand(dot, _all_of(b, places[1], lanes * terms), lanes * terms)
        right = reinterpret(operand, right)
        old = z.vload([0], kind)
        zero = Broadcast(const(0, dot.sums), lanes)

        def multiplied(before: Any) -> Any:
            if dot.adds:
                return call_llvm_pure_intrin(kind, dot.intrinsic, before, left, right)
            return before + call_llvm_pure_intrin(kind, dot.intrinsic, left, right)

        whole = z.vstore([0], multiplied(zero))
        return whole, z.vstore([0], zero), z.vstore([0], multiplied(old))

    return decl_tensor_intrin(c.op, body, binds={**buffers, c: out}, name=_name(dot))


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
