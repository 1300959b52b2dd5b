"""Code that users bring along: pragma import_llvm (IR text, or a file of it) and import_c (C
source)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ...base.errors import CompileError
from ...target.target import Target
from .guard import check_selects


def import_text(key: str, value: str, target: Target) -> str:
    """LLVM IR text of what a pragma imports, checked against the target."""
    if key == "pragma_import_c":
        text = _compile_c(value, target)
    elif value.endswith((".ll", ".bc")) and "\n" not in value:
        text = _read(Path(value))
    else:
        text = value
    return _checked(text, target)


def _read(path: Path) -> str:
    import llvmlite.binding as llvm

    try:
        if path.suffix == ".ll":
            return path.read_text()
        return str(llvm.parse_bitcode(path.read_bytes()))
    except (OSError, RuntimeError) as error:
        raise CompileError(f"pragma import_llvm: cannot read {path}: {error}") from None


def _checked(text: str, target: Target) -> str:
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"pragma import_llvm: this is not LLVM IR: {error}") from None
    module.triple = target.triple
    module.data_layout = ""
    plain = str(module)
    if "; Unknown intrinsic" in plain:
        raise CompileError(
            "pragma import_llvm: the code calls an intrinsic that LLVM does not know"
        )
    check_selects(plain, target, "the imported code")
    return plain


def _compile_c(source: str, target: Target) -> str:
    compiler = shutil.which("clang")
    if compiler is None:
        raise CompileError(
            "pragma import_c needs clang, which is not installed; import LLVM IR with "
            "pragma import_llvm instead"
        )
    command = [compiler, "-x", "c", "-S", "-emit-llvm", "-O2", "-fPIC", "-o", "-", "-"]
    command += [f"--target={target.triple}"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"pragma import_c: clang failed:\n{done.stderr.strip()}")
    return done.stdout
