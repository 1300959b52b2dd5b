"""legalize_types: arithmetic on float16 and bfloat16 becomes arithmetic on float32.

Each operation is computed in float32 and rounded back, so results are those of the narrow type: for
+ - * / and sqrt exactly so, since float32 has more than twice the bits (Figueroa, "When is double
rounding innocuous?", 1995). Memory keeps the narrow type; loads, stores, selections and conversions
of it stay. Needs: nothing. Guarantees: no arithmetic, comparison or mathematical function on a type
that the target does not compute in. Stands after lower_intrinsics, whose rules see the user's
types.
"""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.effects import CallEffectKind, effect_of
from ..loopir.rewrite import ARITH, COMPARE, Rewriter, handles


def legalize_types(func: S.PrimFunc, native_half: bool = False) -> S.PrimFunc:
    """Compute on float16 and bfloat16 in float32, each operation rounded back.

    `native_half`: the target computes in float16 itself."""
    return func.with_body(_Legalize(native_half).stmt(func.body))


class _Legalize(Rewriter):
    def __init__(self, native_half: bool) -> None:
        self.native_half = native_half

    def is_narrow(self, dtype: str) -> bool:
        """Whether values of a type are only kept, not computed with."""
        t = parse(dtype)
        return t.is_float and t.bits == 16 and not (self.native_half and t.code == "float")

    @handles(*ARITH)
    def _arith(self, e: E.BinaryOp) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        if self.is_narrow(e.dtype):
            return E.cast(e.dtype, type(e)(widen(a), widen(b)))
        return e if a is e.a and b is e.b else type(e)(a, b)

    @handles(*COMPARE)
    def _compare(self, e: E.CmpOp) -> Any:
        a, b = self.expr(e.a), self.expr(e.b)
        if self.is_narrow(e.a.dtype):
            return type(e)(widen(a), widen(b))
        return e if a is e.a and b is e.b else type(e)(a, b)

    @handles(E.Call)
    def _call(self, e: E.Call) -> Any:
        args = self.exprs(e.args)
        narrow = self.is_narrow(e.dtype)
        any_narrow = narrow or any(self.is_narrow(a.dtype) for a in args)
        if any_narrow and not e.op.row.any_width and effect_of(e.op) <= CallEffectKind.Pure:
            wide = [widen(a) if self.is_narrow(a.dtype) else a for a in args]
            if narrow:
                return E.cast(e.dtype, E.Call(_wide(e.dtype), e.op, wide))
            return E.Call(e.dtype, e.op, wide)
        return e if args is e.args else E.Call(e.dtype, e.op, args)


def _wide(dtype: str) -> str:
    return parse("float32").with_lanes(parse(dtype).lanes)


def widen(e: Any) -> Any:
    """A float16 or bfloat16 expression as float32, exactly."""
    return E.cast(_wide(e.dtype), e)
