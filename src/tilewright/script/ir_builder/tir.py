"""`tvm.script.ir_builder.tir`: as `tvm.script.tir`, with functions as frames."""

from typing import Any

from .. import tir
from ..builder import prim_func as prim_func


def __getattr__(name: str) -> Any:
    return getattr(tir, name)
