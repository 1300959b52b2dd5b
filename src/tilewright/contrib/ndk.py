"""`tvm.contrib.ndk`: link for Android with the NDK's compiler, which $TVM_NDK_CC names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..base.errors import TilewrightError
from . import cc as _cc


def _compiler() -> str:
    found = os.environ.get("TVM_NDK_CC")
    if not found:
        raise TilewrightError(
            "Require environment variable TVM_NDK_CC to be the NDK standalone compiler"
        )
    return found


def create_shared(
    output: str | os.PathLike[str], objects: Any, options: Sequence[str] | None = None
) -> None:
    """Link object files into a shared library for Android; TilewrightError without $TVM_NDK_CC."""
    _cc.create_shared(output, objects, options, cc=_compiler())


create_shared.output_format = "so"  # type: ignore[attr-defined]
create_shared.get_target_triple = lambda: _cc.get_target_by_dump_machine(_compiler())()  # type: ignore[attr-defined]


def create_staticlib(output: str | os.PathLike[str], inputs: Any) -> None:
    """Put object files into a static library with the NDK's llvm-ar; TilewrightError without
    $TVM_NDK_CC."""
    ar = os.path.join(os.path.dirname(_compiler()), "llvm-ar")
    _cc.create_staticlib(output, inputs, ar=ar)


create_staticlib.output_format = "a"  # type: ignore[attr-defined]


def get_global_symbol_section_map(path: str, *, nm: str | None = None) -> dict[str, str]:
    """As `contrib.cc`'s, with the NDK's llvm-nm by default. Raises TilewrightError where there is
    no nm, or it fails."""
    own = nm or os.path.join(os.path.dirname(_compiler()), "llvm-nm")
    return _cc.get_global_symbol_section_map(path, nm=own)
