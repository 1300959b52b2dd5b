"""Loads and stores: contiguous, reversed, strided, scattered, masked."""

from __future__ import annotations

from typing import Any

from ...base.dtype import DType, parse
from ...base.errors import CompileError, InternalError
from ...loopir import expr as E
from ...loopir import stmt as S
from ...loopir.buffer import Buffer
from .emitter import Emitter
from .index import add64, divisor, index, mul64, ramp_of, split_gather
from .types import is_constant, splat_text

_SHUFFLED_STRIDES = (2, 3, 4)


def load(f: Emitter, e: E.BufferLoad) -> str:
    """The value of a BufferLoad."""
    buffer, at = e.buffer, _flat(e.buffer, e.indices)
    t = parse(e.dtype)
    mask = _mask(f, e.predicate, t.lanes)
    if parse(at.dtype).lanes == 1:
        return _from_memory(f, _load_at(f, buffer, at, t, mask), t)
    if parse(buffer.dtype).lanes > 1:
        raise CompileError(f"buffer {buffer.name}: a vector of indices into a buffer of vectors")
    ramp = ramp_of(f, at)
    if ramp is None:
        value = _gather(f, buffer, split_gather(f, at), t, mask)
    else:
        value = _load_ramp(f, buffer, at, ramp, t, mask)
    return _from_memory(f, value, t)


def load_or_zero(f: Emitter, e: E.BufferLoad, test: str) -> str | None:
    """The number of a BufferLoad where a condition (an i1 operand) holds, zero elsewhere, without a
    branch: else the address is that of a zero. None for what lies on the stack, where LLVM follows
    only addresses that it knows, and for vectors: those are many, and each address takes its time.
    """
    buffer, at = e.buffer, _flat(e.buffer, e.indices)
    t = parse(e.dtype)
    if f.mask is not None or e.predicate is not None or buffer.data in f.workspace.stack:
        return None
    if t.lanes > 1 or t.is_handle:
        return None
    place = pointer(f, buffer, index(f, at))
    place = f.op(f"select i1 {test}, ptr {place}, ptr {f.module.zeros(t.nbytes)}")
    value = f.read(f"load {f.memory(t.text)}, ptr {place}, align {t.nbytes}")
    return _from_memory(f, value, t)


def store(f: Emitter, s: S.BufferStore) -> None:
    """Write a BufferStore."""
    buffer, at = s.buffer, _flat(s.buffer, s.indices)
    t = parse(s.value.dtype)
    lanes = parse(at.dtype).lanes
    width = parse(buffer.dtype).lanes * lanes
    value = f.expr(s.value)
    if t.lanes == 1 and width > 1:
        value = f.splat(value, f.type(t.element), width)
        t = parse(t.with_lanes(width))
    if t.lanes != width:
        raise InternalError(f"a store of {t.text} to {buffer.name} at {lanes} places")
    value = _to_memory(f, value, t)
    mask = _mask(f, s.predicate, t.lanes)
    if lanes == 1:
        _store_at(f, buffer, at, value, t, mask)
    elif (ramp := ramp_of(f, at)) is not None:
        _store_ramp(f, buffer, at, ramp, value, t, mask)
    else:
        _scatter(f, buffer, split_gather(f, at), value, t, mask)
    f.clobber()


def pointer(f: Emitter, buffer: Buffer, offset: str) -> str:
    """The address of element `offset` (an i64 operand) of a buffer."""
    base = f.env.get(buffer.data)
    if base is None:
        raise InternalError(f"buffer {buffer.name} has no memory here")
    t = parse(buffer.dtype)
    return element_pointer(f, base, t, offset)


def element_pointer(f: Emitter, base: str, t: DType, offset: str) -> str:
    """The address `offset` elements of type `t` behind `base`."""
    offset = mul64(f, offset, str(t.lanes))
    if offset == "0":
        return base
    return f.op(f"getelementptr inbounds {f.memory(t.element)}, ptr {base}, i64 {offset}")


def _flat(buffer: Buffer, indices: tuple[E.PrimExpr, ...]) -> E.PrimExpr:
    if len(indices) == 1:
        return indices[0]
    if not indices:
        return E.const(0)
    raise InternalError(f"buffer {buffer.name} has {len(indices)} indices; flatten it first")


def _mask(f: Emitter, predicate: E.PrimExpr | None, lanes: int) -> str | None:
    """The lanes in which an access may happen; None: all of them."""
    own = None
    if predicate is not None:
        own = f.expr(predicate)
        have = parse(predicate.dtype).lanes
        if have == 1 and lanes > 1:
            own = f.splat(own, "i1", lanes)
        elif have != lanes:
            raise InternalError(f"a predicate of {have} lanes on an access of {lanes}")
        if own in ("true", "splat (i1 true)"):
            own = None
    if f.mask is None:
        return own
    outer = _mask_of(f, lanes)
    if own is None:
        return outer
    vec = "i1" if lanes == 1 else f"<{lanes} x i1>"
    return f.op(f"and {vec} {outer}, {own}")


def _mask_of(f: Emitter, lanes: int) -> str:
    assert f.mask is not None
    operand, have = f.mask
    if have == lanes:
        return operand
    if lanes == 1:
        f.module.declare(f"declare i1 @llvm.vector.reduce.or.v{have}i1(<{have} x i1>)")
        return f.op(f"call i1 @llvm.vector.reduce.or.v{have}i1(<{have} x i1> {operand})")
    if have == 1:
        return f.splat(operand, "i1", lanes)
    raise InternalError(f"an access of {lanes} lanes where a condition has {have}")


def _align(f: Emitter, buffer: Buffer, at: E.PrimExpr | None) -> int:
    """Bytes that an address is a multiple of for certain."""
    t = parse(buffer.dtype)
    known = f.align.get(buffer.data, t.nbytes)
    if at is None or known <= t.nbytes:
        return min(known, t.nbytes)
    step = divisor(at) * t.nbytes * t.lanes
    while known > 1 and step % known:
        known //= 2
    return max(known, 1)


def _load_at(f: Emitter, buffer: Buffer, at: E.PrimExpr, t: DType, mask: str | None) -> str:
    """One element (which may be a vector) at a scalar index, in its memory type."""
    place = pointer(f, buffer, index(f, at))
    kind = f.memory(t.text)
    text = f"load {kind}, ptr {place}, align {_align(f, buffer, at)}"
    if mask is None:
        return f.read(text)
    if t.lanes > 1:
        return _masked_load(f, place, _align(f, buffer, at), t, mask)
    return _guarded(f, mask, kind, text)


def _guarded(f: Emitter, condition: str, kind: str, text: str) -> str:
    """An instruction that runs only where a condition holds; its result is zero elsewhere."""
    before, inside, after = f.current, f.label("guard"), f.label("join")
    f.branch_if(condition, inside, after)
    f.block(inside)
    value = f.effect(text)
    f.branch(after)
    f.block(after)
    f.reads += 1
    zero = "null" if kind == "ptr" else _zero(kind)
    return f.effect(f"phi {kind} [ {value}, %{inside} ], [ {zero}, %{before} ]")


def _zero(kind: str) -> str:
    if kind[0] == "<":
        return "zeroinitializer"
    return {"i1": "false", "half": "0xH0000"}.get(kind, "0" if kind[0] == "i" else "0.0")


def _load_ramp(
    f: Emitter,
    buffer: Buffer,
    at: E.PrimExpr,
    ramp: tuple[str, str],
    t: DType,
    mask: str | None,
) -> str:
    base, stride = ramp
    element = f.memory(t.element)
    size = parse(buffer.dtype).nbytes
    if stride == "1":
        place = pointer(f, buffer, base)
        align = _align(f, buffer, at.base) if isinstance(at, E.Ramp) else size
        if mask is not None:
            return _masked_load(f, place, align, t, mask)
        if _in_pieces(f, buffer, t):
            wide, bits = _filled_up(t)
            value = _masked_load(f, place, align, wide, bits)
            return _shuffle(f, value, "poison", element, wide.lanes, range(t.lanes))
        return f.read(f"load {f.memory(t.text)}, ptr {place}, align {align}")
    if mask is None and stride == "0":
        one = f.read(f"load {element}, ptr {pointer(f, buffer, base)}, align {size}")
        return f.splat(one, element, t.lanes)
    if mask is None and stride == "-1":
        place = pointer(f, buffer, add64(f, base, str(1 - t.lanes)))
        value = f.read(f"load {f.memory(t.text)}, ptr {place}, align {size}")
        return _shuffle(f, value, value, element, t.lanes, range(t.lanes - 1, -1, -1))
    spread = is_constant(stride) and int(stride) in _SHUFFLED_STRIDES and t.lanes >= 4
    if spread and (mask is None or 0 < f.module.target.capabilities.masked_bytes <= t.nbytes):
        return _load_spread(f, buffer, base, int(stride), t, mask)
    if mask is None:
        return _load_lanes(f, buffer, base, stride, t)
    return _gather(f, buffer, _as_vector(f, base, stride, t.lanes), t, mask)


def _in_pieces(f: Emitter, buffer: Buffer, t: DType) -> bool:
    """Whether so many lanes would be moved in vectors of 8, 4, 2 and 1, where one of more lanes can
    leave some out. Not on the stack: what lies there LLVM keeps in registers, but not through
    masks."""
    least = f.module.target.capabilities.masked_bytes
    if t.lanes.bit_count() == 1 or not 0 < least <= t.nbytes:
        return False
    fits = t.nbytes << t.lanes.bit_length() <= f.module.target.vector_bytes
    return fits and buffer.data not in f.workspace.stack


def _filled_up(t: DType) -> tuple[DType, str]:
    """A vector of a power of two of lanes, and a mask of the first, which are those of `t`."""
    lanes = 1 << t.lanes.bit_length()
    bits = ", ".join(f"i1 {'true' if i < t.lanes else 'false'}" for i in range(lanes))
    return parse(f"{t.element}x{lanes}"), f"<{bits}>"


def _load_spread(
    f: Emitter, buffer: Buffer, base: str, stride: int, t: DType, mask: str | None
) -> str:
    """Every `stride`-th element, from full vectors that together span just those elements; under a
    `mask` of these, from vectors of which no other is read."""
    lanes, element = t.lanes, f.memory(t.element)
    span = (lanes - 1) * stride + 1
    size = parse(buffer.dtype).nbytes
    result, have = "poison", 0
    vec = f"<{lanes} x {element}>"
    while have < lanes:
        start = min(have * stride, span - lanes)
        place = pointer(f, buffer, add64(f, base, str(start)))
        picks, own = list(range(lanes)), [lanes] * lanes
        while have < lanes and have * stride < start + lanes:
            at = have * stride - start
            picks[have], own[at] = lanes + at, have
            have += 1
        if mask is None:
            value = f.read(f"load {vec}, ptr {place}, align {size}")
        else:
            bits = _shuffle(f, mask, "zeroinitializer", "i1", lanes, own)
            value = _masked_load(f, place, size, t, bits)
        result = _shuffle(f, result, value, element, lanes, picks)
    return result


def _shuffle(f: Emitter, a: str, b: str, element: str, lanes: int, picks: Any) -> str:
    vec = f"<{lanes} x {element}>"
    order = ", ".join(f"i32 {p}" for p in picks)
    count = len(list(picks))
    return f.op(f"shufflevector {vec} {a}, {vec} {b}, <{count} x i32> <{order}>")


def _load_lanes(f: Emitter, buffer: Buffer, base: str, stride: str, t: DType) -> str:
    element, size = f.memory(t.element), parse(buffer.dtype).nbytes
    value = "poison"
    for lane in range(t.lanes):
        place = pointer(f, buffer, add64(f, base, mul64(f, stride, str(lane))))
        one = f.read(f"load {element}, ptr {place}, align {size}")
        value = f.op(f"insertelement <{t.lanes} x {element}> {value}, {element} {one}, i64 {lane}")
    return value


def _as_vector(f: Emitter, base: str, stride: str, lanes: int) -> tuple[str, str, str]:
    vec = f"<{lanes} x i64>"
    steps = ", ".join(f"i64 {i}" for i in range(lanes))
    if is_constant(stride):
        offsets = ", ".join(f"i64 {i * int(stride)}" for i in range(lanes))
        return base, f"<{offsets}>", vec
    return base, f.op(f"mul nsw {vec} <{steps}>, {f.splat(stride, 'i64', lanes)}"), vec


def _masked_load(f: Emitter, place: str, align: int, t: DType, mask: str) -> str:
    kind, name = f.memory(t.text), _memory_suffix(f, t)
    bits = f"<{t.lanes} x i1>"
    function = f"@llvm.masked.load.{name}.p0"
    f.module.declare(f"declare {kind} {function}(ptr, {bits}, {kind})")
    return f.read(
        f"call {kind} {function}(ptr align {align} {place}, {bits} {mask}, {kind} zeroinitializer)"
    )


def _memory_suffix(f: Emitter, t: DType) -> str:
    element = f.memory(t.element)
    short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(element, element)
    return short if t.lanes == 1 else f"v{t.lanes}{short}"


def _addresses(f: Emitter, buffer: Buffer, where: tuple[str, str, str], t: DType) -> str:
    scalar, vector_index, kind = where
    base = pointer(f, buffer, scalar)
    element = f.memory(t.element)
    return f.op(f"getelementptr inbounds {element}, ptr {base}, {kind} {vector_index}")


def _gather(
    f: Emitter, buffer: Buffer, where: tuple[str, str, str], t: DType, mask: str | None
) -> str:
    kind, n, name = f.memory(t.text), t.lanes, _memory_suffix(f, t)
    places = _addresses(f, buffer, where, t)
    function = f"@llvm.masked.gather.{name}.v{n}p0"
    f.module.declare(f"declare {kind} {function}(<{n} x ptr>, <{n} x i1>, {kind})")
    bits = mask or splat_text("i1", "true", n)
    size = parse(buffer.dtype).nbytes
    return f.read(
        f"call {kind} {function}(<{n} x ptr> align {size} {places}, <{n} x i1> {bits}, "
        f"{kind} zeroinitializer)"
    )


def _store_at(
    f: Emitter, buffer: Buffer, at: E.PrimExpr, value: str, t: DType, mask: str | None
) -> None:
    place = pointer(f, buffer, index(f, at))
    align = _align(f, buffer, at)
    text = f"store {f.memory(t.text)} {value}, ptr {place}, align {align}"
    if mask is None:
        f.line(text)
    elif t.lanes > 1:
        _masked_store(f, place, align, value, t, mask)
    else:
        inside, after = f.label("guard"), f.label("join")
        f.branch_if(mask, inside, after)
        f.block(inside)
        f.line(text)
        f.branch(after)
        f.block(after)


def _store_ramp(
    f: Emitter,
    buffer: Buffer,
    at: E.PrimExpr,
    ramp: tuple[str, str],
    value: str,
    t: DType,
    mask: str | None,
) -> None:
    base, stride = ramp
    element, size = f.memory(t.element), parse(buffer.dtype).nbytes
    vec = f.memory(t.text)
    if stride == "-1" and mask is None:
        base, stride = add64(f, base, str(1 - t.lanes)), "1"
        value = _shuffle(f, value, value, element, t.lanes, range(t.lanes - 1, -1, -1))
    if stride == "1":
        place = pointer(f, buffer, base)
        forward = isinstance(at, E.Ramp) and ramp[1] == "1"
        align = _align(f, buffer, at.base) if forward else size  # type: ignore[attr-defined]
        if mask is not None:
            _masked_store(f, place, align, value, t, mask)
        elif f.module.target.capabilities.masked_bytes == 1 and _in_pieces(f, buffer, t):
            wide, bits = _filled_up(t)
            picks = [min(i, t.lanes) for i in range(wide.lanes)]
            value = _shuffle(f, value, "poison", element, t.lanes, picks)
            _masked_store(f, place, align, value, wide, bits)
        else:
            f.line(f"store {vec} {value}, ptr {place}, align {align}")
    elif mask is None:
        start = t.lanes - 1 if stride == "0" else 0
        for lane in range(start, t.lanes):
            place = pointer(f, buffer, add64(f, base, mul64(f, stride, str(lane))))
            one = f.lane(value, vec, lane)
            f.line(f"store {element} {one}, ptr {place}, align {size}")
    else:
        _scatter(f, buffer, _as_vector(f, base, stride, t.lanes), value, t, mask)


def _masked_store(f: Emitter, place: str, align: int, value: str, t: DType, mask: str) -> None:
    kind, bits = f.memory(t.text), f"<{t.lanes} x i1>"
    function = f"@llvm.masked.store.{_memory_suffix(f, t)}.p0"
    f.module.declare(f"declare void {function}({kind}, ptr, {bits})")
    f.line(f"call void {function}({kind} {value}, ptr align {align} {place}, {bits} {mask})")


def _scatter(
    f: Emitter,
    buffer: Buffer,
    where: tuple[str, str, str],
    value: str,
    t: DType,
    mask: str | None,
) -> None:
    kind, n = f.memory(t.text), t.lanes
    places = _addresses(f, buffer, where, t)
    function = f"@llvm.masked.scatter.{_memory_suffix(f, t)}.v{n}p0"
    f.module.declare(f"declare void {function}({kind}, <{n} x ptr>, <{n} x i1>)")
    bits = mask or splat_text("i1", "true", n)
    size = parse(buffer.dtype).nbytes
    f.line(
        f"call void {function}({kind} {value}, <{n} x ptr> align {size} {places}, "
        f"<{n} x i1> {bits})"
    )


def _from_memory(f: Emitter, value: str, t: DType) -> str:
    if not t.is_bool:
        return value
    zero = "0" if t.lanes == 1 else "zeroinitializer"
    return f.op(f"icmp ne {f.memory(t.text)} {value}, {zero}")


def _to_memory(f: Emitter, value: str, t: DType) -> str:
    if not t.is_bool:
        return value
    return f.op(f"zext {f.type(t.text)} {value} to {f.memory(t.text)}")
