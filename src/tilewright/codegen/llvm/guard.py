"""Checks of what users hand to LLVM directly: intrinsics by name, and IR text.

LLVM aborts the process when it selects instructions for an intrinsic that the target lacks, so a
process of its own compiles a probe first. What LLVM has code for on every target needs none.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ...base.errors import CompileError, TargetError
from ...target.capability import architecture
from ...target.target import Target

# floats in, a float out: these have generic code on every target (perhaps a call into libm)
_GENERIC = """
    sqrt sin cos pow exp exp2 log log2 log10 fma fabs copysign floor ceil trunc rint nearbyint
    round roundeven minnum maxnum minimum maximum fmuladd
"""
_EVERYWHERE = frozenset(_GENERIC.split())
_FLOATS = re.compile(r"(<\d+ x )?(float|double)>?")
_FAMILIES = {
    "x86": ("x86_64", "x86"),
    "aarch64": ("aarch64",),
    "arm": ("arm",),
    "riscv": ("riscv64", "riscv32"),
}
_MANGLED = re.compile(r"\.(v\d+)?(f16|bf16|f32|f64|i\d+|p\d+)$")


def resolve_intrinsic(
    name: str, result: str, args: tuple[tuple[str, str], ...], target: Target
) -> str:
    """The full name of an intrinsic for these types: `args` are operand and LLVM type each.

    TargetError or CompileError where LLVM does not know it, the target lacks it, or the types do
    not fit.
    """
    operands = tuple(v if v[0] != "%" else "" for v, _ in args)
    return _resolve(name, result, tuple(k for _, k in args), operands, target)


@lru_cache(maxsize=1024)
def _resolve(
    name: str, result: str, types: tuple[str, ...], operands: tuple[str, ...], target: Target
) -> str:
    if not re.fullmatch(r"llvm(\.[A-Za-z0-9_]+)+", name):
        raise CompileError(f"{name!r} is not the name of an LLVM intrinsic; it starts with 'llvm.'")
    family = name.split(".")[1]
    here = architecture(target.triple)
    if family in _FAMILIES and here not in _FAMILIES[family]:
        raise TargetError(f"the intrinsic {name} is for {family}; the target {target} is {here}")
    params = ", ".join(f"{k} %p{i}" for i, k in enumerate(types))
    given = ", ".join(f"{k} {v or f'%p{i}'}" for i, (k, v) in enumerate(zip(types, operands)))
    head = "" if result == "void" else "%r = "
    text = (
        f"declare {result} @{name}({', '.join(types)})\n"
        f"define {result} @probe({params}) {{\n  {head}call {result} @{name}({given})\n"
        f"  ret {result}{' %r' if head else ''}\n}}\n"
    )
    what = f"{name} with {', '.join(types)} giving {result}"
    base = name[5:]
    while (short := _MANGLED.sub("", base)) != base:
        base = short
    if base in _EVERYWHERE and {result} == set(types) and _FLOATS.fullmatch(result):
        return _full_name(text, name, what)
    checked = check_code({"text": text}, target, f"the intrinsic {name}")
    if checked.error:
        raise CompileError(f"LLVM cannot call {what}: {checked.error}")
    if checked.unknown:
        raise CompileError(f"LLVM has no intrinsic {name}")
    return next((n for n in (*checked.declared, *checked.defined) if n != "probe"), name)


def _full_name(text: str, name: str, what: str) -> str:
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot call {what}: {error}") from None
    return next(str(f.name) for f in module.functions if f.name != "probe")


@dataclass(frozen=True)
class Checked:
    """What a process of its own has found out about code: why it is no LLVM IR, or its text for
    the target, and the types of the functions that it defines and declares, by name."""

    error: str = ""
    text: str = ""
    unknown: bool = False
    defined: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, str] = field(default_factory=dict)


def check_code(code: Mapping[str, str], target: Target, what: str) -> Checked:
    """Read `code` ({"text": ...} or {"bitcode": path}) and compile it for the target, elsewhere;
    TargetError where LLVM cannot make machine code of it."""
    machine = [target.triple, target.cpu, target.features, target.abi]
    try:
        request = json.dumps({**code, "machine": machine})
    except (TypeError, ValueError) as error:
        raise CompileError(f"{what} cannot be passed on: {error}") from None
    return _ask(request, f"the target {target} (CPU {target.cpu}) cannot run {what}")


@lru_cache(maxsize=256)
def _ask(request: str, failure: str) -> Checked:
    spec = importlib.util.find_spec("llvmlite")
    assert spec is not None and spec.origin is not None
    parent = str(Path(spec.origin).parent.parent)
    script = str(Path(__file__).with_name("guard_probe.py"))
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, parent],
        input=request,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return Checked(**json.loads(done.stdout))
    lines = [x for x in done.stderr.strip().splitlines() if x] or ["no reason given"]
    marks = ("LLVM ERROR", "error:", "UNREACHABLE")
    reason = next((x for x in lines if any(m in x for m in marks)), lines[-1])
    raise TargetError(
        f"{failure}: {reason.strip()}; check the code, and the features of the CPU (-mcpu, -mattr)"
    )
