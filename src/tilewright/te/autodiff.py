"""te.autodiff: gradients of tensors."""

from ..tensor.gradient import gradient as gradient
