"""What the machine code looks like where that is the point, and what LLVM is asked to do."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest

from tilewright.base.errors import CompileError, InternalError
from tilewright.codegen.llvm import backend
from tilewright.codegen.llvm.module import generate
from tilewright.driver.prepare import prepare
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import decl_buffer
from tilewright.target.target import Target

AVX512 = "llvm -mcpu=skylake-avx512"
AVX2 = "llvm -mcpu=haswell"


def micro_kernel(n: int, rows: int, columns: int, lanes: int) -> S.PrimFunc:
    """C[rows, columns * lanes] += A[rows, n] B[n, columns * lanes], accumulators in a local
    buffer."""
    width = columns * lanes
    shapes = {"A": (rows, n), "B": (n, width), "C": (rows, width)}
    buffers = {k: decl_buffer(v, "float32", k) for k, v in shapes.items()}
    flat = {k: b.with_(shape=(b.shape[0] * b.shape[1],)) for k, b in buffers.items()}
    acc = decl_buffer((rows * width,), "float32", "acc")
    k = E.Var("k", "int32")
    places = [(i, j * lanes) for i in range(rows) for j in range(columns)]

    def at(base: Any) -> E.Ramp:
        return E.Ramp(base, 1, lanes)

    zero = E.Broadcast(E.const(0.0), lanes)
    init = [S.BufferStore(acc, zero, [at(E.const(i * width + j))]) for i, j in places]
    step = []
    for i, j in places:
        here = at(E.const(i * width + j))
        a = E.Broadcast(E.BufferLoad(flat["A"], [k + i * n]), lanes)
        b = E.BufferLoad(flat["B"], [at(k * width + j)])
        step.append(S.BufferStore(acc, E.BufferLoad(acc, [here]) + a * b, [here]))
    done = [
        S.BufferStore(flat["C"], E.BufferLoad(acc, [at(E.const(p))]), [at(E.const(p))])
        for p in (i * width + j for i, j in places)
    ]
    body = S.Allocate(acc, S.seq(init, S.For(k, 0, n, 0, S.seq(step)), done))
    params = {name: E.Var(name.lower(), "handle") for name in shapes}
    return S.PrimFunc(
        list(params.values()),
        body,
        None,
        {params[n]: buffers[n] for n in shapes},
        {"tir.noalias": True},
    )


def assembly(func: S.PrimFunc, target: str, **options: Any) -> str:
    chosen = Target(target)
    generated = generate({"f": prepare(func, chosen)}, chosen)
    return backend.emit_assembly(generated.text, chosen, **options)


def inner_loop(asm: str) -> list[str]:
    """Instructions of the first block that jumps back to its own label."""
    label = ""
    block: list[str] = []
    for line in (x.strip() for x in asm.splitlines()):
        if line.endswith(":"):
            label, block = line[:-1], []
        elif line and not line.startswith("."):
            block.append(line)
            if line.startswith("j") and line.split()[-1] == label:
                return block
    raise AssertionError("no loop")


@pytest.mark.parametrize(("target", "rows", "columns", "lanes", "register"), [
    (AVX512, 12, 2, 16, "zmm"),
    (AVX512, 6, 2, 32, "zmm"),
    (AVX2, 6, 2, 8, "ymm"),
])  # fmt: skip
def test_matmul_inner_loop_is_fma_and_loads_only(
    target: str, rows: int, columns: int, lanes: int, register: str
) -> None:
    loop = inner_loop(assembly(micro_kernel(256, rows, columns, lanes), target))
    names = [line.split()[0] for line in loop]
    fma = [line for line in loop if line.startswith("vfmadd")]
    native = 16 if register == "zmm" else 8
    assert len(fma) == rows * columns * lanes // native
    assert all(f"%{register}" in line for line in fma)
    rest = [n for n in names if not n.startswith("vfmadd")]
    loads = [n for n in rest if n in ("vmovups", "vbroadcastss")]
    assert len(rest) - len(loads) <= 4, rest
    assert not any("rsp" in line for line in loop), "an accumulator was spilled"
    stores = [x for x in loop if x.startswith("vmovups") and re.search(r",\s*-?\d*\(", x)]
    assert not stores


def test_small_accumulators_leave_the_stack() -> None:
    asm = assembly(micro_kernel(64, 4, 2, 16), AVX512)
    body = asm.split("f.body:")[1].split(".Lfunc_end")[0]
    assert not [x for x in body.splitlines() if "(%rsp" in x or "(%rbp" in x]


def test_relu_is_one_instruction() -> None:
    a, b = decl_buffer((16,), "float32", "a"), decl_buffer((16,), "float32", "b")
    pa, pb = E.Var("pa", "handle"), E.Var("pb", "handle")
    at = [E.Ramp(0, 1, 16)]
    value = E.Max(E.BufferLoad(a, at), E.Broadcast(E.const(0.0), 16))
    func = S.PrimFunc(
        [pa, pb], S.BufferStore(b, value, at), None, {pa: a, pb: b}, {"tir.noalias": True}
    )
    asm = assembly(func, AVX512)
    assert asm.count("vmaxps") == 1 and "vcmp" not in asm and "vblend" not in asm


def test_maximum_of_two_needs_no_mask() -> None:
    a, b = decl_buffer((16,), "float32", "a"), decl_buffer((16,), "float32", "b")
    pa, pb = E.Var("pa", "handle"), E.Var("pb", "handle")
    at = [E.Ramp(0, 1, 16)]
    value = E.Max(E.BufferLoad(a, at), E.BufferLoad(b, at))
    func = S.PrimFunc(
        [pa, pb], S.BufferStore(b, value, at), None, {pa: a, pb: b}, {"tir.noalias": True}
    )
    asm = assembly(func, AVX512)
    assert asm.count("vmaxps") == 2 and "%k" not in asm


def saxpy(n: int) -> S.PrimFunc:
    a, b = decl_buffer((n,), "float32", "a"), decl_buffer((n,), "float32", "b")
    pa, pb, i = E.Var("pa", "handle"), E.Var("pb", "handle"), E.Var("i", "int32")
    body = S.For(i, 0, n, 0, S.BufferStore(b, E.BufferLoad(a, [i]) * 2.0 + 1.0, [i]))
    return S.PrimFunc([pa, pb], body, None, {pa: a, pb: b}, {"tir.noalias": True})


def test_multiply_and_add_are_fused_only_where_there_is_an_instruction() -> None:
    assert "vfmadd" in assembly(saxpy(1000), AVX2)
    plain = assembly(saxpy(1000), "llvm -mcpu=x86-64")
    assert "mulss" in plain or "addss" in plain
    assert "call" not in plain.split("f.body:")[1].split("f:")[0]


def test_loops_of_very_long_functions_stay_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM unrolled the short loops of 2,500 blocks, and its passes took minutes for the result."""
    assert assembly(saxpy(6), AVX2).count("vfmadd") == 6
    monkeypatch.setattr(backend, "MOST_BLOCKS", 0)
    assert assembly(saxpy(6), AVX2).count("vfmadd") == 1


def test_llvms_vectorisers_are_an_option() -> None:
    assert "ymm" not in assembly(saxpy(1000), AVX2)
    assert "ymm" in assembly(saxpy(1000), AVX2, vectorize=True)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_gives_the_same_results(level: int) -> None:
    from tilewright.driver.signature import function_info
    from tilewright.rt.module import Module

    target = Target("llvm")
    func = prepare(micro_kernel(32, 3, 2, 8), target)
    generated = generate({"f": func}, target)
    obj = backend.emit_object(generated.text, target, opt_level=level)
    info = function_info(func, "f", (), (), "llvm")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (3, 32)).astype("f"), rng.integers(-4, 5, (32, 16)).astype("f")
    c = np.zeros((3, 16), np.float32)
    Module.from_object(obj, [info], target)(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_int_division_by_a_power_of_two_is_a_shift() -> None:
    a = decl_buffer((64,), "int32", "a")
    pa, i = E.Var("pa", "handle"), E.Var("i", "int32")
    x = E.BufferLoad(a, [i])
    body = S.For(
        i, 0, 64, 0, S.BufferStore(a, E.FloorDiv(x, E.const(8)) + E.FloorMod(x, E.const(8)), [i])
    )
    asm = assembly(S.PrimFunc([pa], body, None, {pa: a}), AVX2)
    assert "sarl\t$3" in asm and "andl\t$7" in asm and "idiv" not in asm


def test_indices_are_64_bit_from_the_start() -> None:
    text = generate({"f": prepare(saxpy(1000), Target(AVX2))}, Target(AVX2)).text
    assert "sext" not in text and "trunc" not in text


def test_two_functions_in_one_module() -> None:
    target = Target("llvm")
    functions = {"one": prepare(saxpy(8), target), "two.x": prepare(saxpy(9), target)}
    generated = generate(functions, target)
    assert [g.name for g in generated.functions] == ["one", "two.x"]
    assert backend.emit_object(generated.text, target)[:4] == b"\x7fELF"


def test_text_is_the_same_each_time() -> None:
    target = Target(AVX512)
    texts = {
        generate({"f": prepare(micro_kernel(16, 2, 2, 16), target)}, target).text for _ in "ab"
    }
    assert len(texts) == 1


def test_wrong_ir_is_a_bug_of_the_compiler() -> None:
    with pytest.raises(InternalError, match="LLVM rejects generated code"):
        backend.emit_object("define i32 @f() {\n ret i64 0\n}\n", Target("llvm"))


# -- imported code

TRIPLE = """
define float @triple(float %x) {
  %y = fmul float %x, 3.0
  ret float %y
}
"""


def importing(key: str, text: str) -> S.PrimFunc:
    from tilewright.loopir.op import call_pure_extern

    a = decl_buffer((4,), "float32", "a")
    pa, i = E.Var("pa", "handle"), E.Var("i", "int32")
    value = call_pure_extern("float32", "triple", E.BufferLoad(a, [i]))
    body: S.Stmt = S.For(i, 0, 4, 0, S.BufferStore(a, value, [i]))
    return S.PrimFunc([pa], S.AttrStmt(None, key, E.StringImm(text), body), None, {pa: a})


@pytest.mark.parametrize("from_file", [False, True])
def test_imported_llvm_ir(compiled: Any, from_file: bool, tmp_path: Any) -> None:
    text = TRIPLE
    if from_file:
        (tmp_path / "code.ll").write_text(TRIPLE)
        text = str(tmp_path / "code.ll")
    x = np.arange(4, dtype=np.float32)
    compiled(importing("pragma_import_llvm", text))(x)
    np.testing.assert_array_equal(x, np.arange(4) * 3)


def test_imported_code_that_is_wrong(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="this is not LLVM IR"):
        compiled(importing("pragma_import_llvm", "int triple(int x);"))
    with pytest.raises(CompileError, match="cannot read"):
        compiled(importing("pragma_import_llvm", "/no/such/file.ll"))
    unknown = TRIPLE + "declare float @llvm.nosuch(float)\n"
    with pytest.raises(CompileError, match="an intrinsic that LLVM does not know"):
        compiled(importing("pragma_import_llvm", unknown))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompileError, match="pragma import_c needs clang"):
        compiled(importing("pragma_import_c", "float triple(float x) { return 3 * x; }"))


def _constant(name: str, value: float, helper: float = 0.0) -> str:
    """IR of a C function that returns a number, with a helper that is its own."""
    return (
        f"@shared = global float {value:.1f}\n"
        f"define internal float @helper() {{\n  ret float {helper:.1f}\n}}\n"
        f"define float @{name}(float %x) {{\n  %h = call float @helper()\n"
        f"  %v = load float, ptr @shared\n  %r = fadd float %h, %v\n  ret float %r\n}}\n"
    )


def test_of_two_imports_of_a_symbol_the_later_counts(compiled: Any) -> None:
    first, second = _constant("triple", 1.0, 10.0), _constant("triple", 2.0, 20.0)
    for earlier, later, want in ((first, second, 22.0), (second, first, 11.0)):
        body = importing("pragma_import_llvm", later)
        whole = S.AttrStmt(E.StringImm(""), "pragma_import_llvm", E.StringImm(earlier), body.body)
        x = np.arange(4, dtype=np.float32)
        compiled(body.with_body(whole))(x)
        np.testing.assert_array_equal(x, np.full(4, want))


def test_imported_code_that_defines_our_function(compiled: Any) -> None:
    with pytest.raises(CompileError, match="the imported code defines f, and so does the comp"):
        compiled(importing("pragma_import_llvm", TRIPLE + TRIPLE.replace("@triple", "@f")))


def test_modules_of_failed_builds_are_freed_before_their_context():
    good = "define i32 @f() {\n ret i32 0\n}\n"
    imports = [good.replace("@f", "@g"), "define i32 @h( {"]
    kept = []
    for _ in range(20):
        with pytest.raises(CompileError) as caught:
            backend.emit_object(good, Target("llvm"), imports)
        kept.append(caught.value)
        caught.value.__cause__ = caught.value  # a cycle, which holds the frames of the build
        del caught
    kept.clear()
    gc.collect()  # used to end the process: contexts went before their modules
    assert backend.emit_object(good, Target("llvm"))
