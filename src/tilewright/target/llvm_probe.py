"""Ask LLVM about a CPU in a process of its own, since LLVM prints to stderr or aborts on bad ones.

Run as a script: `python llvm_probe.py LLVMLITE_PARENT TRIPLE CPU FEATURES ABI`. Prints one JSON
object: {"unknown": "CPU"|"feature", "name": ..., "known": [...]}, or {"features": [...]} with the
extensions that LLVM selects for plain IR, found by compiling one small function for each.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

_FMA = "call float @llvm.fma.f32(float %a, float %a, float %a)"
_PAIRS = """%p = call <4 x i32> @llvm.x86.sse2.pmadd.wd(<8 x i16> %b, <8 x i16> %b)
  %r = add <4 x i32> %p, %a"""
_EVEN, _ODD = (", ".join(f"i32 {n}" for n in range(first, 32, 2)) for first in (0, 1))
_WIDE_PAIRS = f"""%x = sext <32 x i16> %b to <32 x i32>
  %m = mul <32 x i32> %x, %x
  %s = shufflevector <32 x i32> %m, <32 x i32> poison, <16 x i32> <{_EVEN}>
  %n = shufflevector <32 x i32> %m, <32 x i32> poison, <16 x i32> <{_ODD}>
  %p = add <16 x i32> %s, %n
  %r = add <16 x i32> %p, %a"""
_FOURS = """%x = {} <16 x i8> %a to <16 x i32>
  %y = sext <16 x i8> %b to <16 x i32>
  %m = mul <16 x i32> %x, %y
  %r = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %m)"""
# (feature, return type, argument types, body, what shows in the assembly when LLVM uses it);
# a body of several lines ends with what defines %r
_X86: tuple[tuple[str, str, str, str, str], ...] = (
    ("sse4.1", "float", "float %a", "call float @llvm.floor.f32(float %a)", r"roundss"),
    ("popcnt", "i64", "i64 %a", "call i64 @llvm.ctpop.i64(i64 %a)", r"popcntq"),
    ("lzcnt", "i64", "i64 %a", "call i64 @llvm.ctlz.i64(i64 %a, i1 false)", r"lzcntq"),
    ("bmi", "i64", "i64 %a", "call i64 @llvm.cttz.i64(i64 %a, i1 false)", r"\stzcntq"),
    ("bmi2", "i64", "i64 %a, i64 %b", "shl i64 %a, %b", r"shlxq"),
    ("avx", "float", "float %a", "fadd float %a, %a", r"vaddss"),
    ("avx2", "<8 x i32>", "<8 x i32> %a", "add <8 x i32> %a, %a", r"vpaddd.*ymm"),
    ("fma", "float", "float %a", _FMA, r"vfm"),
    ("f16c", "<8 x half>", "<8 x float> %a", "fptrunc <8 x float> %a to <8 x half>", r"vcvtps2ph"),
    ("avx512f", "<16 x float>", "<16 x float> %a", "fadd <16 x float> %a, %a", r"zmm"),
    ("avx512bw", "<64 x i8>", "<64 x i8> %a", "add <64 x i8> %a, %a", r"zmm"),
    ("avx512dq", "<8 x i64>", "<8 x i64> %a", "mul <8 x i64> %a, %a", r"vpmullq"),
    ("avx512vl", "<4 x i64>", "<4 x i64> %a", "mul <4 x i64> %a, %a", r"vpmullq.*ymm"),
    (
        "avx512vpopcntdq",
        "<16 x i32>",
        "<16 x i32> %a",
        "call <16 x i32> @llvm.ctpop.v16i32(<16 x i32> %a)",
        r"vpopcntd.*zmm",
    ),
    (
        "avx512bf16",
        "<16 x bfloat>",
        "<16 x float> %a",
        "fptrunc <16 x float> %a to <16 x bfloat>",
        r"vcvtneps2bf16",
    ),
    # of whole registers: in shorter ones AVX-VNNI's form is taken where there are both
    ("avx512vnni", "<16 x i32>", "<16 x i32> %a, <32 x i16> %b", _WIDE_PAIRS, r"(?m)^\s+vpdpwssd"),
    ("avxvnni", "<4 x i32>", "<4 x i32> %a, <8 x i16> %b", _PAIRS, r"\{vex\}\s+vpdpwssd"),
    ("avx512fp16", "half", "half %a", "fadd half %a, %a", r"vaddsh"),
    ("avx10.2", "<8 x bfloat>", "<8 x bfloat> %a", "fadd <8 x bfloat> %a, %a", r"vaddbf16"),
)
_ARM: tuple[tuple[str, str, str, str, str], ...] = (
    ("neon", "<4 x i32>", "<4 x i32> %a", "add <4 x i32> %a, %a", r"(v\d+\.4s|vadd\.i32\s+q)"),
    ("fullfp16", "half", "half %a", "fadd half %a, %a", r"(fadd\s+h|vadd\.f16)"),
    (
        "bf16",
        "<4 x bfloat>",
        "<4 x float> %a",
        "fptrunc <4 x float> %a to <4 x bfloat>",
        r"bfcvtn",
    ),
    ("dotprod", "i32", "<16 x i8> %a, <16 x i8> %b", _FOURS.format("sext"), r"\ssdot\s"),
    ("i8mm", "i32", "<16 x i8> %a, <16 x i8> %b", _FOURS.format("zext"), r"\susdot\s"),
)
_ARM32: tuple[tuple[str, str, str, str, str], ...] = (
    *_ARM,
    (
        "vfp4",
        "float",
        "float %a",
        "call float @llvm.fma.f32(float %a, float %a, float %a)",
        r"vfma",
    ),
)
_RISCV: tuple[tuple[str, str, str, str, str], ...] = (
    ("v", "<4 x i32>", "<4 x i32> %a", "add <4 x i32> %a, %a", r"vadd\.vv"),
    ("zvfh", "<8 x half>", "<8 x half> %a", "fadd <8 x half> %a, %a", r"vfadd\.vv"),
    ("zfh", "half", "half %a", "fadd half %a, %a", r"fadd\.h"),
    ("f", "float", "float %a", _FMA, r"fmadd"),
)
_DECLARATIONS = """
declare float @llvm.floor.f32(float)
declare float @llvm.fma.f32(float, float, float)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.cttz.i64(i64, i1)
declare <16 x i32> @llvm.ctpop.v16i32(<16 x i32>)
declare <4 x i32> @llvm.x86.sse2.pmadd.wd(<8 x i16>, <8 x i16>)
declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
"""

# what compiled functions are made of: LLVM ends the process where a CPU cannot do one of these
_EVERYDAY = """
declare i32 @callback(ptr)
define i32 @everyday(ptr %p, double %x, half %h, i64 %n, <4 x float> %v) {
  %d = fmul double %x, %x
  %f = fpext half %h to float
  %w = fmul <4 x float> %v, %v
  %q = sdiv i64 %n, 3
  store <4 x float> %w, ptr %p, align 4
  %a = getelementptr i8, ptr %p, i64 %q
  store double %d, ptr %a, align 8
  store float %f, ptr %p, align 4
  %r = call i32 @callback(ptr %p)
  ret i32 %r
}
"""


def _probes(triple: str) -> tuple[tuple[str, str, str, str, str], ...]:
    arch = triple.partition("-")[0]
    if arch in ("x86_64", "amd64") or re.fullmatch(r"i[3-6]86", arch):
        return _X86
    if arch.startswith(("aarch64", "arm64")):
        return _ARM
    if arch.startswith(("arm", "thumb")):
        return _ARM32
    return _RISCV if arch.startswith("riscv") else ()


def _messages_of(action: Callable[[], Any]) -> str:
    """What LLVM writes to stderr while `action` runs."""
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            action()
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        return file.read().decode(errors="replace")


def _listed(text: str, heading: str) -> list[str]:
    part = text.partition(f"Available {heading} for this target:")[2]
    part = part.partition("Available ")[0]
    return re.findall(r"^  (\S+)\s+- ", part, re.MULTILINE)


def _asks_for_help(cpu: str, features: str) -> str:
    """What "help" stands for, which LLVM answers and goes on with: a "CPU", a "feature" or ""."""
    if cpu == "help":
        return "CPU"
    return "feature" if "+help" in features.split(",") else ""


def ask(triple: str, cpu: str, features: str, abi: str) -> dict[str, Any]:
    """What LLVM knows of the CPU; see the head of this file."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        return {"unknown": "triple", "name": triple, "known": [], "detail": str(error)}
    options: dict[str, Any] = {"reloc": "pic", "codemodel": "default", "abiname": abi}
    unknown = _asks_for_help(cpu, features)
    bad = None
    if not unknown:
        said = _messages_of(lambda: target.create_target_machine(cpu, features, **options))
        bad = re.search(r"'([^']*)' is not a recognized (processor|feature)", said)
        if bad:
            unknown = "CPU" if bad.group(2) == "processor" else "feature"
    if unknown:
        text = _messages_of(lambda: target.create_target_machine("help", **options))
        name = bad.group(1).lstrip("+-") if bad else "help"
        return {"unknown": unknown, "name": name, "known": _listed(text, f"{unknown}s")}
    machine = target.create_target_machine(cpu, features, **options)
    machine.emit_object(llvm.parse_assembly(f'target triple = "{triple}"\n{_EVERYDAY}'))
    found = []
    for name, result, arguments, body, pattern in _probes(triple):
        text = f'target triple = "{triple}"\n{_DECLARATIONS}define {result} @f({arguments}) {{\n'
        lines = body if body.startswith("%") else f"%r = {body}"
        module = llvm.parse_assembly(f"{text}  {lines}\n  ret {result} %r\n}}\n")
        if re.search(pattern, machine.emit_assembly(module)):
            found.append(name)
    return {"features": found}


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    print(json.dumps(ask(*sys.argv[2:6])))
