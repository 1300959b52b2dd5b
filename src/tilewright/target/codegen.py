"""`tvm.target.codegen`: facts about LLVM."""

from __future__ import annotations


def llvm_version_major(allow_none: bool = False) -> int:
    """The major version of the LLVM that generates code."""
    import llvmlite.binding as llvm

    return int(llvm.llvm_version_info[0])
