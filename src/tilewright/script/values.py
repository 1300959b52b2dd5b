"""T's values that are no operations: targets, index maps, variables of any type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..arith.index_map import IndexMap
from ..base.errors import UsageError
from ..loopir import expr as E
from ..target.target import Target
from .build import fresh
from .dtypes import HANDLE


def target(target_config: Any, host: Any = None) -> Target:
    """A target, of text or a dictionary; `host` is that of the code around its kernels. Raises
    UsageError where target_config is neither text nor a dictionary, or the host is given twice, and
    TargetError where `host` or `target_config` is no target, as text, dict or Target, where
    `target_config` has no kind of target, or no attributes by name."""
    if not isinstance(target_config, (str, Mapping)):
        raise UsageError(f"T.target takes text or a dictionary, got {target_config!r}")
    if isinstance(target_config, Mapping) and "host" in target_config and host is not None:
        raise UsageError("the host stands in the dictionary or in host=, not in both")
    return Target(target_config, host)


def index_map(
    mapping: Callable[..., Any], *, inverse_index_map: Any = None, index_dtype: str = "int32"
) -> IndexMap:
    """A map of indices, from a function of them. Raises UsageError where inverse_index_map is
    given, or index_dtype is not int32."""
    if inverse_index_map is not None:
        raise UsageError("the inverse of an index map is derived here: leave inverse_index_map out")
    if index_dtype != "int32":
        raise UsageError("indices of an index map are int32 here")
    return IndexMap.from_func(mapping)


def ptr(dtype: Any, storage_scope: str = "global", is_size_var: bool = False) -> Any:
    """A variable that is a pointer, as T.handle."""
    return HANDLE(dtype, storage_scope, is_size_var=is_size_var)


def buffer_var(dtype: Any, storage_scope: str = "global") -> Any:
    """A variable for the memory of a buffer."""
    return HANDLE(dtype, storage_scope)


def var(dtype: Any, name: str = "") -> E.Var:
    """A new variable. Raises TilewrightError where `dtype` is no type such as 'float32'."""
    return E.Var(name, dtype) if name else fresh(E.Var("v", dtype))
