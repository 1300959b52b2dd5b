"""What the runtime must know of a function, read off its loop IR."""

from __future__ import annotations

from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.visit import free_vars, nodes, walk
from ..rt.signature import ArgInfo, Dim, FunctionInfo, SymbolInfo

_OPS: dict[type, str] = {
    E.Add: "add",
    E.Sub: "sub",
    E.Mul: "mul",
    E.FloorDiv: "floordiv",
    E.FloorMod: "floormod",
    E.Max: "max",
    E.Min: "min",
}
_EXTERNAL = ("tir.call_extern", "tir.tvm_call_packed", "tir.tvm_call_cpacked")


def function_info(
    func: S.PrimFunc,
    name: str,
    symbols: tuple[E.Var, ...],
    messages: tuple[str, ...],
    target: str,
    wide: bool = True,
) -> FunctionInfo:
    """The signature of a function. `symbols`: variables that its code reads from slots behind the
    arguments, in order. `wide`: addresses are computed in 64 bits whatever the type of indices.
    CompileError where a shape uses a variable that no argument gives."""
    names = _names(func, symbols)
    written = written_data(func)
    args: list[ArgInfo] = []
    sources: dict[E.Var, tuple[Any, ...]] = {}
    for i, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            args.append(ArgInfo(param.name, "scalar", param.dtype))
            sources[param] = ("scalar", i)
            continue
        for kind, dims in (("shape", buffer.shape), ("stride", buffer.strides)):
            for position, dim in enumerate(dims):
                if isinstance(dim, E.Var):
                    sources.setdefault(dim, (kind, i, position))
        args.append(_array(buffer, names, buffer.data in written, wide))
    missing = [v.name for v in names if v not in sources]
    if missing:
        raise CompileError(
            f"function {name}: no argument gives the value of {', '.join(missing)}; pass it as an "
            "argument, or use it alone as a dimension of an array"
        )
    listed = tuple(
        SymbolInfo(names[v], sources[v], v.dtype == "int32" and v not in func.params)
        for v in symbols
    )
    return FunctionInfo(name, tuple(args), listed, messages, target, _result(func))


def _result(func: S.PrimFunc) -> dict[str, str]:
    """Of a function that returns a number, its kind: int, bool or float."""
    for e in nodes(func.body):
        if isinstance(e, E.Call) and e.op.name == "tir.ret":
            t = parse(e.dtype)
            return {"returns": "float" if t.is_float else "bool" if t.is_bool else "int"}
    return {}


def _names(func: S.PrimFunc, symbols: tuple[E.Var, ...]) -> dict[E.Var, str]:
    """A name of its own for every variable of the arguments' shapes and strides. Scalar arguments
    keep theirs, by which the runtime finds them."""
    scalars = {p: p.name for p in func.params if p not in func.buffer_map}
    found: dict[E.Var, None] = dict.fromkeys(symbols)
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            for dim in (*buffer.shape, *buffer.strides):
                for var in free_vars(dim):
                    found.setdefault(var)
    names: dict[E.Var, str] = {}
    taken = set(scalars.values())
    for var in found:
        if var in scalars:
            names[var] = var.name
            continue
        base, text, number = var.name.replace(".", "_"), var.name.replace(".", "_"), 0
        while text in taken:
            number += 1
            text = f"{base}_{number}"
        taken.add(text)
        names[var] = text
    return names


def _array(buffer: Buffer, names: dict[E.Var, str], is_output: bool, wide: bool) -> ArgInfo:
    t = parse(buffer.dtype)
    shape: list[Dim] = [_dim(d, names) for d in buffer.shape]
    strides: list[Dim] = [_dim(d, names) for d in buffer.strides]
    if t.lanes > 1:  # an element is a vector: the array has one more dimension, of its lanes
        shape.append(t.lanes)
        if strides:
            strides = [*(("mul", d, t.lanes) for d in strides), 1]
    given = tuple(strides) if strides else None
    free = {v.dtype for d in buffer.shape for v in free_vars(d)}
    free = free or {v.dtype for d in buffer.strides for v in free_vars(d)}
    return ArgInfo(
        name=buffer.name,
        kind="array",
        dtype=t.element,
        shape=tuple(shape),
        strides=given,
        is_output=is_output,
        lanes=t.lanes,
        narrow=not wide and "int32" in free,
    )


def _dim(e: Any, names: dict[E.Var, str]) -> Dim:
    if isinstance(e, E.IntImm):
        return e.value
    if isinstance(e, E.Var):
        return names[e]
    if isinstance(e, E.Cast):
        return _dim(e.value, names)
    op = _OPS.get(type(e))
    if op is None:
        raise CompileError(f"the dimension {e} is too complicated for the shape of an argument")
    return (op, _dim(e.a, names), _dim(e.b, names))


def require_values(func: S.PrimFunc) -> S.PrimFunc:
    """The function; CompileError where it reads a variable that nothing gives a value."""
    known = given_variables(func)
    unknown = [v.name for v in free_vars(func.body) if v not in known]
    if unknown:
        raise CompileError(
            f"function {func.name}: nothing gives the value of {', '.join(unknown)}; pass it as an "
            "argument, or use it as a dimension of an argument; an axis of te.reduce_axis has "
            "values in its reduction alone, as in te.sum(..., axis=k)"
        )
    return func


def given_variables(func: S.PrimFunc) -> set[E.Var]:
    """The variables whose values follow from the arguments of a call."""
    known = set(func.params)
    for buffer in func.buffer_map.values():
        known.add(buffer.data)
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            known.update(free_vars(e))
    return known


def written_data(func: S.PrimFunc) -> set[E.Var]:
    """Data variables of the buffers that a function writes, or passes to code that may."""
    found: set[E.Var] = set()
    for node in walk(func.body):
        kind = type(node)
        if kind is S.BufferStore:
            found.add(node.buffer.data)
        elif kind is E.Call:
            if node.op.name == "tir.tvm_access_ptr":
                mask = node.args[4]
                if isinstance(node.args[1], E.Var) and (
                    not isinstance(mask, E.IntImm) or mask.value & 2
                ):
                    found.add(node.args[1])
            elif node.op.name in _EXTERNAL:
                found.update(_passed(node))
    return found


def _passed(call: E.Call) -> list[E.Var]:
    """Data variables that a call passes by address, without saying what happens to them."""
    found = []
    for arg in call.args:
        if isinstance(arg, E.Call) and arg.op.name == "tir.address_of":
            load = arg.args[0]
            if isinstance(load, E.BufferLoad):
                found.append(load.buffer.data)
        elif isinstance(arg, E.Var) and arg.dtype == "handle":
            found.append(arg)
        elif isinstance(arg, E.Call) and arg.op.name == "tir.tvm_stack_make_array":
            data = arg.args[0]
            if isinstance(data, E.Var):
                found.append(data)
    return found
