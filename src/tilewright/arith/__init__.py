"""Integer reasoning: simplification, bounds, proofs, interval sets, index maps."""

from . import _ffi_api as _ffi_api
from .analyzer import Analyzer as Analyzer
from .bound import ConstIntBound as ConstIntBound
from .bound import ModularSet as ModularSet
from .bounds import domain_touched as domain_touched
from .bounds import find_violation as find_violation
from .bounds import prove_bounds as prove_bounds
from .deduce import deduce_bound as deduce_bound
from .index_map import IndexMap as IndexMap
from .int_set import IntervalSet as IntervalSet
from .int_set import IntSet as IntSet
from .int_set import eval_set as eval_set
from .int_set import intersect as intersect
from .int_set import neg_inf as neg_inf
from .int_set import pos_inf as pos_inf
from .int_set import union as union
from .iter_map import detect_iter_map as detect_iter_map
from .iter_map import inverse_affine_iter_map as inverse_affine_iter_map
from .iter_map import inverse_index_map as inverse_index_map
from .iter_map import iter_map_simplify as iter_map_simplify
from .linear import detect_clip_bound as detect_clip_bound
from .linear import detect_linear_equation as detect_linear_equation
from .solve import IntConstraints as IntConstraints
from .solve import solve_linear_equations as solve_linear_equations
from .solve import solve_linear_inequalities as solve_linear_inequalities
