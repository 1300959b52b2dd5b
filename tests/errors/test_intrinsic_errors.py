"""Intrinsics and code that LLVM cannot compile for the target: errors, never the end of the
process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.base.errors import CompileError, TargetError, TilewrightError
from tilewright.target import Target

ON_X86 = pytest.mark.skipif("x86" not in Target("llvm").triple, reason="needs an x86 CPU")
TWICE = "define float @twice(float %x) {\n %y = fadd float %x, %x\n ret float %y\n}\n"


def refused(action, *parts, kind=TilewrightError):
    with pytest.raises(kind) as caught:
        action()
    for part in parts:
        assert part in str(caught.value), f"{part!r} not in: {caught.value}"


def intrinsic(name, dtype="float32", constant=None, lanes=1, target=None):
    a = te.placeholder((16,), dtype, name="A")
    count = tir.const(1, "uint32")
    argument = (lambda i: a[i]) if constant is None else (lambda i: constant)
    b = te.compute((16,), lambda i: tir.call_llvm_intrin(dtype, name, count, argument(i)))
    s = te.create_schedule(b.op)
    if lanes > 1:
        s[b].vectorize(s[b].split(b.op.axis[0], lanes)[1])
    return tvm.build(s, [a, b], target)


NO_NAMES = ["", "llvm", "llvm.", "llvm..x", "sqrt", "llvm.sqrt\n", "llvm.sqrt; ret void", "llvm.é"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_of_an_intrinsic(name):
    words = f"{name!r} is not the name of an LLVM intrinsic; it starts with 'llvm.'"
    refused(lambda: intrinsic(name), words, kind=CompileError)


def test_unknown_intrinsics():
    refused(lambda: intrinsic("llvm.nonsense"), "LLVM has no intrinsic llvm.nonsense")
    refused(lambda: intrinsic("llvm.x86.avx9000"), "LLVM has no intrinsic llvm.x86.avx9000")


@pytest.mark.parametrize("dtype", ["int32", "float32", "int64"])
@pytest.mark.parametrize(
    "name",
    [
        "llvm.dbg.value",  # reading this call ends LLVM's process
        "llvm.sincos",
        "llvm.masked.load",
        "llvm.eh.sjlj.setjmp",
        "llvm.coro.begin",
        "llvm.experimental.gc.statepoint",
        "llvm.localescape",
        "llvm.x86.sse41.insertps",
        "llvm.memcpy",
        "llvm.va_start",
    ],
)
def test_calls_that_do_not_fit_an_intrinsic(name, dtype):
    refused(lambda: intrinsic(name, dtype), name)
    refused(lambda: intrinsic(name, dtype, tir.const(1, dtype)), name)


def test_types_that_do_not_fit_an_intrinsic():
    words = "LLVM cannot call llvm.sqrt with i32 giving i32: Intrinsic has incorrect"
    refused(lambda: intrinsic("llvm.sqrt", "int32"), words, kind=CompileError)
    refused(lambda: intrinsic("llvm.ctpop"), "LLVM cannot call llvm.ctpop with float giving float")


@pytest.mark.parametrize("family", ["nvvm.sqrt.f", "amdgcn.rcp", "wasm.trunc.signed", "hexagon.A2"])
def test_intrinsics_of_no_cpu(family):
    refused(lambda: intrinsic(f"llvm.{family}"), f"llvm.{family}")
    refused(lambda: intrinsic(f"llvm.{family}", lanes=4), f"llvm.{family}")


def test_intrinsics_of_another_cpu():
    arm, x86 = "llvm -mtriple=aarch64-linux-gnu", "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64"
    refused(
        lambda: intrinsic("llvm.x86.sse.rcp.ss", target=arm),
        "the intrinsic llvm.x86.sse.rcp.ss is for x86; the target",
        "is aarch64",
        kind=TargetError,
    )
    refused(lambda: intrinsic("llvm.aarch64.neon.frecpe", target=x86), "is for aarch64; the target")
    refused(lambda: intrinsic("llvm.riscv.fmin", target=x86), "is for riscv; the target")


@pytest.mark.skipif("x86_64" not in Target("llvm").triple, reason="asks LLVM about x86")
def test_intrinsics_that_the_cpu_lacks():
    name = "llvm.x86.avx512.rcp14.ps.512"
    a = te.placeholder((16,), name="A")
    count, zero = tir.const(3, "uint32"), tir.const(0, "float32x16")

    def body(ins, outs):
        build = tir.ir_builder.create()
        x, y = build.buffer_ptr(ins[0]), build.buffer_ptr(outs[0])
        lanes = tir.Ramp(0, 1, 16)
        args = (x[lanes], zero, tir.const(-1, "int16"))
        y[lanes] = tir.call_llvm_pure_intrin("float32x16", name, count, *args)
        return build.get()

    b = te.extern((16,), [a], body, dtype="float32")
    s = te.create_schedule(b.op)
    refused(
        lambda: tvm.build(s, [a, b], "llvm -mcpu=x86-64-v2"),
        f"(CPU x86-64-v2) cannot run the intrinsic {name}: LLVM ERROR: ",
        "the features of the CPU (-mcpu, -mattr)",
        kind=TargetError,
    )


def imported(code, target=None, name="twice"):
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: tir.call_pure_extern("float32", name, a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], "import_llvm", code)
    return tvm.build(s, [a, b], target)


def test_code_that_fits_runs():
    y = np.zeros(16, np.float32)
    imported('module asm ".byte 0"\n' + TWICE)(np.ones(16, np.float32), y)
    assert (y == 2).all()


def test_text_that_is_no_ir(tmp_path: Path):
    words = "pragma import_llvm: this is not LLVM IR: "
    for text in ("nonsense", "é" * 20, TWICE * 2, TWICE.replace("ret float", "ret i32")):
        refused(lambda t=text: imported(t), words, kind=CompileError)
    refused(lambda: imported('target datalayout = "nonsense"\n' + TWICE), words)
    (tmp_path / "bad.bc").write_bytes(b"BC\xc0\xde" + b"\1\2\3" * 99)
    refused(lambda: imported(str(tmp_path / "bad.bc")), words, "Invalid bitcode signature")
    (tmp_path / "bad.ll").write_bytes(b"\xff\xfe")
    refused(lambda: imported(str(tmp_path / "bad.ll")), "pragma import_llvm: cannot read")
    for name in ("none.ll", "none.bc"):
        refused(lambda n=name: imported(str(tmp_path / n)), "cannot read", name, kind=CompileError)


def test_bitcode_that_is_cut_off(tmp_path: Path):
    llvm = pytest.importorskip("llvmlite.binding")
    whole = llvm.parse_assembly(TWICE).as_bitcode()
    path = tmp_path / "code.bc"
    path.write_bytes(whole)
    y = np.zeros(16, np.float32)
    imported(str(path))(np.ones(16, np.float32), y)
    assert (y == 2).all()
    for size in range(0, len(whole), len(whole) // 12):
        path = tmp_path / f"{size}.bc"
        path.write_bytes(whole[:size])
        refused(lambda p=path: imported(str(p)), "import")


def with_body(lines: str, declarations: str = "") -> str:
    return f"{declarations}\ndefine float @twice(float %x) {{\n{lines}\n ret float %x\n}}\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            with_body(
                " call float @llvm.nonsense(float %x)", "declare float @llvm.nonsense(float)"
            ),
            "the code calls an intrinsic that LLVM does not know",
        ),
        (
            with_body(
                " %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n store i32 %i, ptr null",
                "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            ),
            "cannot run the imported code: LLVM ERROR: Cannot select: intrinsic %llvm.nvvm",
        ),
        (
            with_body(' call void asm sideeffect "nonsense %eax", ""()'),
            "cannot run the imported code: error: <inline asm>",
        ),
        ('module asm "nonsense"\n' + TWICE, "cannot run the imported code: error: <inline asm>"),
        (TWICE.replace(") {", ') gc "x" {'), "cannot run the imported code: LLVM ERROR: unsup"),
        (
            with_body(" call void @nowhere()", "declare void @nowhere()"),
            "the compiled code needs symbols that are not there: nowhere",
        ),
        ("", "the compiled code needs symbols that are not there: twice"),
        (
            "define i64 @twice(i64 %x) {\n ret i64 %x\n}\n",
            "twice is called as float (float), but the imported code has i64 (i64)",
        ),
        (
            TWICE.replace("define", "define ghccc"),
            "twice is called as float (float), but the imported code has ghccc float (float)",
        ),
        (TWICE.replace("define", "define cc 999"), "the imported code has cc999 float (float)"),
        (
            TWICE + "define i32 @default_function(ptr %p) {\n ret i32 7\n}\n",
            "the imported code defines default_function, and so does the compiled module",
        ),
    ],
)
def test_code_that_cannot_be_compiled_or_called(code, words):
    y = np.zeros(16, np.float32)
    refused(lambda: imported(code)(np.ones(16, np.float32), y), words)
    assert not y.any()


@ON_X86
def test_code_for_features_that_the_target_lacks():
    code = TWICE.replace(") {", ') "target-cpu"="i386" "target-features"="-64bit" {')
    refused(lambda: imported(code), "cannot run the imported code: ", kind=TargetError)


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_that_no_symbol_has(name):
    words = f"a function cannot have the name {name!r}"[:-1]
    refused(lambda: imported(TWICE, name=name), words, kind=CompileError)
    a = te.placeholder((4,), name="A")
    s = te.create_schedule(a.op)
    b = te.compute((4,), lambda i: a[i] + 1.0)
    s = te.create_schedule(b.op)
    refused(lambda: tvm.build(s, [a, b], name=name), words, kind=CompileError)


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a b", "é", "1", "a\\22"])
def test_odd_names_are_only_names(name):
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0)
    f = tvm.build(te.create_schedule(b.op), [a, b], name=name)
    y = np.zeros(4, np.float32)
    f[name](np.ones(4, np.float32), y)
    assert (y == 2).all()
    refused(lambda: imported(TWICE, name=f"{name}?")(y, y.copy()), "symbols that are not there")


def test_import_c_without_a_compiler(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0)
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], "import_c", "int x;")
    refused(lambda: tvm.build(s, [a, b]), "pragma import_c needs clang", "import_llvm instead")
