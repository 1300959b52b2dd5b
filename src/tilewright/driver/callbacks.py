"""Functions of the user's that see, or replace, the source of kernels.

They are registered under TVM's names, `register_func("tvm_callback_cuda_postproc", f)`:

- `tvm_callback_<kind>_postproc(source, target)` returns the source to use instead;
- `tvm_callback_cuda_compile(source, target)` returns PTX or a cubin, which the driver then loads.

They take the source alone where they have one parameter.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..base.errors import CompileError
from ..rt.packed import get_global_func
from ..target.target import Target


def postprocess(source: str, target: Target) -> str:
    """The kernels' text after the user's callback, if there is one."""
    name = f"tvm_callback_{target.kind.name}_postproc"
    function = get_global_func(name, allow_missing=True)
    if function is None:
        return source
    found = _call(function, source, target)
    if not isinstance(found, str):
        raise CompileError(f"{name} must return the source as text, got {type(found).__name__}")
    return found


def compiled(source: str, target: Target) -> bytes | None:
    """What the user's compiler makes of CUDA source; None where there is none."""
    name = f"tvm_callback_{target.kind.name}_compile"
    function = get_global_func(name, allow_missing=True)
    if function is None:
        return None
    found = _call(function, source, target)
    if isinstance(found, str):
        return found.encode()
    if not isinstance(found, (bytes, bytearray)):
        raise CompileError(
            f"{name} must return PTX as text, or a cubin as bytes, got {type(found).__name__}"
        )
    return bytes(found)


def _call(function: Any, source: str, target: Target) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(source, target)
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return function(source, target) if many or len(places) > 1 else function(source)
