"""What attention takes the softmax of, as expressions of a score that is in a register, and powers
of it.

A power is one of two: what its exponent is multiplied by for that, and what all scores are, is one
multiplication with the subtraction of the largest. Those below the least normal number are zeros,
beside a sum of 1 at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from ...loopir import op as O
from ...loopir.buffer import Buffer
from ...loopir.calls import call_pure_extern
from ...loopir.expr import BufferLoad, Call, FloatImm, Mul, Select, const
from ...loopir.iter import ProducerLoad
from ...loopir.rewrite import Rewriter, handles
from ...loopir.subst import substitute
from ...loopir.visit import walk
from ...tensor.op import ComputeOp
from ...tensor.tensor import Tensor


class Reads(Rewriter):
    """Expressions of tensors as expressions of buffers: what is computed element by element is
    written out, and the scores are a value."""

    def __init__(self, scores: Tensor, buffers: dict[Tensor, Buffer]) -> None:
        self.scores, self.buffers = scores, buffers
        self.value: Any = None

    @handles(ProducerLoad)
    def _read(self, e: ProducerLoad) -> Any:
        if e.producer.op is self.scores.op:
            return self.value
        places = [self.expr(i) for i in e.indices]
        if e.producer in self.buffers:
            return BufferLoad(self.buffers[e.producer], places)
        op = e.producer.op
        assert isinstance(op, ComputeOp)
        body = substitute(op.body[0], dict(zip((a.var for a in op.axis), places)))
        return self.expr(body)


def tensors_read(elements: Sequence[Any], scores: Tensor) -> list[Tensor]:
    """The tensors that expressions read, those behind what is computed element by element, but the
    scores."""
    found: dict[Tensor, None] = {}
    todo = list(elements)
    done: set[Tensor] = set()
    while todo:
        for e in walk(todo.pop()):
            if type(e) is not ProducerLoad or e.producer in done:
                continue
            t = e.producer
            done.add(t)
            op = t.op
            if isinstance(op, ComputeOp) and not op.reduce_axis and op.num_outputs == 1:
                todo.append(op.body[0])
            elif op is not scores.op:
                found[t] = None
    return list(found)


@dataclass(frozen=True)
class Powers:
    """Powers of scores times a positive `factor`, less the largest of a row. `alone`: nothing else
    was done to them; where something was added, they may be too large to be multiplied before the
    largest is subtracted."""

    factor: float
    alone: bool

    def of(self, score: Any, most: Any) -> Any:
        """That of a score, less the largest."""
        factor = const(self.factor / log(2), score.dtype)
        exponent = score * factor - most * factor if self.alone else (score - most) * factor
        return call_pure_extern(score.dtype, "tw_exp2", exponent)


def separated(e: Any, score: Any) -> tuple[Powers, Any]:
    """How powers of an expression of a score are made, and what of it they are made of."""
    factor, rest, alone = _factored(e, score)
    return Powers(factor, alone), rest


def _factored(e: Any, score: Any) -> tuple[float, Any, bool]:
    """An expression of a score as a positive number times another one, which orders scores alike;
    and whether that one is the score or -infinity."""
    if e is score:
        return 1.0, e, True
    if type(e) is Mul and type(e.b) is FloatImm and e.b.value > 0:
        factor, rest, alone = _factored(e.a, score)
        if alone:
            return factor * e.b.value, rest, True
    choice = _choice(e)
    if choice is not None:
        condition, value, other = choice
        factor, rest, alone = _factored(value, score)
        if alone and type(other) is FloatImm and other.value == float("-inf"):
            return factor, O.if_then_else(condition, rest, other), True
    return 1.0, e, False


def _choice(e: Any) -> tuple[Any, Any, Any] | None:
    """The condition and the two values of a choice."""
    if type(e) is Select:
        return e.condition, e.true_value, e.false_value
    if type(e) is Call and e.op.name == "tir.if_then_else":
        return e.args[0], e.args[1], e.args[2]
    return None
