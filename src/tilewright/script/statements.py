"""T's statements: each gives a frame to enter, or emits what has no body."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arith.analyzer import Analyzer
from ..base.dtype import canonical, parse
from ..base.errors import UsageError
from ..loopir import calls
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.equal import structural_equal
from ..loopir.iter import IterVar, Range
from . import frames as F
from .buffers import buffer, elements
from .build import builder
from .plain import plain_attributes


def extent_of(start: Any, stop: Any) -> Any:
    """How many integers lie in [start, stop); of `a` and `a + n` it is `n` itself. Raises
    OperandError where `start` or `stop` is neither a number nor an expression."""
    if isinstance(start, int) and isinstance(stop, int):
        return stop - start
    if E.const_int(start) == 0:
        return stop
    if type(stop) is E.Add and structural_equal(stop.a, E.convert(start)):
        return stop.b
    return Analyzer().simplify(E.convert(stop) - start)


def _domain(start: Any, stop: Any) -> tuple[Any, Any]:
    if stop is None:
        stop = E.convert(start)
        return E.const(0, stop.dtype), stop
    return start, extent_of(start, stop)


def serial(
    start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None
) -> F.ForFrame:
    """A loop over [start, stop), or [0, start); one iteration after the other. Raises OperandError
    where `start` is neither a number nor an expression."""
    return F.ForFrame([_domain(start, stop)], S.ForKind.SERIAL, annotations)


def parallel(
    start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None
) -> F.ForFrame:
    """A loop whose iterations run on several threads. Raises OperandError where `start` is neither
    a number nor an expression."""
    return F.ForFrame([_domain(start, stop)], S.ForKind.PARALLEL, annotations)


def vectorized(
    start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None
) -> F.ForFrame:
    """A loop whose iterations are the lanes of vectors. Raises OperandError where `start` is
    neither a number nor an expression."""
    return F.ForFrame([_domain(start, stop)], S.ForKind.VECTORIZED, annotations)


def unroll(
    start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None
) -> F.ForFrame:
    """A loop that is written out. Raises OperandError where `start` is neither a number nor an
    expression."""
    return F.ForFrame([_domain(start, stop)], S.ForKind.UNROLLED, annotations)


def thread_binding(
    start: Any,
    stop: Any = None,
    thread: str | None = None,
    *,
    annotations: Mapping[str, Any] | None = None,
) -> F.ForFrame:
    """A loop whose iterations are the threads of an axis, such as "threadIdx.x". Raises UsageError
    where thread is not given, and OperandError where `start` is neither a number nor an
    expression."""
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    if not isinstance(thread, str):
        raise UsageError('T.thread_binding needs the axis: thread="threadIdx.x"')
    kind = S.ForKind.THREAD_BINDING
    return F.ForFrame([_domain(start, stop)], kind, annotations, thread)


def grid(*extents: Any) -> F.ForFrame:
    """Loops directly in each other, from zero each. Raises UsageError where no extent is given, and
    OperandError where `extents` holds what is neither a number nor an expression."""
    if not extents:
        raise UsageError("T.grid needs at least one extent")
    return F.ForFrame([_domain(e, None) for e in extents], S.ForKind.SERIAL)


def While(condition: Any) -> F.WhileFrame:
    """A loop that runs as long as a condition holds. Raises OperandError where `condition` is
    neither a number nor an expression."""
    return F.WhileFrame(condition)


def If(condition: Any) -> F.IfFrame:
    """A choice: `with T.If(c):`, in it `with T.Then():` and, if wanted, `with T.Else():`. Raises
    OperandError where `condition` is neither a number nor an expression."""
    return F.IfFrame(condition)


def Then() -> F.BranchFrame:
    """What runs where the condition of the T.If around holds."""
    return F.BranchFrame("Then")


def Else() -> F.BranchFrame:
    """What runs where the condition of the T.If around does not hold."""
    return F.BranchFrame("Else")


def Assert(condition: Any, message: Any) -> F.AssertFrame:
    """A check at run time before the body; where it fails, the function ends with `message`."""
    return F.AssertFrame(condition, message)


def LetStmt(value: Any, type_annotation: Any = None, *, var: E.Var | None = None) -> F.LetFrame:
    """A variable that stands for `value` in the body; `var` if given, else a new one.

    `type_annotation`: the type of the new variable, such as `T.int32`. Raises OperandError where
    `value` is neither a number nor an expression, and UsageError where the value has another type
    than the variable.
    """
    value = E.convert(value)
    if var is None and type_annotation is not None:
        var = type_annotation() if callable(type_annotation) else type_annotation
    if var is None:
        var = builder("T.LetStmt").fresh(E.Var("v", value.dtype))
    return F.LetFrame(var, value)


def Let(expr: Any, where: Mapping[E.Var, Any]) -> E.Let:
    """The expression with a variable standing for a value. Raises UsageError where `where` holds
    not one variable, and OperandError where `expr` is neither a number nor an expression."""
    if len(where) != 1:
        raise UsageError("T.Let takes one variable in `where`; nest T.Let for more")
    ((var, value),) = where.items()
    return E.Let(var, value, expr)


def let(v: E.Var, value: Any, body: Any = None) -> Any:
    """As T.Let with a body, as T.LetStmt without. Raises OperandError where `body` or `value` is
    neither a number nor an expression, and UsageError where the value has another type than the
    variable."""
    return F.LetFrame(v, value) if body is None else E.Let(v, value, body)


def allocate(
    extents: Sequence[Any],
    dtype: Any,
    scope: str = "global",
    condition: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> F.AllocateFrame:
    """Memory during the body; gives its variable, for `T.Buffer(..., data=)`. Raises OperandError
    where `condition` is neither a number nor an expression, and UsageError where condition is
    given, and TilewrightError where `dtype` is no type such as 'float32'."""
    if condition is not None and not E.is_const(E.convert(condition), 1):
        raise UsageError("T.allocate with a condition: put it in an `if` instead")
    return F.AllocateFrame(extents, canonical(dtype), scope, annotations)


def allocate_const(
    data: Any, dtype: Any, extents: Sequence[int], annotations: Mapping[str, Any] | None = None
) -> F.ConstantFrame:
    """Memory that holds constants during the body; gives its variable, for T.Buffer(..., data=).

    `data`: the values, as an array, or as a list in the order of memory. Raises UsageError where
    the values are not as many as the elements, and TilewrightError where `dtype` is no type such as
    'float32'.
    """
    values = np.asarray(data.numpy() if hasattr(data, "numpy") else data)
    sizes = tuple(int(e) for e in extents)
    if values.size != int(np.prod(sizes)):
        raise UsageError(
            f"T.allocate_const of extents {list(sizes)} with {values.size} values: give as many "
            "values as elements"
        )
    made = values.astype(parse(canonical(dtype)).numpy).reshape(sizes)
    return F.ConstantFrame(made, canonical(dtype), extents, annotations)


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: E.Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
) -> F.DeclareFrame:
    """A buffer over memory, as a statement; without `data`, with memory of its own. Raises
    UsageError where buffer_type is none of "", "default" and "auto"."""
    made = buffer(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type,
        axis_separators,
    )  # fmt: skip
    return F.OwnFrame(made, True) if data is None else F.DeclareFrame(made)


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: E.Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int] | None = None,
) -> F.DeclareFrame:
    """A buffer with memory of its own during the body (there is no block to hold it). Raises
    UsageError where data is given, where buffer_type is none of "", "default" and "auto"."""
    if data is not None:
        raise UsageError("T.alloc_buffer makes memory: over memory, use T.Buffer(..., data=)")
    made = buffer(
        shape, dtype, None, strides, elem_offset, scope, align, offset_factor, buffer_type,
        axis_separators,
    )  # fmt: skip
    return F.OwnFrame(made, False)


def attr(node: Any, attr_key: str, value: Any) -> F.AttrFrame:
    """Something said about the body: about a node, under a key. Raises OperandError where `node` is
    a number beyond 64 bits."""
    if isinstance(node, (bool, int, float)):
        node = E.const(node)
    return F.AttrFrame(node, attr_key, value)


def env_thread(thread_tag: str, dtype: str = "int32") -> IterVar:
    """An axis of threads, for `T.launch_thread`. Raises TilewrightError where `dtype` is no type
    such as 'float32'."""
    axis = IterVar(None, E.Var(thread_tag, dtype), IterVar.ThreadIndex, thread_tag)
    b = builder("T.env_thread")
    b.threads[b.fresh(axis.var)] = axis
    return axis


def launch_thread(thread: Any, extent: Any) -> F.AttrFrame:
    """Threads of an axis run the body: "threadIdx.x", or what T.env_thread gave. Raises
    OperandError where `extent` is neither a number nor an expression, and UsageError where thread
    is no axis of threads."""
    b = builder("T.launch_thread")
    extent = E.convert(extent)
    if isinstance(thread, str):
        var = E.Var(thread, extent.dtype)
        thread = IterVar(Range(0, extent), var, IterVar.ThreadIndex, thread)
        b.threads[b.fresh(var)] = thread
    elif isinstance(thread, E.Var) and thread in b.threads:
        thread = b.threads[thread]
    if not isinstance(thread, IterVar):
        raise UsageError(f'T.launch_thread takes an axis such as "threadIdx.x", got {thread!r}')
    virtual = thread.thread_tag.startswith(("vthread", "cthread"))
    return F.AttrFrame(thread, "virtual_thread" if virtual else "thread_extent", extent, thread.var)


# -- functions


def _function(what: str) -> F.PrimFuncFrame:
    found = builder(what).find(F.PrimFuncFrame)
    if found is None:
        raise UsageError(f"{what} stands in a function")
    function: F.PrimFuncFrame = found
    return function


def arg(name: str, obj: Any) -> Any:
    """Add a parameter to the function: a variable or a buffer."""
    return _function("T.arg").arg(name, obj)


def func_name(name: str) -> None:
    """Name the function."""
    _function("T.func_name").name = name


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function."""
    _function("T.func_attr").attrs.update(plain_attributes(attrs))


def func_ret(ret_type: Any) -> Any:
    """The type that the function returns; functions here say it by `T.ret` alone."""
    return ret_type


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: E.Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int] | None = None,
) -> Buffer:
    """The buffer that a parameter of type handle stands for. Raises UsageError where param is no
    parameter of the function, or shape is missing, where buffer_type is none of "", "default" and
    "auto"."""
    function = _function("T.match_buffer")
    if not any(param is p for p in function.params):
        raise UsageError(
            "T.match_buffer takes a parameter of the function; a region of another buffer would "
            "need blocks, which are not supported: declare a view with T.Buffer(..., data=)"
        )
    if shape is None:
        raise UsageError("T.match_buffer of a parameter needs the shape")
    made = buffer(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type,
        axis_separators,
    )  # fmt: skip
    function.buffers[param] = made
    return made


# -- statements without a body


def evaluate(value: Any) -> None:
    """Evaluate an expression for its effect. Raises OperandError where `value` is neither a number
    nor an expression."""
    builder("T.evaluate").emit(S.Evaluate(value))


def buffer_store(
    buffer: Buffer, value: Any, indices: Any, predicate: E.PrimExpr | None = None
) -> None:
    """Write `value`, brought to the buffer's type, to buffer[indices]. Raises UsageError where the
    indices are not as many as the dimensions, or not integers, where the value is not of the
    buffer's type, where a slice of `buffer` has no constant length above 0, or a step of 0, and
    OperandError where `value` is neither a number nor an expression, and TilewrightError where
    `value` is a vector of another length."""
    places = elements(buffer, indices)
    builder("a store").emit(store(buffer, value, places, predicate))


def store(buffer: Buffer, value: Any, places: Sequence[E.PrimExpr], predicate: Any) -> S.Stmt:
    """The statement that writes a value, brought to the buffer's type and lanes. Raises
    OperandError where `value` or one of `places` is neither a number nor an expression, where
    `predicate` is not boolean, or has other lanes than the vector, and UsageError where the value
    is not of the buffer's type, and TilewrightError where `value` is a vector of another length."""
    value = E.convert(value)
    t = parse(buffer.dtype)
    lanes = t.lanes * (parse(places[-1].dtype).lanes if places else 1)
    wanted = t.with_lanes(lanes)
    if value.dtype != wanted:
        own = parse(value.dtype)
        if own.lanes not in (1, lanes):
            raise UsageError(
                f"{buffer.name}[{', '.join(map(str, places))}] holds {wanted}, but the value is "
                f"{value.dtype}"
            )
        value = E.cast(wanted, value)
    return S.BufferStore(buffer, value, places, predicate)


def prefetch(buffer: Any, bounds: Any = 0, locality: Any = 3, cache_type: Any = 1) -> Any:
    """Of a buffer with one range a dimension: bring them near. Of an address: `tir.prefetch`.
    Raises TilewrightError where `buffer` is no element of a buffer."""
    if not isinstance(buffer, Buffer):
        return calls.prefetch(buffer, bounds, locality, cache_type)
    ranges = [r if isinstance(r, Range) else range_of(*r) for r in bounds]
    builder("T.prefetch").emit(S.Prefetch(buffer, ranges))
    return None


def range_of(begin: Any, end: Any = None) -> Range:
    """The integers from `begin`, up to but not including `end`; from zero, without `end`. Raises
    OperandError where `begin` is neither a number nor an expression."""
    low, extent = _domain(begin, end)
    return Range.from_min_extent(low, extent)


def iter_var(var: Any, dom: Any, iter_type: str, thread_tag: str = "") -> IterVar:
    """An axis: its variable, its range, its kind ("DataPar", "ThreadIndex", ...), its threads.
    Raises UsageError where iter_type is no kind of axis."""
    if iter_type not in IterVar.KINDS:
        raise UsageError(f"the kind of an axis is one of {', '.join(IterVar.KINDS)}")
    if isinstance(dom, (tuple, list)):
        dom = range_of(*dom)
    if isinstance(var, IterVar):
        var = var.var
    return IterVar(dom, var, IterVar.KINDS.index(iter_type), thread_tag)


def comm_reducer(combiner: Any, identity: Sequence[Any]) -> Any:
    """A reduction: a function of pairs of values, and the values that change nothing. Raises
    OperandError where `identity` holds what is neither a number nor an expression."""
    from ..loopir.iter import CommReducer

    units = [E.convert(i) for i in identity]
    names = list(inspect.signature(combiner).parameters)
    made = [E.Var(n, u.dtype) for n, u in zip(names, (*units, *units))]
    result = combiner(*made)
    results = result if isinstance(result, tuple) else (result,)
    half = len(made) // 2
    return CommReducer(made[:half], made[half:], [E.convert(r) for r in results], units)
