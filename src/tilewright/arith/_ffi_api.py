"""`tvm.arith._ffi_api`: functions that TVM's users reach there."""

from .bounds import domain_touched as DomainTouched
from .int_set import eval_set as EvalSet
from .int_solver import solve_inequalities_as_condition as SolveInequalitiesAsCondition
from .narrow import narrow_predicate_expression as NarrowPredicateExpression

__all__ = [
    "DomainTouched",
    "EvalSet",
    "NarrowPredicateExpression",
    "SolveInequalitiesAsCondition",
]
