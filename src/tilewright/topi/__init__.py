"""Operator library: computations and default schedules, under TVM's names.

`topi.nn.conv2d_nchw(data, kernel, ...)`, `topi.add(a, b)`,
`topi.default_schedule(out, target)`, ...
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.elemwise": (
            "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or "
            "bitwise_xor cast ceil clip cos cosh divide elemwise_sum equal erf exp exp2 floor "
            "floor_divide floor_mod full full_like greater greater_equal identity isfinite isinf "
            "isnan left_shift less less_equal log log10 log2 log_add_exp logical_and logical_not "
            "logical_or logical_xor maximum minimum mod multiply negative not_equal power "
            "right_shift round rsqrt sigmoid sign sin sinh sqrt subtract tan tanh trunc "
            "trunc_divide trunc_mod where"
        ),
        "topi.fastmath": (
            "ceil_log2 fast_erf fast_exp fast_tanh fixed_point_multiply "
            "fixed_point_multiply_per_axis reinterpret"
        ),
        "topi.transform": (
            "broadcast_to concatenate expand_dims flatten pack_channels pad reshape squeeze take "
            "transpose unpack_channels"
        ),
        "topi.slices": ("dynamic_strided_slice sliding_window split strided_set strided_slice"),
        "topi.making": (
            "adv_index arange expand_like eye flip matrix_set_diag meshgrid ndarray_size one_hot "
            "repeat sequence_mask shape sparse_to_dense stack trilu unravel_index"
        ),
        "topi.layouts": "auto_scheduler_layout_transform layout_transform",
        "topi.arrange": "mirror_pad reverse_sequence tile",
        "topi.scatter": (
            "gather gather_nd invert_permutation scatter_elements scatter_nd tensor_scatter"
        ),
        "topi.reduction": ("all any argmax argmin collapse_sum comm_reduce max mean min prod sum"),
        "topi.sorting": "argsort sort topk",
        "topi.sparse_shapes": "sparse_fill_empty_rows sparse_reshape",
        "topi.search": "argwhere searchsorted unique",
        "topi.scan": "cumprod cumsum scanop",
        "topi.products": "einsum tensordot",
        "topi.fourier": "dft stft",
        "topi.linalg": "cholesky det pivots solve solve_triangular",
        "topi.nn.dense": "batch_matmul matmul=plain_matmul",
        "topi.schedules.default": "default_schedule",
        "topi.nn.choices": "take_legalize",
        "topi.utils": "InvalidShapeError",
    },
    modules=(
        "adreno arm_cpu bifrost broadcast cuda generic gpu hls image intel_graphics mali math nn "
        "random reduction rocm scan schedules sparse tag tensor_intrin testing transform utils "
        "vision x86"
    ),
)
