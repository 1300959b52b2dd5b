"""Attention in one kernel (CUDA) as an operation: by warps (attention_kernel.py) or by warp groups
(attention_groups.py), and what joins parts of the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...loopir.buffer import Buffer
from ...loopir.stmt import Stmt
from ...target.target import Target
from ...tensor.extern import extern
from ...tensor.tensor import Tensor
from ..schedules.gpu.machine import GpuMachine
from .attention_ends import joined_parts, partial_results, results
from .attention_group_plan import GroupPlan, group_plan_of
from .attention_groups import GroupKernel
from .attention_kernel import Element, Kernel
from .attention_plan import WIDEST, Plan, warp_plan_of
from .warp_registers import OPERANDS, SUMS


def plan_of(sizes: Any, dtype: str, target: Target | None) -> Plan | None:
    """How attention of these sizes (see `attention.Sizes`) and that type is cut on a target; None
    where it is not made so."""
    if target is None or target.kind.name != "cuda" or dtype not in (*OPERANDS, SUMS):
        return None
    able = target.capabilities
    known = dtype == SUMS or (dtype, SUMS) in able.matrix_products
    lengths = (sizes.size, sizes.last, sizes.keys, prod(sizes.rows), prod(sizes.batch))
    if not known or min(lengths) <= 0 or max(lengths[:2]) > WIDEST:
        return None
    machine = GpuMachine.of(target)
    plan = group_plan_of(sizes, dtype, machine) if dtype in OPERANDS else None
    return plan or warp_plan_of(sizes, dtype, able.async_copies, machine)


def takes(sizes: Any, dtype: str, target: Target | None) -> bool:
    """Whether attention of these sizes and that type is one kernel on a target."""
    return plan_of(sizes, dtype, target) is not None


def attention_in_one(
    plan: Plan,
    sides: Sequence[Element],
    score: Callable[[Tensor], Tensor],
    finish: Callable[[Any, Any], Any],
    order: Sequence[int],
) -> Tensor:
    """As `attention`, cut as `plan` says. `sides`: queries, keys and values. `finish` makes a
    result of a row's sum of powers and its weighed values: it is asked once a row, for 1, which
    the values are multiplied by; where that is 0, whatever they are is 0."""
    made_by = GroupKernel if isinstance(plan, GroupPlan) else Kernel
    kernel, sizes, dtype = made_by(plan, sides, score, finish), plan.sizes, plan.dtype
    lead = (*sizes.batch, *sizes.rows, sizes.last)
    shape = tuple(lead[d] for d in order)
    result: Tensor
    if kernel.parts == 1:

        def whole(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            return kernel.body(ins, results(kernel, outs[0], order))

        result = extern([shape], kernel.inputs, whole, name="T_attention", dtype=[dtype])
        return result

    def of_parts(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return kernel.body(ins, partial_results(kernel, outs[0], outs[1]))

    def joined(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        return joined_parts(kernel, ins[0], ins[1], outs[0], order)

    shapes = [(kernel.parts, prod(lead[:-1]), n) for n in (sizes.last, 2)]
    made = extern(shapes, kernel.inputs, of_parts, name="T_attended_parts", dtype=[SUMS] * 2)
    result = extern([shape], made, joined, name="T_attention", dtype=[dtype])
    return result
