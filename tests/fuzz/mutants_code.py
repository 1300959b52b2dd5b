"""Mistakes in the code of a CPU, and in what is checked before it is called."""

from __future__ import annotations

import re
from typing import Any

from tilewright.codegen.llvm import expr as llvm_expr
from tilewright.codegen.llvm import memory, parallel
from tilewright.loopir import expr as E
from tilewright.rt import checker

from .mutant_kit import catalogue, replaced, rewritten


def shifts_without_sign() -> Any:
    """Shifts to the right bring in zeros."""
    return rewritten(r"= ashr ", "= lshr ")


def quotients_towards_zero() -> Any:
    """Quotients that should be rounded down are not."""
    return rewritten(r"= sext i1 (%\S+) to (i8|i16|i32|i64)\n", r"= and \2 0, 0\n")


def unsigned_compared_as_signed() -> Any:
    """Large unsigned numbers are taken for negative ones."""
    return rewritten(r"icmp u(lt|le|gt|ge) ", r"icmp s\1 ")


def nan_equal_to_itself() -> Any:
    """A NaN is not different from itself."""
    return rewritten(r"fcmp une ", "fcmp one ")


def nan_lost_in_extremes() -> Any:
    """The minimum of a number and a NaN is the number."""
    return rewritten(r"fcmp u(le|ge) ", r"fcmp o\1 ")


def nan_converted_to_something() -> Any:
    """A NaN as an integer is not 0."""
    return rewritten(r"fcmp ord ", "fcmp true ")


def widened_without_sign() -> Any:
    """Narrow integers are widened as if they were unsigned."""
    return rewritten(r"= sext i(8|16) ", r"= zext i\1 ")


def float_arithmetic_relaxed() -> Any:
    """LLVM may assume that there are no NaNs and infinities."""
    return rewritten(r"= (fadd|fsub|fmul|fcmp) ", r"= \1 nnan ninf ")


def bfloat16_cut_off() -> Any:
    """float32 becomes bfloat16 by leaving bits out."""
    return rewritten(r"(add (?:i32|<\d+ x i32>) %\S+, )(?:32767|<[^>]*32767[^>]*>)", _without_half)


def _without_half(match: Any) -> str:
    return re.sub("32767", "0", match.group(0))


def aligned_too_well() -> Any:
    """Vectors are taken to be at multiples of 64 bytes."""
    return rewritten(r"((?:load|store) <[^>]*>.*), align \d+", r"\1, align 64")


def masked_stores_store_all() -> Any:
    """A vector under a mask is stored whole."""

    def make(old: Any) -> Any:
        def store(f: Any, place: str, align: int, value: str, t: Any, mask: str) -> None:
            f.line(f"store {f.memory(t.text)} {value}, ptr {place}, align {align}")

        return store

    return replaced(memory, "_masked_store", make)


def remainder_of_dividend() -> Any:
    """A remainder has the sign of the dividend."""

    def make(old: Any) -> Any:
        def floor(f: Any, kind: Any, text: str, t: Any, a: str, b: str) -> Any:
            if kind is E.FloorMod:
                return f.op(f"srem {text} {a}, {b}")
            return old(f, kind, text, t, a, b)

        return floor

    return replaced(llvm_expr, "_floor", make)


def last_parallel_step_lost() -> Any:
    """The last step of a parallel loop is not run."""

    def make(old: Any) -> Any:
        def call(f: Any, s: Any, name: str, used: Any, low: str, count: str, cyclic: bool) -> Any:
            return old(f, s, name, used, low, f.op(f"sub i64 {count}, 1"), cyclic)

        return call

    return replaced(parallel, "_call_pool", make)


def workspace_of_all_threads() -> Any:
    """Threads have one memory for what each of them computes."""
    return replaced(parallel, "slot_pointers", lambda old: lambda f, p, r, n: old(f, p, r, "0"))


def shapes_not_checked() -> Any:
    """Arrays of other shapes are let in."""

    def make(old: Any) -> Any:
        def shape(out: Any, i: int, arg: Any) -> None:
            if arg.strides is not None or not all(isinstance(d, int) for d in arg.shape):
                old(out, i, arg)
            else:
                out.require("ok")

        return shape

    return replaced(checker, "_write_shape", make, late=True)


def types_not_checked() -> Any:
    """Arrays of other types are let in."""

    def make(old: Any) -> Any:
        def array(out: Any, i: int, arg: Any) -> None:
            kept = len(out.lines)
            old(out, i, arg)
            for n in range(kept, len(out.lines)):
                out.lines[n] = out.lines[n].replace(f"a{i}.dtype == D_{arg.dtype}", "True")

        return array

    return replaced(checker, "_write_array", make, late=True)


def extent_of_the_first_dimension() -> Any:
    """A variable extent is read from the first dimension, whichever it names."""

    def make(old: Any) -> Any:
        def bound(info: Any, kind: str, rest: list[int]) -> str:
            return old(info, kind, [rest[0], 0] if kind == "shape" else rest)

        return bound

    return replaced(checker, "_bound_value", make, late=True)


CODE = catalogue(
    shifts_without_sign, quotients_towards_zero, unsigned_compared_as_signed,
    nan_equal_to_itself, nan_lost_in_extremes, nan_converted_to_something,
    widened_without_sign, float_arithmetic_relaxed, bfloat16_cut_off, aligned_too_well,
    masked_stores_store_all, remainder_of_dividend, last_parallel_step_lost,
    workspace_of_all_threads, shapes_not_checked, types_not_checked,
    extent_of_the_first_dimension,
)  # fmt: skip
