"""te.tensor: tensors and operations."""

from ..tensor.intrin import TensorIntrinCall as TensorIntrinCall
from ..tensor.op import BaseComputeOp as BaseComputeOp
from ..tensor.op import ComputeOp as ComputeOp
from ..tensor.op import ExternOp as ExternOp
from ..tensor.op import HybridOp as HybridOp
from ..tensor.op import Operation as Operation
from ..tensor.op import PlaceholderOp as PlaceholderOp
from ..tensor.op import ScanOp as ScanOp
from ..tensor.op import TensorComputeOp as TensorComputeOp
from ..tensor.tensor import Tensor as Tensor
from ..tensor.tensor import TensorSlice as TensorSlice
