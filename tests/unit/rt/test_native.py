"""Linking objects into the process."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import sys

import pytest

from tests.narrow import some
from tests.unit.rt.kernels import info_of, make
from tilewright.base.errors import TilewrightError
from tilewright.rt.native import compile_ir, load_object, runtime_symbols, undefined_symbols

INT = ctypes.CFUNCTYPE(ctypes.c_int32)


def test_names_need_to_be_unique_in_an_object_only():
    libraries = [load_object(compile_ir(f"define i32 @f() {{ ret i32 {i} }}")) for i in range(5)]
    assert [INT(x.address("f"))() for x in libraries] == [0, 1, 2, 3, 4]


def test_names_may_be_looked_up_at_once_or_later():
    obj = compile_ir("define i32 @f() { ret i32 1 }\ndefine i32 @g() { ret i32 2 }")
    library = load_object(obj, names=["f"])
    assert (INT(library.address("f"))(), INT(library.address("g"))()) == (1, 2)
    with pytest.raises(TilewrightError, match="no symbol 'h'"):
        library.address("h")


def test_libc_libm_and_the_runtime_are_there():
    declared = ["malloc", "free", "aligned_alloc", "memcpy", "memset", "expf", "tanh", "fmodf"]
    declared += list(runtime_symbols())
    data = ("tw_num_threads", "tw_workspace")
    lines = [f"declare void @{name}()" for name in declared if name not in data]
    lines += [f"@{name} = external global ptr" for name in data]
    table = ", ".join(f"ptr @{name}" for name in declared)
    lines.append(f"@table = constant [{len(declared)} x ptr] [{table}]")
    library = load_object(compile_ir("\n".join(lines)))
    filled = (ctypes.c_void_p * len(declared)).from_address(library.address("table"))
    assert all(filled)
    symbols = runtime_symbols()
    assert {n: filled[declared.index(n)] for n in symbols} == symbols


def test_the_own_runtime_is_called_though_another_library_shows_its_names(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    (tmp_path / "other.c").write_text("int tw_parallel(void) { return 1; }")
    other = str(tmp_path / "other.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", other, "other.c"], cwd=tmp_path, check=True)
    code = f"""
import ctypes
from tilewright.rt.native import compile_ir, load_object, runtime_symbols
mine = runtime_symbols()["tw_parallel"]
other = ctypes.CDLL({other!r}, ctypes.RTLD_GLOBAL)
obj = compile_ir("declare void @tw_parallel()\\n@at = constant ptr @tw_parallel")
library = load_object(obj)
at = ctypes.c_void_p.from_address(library.address("at")).value
print(at == mine, ctypes.cast(other.tw_parallel, ctypes.c_void_p).value == mine)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr


def test_math_of_libm_is_called():
    ir = """
    declare double @tanh(double)
    define i32 @t(ptr %slots) {
      %x = load double, ptr %slots
      %p1 = getelementptr i64, ptr %slots, i64 1
      %out = load ptr, ptr %p1
      %y = call double @tanh(double %x)
      store double %y, ptr %out
      ret i32 0
    }
    """
    args = [
        {"name": "x", "kind": "scalar", "dtype": "float64"},
        {"name": "p", "kind": "scalar", "dtype": "handle"},
    ]
    out = ctypes.c_double()
    make(ir, info_of("t", args))(0.5, ctypes.addressof(out))
    assert out.value == pytest.approx(math.tanh(0.5), rel=1e-15)


def test_callers_may_give_symbols():
    obj = compile_ir(
        "declare i32 @theirs()\ndefine i32 @f() {\n %r = call i32 @theirs()\n ret i32 %r\n}"
    )
    callback = INT(lambda: 42)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert INT(load_object(obj, {"theirs": some(address)}).address("f"))() == 42


def test_what_stays_open_is_named():
    ir = "declare i32 @no_such_a()\ndeclare i32 @no_such_b()\ndefine i32 @f() {\n"
    ir += " %r = call i32 @no_such_a()\n %q = call i32 @no_such_b()\n ret i32 %r\n}"
    obj = compile_ir(ir)
    assert sorted(undefined_symbols(obj)) == ["no_such_a", "no_such_b"]
    with pytest.raises(TilewrightError, match=r"symbols that are not there: no_such_a, no_such_b"):
        load_object(obj, names=["f"])


def test_objects_that_are_none_are_refused():
    obj = compile_ir("define i32 @f() { ret i32 1 }")
    for bad in (b"", b"text", obj[:40], obj[: len(obj) // 2]):
        with pytest.raises(TilewrightError, match="cannot load the object file"):
            load_object(bad, names=["f"])
        assert undefined_symbols(bad) == []


def test_code_stays_as_long_as_its_library():
    library = load_object(compile_ir("define i32 @f() { ret i32 3 }"))
    address = library.address("f")
    for i in range(20):
        load_object(compile_ir(f"define i32 @f() {{ ret i32 {i} }}"), names=["f"])
    assert INT(address)() == 3
