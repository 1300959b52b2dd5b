"""Integer reasoning: simplification, bounds, proofs, interval sets, index maps."""

from .analyzer import Analyzer as Analyzer
from .bound import ConstIntBound as ConstIntBound
from .bound import ModularSet as ModularSet
from .int_set import IntervalSet as IntervalSet
from .int_set import eval_set as eval_set
from .int_set import intersect as intersect
from .int_set import neg_inf as neg_inf
from .int_set import pos_inf as pos_inf
from .int_set import union as union
