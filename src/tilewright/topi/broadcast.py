"""`tvm.topi.broadcast`: operators of two tensors, with NumPy's broadcasting."""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.elemwise": (
            "add bitwise_and bitwise_not bitwise_or bitwise_xor divide equal floor_divide "
            "floor_mod greater greater_equal left_shift less less_equal logical_and logical_not "
            "logical_or logical_xor maximum minimum mod multiply not_equal power right_shift "
            "subtract"
        ),
        "topi.transform": "broadcast_to",
    },
)
