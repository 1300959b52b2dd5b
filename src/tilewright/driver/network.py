"""The entry function of a compiled network: calls its kernels in order.

Kernels follow the native ABI of rt/signature.py. The entry takes one array of slots as well:
pointers to inputs, outputs, constants and the workspace. A kernel's argument is a slot, or a place
in the workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..codegen.llvm import backend
from ..target.target import Target

ENTRY = "tw_network"


@dataclass(frozen=True)
class Place:
    """Where an argument is: slot number `slot`, `offset` bytes further."""

    slot: int
    offset: int = 0


@dataclass(frozen=True)
class KernelCall:
    """One call of kernel `kernel`, which has the symbol `symbol_of(kernel)`."""

    kernel: int
    args: tuple[Place, ...]


def symbol_of(kernel: int) -> str:
    """The name by which the entry calls a kernel."""
    return f"tw_kernel_{kernel}"


def entry_text(calls: Sequence[KernelCall]) -> str:
    """LLVM IR of the entry function: 0, or what the first failing kernel returned."""
    most = max((len(c.args) for c in calls), default=1)
    lines = [f"declare i32 @{symbol_of(k)}(ptr)" for k in sorted({c.kernel for c in calls})]
    lines += [f"define i32 @{ENTRY}(ptr %slots) {{", "entry:"]
    lines.append(f"  %args = alloca [{max(most, 1)} x i64], align 8")
    for n, call in enumerate(calls):
        for k, place in enumerate(call.args):
            at = f"%c{n}.{k}"
            lines.append(f"  {at}.s = getelementptr i64, ptr %slots, i64 {place.slot}")
            lines.append(f"  {at}.v = load i64, ptr {at}.s, align 8")
            lines.append(f"  {at}.p = add i64 {at}.v, {place.offset}")
            lines.append(f"  {at}.a = getelementptr i64, ptr %args, i64 {k}")
            lines.append(f"  store i64 {at}.p, ptr {at}.a, align 8")
        lines.append(f"  %r{n} = call i32 @{symbol_of(call.kernel)}(ptr %args)")
        lines.append(f"  %f{n} = icmp eq i32 %r{n}, 0")
        lines.append(f"  br i1 %f{n}, label %next{n}, label %failed{n}")
        lines += [f"failed{n}:", f"  ret i32 %r{n}", f"next{n}:"]
    lines += ["  ret i32 0", "}"]
    return "\n".join(lines) + "\n"


def emit_entry(calls: Sequence[KernelCall], target: Target) -> bytes:
    """Object code of the entry function."""
    return backend.emit_object(entry_text(calls), target, (), 1)
