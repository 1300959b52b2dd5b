"""`tvm.topi.math`: functions of single elements."""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.elemwise": (
            "abs acos acosh asin asinh atan atanh cast ceil clip cos cosh erf exp floor identity "
            "isfinite isinf isnan log log10 log2 negative round rsqrt sigmoid sign sin sinh sqrt "
            "tan tanh trunc"
        ),
        "topi.by_target": "left_shift right_shift",
        "topi.fastmath": (
            "ceil_log2 fast_erf fast_exp fast_tanh fixed_point_multiply "
            "fixed_point_multiply_per_axis reinterpret"
        ),
    },
)
