"""What is known of an operation: one row of a table, from which every other room reads.

`Op.get("tir.exp").row` is the row of an operation; op_float.py, op_exact.py and op_other.py make
them. An operation without a row (a user's own) has `UNKNOWN`: it may do anything. Code for one
target stands with the target's code generator, under the operation's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..base.dtype import parse

if TYPE_CHECKING:
    from .node import PrimExpr
    from .operators import ExprLike

Check = Callable[[Any], str | None]  # what is wrong with a call, or None
Bound = tuple[float, float]  # least and greatest value; -inf and inf where there is none


class CallEffectKind:
    """The effect of a call, in growing order of what a pass must respect.

    ExprAnnotation and Pure calls may be repeated, dropped and moved; ReadState calls depend on
    memory; UpdateState (also called Opaque) calls change something. The others mark arguments that
    have a meaning for the callee only (SpecialCallArg), data that is read when code is made
    (EmbedInfo), and jumps such as `ret` (ControlJump).
    """

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


FREE, CHEAP, DEAR = 0, 1, 20  # what an operation costs, in additions, roughly


@dataclass(frozen=True, eq=False)
class Operation:
    """A row. Fields that an operation has no use for keep their defaults."""

    name: str
    effect: int = CallEffectKind.Opaque
    check: Check = lambda call: None
    """What is wrong with a call, or None."""
    lanewise: bool = False
    """On vectors it does in each lane what it does on scalars."""
    any_width: bool = False
    """Takes 16-bit floats as they are: they need not be computed in float32."""
    cost: int = DEAR
    numpy: Callable[..., Any] | None = None
    """The operation on NumPy arrays; see `wide`."""
    wide: bool = True
    """`numpy` takes floats as float64 and its result is rounded once; else it takes each type."""
    index: bool = False
    """Of indices it makes an index; all else that calls give is data."""
    exact: bool = False
    """Rounds nothing."""
    fold: Callable[..., Any] | None = None
    """The value for Python numbers, where it is exact."""
    slope: Callable[..., Any] | None = None
    """`slope(*arguments, value)`: the derivative by the argument, or a tuple of one for each."""
    bound: Callable[..., Bound | None] | None = None
    """`bound(call, *bounds of arguments)`: of its value, unless that is NaN; None if unknown."""
    llvm: str = ""
    """LLVM's intrinsic of the same types, where that is vector code on every target."""
    c: str = ""
    """The function of C's library, by its name for float64."""
    devices: Mapping[str, str] = field(default_factory=dict)
    """Functions that targets have under other names: by kind, or by "kind element type"."""
    formula: Callable[..., Any] | None = None
    """The value in terms of other operations, for targets that lack it."""

    def function(self, kind: str, element: str) -> str:
        """The function of a kind of target for an element type; "" if it has none.

        Where the target's functions have a name for each type, it is the one for float64 unless
        the row names that for `element`.
        """
        devices = self.devices
        return devices.get(f"{kind} {element}") or devices.get(kind) or self.c


class Unary(Protocol):
    """A builder of an operation on one value."""

    __name__: str

    def __call__(self, x: ExprLike) -> PrimExpr: ...


class Binary(Protocol):
    """A builder of an operation on two values."""

    __name__: str

    def __call__(self, x1: ExprLike, x2: ExprLike) -> PrimExpr: ...


UNKNOWN = Operation("")
TABLE: dict[str, Operation] = {}
"""The rows by name, without "tir."."""


_NAMES = """
TVMBackendAllocWorkspace TVMBackendFreeWorkspace anylist_getitem anylist_resetitem
anylist_setitem_call_cpacked anylist_setitem_call_packed assume create_barriers
end_profile_intrinsic get_active_lane_mask handle_add_byte_offset lookup_param
make_filled_simdgroup_matrix mma_fill mma_store ptx_arrive_barrier
ptx_arrive_barrier_expect_tx ptx_commit_group ptx_cp_async ptx_cp_async_barrier
ptx_cp_async_bulk ptx_init_barrier_thread_count ptx_ldmatrix ptx_mma ptx_mma_sp
ptx_wait_barrier ptx_wait_group simdgroup_load simdgroup_multiply_accumulate
simdgroup_store start_profile_intrinsic tvm_bmma_sync tvm_call_cpacked
tvm_call_cpacked_lowered tvm_call_packed tvm_call_packed_lowered tvm_check_return
tvm_fill_fragment tvm_global_barrier_kinit tvm_load_matrix_sync tvm_mma_sync
tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape tvm_storage_sync
tvm_store_matrix_sync tvm_struct_get tvm_struct_set tvm_thread_allreduce
tvm_thread_invariant tvm_throw_last_error tvm_tuple undef vscale
"""
KNOWN = frozenset(_NAMES.split())
"""Operations that may have no row: calls of them are made, moved, printed and no more."""


def add_row(name: str, **columns: Any) -> Operation:
    """Enter a row."""
    row = TABLE[name] = Operation(name, **columns)
    return row


# -- checks of calls


def count(call: Any, wanted: int) -> str | None:
    if len(call.args) != wanted:
        return f"{call.op.name} takes {wanted} arguments, got {len(call.args)}"
    return None


def floats(wanted: int) -> Check:
    """So many floats of the type of the result."""

    def check(call: Any) -> str | None:
        for a in call.args:
            if a.dtype != call.dtype or not parse(a.dtype).is_float:
                return f"{call.op.name} of {a.dtype} gives {call.dtype}"
        return count(call, wanted)

    return check


def bits(wanted: int) -> Check:
    """So many integers or conditions of the type of the result."""

    def check(call: Any) -> str | None:
        for a in call.args:
            t = parse(a.dtype)
            if a.dtype != call.dtype or t.is_float or t.is_handle:
                return f"{call.op.name} of {a.dtype} gives {call.dtype}"
        return count(call, wanted)

    return check


def integers(wanted: int) -> Check:
    """So many integers of the type of the result."""

    def check(call: Any) -> str | None:
        if not all(parse(a.dtype).is_integer for a in call.args):
            return f"{call.op.name} takes integers"
        return bits(wanted)(call)

    return check


def predicate(call: Any) -> str | None:
    """One float; the result is bool."""
    if len(call.args) != 1 or not parse(call.args[0].dtype).is_float:
        return f"{call.op.name} takes one float"
    wanted = parse("bool").with_lanes(parse(call.args[0].dtype).lanes)
    if call.dtype != wanted:
        return f"{call.op.name} says that it is {call.dtype}, but it is {wanted}"
    return None
