"""Conversions between number types.

Float to integer saturates and NaN gives 0 (as in WebAssembly and on Arm), by a few vector
instructions: LLVM's own `llvm.fptosi.sat` is scalar code on x86. float16 and bfloat16 round to
nearest even, once, also from float64, and keep NaN. Where the target has no instruction for
float16, and for bfloat16 on every target, conversion is integer code: there is no compiler-rt to
call, and the instruction for bfloat16 of x86 flushes denormals.
"""

from __future__ import annotations

from ...base.dtype import DType, parse
from ...base.errors import CompileError
from .emitter import Emitter
from .types import float_text, vector


def cast(f: Emitter, value: str, source: DType, target: DType) -> str:
    """`value` of type `source` as `target` (lanes are the same)."""
    if source.text == target.text:
        return value
    if source.is_handle or target.is_handle:
        return _pointer_cast(f, value, source, target)
    if target.is_bool:
        return _to_bool(f, value, source)
    if source.is_float and source.bits == 16:
        if target.is_float and target.bits == 16:
            return from_float32(f, to_float32(f, value, source), target)
        value, source = to_float32(f, value, source), _like("float32", source)
        return cast(f, value, source, target)
    if target.is_float and target.bits == 16:
        if source.text != target.text and source.bits == 64 and source.is_float:
            value = _round_to_odd(f, value, source.lanes)
        elif not source.is_float:
            value = _small_float(f, value, source, target)
        return from_float32(f, value, target)
    if source.is_float and target.is_integer:
        return _float_to_int(f, value, source, target)
    return _plain(f, value, source, target)


def _small_float(f: Emitter, value: str, source: DType, target: DType) -> str:
    """An integer as the float32 that rounds to the right 16-bit float.

    What float32 has not enough bits for is beyond a float16, but not beyond a bfloat16: it comes by
    way of float64, with those bits of an int64 that do not fit there gathered in one that does.
    """
    if source.bits < 32 or target.code != "bfloat":
        return _plain(f, value, source, _like("float32", source))
    double = _like("float64", source)
    if source.bits == 64:
        value = _gather_low_bits(f, value, source)
    return _round_to_odd(f, _plain(f, value, source, double), source.lanes)


def _gather_low_bits(f: Emitter, value: str, source: DType) -> str:
    """A 64-bit integer, rounded to odd multiples of 2^11 where it has more than 53 bits."""
    ints, flags = f.type(source.text), vector("i1", source.lanes)

    def c(number: int) -> str:
        return f.splat(str(number), "i64", source.lanes)

    low = f.op(f"and {ints} {value}, {c(0x7FF)}")
    carry = f.op(f"and {ints} {f.op(f'add {ints} {low}, {c(0x7FF)}')}, {c(0x800)}")
    odd = f.op(f"and {ints} {f.op(f'or {ints} {value}, {carry}')}, {c(-0x800)}")
    shifted = f.op(f"add {ints} {value}, {c(2**53)}") if source.is_int else value
    short = f.op(f"icmp ult {ints} {shifted}, {c(2**54 if source.is_int else 2**53)}")
    return f.op(f"select {flags} {short}, {ints} {value}, {ints} {odd}")


def _like(element: str, t: DType) -> DType:
    return parse(parse(element).with_lanes(t.lanes))


def _plain(f: Emitter, value: str, source: DType, target: DType) -> str:
    a, b = f.type(source.text), f.type(target.text)
    if source.is_float:
        how = "fpext" if target.bits > source.bits else "fptrunc"
    elif target.is_float:
        how = "sitofp" if source.is_int else "uitofp"
    elif target.bits == source.bits:
        return value
    elif target.bits < source.bits:
        how = "trunc"
    else:
        how = "sext" if source.is_int else "zext"
    return f.op(f"{how} {a} {value} to {b}")


def _pointer_cast(f: Emitter, value: str, source: DType, target: DType) -> str:
    if source.is_handle and target.is_handle:
        return value
    if source.is_handle and target.is_integer:
        return f.op(f"ptrtoint {f.type(source.text)} {value} to {f.type(target.text)}")
    if target.is_handle and source.is_integer:
        return f.op(f"inttoptr {f.type(source.text)} {value} to {f.type(target.text)}")
    raise CompileError(f"cannot convert {source.text} to {target.text}")


def _to_bool(f: Emitter, value: str, source: DType) -> str:
    if source.is_float and source.bits == 16:
        value, source = to_float32(f, value, source), _like("float32", source)
    zero = "zeroinitializer" if source.lanes > 1 else "0.0" if source.is_float else "0"
    how = "fcmp une" if source.is_float else "icmp ne"
    return f.op(f"{how} {f.type(source.text)} {value}, {zero}")


def _constant(f: Emitter, t: DType, value: float) -> str:
    element = f.type(t.element)
    text = float_text(value, t.element) if t.is_float else str(int(value))
    return f.splat(text, element, t.lanes)


def _float_to_int(f: Emitter, value: str, source: DType, target: DType) -> str:
    kind, bits = f.type(source.text), vector("i1", source.lanes)
    low, high = int(target.min_value), int(target.max_value)
    zero = _constant(f, source, 0.0)
    ordered = f.op(f"fcmp ord {kind} {value}, {zero}")
    x = f.op(f"select {bits} {ordered}, {kind} {value}, {kind} {zero}")
    bottom = _constant(f, source, float(low))
    above = f.op(f"fcmp ogt {kind} {x}, {bottom}")
    x = f.op(f"select {bits} {above}, {kind} {x}, {kind} {bottom}")
    signed = "s" if target.is_int else "u"
    if target.bits < 32:  # all limits are exact floats: clamp, convert to int32, narrow
        top = _constant(f, source, float(high))
        below = f.op(f"fcmp olt {kind} {x}, {top}")
        x = f.op(f"select {bits} {below}, {kind} {x}, {kind} {top}")
        wide = vector("i32", source.lanes)
        x = f.op(f"fptosi {kind} {x} to {wide}")
        return f.op(f"trunc {wide} {x} to {f.type(target.text)}")
    limit = _constant(f, source, float(high + 1))
    over = f.op(f"fcmp oge {kind} {x}, {limit}")
    result = f.type(target.text)
    raw = f.op(f"fpto{signed}i {kind} {x} to {result}")
    kept = f.op(f"freeze {result} {raw}")
    top = f.splat(str(high if target.is_int else -1), f.type(target.element), target.lanes)
    return f.op(f"select {bits} {over}, {result} {top}, {result} {kept}")


def to_float32(f: Emitter, value: str, source: DType) -> str:
    """A float16 or bfloat16 as float32, exactly."""
    n = source.lanes
    floats, ints, halves = vector("float", n), vector("i32", n), vector("i16", n)
    if source.code == "bfloat":
        wide = f.op(f"zext {halves} {value} to {ints}")
        bits = f.op(f"shl {ints} {wide}, {f.splat('16', 'i32', n)}")
        return f.op(f"bitcast {ints} {bits} to {floats}")
    if f.native_half or f.module.converts_half:
        half = vector("half", n)
        if not f.native_half:
            value = f.op(f"bitcast {halves} {value} to {half}")
        return f.op(f"fpext {half} {value} to {floats}")
    return _float16_by_integers(f, value, n)


def _float16_by_integers(f: Emitter, value: str, n: int) -> str:
    """Shift exponent and mantissa into place and scale by 2^112, which also brings denormals
    right."""
    floats, ints, halves = vector("float", n), vector("i32", n), vector("i16", n)
    bits = vector("i1", n)

    def c(x: int) -> str:
        return f.splat(str(x), "i32", n)

    wide = f.op(f"zext {halves} {value} to {ints}")
    magnitude = f.op(f"and {ints} {wide}, {c(0x7FFF)}")
    moved = f.op(f"shl {ints} {magnitude}, {c(13)}")
    scale = f.splat(float_text(2.0**112, "float32"), "float", n)
    as_float = f.op(f"bitcast {ints} {moved} to {floats}")
    scaled = f.op(f"fmul {floats} {as_float}, {scale}")
    number = f.op(f"bitcast {floats} {scaled} to {ints}")
    special = f.op(f"icmp uge {ints} {magnitude}, {c(0x7C00)}")
    full = f.op(f"or {ints} {moved}, {c(0x7F800000)}")
    chosen = f.op(f"select {bits} {special}, {ints} {full}, {ints} {number}")
    sign = f.op(f"shl {ints} {f.op(f'and {ints} {wide}, {c(0x8000)}')}, {c(16)}")
    return f.op(f"bitcast {ints} {f.op(f'or {ints} {chosen}, {sign}')} to {floats}")


def from_float32(f: Emitter, value: str, target: DType) -> str:
    """A float32 as float16 or bfloat16, rounded to nearest even."""
    n = target.lanes
    floats, ints, halves = vector("float", n), vector("i32", n), vector("i16", n)
    if target.code == "bfloat":
        bits = f.op(f"bitcast {floats} {value} to {ints}")
        return _round_bfloat16(f, value, bits, n)
    if f.native_half or f.module.converts_half:
        half = vector("half", n)
        result = f.op(f"fptrunc {floats} {value} to {half}")
        return result if f.native_half else f.op(f"bitcast {half} {result} to {halves}")
    return _float16_of_bits(f, value, n)


def _round_bfloat16(f: Emitter, value: str, bits: str, n: int) -> str:
    floats, ints, halves = vector("float", n), vector("i32", n), vector("i16", n)
    sixteen = f.splat("16", "i32", n)
    odd = f.op(f"lshr {ints} {bits}, {sixteen}")
    odd = f.op(f"and {ints} {odd}, {f.splat('1', 'i32', n)}")
    sum_ = f.op(f"add {ints} {bits}, {f.op(f'add {ints} {odd}, ' + f.splat('32767', 'i32', n))}")
    quiet = f.op(f"or {ints} {bits}, {f.splat(str(0x400000), 'i32', n)}")
    zero = "zeroinitializer" if n > 1 else "0.0"
    nan = f.op(f"fcmp uno {floats} {value}, {zero}")
    chosen = f.op(f"select {vector('i1', n)} {nan}, {ints} {quiet}, {ints} {sum_}")
    return f.op(f"trunc {ints} {f.op(f'lshr {ints} {chosen}, {sixteen}')} to {halves}")


def _float16_of_bits(f: Emitter, value: str, n: int) -> str:
    """Normal results: add half a unit (less one, plus the parity) and shift. Denormal ones: adding
    0.5 to the magnitude makes the adder round at float16's last place."""
    floats, ints, halves = vector("float", n), vector("i32", n), vector("i16", n)
    flags = vector("i1", n)

    def c(x: int) -> str:
        return f.splat(str(x), "i32", n)

    bits = f.op(f"bitcast {floats} {value} to {ints}")
    sign = f.op(f"and {ints} {f.op(f'lshr {ints} {bits}, {c(16)}')}, {c(0x8000)}")
    magnitude = f.op(f"and {ints} {bits}, {c(0x7FFFFFFF)}")
    odd = f.op(f"and {ints} {f.op(f'lshr {ints} {magnitude}, {c(13)}')}, {c(1)}")
    rebased = f.op(f"add {ints} {magnitude}, {c(((15 - 127) << 23) + 0xFFF)}")
    normal = f.op(f"lshr {ints} {f.op(f'add {ints} {rebased}, {odd}')}, {c(13)}")
    half = f.splat(float_text(0.5, "float32"), "float", n)
    shifted = f.op(f"fadd {floats} {f.op(f'bitcast {ints} {magnitude} to {floats}')}, {half}")
    tiny = f.op(f"sub {ints} {f.op(f'bitcast {floats} {shifted} to {ints}')}, {c(0x3F000000)}")
    small = f.op(f"icmp ult {ints} {magnitude}, {c(0x38800000)}")
    result = f.op(f"select {flags} {small}, {ints} {tiny}, {ints} {normal}")
    big = f.op(f"icmp uge {ints} {magnitude}, {c(0x477FF000)}")
    result = f.op(f"select {flags} {big}, {ints} {c(0x7C00)}, {ints} {result}")
    nan = f.op(f"icmp ugt {ints} {magnitude}, {c(0x7F800000)}")
    payload = f.op(f"lshr {ints} {f.op(f'and {ints} {magnitude}, {c(0x7FFFFF)}')}, {c(13)}")
    payload = f.op(f"or {ints} {payload}, {c(0x7E00)}")
    result = f.op(f"select {flags} {nan}, {ints} {payload}, {ints} {result}")
    return f.op(f"trunc {ints} {f.op(f'or {ints} {result}, {sign}')} to {halves}")


def _round_to_odd(f: Emitter, value: str, n: int) -> str:
    """A float64 as the float32 that still rounds to the right float16 or bfloat16.

    Rounding to odd: of the two neighbours of an inexact value, the one with an odd last bit (Boldo
    and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    doubles, floats, ints = vector("double", n), vector("float", n), vector("i32", n)
    flags = vector("i1", n)
    near = f.op(f"fptrunc {doubles} {value} to {floats}")
    back = f.op(f"fpext {floats} {near} to {doubles}")
    inexact = f.op(f"fcmp one {doubles} {back}, {value}")
    bits = f.op(f"bitcast {floats} {near} to {ints}")
    one, zero = f.splat("1", "i32", n), f.splat("0", "i32", n)
    even = f.op(f"icmp eq {ints} {f.op(f'and {ints} {bits}, {one}')}, {zero}")
    f.module.declare_unary("llvm.fabs", "float64", n)
    name = f"@llvm.fabs.{'f64' if n == 1 else f'v{n}f64'}"
    beyond = f.op(f"call {doubles} {name}({doubles} {value})")
    within = f.op(f"call {doubles} {name}({doubles} {back})")
    larger = f.op(f"fcmp ogt {doubles} {beyond}, {within}")
    step = f.op(f"select {flags} {larger}, {ints} {one}, {ints} {f.splat('-1', 'i32', n)}")
    moved = f.op(f"add {ints} {bits}, {step}")
    fix = f.op(f"and {flags} {inexact}, {even}")
    chosen = f.op(f"select {flags} {fix}, {ints} {moved}, {ints} {bits}")
    return f.op(f"bitcast {ints} {chosen} to {floats}")
