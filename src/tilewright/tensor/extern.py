"""extern: tensors that loops of the user's own, or calls of functions, compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.dtype import canonical
from ..base.errors import UsageError
from ..loopir.buffer import Buffer, decl_buffer
from ..loopir.expr import BufferLoad, PrimExpr, Var
from ..loopir.stmt import BufferStore, PrimFunc, Stmt
from ..loopir.visit import walk
from .arguments import as_attrs, check_function, tensor_list
from .axes import scoped_tag
from .extents import as_shape, same_extent
from .intrin import as_stmt
from .op import ExternOp
from .tensor import Tensor


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[..., Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors of `shape` (one, or a list of shapes) written by the statement fcompute(ins, outs).

    `ins` and `outs` are buffers; the statement may be a loop nest (tir.ir_builder) or a call such
    as tir.call_packed. `dtype` (one, or a list) may be left out where all inputs have the same.
    `in_buffers`, `out_buffers` give the buffers instead of having them declared here.

    Gives a tensor, or a list of them for several shapes. Raises UsageError where in_buffers or
    out_buffers are not as many as inputs or shapes, or fcompute gives neither a statement nor an
    expression, where a tag is given inside a scope that has one, where `inputs` is no tensor, and
    TilewrightError where `fcompute` is no function, where a name, scope or buffer_type is
    not text, or shape and strides do not hold integers, where tag is not text, or attrs is no
    dictionary, and OperandError where `attrs` is neither a number nor an expression.
    """
    tag = scoped_tag(tag)
    check_function(fcompute, "fcompute")
    tensors = tensor_list(inputs, "expect inputs to be tensor")
    shapes = _shapes(shape)
    ins, outs = _listed(in_buffers), _listed(out_buffers)
    if ins is None:
        ins = [_declare(t.shape, t.dtype, t.op.name) for t in tensors]
    elif len(ins) != len(tensors):
        raise UsageError(f"Number of inputs and in_buffers mismatch: {len(tensors)} vs {len(ins)}.")
    if outs is None:
        dtypes = _dtypes(dtype, tensors, len(shapes))
        outs = [_declare(s, t, name) for s, t in zip(shapes, dtypes)]
    elif len(outs) != len(shapes):
        raise UsageError(
            f"Number of outputs and out_buffers mismatch: {len(shapes)} vs {len(outs)}."
        )
    body = fcompute(ins, outs)
    if not isinstance(body, (PrimExpr, Stmt)):
        called = getattr(fcompute, "__name__", "fcompute")
        raise UsageError(
            f"Function '{called}' should return PrimExpr or Stmt, "
            f"but it returned '{type(body).__name__}'"
        )
    stmt = as_stmt(body)
    assert stmt is not None
    op = ExternOp(name, tag, as_attrs(attrs), tensors, ins, outs, stmt)
    return op.output(0) if op.num_outputs == 1 else list(op.outputs)


def _shapes(shape: Any) -> list[tuple[PrimExpr, ...]]:
    if isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], (list, tuple)):
        return [as_shape(s) for s in shape]
    return [as_shape(shape)]


def _listed(buffers: Any) -> list[Buffer] | None:
    if buffers is None:
        return None
    return [buffers] if isinstance(buffers, Buffer) else list(buffers)


def _dtypes(dtype: Any, tensors: Sequence[Tensor], count: int) -> list[str]:
    if dtype is None:
        found = dict.fromkeys(t.dtype for t in tensors)
        if len(found) != 1:
            raise UsageError(
                "Cannot infer output type, please provide dtype argument "
                f"(the inputs are {', '.join(found) or 'none'})"
            )
        return [next(iter(found))] * count
    dtypes = [canonical(d) for d in (dtype if isinstance(dtype, (list, tuple)) else [dtype])]
    if len(dtypes) == 1:
        dtypes *= count
    if len(dtypes) != count:
        raise UsageError(f"{count} shapes, but {len(dtypes)} dtypes")
    return dtypes


def _declare(shape: Sequence[PrimExpr], dtype: str, name: str) -> Buffer:
    return decl_buffer(shape, dtype, name, elem_offset=Var("elem_offset", "int32"))


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc, **kwargs: Any) -> Any:
    """The tensors that a loop-IR function computes.

    Buffers of the function that it reads are its inputs, in the order of its parameters; those that
    it writes, of their shapes and types, are outputs (one that is read and written only if there is
    no other output). `kwargs` are passed on to `extern`. Raises UsageError where primfunc has no
    output, or input_tensors are not those that it reads, and TilewrightError where `input_tensors`
    is no tensor.
    """
    read, written = _accesses(primfunc)
    outputs = [b for b in written if b not in read]
    if not outputs and written:
        outputs = [written[-1]]
    ins = [b for b in read if b not in outputs]
    if not outputs:
        raise UsageError("PrimFunc has no output buffers")
    if len(ins) != len(input_tensors):
        raise UsageError(
            "The number of provided input input_tensors does not match the number of input buffers "
            f"in the primfunc: {len(input_tensors)} and {len(ins)}"
        )
    for tensor, buffer in zip(input_tensors, ins):
        fits = tensor.ndim == buffer.ndim and tensor.dtype == buffer.dtype
        if not fits or not all(same_extent(a, b) for a, b in zip(tensor.shape, buffer.shape)):
            raise UsageError(
                "The input input_tensors provided do not match the input buffers in the primfunc: "
                f"{tensor!r} of {tensor.dtype} and {buffer!r}"
            )
    return extern(
        [b.shape for b in outputs],
        input_tensors,
        lambda _ins, _outs: primfunc.body,
        in_buffers=ins,
        out_buffers=outputs,
        **kwargs,
    )


def _accesses(func: PrimFunc) -> tuple[list[Buffer], list[Buffer]]:
    """The argument buffers read and written by a function, each in the order of its parameters."""
    read, written = set(), set()
    for node in walk(func.body):
        if isinstance(node, BufferLoad):
            read.add(node.buffer.data)
        elif isinstance(node, BufferStore):
            written.add(node.buffer.data)
    buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    return [b for b in buffers if b.data in read], [b for b in buffers if b.data in written]
