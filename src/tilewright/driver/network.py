"""The entry function of a compiled network: calls its kernels in order.

Kernels follow the native ABI of rt/signature.py, as does the entry; rt/plan.py says what its slots
are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.llvm import backend
from ..rt.plan import ENTRY, KernelCall, symbol_of
from ..target.target import Target


def entry_text(calls: Sequence[KernelCall]) -> str:
    """LLVM IR of the entry function: 0, or what the first failing kernel returned.

    A loop over tables, so that networks of any size compile in no time: a call's kernel and the
    end of its arguments, and each argument's slot and offset.
    """
    if not calls:
        return f"define i32 @{ENTRY}(ptr %slots) {{\n  ret i32 0\n}}\n"
    kernels = sorted({c.kernel for c in calls})
    number = {k: n for n, k in enumerate(kernels)}
    rows, places = [], []
    for call in calls:
        places += [f"{{i64, i64}} {{i64 {p.slot}, i64 {p.offset}}}" for p in call.args]
        rows.append(f"{{i64, i64}} {{i64 {number[call.kernel]}, i64 {len(places)}}}")
    most = max(len(c.args) for c in calls)
    lines = [f"declare i32 @{symbol_of(k)}(ptr)" for k in kernels]
    pointers = ", ".join(f"ptr @{symbol_of(k)}" for k in kernels)
    lines.append(f"@kernels = private constant [{len(kernels)} x ptr] [{pointers}]")
    for name, table in (("calls", rows), ("places", places)):
        kind = f"[{len(table)} x {{i64, i64}}]"
        lines.append(f"@{name} = private constant {kind} [{', '.join(table)}]")
    return "\n".join(lines) + _LOOP.format(entry=ENTRY, most=max(most, 1), calls=len(calls))


_LOOP = """
define i32 @{entry}(ptr %slots) {{
entry:
  %args = alloca [{most} x i64], align 8
  br label %call
call:
  %n = phi i64 [0, %entry], [%n.next, %next]
  %first = phi i64 [0, %entry], [%end, %next]
  %row = getelementptr {{i64, i64}}, ptr @calls, i64 %n
  %kernel = load i64, ptr %row, align 8
  %row.end = getelementptr i64, ptr %row, i64 1
  %end = load i64, ptr %row.end, align 8
  br label %more
more:
  %k = phi i64 [%first, %call], [%k.next, %argument]
  %left = icmp ult i64 %k, %end
  br i1 %left, label %argument, label %run
argument:
  %place = getelementptr {{i64, i64}}, ptr @places, i64 %k
  %slot = load i64, ptr %place, align 8
  %place.offset = getelementptr i64, ptr %place, i64 1
  %offset = load i64, ptr %place.offset, align 8
  %base.at = getelementptr i64, ptr %slots, i64 %slot
  %base = load i64, ptr %base.at, align 8
  %address = add i64 %base, %offset
  %arg = sub i64 %k, %first
  %arg.at = getelementptr i64, ptr %args, i64 %arg
  store i64 %address, ptr %arg.at, align 8
  %k.next = add i64 %k, 1
  br label %more
run:
  %function.at = getelementptr ptr, ptr @kernels, i64 %kernel
  %function = load ptr, ptr %function.at, align 8
  %code = call i32 %function(ptr %args)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %next, label %failed
next:
  %n.next = add i64 %n, 1
  %again = icmp ult i64 %n.next, {calls}
  br i1 %again, label %call, label %done
failed:
  ret i32 %code
done:
  ret i32 0
}}
"""


def emit_entry(calls: Sequence[KernelCall], target: Target) -> bytes:
    """Object code of the entry function."""
    return backend.emit_object(entry_text(calls), target, (), 1)
