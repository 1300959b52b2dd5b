"""Mistakes in the text that the C family of languages gets; PoCL shows them."""

from __future__ import annotations

from typing import Any

from tilewright.codegen import c_expr, c_memory
from tilewright.codegen.opencl import OpenCLPrinter
from tilewright.loopir import expr as E

from .mutant_kit import catalogue, replaced


def text_divides_towards_zero() -> Any:
    """Quotients that should be rounded down are written as plain divisions."""

    def make(old: Any) -> Any:
        def divide(p: Any, e: Any) -> str:
            plain = {E.FloorDiv: E.Div, E.FloorMod: E.Mod}.get(type(e))
            return old(p, plain(e.a, e.b) if plain and "int" in e.dtype else e)

        return divide

    return replaced(c_expr, "_divide", make)


def text_casts_as_c_does() -> Any:
    """Floats become integers by a plain cast: NaN, and what does not fit, become anything."""

    def make(old: Any) -> Any:
        def cast(p: Any, x: str, source: Any, target: Any) -> str:
            plain = source.is_float and source.bits >= 32 and target.is_integer
            return f"(({p.type(target.text)}){x})" if plain else old(p, x, source, target)

        return cast

    return replaced(OpenCLPrinter, "cast", make)


def text_stores_under_no_condition() -> Any:
    """A store of some lanes stores all."""
    return replaced(c_memory, "_flags", lambda old: lambda p, predicate, lanes: ["1"] * lanes)


TEXTS = catalogue(text_divides_towards_zero, text_casts_as_c_does, text_stores_under_no_condition)
