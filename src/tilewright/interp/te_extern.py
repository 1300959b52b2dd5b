"""Extern operations of te_eval: their statement runs in the loop-IR interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtype import parse
from ..loopir.buffer import Buffer
from ..loopir.expr import Var, const
from ..loopir.stmt import PrimFunc
from ..loopir.subst import substitute
from ..tensor.op import ExternOp
from .tir_eval import tir_eval


def run_extern(program: Any, op: ExternOp) -> list[Any]:
    """The outputs of an extern operation, whose body is run on arrays of its buffers' types."""
    algebra = program.algebra
    ins = [
        np.ascontiguousarray(algebra.numbers(program.tables[t])).astype(parse(b.dtype).numpy)
        for t, b in zip(op.inputs, op.input_placeholders)
    ]
    outs = [
        np.zeros(program.shape_of(op.output(i)), dtype=parse(b.dtype).numpy)
        for i, b in enumerate(op.output_placeholders)
    ]
    func = extern_function(op, program.plain)
    tir_eval(func, *ins, *outs, extern=program.extern)
    return [algebra.from_extern(a, b.dtype) for a, b in zip(outs, op.output_placeholders)]


def extern_function(op: ExternOp, symbols: Any) -> PrimFunc:
    """The body as a function of its buffers: inputs, then outputs; symbols become constants."""
    buffers = (*op.input_placeholders, *op.output_placeholders)
    values: dict[Any, Any] = {v: const(x.item(), v.dtype) for v, x in symbols.items()}
    for b in buffers:
        if isinstance(b.elem_offset, Var):
            values[b.elem_offset] = const(0, b.elem_offset.dtype)
    fixed: dict[Buffer, Buffer] = {
        b: b.with_(
            shape=[substitute(d, values) for d in b.shape],
            strides=[substitute(d, values) for d in b.strides],
            elem_offset=substitute(b.elem_offset, values),
        )
        for b in buffers
    }
    params = [Var(f"{b.name}_arg", "handle") for b in buffers]
    body = substitute(op.loops(), values, fixed)
    return PrimFunc(params, body, buffer_map={p: fixed[b] for p, b in zip(params, buffers)})
