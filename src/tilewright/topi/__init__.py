"""Operator library: computations and default schedules, under TVM's names.

`topi.nn.conv2d_nchw(data, kernel, ...)`, `topi.add(a, b)`,
`topi.default_schedule(out, target)`, ...
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.elemwise": (
            "abs acos acosh add asin asinh atan atanh cast ceil clip cos cosh divide "
            "elemwise_sum equal erf exp exp2 floor floor_divide floor_mod full full_like "
            "greater greater_equal identity isfinite isinf isnan less less_equal log log10 "
            "log2 maximum minimum multiply negative not_equal power round rsqrt sigmoid sin "
            "sinh sqrt subtract tan tanh trunc where"
        ),
        "topi.transform": (
            "broadcast_to take concatenate expand_dims flatten pack_channels pad reshape "
            "squeeze strided_slice transpose unpack_channels"
        ),
        "topi.arrange": "mirror_pad reverse_sequence tile",
        "topi.scatter": "gather gather_nd scatter_elements scatter_nd tensor_scatter",
        "topi.reduction": "argmax argmin max mean min prod sum",
        "topi.sorting": "argsort sort topk",
        "topi.scan": "cumprod cumsum",
        "topi.linalg": "det",
        "topi.nn.dense": "batch_matmul matmul=plain_matmul",
        "topi.schedules.default": "default_schedule",
    },
    modules="cuda generic image nn schedules tensor_intrin testing utils",
)
