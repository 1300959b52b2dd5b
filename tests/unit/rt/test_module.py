"""Modules: lookup, sources, timing, and their files."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from typing import Any

import numpy as np
import pytest

from tests.unit.rt.kernels import ADD, NOTHING, array, info_of, scalar
from tests.unit.rt.test_packed import CALL
from tests.unit.rt.test_threads import REGION
from tilewright import runtime
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.rt import export, threads
from tilewright.rt.device import cpu, cuda
from tilewright.rt.load import load_module
from tilewright.rt.module import Module
from tilewright.rt.native import compile_ir
from tilewright.rt.packed import register_func, remove_global_func
from tilewright.target import Target

SHARED = pytest.mark.skipif(shutil.which("cc") is None, reason="no system linker")
SUFFIXES = [".two", ".tar", pytest.param(".so", marks=SHARED)]


def add_info():
    args = [array(x, "float32", ["n"], is_output=x == "C") for x in "ABC"]
    return info_of("add", args, symbols=[{"name": "n", "source": ["shape", 0, 0]}])


def make_module(**rest):
    infos = [add_info(), info_of("nothing", [scalar("x", "int32")])]
    sources: dict[str, Any] = {"ll": ADD, "asm": lambda: "vaddps", "tir": "class Module: ..."}
    return Module.from_object(compile_ir(ADD + NOTHING), infos, Target("llvm"), sources, **rest)


def check_add(module):
    a, b, c = np.arange(5, dtype=np.float32), np.ones(5, np.float32), np.zeros(5, np.float32)
    module(a, b, c)
    np.testing.assert_array_equal(c, a + b)


def test_functions_by_name():
    m = make_module()
    assert m.entry_name == "add"
    assert m.function_names == ["add", "nothing"]
    assert "nothing" in m
    assert "other" not in m
    m["nothing"](3)
    check_add(m)
    check_add(m["add"])
    check_add(m["__tvm_main__"])
    assert m.get_function("add") is m["add"] is m.entry_func
    with pytest.raises(TilewrightError, match="no function 'other'; it has: add, nothing"):
        m["other"]
    assert repr(m) == "<tilewright module for 'llvm': add, nothing>"
    assert repr(m["add"]) == "<tilewright function add(A, B, C) for llvm>"


def test_the_entry_may_be_chosen():
    m = make_module(entry="nothing")
    m(7)
    with pytest.raises(ArgumentError, match="nothing: expected 1 argument"):
        m()


def test_prepare_runs_the_entry():
    m = make_module()
    c = np.zeros(3, np.float32)
    run = m.prepare(np.ones(3, np.float32), np.ones(3, np.float32), c)
    run()
    assert c.tolist() == [2, 2, 2]


def test_sources_are_made_when_asked_for():
    m = make_module()
    assert m.get_source() == m.get_source("ll") == ADD
    assert m.get_source("asm") == m.get_source("s") == "vaddps"
    assert m.source_formats == ["ll", "asm", "tir"]
    with pytest.raises(TilewrightError, match="no source of format 'ptx'; it has: ll, asm, tir"):
        m.get_source("ptx")


def test_imported_modules_are_searched_on_demand():
    inner = make_module()
    outer = Module({}, Target("llvm"), {}, imports=[inner])
    assert outer.get_function("add", query_imports=True) is inner["add"]
    with pytest.raises(TilewrightError, match="it has: none"):
        outer.get_function("add")
    other = make_module()
    outer.import_module(other)
    assert outer.imported_modules == [inner, other]


def test_code_for_another_machine_does_not_run_here(tmp_path):
    triple = "wasm32-unknown-unknown"
    obj = compile_ir(f'target triple = "{triple}"\n{NOTHING}', triple)
    m = Module.from_object(obj, [info_of("nothing", [])], Target(f"llvm -mtriple={triple}"))
    with pytest.raises(TilewrightError, match=r"cannot run code for target .*it is for wasm32"):
        m()
    path = m.export_library(tmp_path / "m.two")
    with pytest.raises(TilewrightError, match="cannot run on this machine: it is for wasm32"):
        load_module(path)


# -- timing


def test_time_evaluator_gives_seconds():
    m = make_module()
    arrays = [np.zeros(1000, np.float32) for _ in range(3)]
    timed = m.time_evaluator(m.entry_name, cpu(0), number=3, repeat=4)
    result = timed(*arrays)
    assert len(result.results) == 4
    assert 0 < result.min <= result.median <= result.max < 1
    assert result.min <= result.mean <= result.max
    assert result.std >= 0
    assert str(result).startswith("Execution time summary:\n")
    assert "mean (ms)" in str(result)


def test_time_evaluator_counts_runs():
    calls = []
    register_func("t.func", lambda *args: calls.append(1), override=True)
    args = [array("A", "float32", [2, 3], is_output=True), array("R", "int64", [2], is_output=True)]
    m = Module.from_object(compile_ir(CALL), [info_of("caller", args)], Target("llvm"))
    try:
        setups = []
        timed = m.time_evaluator(
            "caller",
            number=5,
            repeat=2,
            cache_flush_bytes=1 << 12,
            f_preproc=lambda: setups.append(1),
        )
        timed(np.zeros((2, 3), np.float32), np.zeros(2, np.int64))
        assert (len(calls), len(setups)) == (1 + 5 * 2, 2)
        calls.clear()
        timed = m.time_evaluator("caller", number=1, min_repeat_ms=5, cooldown_interval_ms=1)
        timed(np.zeros((2, 3), np.float32), np.zeros(2, np.int64))
        assert len(calls) > 50
    finally:
        remove_global_func("t.func")


def test_time_evaluator_checks_what_it_is_given():
    m = make_module()
    with pytest.raises(TilewrightError, match="no function 'other'"):
        m.time_evaluator("other", cpu(0))
    with pytest.raises(TilewrightError, match=r"cuda\(99\) does not exist"):
        m.time_evaluator("add", cuda(99))
    with pytest.raises(TilewrightError, match="have to be at least 1"):
        m.time_evaluator("nothing", number=0)(1)
    with pytest.raises(ArgumentError):
        m.time_evaluator("nothing")("x")


def test_timing_stops_at_a_failed_check():
    f = info_of("g", [], messages=["it failed"])
    obj = compile_ir("define i32 @g(ptr %slots) { ret i32 1 }")
    m = Module.from_object(obj, [f], Target("llvm"))
    with pytest.raises(TilewrightError, match="g: it failed"):
        m.time_evaluator("g")()


# -- files


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_read_back(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    assert make_module(entry="add").export_library(path) == str(path)
    assert list(tmp_path.iterdir()) == [path]
    back = runtime.load_module(str(path))
    check_add(back)
    back["nothing"](1)
    assert back.entry_name == "add"
    assert back["add"].info == add_info()
    with pytest.raises(ArgumentError, match=r"add: argument 1 \(B\)"):
        back(*(np.zeros(n, np.float32) for n in (3, 2, 3)))
    if suffix not in (".so", ".tar", ".o"):  # those hold code alone
        assert back.get_source("ll") == ADD
        again = tmp_path / "again"
        back.export_library(again)
        assert again.read_bytes() == path.read_bytes()


def test_the_same_module_gives_the_same_bytes(tmp_path):
    for name in "ab":
        make_module().export_library(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_imports_are_kept(tmp_path):
    outer = make_module()
    outer.import_module(Module({}, Target("cuda"), {"cu": "__global__"}, type_key="cuda"))
    back = load_module(outer.export_library(tmp_path / "m"))
    (device,) = back.imported_modules
    assert (device.get_source(), device.type_key, str(device.target)) == (
        "__global__",
        "cuda",
        "cuda",
    )
    with pytest.raises(TilewrightError, match="cannot become a shared library"):
        outer.export_library(tmp_path / "m.so")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_cut_short_are_refused(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    make_module().export_library(path)
    data = path.read_bytes()
    for size in (0, 3, 64, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(TilewrightError, match="cut short"):
            load_module(path)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".o"])
def test_damaged_files_are_refused_before_they_are_run(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    make_module().save(path)
    data = path.read_bytes()
    for k in range(20, len(data), len(data) // 50):
        changed = bytearray(data)
        changed[k] ^= 1 << k % 8
        path.write_bytes(changed)
        with pytest.raises(TilewrightError, match=r"damaged|is for|has no"):
            load_module(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(TilewrightError, match=r"cannot read .*No such file"):
        load_module(tmp_path / "none.two")
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(TilewrightError, match=r"not a module of tilewright.*has no checksum"):
        load_module(path)


@SHARED
def test_other_shared_libraries_are_refused(tmp_path):
    source, path = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text("int f(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
    with pytest.raises(TilewrightError, match="not a module of tilewright: it has no symbol"):
        load_module(path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 99}, "has format version 99, this tilewright reads 2"),
        ({"format": "other"}, "holds no metadata"),
        ({"features": ["avx512f", "quantum"]}, "lacks .*quantum.*build it again"),
    ],
)
def test_metadata_is_checked(tmp_path, change, text):
    path = tmp_path / "m.two"
    make_module().export_library(path)
    members = export.read_archive(path)
    metadata = {**json.loads(members["metadata.json"]), **change}
    export.write_archive(path, {**members, "metadata.json": json.dumps(metadata).encode()})
    with pytest.raises(TilewrightError, match=text):
        load_module(path)


def test_save_writes_one_form(tmp_path):
    m = make_module()
    m.save(tmp_path / "m.o")
    assert (tmp_path / "m.o").read_bytes().startswith(m.object_code)
    check_add(load_module(tmp_path / "m.o"))
    m.save(tmp_path / "m.ll")
    assert (tmp_path / "m.ll").read_text() == ADD
    m.save(tmp_path / "m.s")
    assert (tmp_path / "m.s").read_text() == "vaddps"
    m.save(tmp_path / "m.two")
    check_add(load_module(tmp_path / "m.two"))


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(TilewrightError, match=r"memory of this process .*weights"):
        make_module(symbols={"weights": 1}).export_library(tmp_path / "m")
    with pytest.raises(TilewrightError, match="no object code"):
        Module({}, Target("llvm"), {}).save(tmp_path / "m.o")
    with pytest.raises(TilewrightError, match=r"cannot write .*No such file"):
        make_module().export_library(tmp_path / "no" / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_shared_library_needs_no_linker_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    make_module().export_library(tmp_path / "m.so")
    assert list(load_module(tmp_path / "m.so").function_names) == ["add", "nothing"]
    (tmp_path / "m.so").unlink()
    other = Module.from_object(b"not ELF", [info_of("f", [])], Target("llvm"))
    with pytest.raises(TilewrightError, match=r"no linker found .* path that ends in \.two"):
        other.export_library(tmp_path / "m.so")
    with pytest.raises(TilewrightError, match="cannot run the linker nolink"):
        make_module().export_library(tmp_path / "m.so", cc="nolink")
    assert list(tmp_path.iterdir()) == []


@SHARED
def test_a_failing_linker_leaves_nothing(tmp_path):
    m = Module.from_object(b"not an object", [info_of("f", [])], Target("llvm"))
    with pytest.raises(TilewrightError, match=r"linking .* failed"):
        m.export_library(tmp_path / "m.so")
    assert list(tmp_path.iterdir()) == []


@SHARED
def test_shared_libraries_use_the_threads_and_functions_of_the_process(tmp_path):
    args = [array("A", "float32", [2, 3], is_output=True), array("R", "int64", [2], is_output=True)]
    infos = [
        info_of("region", [array("out", "int32", [8], is_output=True)]),
        info_of("caller", args),
    ]
    obj = compile_ir(
        REGION + CALL.replace("declare i32 @tw_call_packed", "\ndeclare i32 @tw_call_packed")
    )
    path = Module.from_object(obj, infos, Target("llvm")).export_library(tmp_path / "m.so")
    m = load_module(path)
    out = np.zeros(8, np.int32)
    try:
        threads.set_num_threads(2)
        m["region"](out)
        assert out.tolist() == [3] * 8
    finally:
        threads.set_num_threads(0)
    register_func("t.func", lambda *a: 11, override=True)
    try:
        result = np.zeros(2, np.int64)
        m["caller"](np.zeros((2, 3), np.float32), result)
        assert result.tolist() == [0, 11]
    finally:
        remove_global_func("t.func")


@SHARED
def test_shared_libraries_run_from_c(tmp_path):
    args = [array("out", "int32", [8], is_output=True)]
    path = Module.from_object(
        compile_ir(REGION), [info_of("region", args)], Target("llvm")
    ).export_library(tmp_path / "libm.so")
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text(
        "#include <stdint.h>\n#include <stdio.h>\nint32_t region(int64_t *slots);\n"
        "extern void *tilewright_runtime[4];\n"
        "int main(void) { int32_t out[8] = {0}, r = 0; int64_t slots[1] = {(int64_t)out};\n"
        "for (int n = 1; n < 4; ++n) {\n"
        "  *(int32_t *)tilewright_runtime[2] = n; r |= region(slots); }\n"
        'printf("%d %d %d\\n", r, out[0], out[7]); return 0; }\n'
    )
    subprocess.run(["cc", "-o", program, source, path], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "0 3 3\n"
