"""te.tensor_intrin: instructions on blocks of elements."""

from ..tensor.intrin import TensorIntrin as TensorIntrin
from ..tensor.intrin import decl_tensor_intrin as decl_tensor_intrin
