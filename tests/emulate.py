"""Code for CPUs that this machine is not: the dot products of target/dots.py written out in plain
LLVM IR, so that all around these instructions runs here."""

from __future__ import annotations

import re

from tilewright.base.dtype import parse
from tilewright.rt.module import Module
from tilewright.rt.native import compile_ir
from tilewright.target.dots import Dot
from tilewright.target.target import Target


def emulated(module: Module) -> Module:
    """A module whose functions run on this machine, whatever CPU it was built for."""
    text = re.sub(r"(?m)^target .*$", "", module.get_source("ll"))
    for dot in module.target.capabilities.dots:
        written = f"@written.{dot.intrinsic}("
        declared = rf"(?m)^declare [^\n]*@{re.escape(dot.intrinsic)}\([^\n]*$"
        text = re.sub(declared, _definition(dot), text)
        text = text.replace(f"@{dot.intrinsic}(", written)
    left = re.findall(r"@llvm\.(?:x86|aarch64)\.[\w.]+", text)
    assert not left, f"{left[0]} is not written out"
    infos = [f.info for f in module._functions.values()]
    return Module.from_object(compile_ir(text), infos, Target("llvm"))


def _definition(dot: Dot) -> str:
    """A function that computes what an instruction does, with the same arguments."""
    sums, size = f"<{dot.lanes} x {_name(dot.sums)}>", parse(dot.operand).nbytes
    operand = f"<{dot.lanes * 4 // size} x {_name(dot.operand)}>"
    arguments = [f"{sums} %old"] if dot.adds else []
    arguments += [f"{operand} %left", f"{operand} %right"]
    lines = [f"define internal {sums} @{dot.intrinsic}({', '.join(arguments)}) {{"]
    lines += _elements("left", dot, dot.row, operand) + _elements("right", dot, dot.column, operand)
    add, multiply = ("fadd", "fmul") if "float" in dot.sums else ("add", "mul")
    total = "%old" if dot.adds else "zeroinitializer"
    for t in range(dot.terms):
        lines.append(f"  %product.{t} = {multiply} {sums} %left.{t}.wide, %right.{t}.wide")
        lines.append(f"  %sum.{t} = {add} {sums} {total}, %product.{t}")
        total = f"%sum.{t}"
    return "\n".join([*lines, f"  ret {sums} {total}", "}"])


def _elements(side: str, dot: Dot, dtype: str, operand: str) -> list[str]:
    """The elements of a side as numbers of the sums: for each place in a group, of all groups."""
    bits = f"i{parse(dtype).bits}"
    whole = f"<{dot.lanes * dot.terms} x {bits}>"
    part, wide = f"<{dot.lanes} x {bits}>", f"<{dot.lanes} x i32>"
    lines = [f"  %{side}.all = bitcast {operand} %{side} to {whole}"]
    for t in range(dot.terms):
        at = ", ".join(f"i32 {n * dot.terms + t}" for n in range(dot.lanes))
        mask = f"<{dot.lanes} x i32> <{at}>"
        name = f"%{side}.{t}"
        lines.append(f"  {name} = shufflevector {whole} %{side}.all, {whole} poison, {mask}")
        if dtype == "bfloat16":
            lines.append(f"  {name}.bits = zext {part} {name} to {wide}")
            shift = ", ".join(["i32 16"] * dot.lanes)
            lines.append(f"  {name}.high = shl {wide} {name}.bits, <{shift}>")
            lines.append(f"  {name}.wide = bitcast {wide} {name}.high to <{dot.lanes} x float>")
        else:
            kind = "zext" if dtype.startswith("u") else "sext"
            lines.append(f"  {name}.wide = {kind} {part} {name} to {wide}")
    return lines


def _name(dtype: str) -> str:
    return "float" if dtype == "float32" else f"i{parse(dtype).bits}"
