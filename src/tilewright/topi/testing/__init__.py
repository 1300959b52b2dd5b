"""`tvm.topi.testing`: what operators should give, in NumPy, and schedules for tests."""

from ...base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.testing.convs": (
            "conv1d_ncw_python conv1d_transpose_ncw_python conv2d_hwcn_python conv2d_nchw_python "
            "conv2d_nhwc_python conv2d_transpose_nchw_python conv2d_transpose_nhwc_python "
            "conv3d_ncdhw_python conv3d_ndhwc_python conv3d_transpose_ncdhw_python "
            "group_conv1d_ncw_python group_conv1d_transpose_ncw_python "
            "correlation_nchw_python deformable_conv2d_nchw_python deformable_conv2d_nhwc_python "
            "depthwise_conv2d_python_nchw depthwise_conv2d_python_nchwc "
            "depthwise_conv2d_python_nhwc dilate_python"
        ),
        "driver.compare": "compare_numpy_tvm",
        "topi.testing.dispatching": (
            "dispatch get_broadcast_schedule get_conv2d_nchw_implement "
            "get_elemwise_schedule get_injective_schedule get_reduce_schedule"
        ),
        "topi.testing.images": (
            "affine_grid_python crop_and_resize_python grid_sample_python resize1d_python "
            "resize2d_python resize3d_python reorg_python roi_align_nchw_python "
            "roi_align_nhwc_python roi_pool_nchw_python upsampling3d_python upsampling_python"
        ),
        "topi.testing.moves": (
            "batch_to_space_nd_python depth_to_space_python gather_nd_python gather_python "
            "matrix_set_diag one_hot searchsorted_ref sequence_mask slice_axis_python "
            "space_to_batch_nd_python space_to_depth_python strided_set_python "
            "strided_slice_python"
        ),
        "topi.testing.layers": (
            "adaptive_pool batch_matmul batch_norm dense group_norm_python instance_norm_python "
            "l2_normalize_python layer_norm_python log_softmax_python lrn_python lstm_python "
            "nll_loss pool1d_ncw_python pool3d_ncdhw_python pool_grad_nchw poolnd_python "
            "rms_norm_python softmax_python"
        ),
    },
)
