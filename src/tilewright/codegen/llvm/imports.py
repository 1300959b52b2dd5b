"""Code that users bring along: pragma import_llvm (IR text, or a file of it) and import_c (C
source)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ...base.errors import CompileError
from ...base.files import open_file, read_file
from ...target.target import Target
from .guard import Checked, check_code


def import_text(key: str, value: str, target: Target) -> Checked:
    """LLVM IR of what a pragma imports, checked against the target."""
    if key == "pragma_import_c":
        return _checked({"text": _compile_c(value, target)}, target)
    if not value.endswith((".ll", ".bc")) or "\n" in value:
        return _checked({"text": value}, target)
    path = Path(value)
    try:
        if path.suffix == ".ll":
            return _checked({"text": read_file(path).decode()}, target)
        open_file(path).close()
    except (OSError, ValueError) as error:
        raise CompileError(f"pragma import_llvm: cannot read {path}: {error}") from None
    return _checked({"bitcode": str(path.resolve())}, target)


def _checked(code: dict[str, str], target: Target) -> Checked:
    checked = check_code(code, target, "the imported code")
    if checked.error:
        raise CompileError(f"pragma import_llvm: this is not LLVM IR: {checked.error}")
    if checked.unknown:
        raise CompileError(
            "pragma import_llvm: the code calls an intrinsic that LLVM does not know"
        )
    return checked


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
