"""`tvm.topi.nn.winograd_util`: the matrices of Winograd's algorithm."""

from .winograd_convs import winograd_transform_matrices as winograd_transform_matrices

__all__ = ["winograd_transform_matrices"]
