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
from functools import lru_cache
from pathlib import Path

from ...base.errors import CompileError, TargetError
from ...target.capability import architecture
from ...target.target import Target

# have generic code on every target (perhaps a call into libm)
_GENERIC = """
    sqrt powi sin cos pow exp exp2 log log2 log10 fma fabs copysign floor ceil trunc rint
    nearbyint round roundeven minnum maxnum minimum maximum smin smax umin umax abs ctpop ctlz
    cttz bswap bitreverse fshl fshr prefetch fmuladd sadd.sat uadd.sat ssub.sat usub.sat
    fptosi.sat fptoui.sat vector.reduce.add vector.reduce.mul vector.reduce.and vector.reduce.or
    vector.reduce.xor vector.reduce.smax vector.reduce.smin vector.reduce.umax vector.reduce.umin
    vector.reduce.fadd vector.reduce.fmul vector.reduce.fmax vector.reduce.fmin expect assume
    masked.load masked.store masked.gather masked.scatter
"""
_EVERYWHERE = frozenset(_GENERIC.split())
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
    full = _full_name(text, name, f"{name} with {', '.join(types)} giving {result}")
    base = full[5:]
    while (short := _MANGLED.sub("", base)) != base:
        base = short
    if base not in _EVERYWHERE:
        check_selects(text, target, f"the intrinsic {name}")
    return full


def _full_name(text: str, name: str, what: str) -> str:
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot call {what}: {error}") from None
    if "; Unknown intrinsic" in str(module):
        raise CompileError(f"LLVM has no intrinsic {name}")
    for function in module.functions:
        if function.name != "probe":
            return str(function.name)
    return name


@lru_cache(maxsize=256)
def check_selects(text: str, target: Target, what: str) -> None:
    """TargetError where LLVM cannot make machine code of IR text for the target."""
    spec = importlib.util.find_spec("llvmlite")
    assert spec is not None and spec.origin is not None
    parent = str(Path(spec.origin).parent.parent)
    script = str(Path(__file__).with_name("guard_probe.py"))
    request = json.dumps([text, target.triple, target.cpu, target.features, target.abi])
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, parent],
        input=request,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = [x for x in done.stderr.strip().splitlines() if x] or ["no reason given"]
        reason = next((x for x in lines if "LLVM ERROR" in x), lines[-1])
        raise TargetError(
            f"the target {target} (CPU {target.cpu}) cannot run {what}: {reason.strip()}; "
            "check the features of the CPU (-mcpu, -mattr)"
        )
