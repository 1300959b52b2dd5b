"""Code that says from which line of the loops it comes."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.codegen.c_family import marking, split_marks
from tilewright.codegen.llvm import backend
from tilewright.codegen.llvm.located import generate_located, located_assembly, located_ir
from tilewright.codegen.source import generate, prepare_kernel
from tilewright.driver.object_code import generate_code
from tilewright.driver.prepare import prepare
from tilewright.loopir.print_lines import script_with_lines
from tilewright.lowering.device_pipeline import run_device_pipeline
from tilewright.rt.drivers import nvrtc
from tilewright.target.target import Target

N = 64


def matmul(parallel: bool) -> Any:
    a, b = (te.placeholder((N, N), name=x) for x in "AB")
    k = te.reduce_axis((0, N), "k")
    c = te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((N, N), lambda i, j: te.exp(c[i, j]), name="D")
    s = te.create_schedule(d.op)
    _, j = d.op.axis
    _, inner = s[d].split(j, 16)
    s[d].vectorize(inner)
    if parallel:
        s[c].parallel(c.op.axis[0])
        s[d].parallel(d.op.axis[0])
    return tvm.lower(s, [a, b, d], name="f")


def symbolic() -> Any:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return tvm.lower(te.create_schedule(b.op), [a, b], name="f")


PROGRAMS = {"serial": lambda: matmul(False), "parallel": lambda: matmul(True), "open": symbolic}
TARGETS = ["llvm", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_locations_change_neither_ir_nor_machine_code(name: str, target: str) -> None:
    module, chosen = PROGRAMS[name](), Target(target)
    func = prepare(module["f"], chosen)
    text, places = script_with_lines(func)
    made = generate_located({"f": func}, chosen, places)
    plain = generate_code(module, chosen)
    assert located_ir(made.text).text == plain.generated.text.rstrip("\n")
    assembly = located_assembly(backend.emit_assembly(made.text, chosen, made.imports))
    assert assembly.lines == located_assembly(plain.assembly()).lines
    assert ".loc" not in assembly.text and "debug" not in assembly.text
    last = len(text.split("\n"))
    for found in (located_ir(made.text), assembly):
        assert len(found.lines) == len(found.places)
        assert any(found.places) and max(found.places) <= last and min(found.places) >= 0


def test_instructions_stand_for_their_statements() -> None:
    module, target = matmul(False), Target("llvm")
    func = prepare(module["f"], target)
    text, places = script_with_lines(func)
    loops = text.split("\n")
    made = generate_located({"f": func}, target, places)
    ir = located_ir(made.text)
    scalar = re.compile(r" = fmul [a-z ]*float ")
    products = [loops[p - 1] for line, p in zip(ir.lines, ir.places) if scalar.search(line)]
    assert products and all("A_1[" in line and "B_1[" in line for line in products)
    exps = [loops[p - 1] for line, p in zip(ir.lines, ir.places) if "call <16 x float> @" in line]
    assert exps and all("T.exp" in line for line in exps)
    assembly = located_assembly(backend.emit_assembly(made.text, target, made.imports))
    rows = zip(assembly.lines, assembly.places)
    multiplied = [loops[p - 1] for line, p in rows if re.search(r"\bv?(mul|fmadd\d+)ss\b", line)]
    assert multiplied and any("A_1[" in line for line in multiplied)


def device_source(kind: str) -> tuple[str, list[int], list[str]]:
    a = te.placeholder((N,), name="A")
    b = te.compute((N,), lambda i: te.if_then_else(i < 60, a[i] * 3.0, 1.0), name="B")
    s = te.create_schedule(b.op)
    outer, _inner = s[b].split(b.op.axis[0], 4)
    s[b].bind(outer, te.thread_axis("threadIdx.x"))
    target = Target("cuda -arch=sm_80" if kind == "cuda" else kind)
    with target:
        func = tvm.lower(s, [a, b], name="f")["f"]
    kernels = run_device_pipeline(func, target).kernels
    ready = {name: prepare_kernel(k, target) for name, k in kernels.items()}
    (kernel,) = ready.values()
    text, places = script_with_lines(kernel)
    plain = generate(ready, target)
    with marking(places):
        source, lines = split_marks(generate(ready, target))
    assert source == plain
    assert generate(ready, target) == plain  # nothing stays behind
    return source, lines, text.split("\n")


@pytest.mark.parametrize("kind", ["cuda", "opencl"])
def test_source_says_its_lines(kind: str) -> None:
    source, lines, loops = device_source(kind)
    rows = list(zip(source.split("\n"), lines))
    assert len(rows) == len(source.split("\n"))
    stores = [loops[place - 1] for text, place in rows if re.match(r"\s+B\[.*\] = ", text)]
    assert stores and all("B_1[" in line for line in stores)
    for_lines = [loops[place - 1] for text, place in rows if text.lstrip().startswith("for (")]
    assert for_lines and all(line.lstrip().startswith("for ") for line in for_lines)


@pytest.mark.skipif(nvrtc.why_missing() != "", reason=nvrtc.why_missing() or "NVRTC is here")
@pytest.mark.skipif(
    (nvrtc.find_disassembler() or ("",))[0] != "nvdisasm", reason="nvdisasm is not installed"
)
def test_assembly_of_cubins_names_lines_of_the_source() -> None:
    source, _, _ = device_source("cuda")
    cubin, _ = nvrtc.compile_cuda(source, "sm_80", "cubin", options=["--generate-line-info"])
    plain, _ = nvrtc.compile_cuda(source, "sm_80", "cubin")

    def instructions(text: str) -> list[str]:
        return re.findall(r"/\*[0-9a-f]{4}\*/\s+(.*);", text)

    text = nvrtc.disassemble(cubin, lines=True)
    assert '//## File "' in text and "//##" not in nvrtc.disassemble(cubin)
    assert instructions(text) == instructions(nvrtc.disassemble(plain))
