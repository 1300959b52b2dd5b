"""Operations and what is done with them as a whole: the one place that other rooms import from."""

from .graph import loaded_tensors as loaded_tensors
from .graph import post_order as post_order
from .graph import replace_inputs as replace_inputs
from .graph import replace_loads as replace_loads
from .graph import rewrite_body as rewrite_body
from .hybrid_op import HybridOp as HybridOp
from .operations import BaseComputeOp as BaseComputeOp
from .operations import ComputeOp as ComputeOp
from .operations import ExternOp as ExternOp
from .operations import Operation as Operation
from .operations import PlaceholderOp as PlaceholderOp
from .operations import ScanOp as ScanOp
from .operations import TensorComputeOp as TensorComputeOp
from .operations import domain as domain
