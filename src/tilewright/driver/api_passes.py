"""Passes that mark what runs on a device, give functions C's signature, and list constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import CompileError
from ..loopir.calls import ret
from ..loopir.equal import array_of
from ..loopir.expr import const
from ..loopir.module import IRModule
from ..loopir.realize import AllocateConst
from ..loopir.rewrite import Rewriter, handles
from ..loopir.stmt import AttrStmt, Evaluate, PrimFunc, seq
from ..loopir.visit import free_vars, nodes
from ..target.target import Target
from .passes import ModulePass, PassInfo

_REGIONS = ("thread_extent", "pipeline_exec_scope", "device_scope")


class _Regions(Rewriter):
    """Puts AttrStmt "target" around the outermost statements that run on a device."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @handles(AttrStmt)
    def _attr(self, s: AttrStmt) -> Any:
        if s.attr_key == "target":  # the user has said so
            return s
        if s.attr_key in _REGIONS:
            return AttrStmt(self.target, "target", const(0), s)
        return Rewriter.table[AttrStmt](self, s)


def annotate_device_regions(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Mark what runs on a device by AttrStmt "target", in functions whose target has a host."""
    noted = _noted(func, "AnnotateDeviceRegions")
    if noted.host is None:
        return func
    return func.with_body(_Regions(without_host(noted)).stmt(func.body))


def decorate_device_scope(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """Mark the whole body as what runs on a device, by AttrStmt "device_scope"."""
    return func.with_body(AttrStmt(const(0), "device_scope", const(0), func.body))


def make_unpacked_api(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
    """A function of C: pointers to the data of its arrays instead of arrays, and 0 as its value.

    Functions without "global_symbol", which nobody calls from outside, stay as they are. Nothing
    checks shapes then: callers give addresses of arrays of the declared ones. CompileError for a
    function without a target, or whose shapes are variables that no other parameter gives.
    """
    if "global_symbol" not in func.attrs:
        return func
    noted = _noted(func, "MakeUnpackedAPI")
    params = [p if (buffer := func.buffer_map.get(p)) is None else buffer.data for p in func.params]
    for buffer in func.buffer_map.values():
        for v in _sizes(buffer):
            if v not in params:
                raise CompileError(
                    f"MakeUnpackedAPI: {v} of the shape of {buffer.name} is given by no parameter; "
                    "a pointer does not say how large its array is: add it to the parameters"
                )
    body = seq(func.body, Evaluate(ret(const(0))))
    attrs = {**func.attrs, "target": noted.host or noted}
    return PrimFunc(params, body, func.ret_type, None, attrs)


def extract_constants() -> ModulePass:
    """A pass that lists the values of a module's AllocateConst statements in its attribute
    "constants", equal ones once. The statements keep their values too."""

    def run(module: IRModule, context: Any) -> IRModule:
        found = list(module.attrs.get("constants", ()))
        for func in module.functions.values():
            for s in nodes(func.body):
                if isinstance(s, AllocateConst) and not any(_equal(s.data, x) for x in found):
                    found.append(s.data)
        return module.with_attr("constants", tuple(found)) if found else module

    return ModulePass(run, PassInfo(0, "tir.ExtractPrimFuncConstants"))


def _equal(a: Any, b: Any) -> bool:
    a, b = array_of(a), array_of(b)
    return a.dtype == b.dtype and np.array_equal(a, b)


def without_host(target: Target) -> Target:
    """The target alone."""
    return Target({k: v for k, v in target.export().items() if k != "host"})


def _noted(func: PrimFunc, name: str) -> Target:
    noted = func.attrs.get("target")
    if noted is None:
        raise CompileError(
            f"{name}: Require the target attribute: {func.name} has none; BindTarget(target) "
            "notes it on all functions of a module"
        )
    return Target(noted)


def _sizes(buffer: Any) -> set[Any]:
    exprs = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    return {v for e in exprs for v in free_vars(e)}
