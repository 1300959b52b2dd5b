"""Atomic operations, by the names of CUDA and OpenCL and as `tir.atomic_*`.

They are in no race with each other, but with plain accesses. Lanes take their turns in order of
their numbers, which a GPU does not promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtype import parse
from ..base.errors import TilewrightError
from ..loopir import expr as E
from .simt_access import locate, same_bits
from .simt_calls import NO_LIMIT
from .simt_expr import Code, Fn
from .simt_state import Array, State
from .simt_stmt import KernelCode

Update = Callable[..., Any]

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_UPDATES: dict[str, tuple[int, Update]] = {
    **{name: (1, f) for name, f in _UFUNCS.items()},
    "exch": (1, lambda old, new: new),
    "cas": (2, lambda old, expected, new: new if old == expected else old),
    "inc": (0, lambda old: old + old.dtype.type(1)),
    "dec": (0, lambda old: old - old.dtype.type(1)),
}
# CUDA counts up to a bound, and down from it
_WRAPPING: dict[str, tuple[int, Update]] = {
    "Inc": (1, lambda old, top: old.dtype.type(0) if old >= top else old + old.dtype.type(1)),
    "Dec": (1, lambda old, top: top if old == 0 or old > top else old - old.dtype.type(1)),
}


def _atomic(name: str, values: int, update: Update, used: bool) -> Callable[[Any, E.Call], Fn]:
    """An atomic of (address, values...); gives the value before, where it is `used`."""

    def make(code: Any, e: E.Call) -> Fn:
        skip = 1 if isinstance(e.args[0], E.StringImm) else 0
        given = e.args[skip:]
        if len(given) < 1 + values:
            raise TilewrightError(f"simt: {name} takes an address and {values} values: {e}")
        pointer = code.pointer(given[0])
        operands = given[1 : 1 + values]
        dtype = pointer.dtype or (operands[0].dtype if operands else e.dtype)
        dtype = parse(dtype).element
        fns = [code.value(a) for a in operands]
        taints = [code.undefined.later(a) for a in operands]
        ufunc = _UFUNCS.get(name) if not used and parse(dtype).code != "bfloat" else None

        def run(st: State) -> Any:
            if st.quiet:
                return np.zeros(st.lanes, parse(dtype).numpy)
            new = [f(st) for f in fns]
            if st.tainted:
                for t in taints:
                    st.use(t(st), "in an atomic operation")
            m = st.memory[pointer.data]
            place = locate(st, m, dtype, pointer.offset(st), NO_LIMIT, None, True)
            if not place.at.size:
                return np.zeros(st.lanes, parse(dtype).numpy)
            data = m.view(dtype)
            m.traffic.atomics += place.at.size
            _shadow(st, m, place, data)
            if ufunc is not None:
                ufunc.at(data, place.at, place.take(new[0]).astype(data.dtype))
                return np.int32(0)
            taken = [place.take(v).reshape(-1) for v in new]
            return place.spread(_in_turn(data, place.at, update, taken))

        return run

    return make


def _in_turn(data: Array, at: Array, update: Update, values: list[Array]) -> Array:
    """Update elements one lane after another; gives what each found."""
    before = np.empty(at.size, data.dtype)
    for n, i in enumerate(at.reshape(-1).tolist()):
        old = data[i]
        before[n] = old
        data[i] = update(old, *[v[n] for v in values])
    return before.reshape(at.shape)


def _shadow(st: State, m: Any, place: Any, data: Array) -> None:
    if m.shadow is None:
        return
    at, lanes = m.units(place.at, place.lanes, data.itemsize)
    old = data[place.at]
    writes = getattr(m.shadow, "writes", None)
    if writes is not None:
        nothing = writes[at] == 0
        if nothing.any():
            m.unwritten(st, at, lanes, nothing)
    m.shadow.write(st, m, at, lanes, True, lambda: ~same_bits(old, old, at.shape))


def _register() -> None:
    for name, (values, update) in _UPDATES.items():
        names = [f"tir.atomic_{name}", f"extern atomic_{name}", f"extern atom_{name}"]
        if name not in ("inc", "dec"):
            names.append(f"extern atomic{name.capitalize()}")
        if name == "cas":
            names += ["extern atomicCAS", "extern atomic_cmpxchg", "extern atom_cmpxchg"]
        if name == "exch":
            names += ["extern atomic_xchg", "extern atom_xchg"]
        for n in names:
            Code.calls[n] = _atomic(name, values, update, True)
            KernelCode.effects[n] = _atomic(name, values, update, False)
    for name, (values, update) in _WRAPPING.items():
        Code.calls[f"extern atomic{name}"] = _atomic(name, values, update, True)


_register()
