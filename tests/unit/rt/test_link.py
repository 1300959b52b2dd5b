"""The linker: what LLVM emits becomes a shared object; what does not fit is refused by name."""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.rt import elf, native
from tilewright.rt.elf import LinkError, read_object
from tilewright.rt.link import link_shared
from tilewright.rt.native import compile_ir

ARM = "aarch64-linux-gnu"
FIRST = """
@table = constant [2 x ptr] [ptr @twice, ptr @missing_weak]
@count = global i32 40
@common = common global [4 x i32] zeroinitializer, align 16
@far = external global i32
declare extern_weak i32 @missing_weak()
declare i32 @third(i32)
declare double @cbrt(double)
declare i32 @abs(i32)
define i32 @twice(i32 %x) {
  %r = shl i32 %x, 1
  ret i32 %r
}
define internal i32 @own() {
  ret i32 5
}
define i32 @all(i32 %x) {
  %c = load i32, ptr @count
  %d = add i32 %c, 1
  store i32 %d, ptr @count
  %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 0
  %f = load ptr, ptr %p
  %a = call i32 %f(i32 %x)
  %b = call i32 @third(i32 %a)
  %e = load i32, ptr @far
  %g = call i32 @own()
  %n = sub i32 0, %b
  %h = call i32 @abs(i32 %n)
  %wide = sitofp i32 %h to double
  %root = call double @cbrt(double %wide)
  %whole = fptosi double %root to i32
  %q = getelementptr [4 x i32], ptr @common, i64 0, i64 3
  store i32 %whole, ptr %q
  %again = load i32, ptr %q
  %s = add i32 %d, %e
  %t = add i32 %s, %g
  %u = add i32 %t, %again
  ret i32 %u
}
"""
SECOND = """
@far = global i32 1000
@common = common global [8 x i32] zeroinitializer, align 32
@blob = external hidden constant [3 x i8]
define weak i32 @twice(i32 %x) {
  ret i32 -1
}
define hidden i32 @third(i32 %x) {
  %r = mul i32 %x, 2
  ret i32 %r
}
define i32 @of_blob(i64 %k) {
  %p = getelementptr [3 x i8], ptr @blob, i64 0, i64 %k
  %b = load i8, ptr %p
  %r = zext i8 %b to i32
  ret i32 %r
}
"""
EXPORTS = ["all", "of_blob", "count"]
# all(16): twice 32, third 64, cbrt 4; count 41, far 1000, own 5
WANTED = 41 + 1000 + 5 + 4
MAIN = f"""
int all(int);
int of_blob(long);
int main(void) {{ return all(16) != {WANTED} || of_blob(1) != 8; }}
"""


def both(triple: str = "") -> dict[str, bytes]:
    return {name: compile_ir(text, triple) for name, text in (("1", FIRST), ("2", SECOND))}


def linked(objects: dict[str, bytes], *rest, **more) -> bytes:
    return b"".join(link_shared(objects, *rest, **more))


def one(text: str, triple: str = "") -> dict[str, bytes]:
    return {"one": compile_ir(text, triple)}


def in_child(path: Path, program: str) -> str:
    """What a program prints that has the library as `lib`: a bad one may end its process."""
    text = f"import ctypes\nlib = ctypes.CDLL({str(path)!r}, mode=2)\n{program}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_objects_become_one_library(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(linked(both(), EXPORTS, "lib.so", {"blob": b"\7\10\11"}))
    calls = "print(lib.all(16), lib.all(16), lib.of_blob(2))"
    assert in_child(path, calls) == f"{WANTED} {WANTED + 1} 9"
    hidden = "print([hasattr(lib, n) for n in ('all', 'third', 'twice', 'own', 'far')])"
    assert in_child(path, hidden) == "[True, False, False, False, False]"
    assert linked(both(), EXPORTS, "lib.so", {"blob": b"\7\10\11"}) == path.read_bytes()


def test_all_that_is_visible_is_exported_where_no_list_is_given(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(linked(both(), data={"blob": b"\0\0\0"}))
    names = "all third twice own far common blob of_blob table"
    assert in_child(path, f"print([n for n in '{names}'.split() if hasattr(lib, n)])") == str(
        ["all", "twice", "far", "common", "of_blob", "table"]
    )


def test_the_process_keeps_its_own_definitions_apart(tmp_path: Path) -> None:
    """References bind within the file even where the process has the name already."""
    for k in (1, 2):
        text = f"""
            @number = global i32 {k}
            define i32 @get() {{
              %v = load i32, ptr @number
              ret i32 %v
            }}"""
        (tmp_path / f"{k}.so").write_bytes(linked(one(text)))
    program = f"""
other = ctypes.CDLL({str(tmp_path / "2.so")!r}, mode=2)
print(ctypes.CDLL({str(tmp_path / "1.so")!r}, mode=ctypes.RTLD_GLOBAL).get(), other.get())"""
    assert in_child(tmp_path / "1.so", program) == "1 2"


def test_no_page_is_code_and_writable(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(linked(both(), EXPORTS, data={"blob": bytes(9000)}))
    program = f"""
rows = [r for r in open("/proc/self/maps") if {str(path)!r} in r]
print(sorted({{r.split()[1] for r in rows}}))
"""
    assert in_child(path, program) == "['r--p', 'r-xp', 'rw-p']"


def read_dynamic(data: bytes) -> dict[int, list[int]]:
    """Values of the dynamic section, by tag."""
    offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    rows: dict[int, list[int]] = {}
    for k in range(count):
        kind, _, at, _, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", data, offset + 56 * k)
        if kind == 2:
            for tag, value in struct.iter_unpack("<QQ", data[at : at + size]):
                rows.setdefault(tag, []).append(value)
    return rows


def test_libraries_are_needed_only_where_names_are() -> None:
    alone = linked(one("define i32 @f() {\n ret i32 1\n}"))
    assert 1 not in read_dynamic(alone)
    assert b"libm" not in alone and b"libc" not in alone
    assert len(read_dynamic(linked(both(), data={"blob": b""}))[1]) == 2


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf")
@pytest.mark.parametrize("triple", ["", ARM])
def test_readelf_finds_nothing_to_complain_about(triple: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(linked(both(triple), EXPORTS, "lib.so", {"blob": b"\7\10\11"}))
    done = subprocess.run(
        ["readelf", "-aW", "--lint", path], capture_output=True, text=True, check=True
    )
    assert "arning" not in done.stderr + done.stdout, done.stderr
    assert "Shared library: [libm.so.6]" in done.stdout
    assert "SONAME" in done.stdout and "RELRO" in done.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_programs_link_with_it(tmp_path: Path) -> None:
    (tmp_path / "libx.so").write_bytes(linked(both(), EXPORTS, "libx.so", {"blob": b"\7\10\11"}))
    (tmp_path / "main.c").write_text(MAIN)
    command = ["cc", "main.c", "-L.", "-lx", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)


@pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None or shutil.which("aarch64-linux-gnu-gcc") is None,
    reason="qemu-aarch64 or aarch64-linux-gnu-gcc not installed",
)
def test_aarch64_libraries_run(tmp_path: Path) -> None:
    library = linked(both(ARM), EXPORTS, "libx.so", {"blob": b"\7\10\11"})
    (tmp_path / "libx.so").write_bytes(library)
    (tmp_path / "main.c").write_text(MAIN)
    command = ["aarch64-linux-gnu-gcc", "main.c", "-L.", "-lx", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    root = ["-L", "/usr/aarch64-linux-gnu", "-E", "LD_LIBRARY_PATH=."]
    subprocess.run(["qemu-aarch64", *root, "./main"], cwd=tmp_path, check=True)


REFUSED = [
    ("@x = thread_local global i32 1\ndefine i32 @f() {\n %v = load i32, ptr @x\n ret i32 %v\n}",
     "thread-local"),
    ("define void @f() {\n ret void\n}\n@llvm.global_ctors = appending global "
     "[1 x {i32, ptr, ptr}] [{i32, ptr, ptr} {i32 1, ptr @f, ptr null}]",
     "run when a file is loaded"),
    ("@far = external hidden global i32\ndefine ptr @f() {\n ret ptr @far\n}",
     "'far' (has to be|is hidden)"),
    ("@f = ifunc i32 (), ptr @r\ndefine internal ptr @r() {\n ret ptr null\n}",
     "indirect function"),
]  # fmt: skip


@pytest.mark.parametrize("text, message", REFUSED)
def test_what_is_not_supported_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(LinkError, match=message):
        link_shared(one(text))


def test_relocations_of_32_bits_are_refused() -> None:
    data = bytearray(compile_ir("@g = external global i32\ndefine ptr @f() {\n ret ptr @g\n}"))
    o = read_object(bytes(data))
    (section,) = [s for s in o.sections if s is not None and s.name == ".text"]
    row = struct.pack("<Q", section.relocations[0].offset)
    at = data.index(row + struct.pack("<I", section.relocations[0].kind))
    for kind, name in ((10, "R_X86_64_32"), (22, "R_X86_64_GOTTPOFF"), (77, "number 77")):
        data[at + 8 : at + 12] = struct.pack("<I", kind)
        with pytest.raises(LinkError, match=f"relocation {name} of 'g' is not supported"):
            link_shared({"one": bytes(data)})


def test_constants_are_not_written_to() -> None:
    data = bytearray(compile_ir("@x = constant ptr @far\n@far = external global i32"))
    heads = int.from_bytes(data[40:48], "little")
    at = data.index(struct.pack("<IQ", 1, 3), heads)  # .data.rel.ro, allocated and writable
    data[at + 4] = 2
    with pytest.raises(LinkError, match="would have to write the address of 'far'"):
        link_shared({"one": bytes(data)})


def test_names_are_defined_once() -> None:
    text = "define i32 @f() {\n ret i32 1\n}"
    with pytest.raises(LinkError, match="'f' is defined twice: in a and in b"):
        link_shared({"a": compile_ir(text), "b": compile_ir(text)})
    with pytest.raises(LinkError, match="'f' is defined twice: in the data to link and in a"):
        link_shared({"a": compile_ir(text)}, data={"f": b"1"})
    with pytest.raises(LinkError, match="cannot export 'g': no object defines it"):
        link_shared({"a": compile_ir(text)}, ["g"])
    with pytest.raises(LinkError, match="nothing to link"):
        link_shared({})


def test_of_repeated_groups_the_first_is_kept(tmp_path: Path) -> None:
    texts = [
        f"""
        $f = comdat any
        define linkonce_odr i32 @f() comdat {{
          ret i32 {k}
        }}
        define i32 @g{k}() {{
          %r = call i32 @f()
          ret i32 %r
        }}"""
        for k in (1, 2)
    ]
    path = tmp_path / "lib.so"
    path.write_bytes(linked({str(k): compile_ir(text) for k, text in enumerate(texts)}))
    assert in_child(path, "print(lib.g1(), lib.g2())") == "1 1"


def test_machines_are_not_mixed() -> None:
    text = "define i32 @f() {\n ret i32 1\n}"
    mixed = {"here": compile_ir(text, "x86_64-linux-gnu"), "there": compile_ir(text, ARM)}
    with pytest.raises(LinkError, match="here is for x86-64, there for AArch64"):
        link_shared(mixed)
    with pytest.raises(LinkError, match="linked already"):
        link_shared({"a": linked(one(text))})
    with pytest.raises(LinkError, match="machine 243; linked is code for"):
        link_shared({"a": compile_ir(text, "riscv64-linux-gnu")})


@pytest.mark.parametrize("triple", ["", ARM])
def test_damaged_objects_are_refused_or_linked(triple: str) -> None:
    """Whatever bytes there are: a library, or a LinkError."""
    objects, rng = both(triple), random.Random(5)
    for k in range(300):
        data = bytearray(objects["1"])
        if k % 3:
            for _ in range(rng.choice((1, 1, 4))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data)) :]
        with suppress(LinkError):
            link_shared({"1": bytes(data), "2": objects["2"]}, data={"blob": b"abc"})


def test_an_error_is_one_of_ours() -> None:
    assert issubclass(LinkError, TilewrightError)
    with pytest.raises(TilewrightError, match="an object is not an ELF object"):
        read_object(b"")
    with pytest.raises(TilewrightError, match="is damaged"):
        read_object(elf.IDENT + bytes(30))


def test_it_does_what_the_jit_does(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    text = SECOND.replace("external hidden", "private").replace("[3 x i8]\n", '[3 x i8] c"xyz"\n')
    path.write_bytes(linked(one(text)))
    jitted = native.load_object(compile_ir(text), names=["of_blob"])
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long)(jitted.address("of_blob"))
    assert in_child(path, "print(lib.of_blob(1))") == str(call(1))
