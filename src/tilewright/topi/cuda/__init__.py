"""`tvm.topi.cuda`: operators and default schedules for GPUs: for the target in scope, else for
CUDA."""

from ...base.face import face
from ..names import INJECTIVE, target_names

__getattr__, __dir__ = face(
    __name__,
    target_names(
        f"{INJECTIVE} schedule_adaptive_pool=on_device_in_some_layout schedule_argsort "
        "schedule_argwhere schedule_batch_matmul schedule_conv1d_ncw schedule_conv1d_nwc "
        "schedule_conv1d_transpose_ncw schedule_conv2d_NCHWc_int8 schedule_conv2d_hwcn "
        "schedule_conv2d_nchw schedule_conv2d_nchw_int8 schedule_conv2d_nchw_winograd "
        "schedule_conv2d_nchw_winograd_without_weight_transform "
        "schedule_conv2d_nhwc_winograd_direct "
        "schedule_conv2d_transpose_nchw schedule_conv3d_ncdhw schedule_conv3d_ncdhw_winograd "
        "schedule_conv3d_ndhwc "
        "schedule_conv3d_transpose_ncdhw schedule_correlation_nchw schedule_deformable_conv2d_nchw "
        "schedule_dense_int8 schedule_depthwise_conv2d_backward_input_nhwc "
        "schedule_depthwise_conv2d_backward_weight_nhwc schedule_depthwise_conv2d_nchw "
        "schedule_depthwise_conv2d_nhwc schedule_extern=schedule_extern schedule_get_valid_counts "
        "schedule_group_conv1d_ncw schedule_group_conv1d_nwc schedule_group_conv2d_NCHWc_int8 "
        "schedule_group_conv2d_nchw "
        "schedule_lrn schedule_multibox_detection schedule_multibox_prior "
        "schedule_multibox_transform_loc schedule_nms schedule_pool schedule_pool_grad "
        "schedule_proposal schedule_reduce schedule_reorg schedule_roi_align schedule_roi_pool "
        "schedule_scan schedule_softmax schedule_sort schedule_sparse_dense "
        "schedule_sparse_dense_padded schedule_topk schedule_transpose "
        "schedule_batch_matmul_tensorcore schedule_conv2d_nhwc_tensorcore "
        "schedule_conv3d_ndhwc_tensorcore schedule_dense_tensorcore schedule_batch_matmul_cublas "
        "schedule_conv2d_cudnn schedule_conv2d_hwnc_tensorcore schedule_conv3d_cudnn "
        "schedule_dense_cublas schedule_matmul_cublas schedule_softmax_cudnn "
        "schedule_topk_thrust",
        {
            "topi.by_target": (
                "batch_matmul=batch_matmul_xy batch_matmul_tensorcore=batch_matmul_xy "
                "conv2d_hwnc_tensorcore conv2d_nhwc_tensorcore "
                "conv2d_nhwc_winograd_tensorcore=conv2d_nhwc_winograd_direct "
                "conv2d_nhwc_winograd_tensorcore_without_weight_transform"
                "=conv2d_nhwc_winograd_ready "
                "conv3d_ndhwc_tensorcore dense_tensorcore=dense "
                "sparse_dense_tir conv1d_ncw conv1d_nwc conv1d_transpose_ncw "
                "conv2d_nchw=conv2d_nchw_float conv2d_nchw_int8=conv2d_nchw_int "
                "conv2d_nchw_winograd conv2d_nchw_winograd_without_weight_transform "
                "conv2d_nhwc_winograd_direct conv2d_transpose_nchw=conv2d_transpose_nchw_stride "
                "conv3d_ncdhw=conv3d_ncdhw_float conv3d_ncdhw_winograd=conv3d_ncdhw "
                "conv3d_ndhwc=conv3d_ndhwc_float "
                "conv3d_transpose_ncdhw=conv3d_transpose_ncdhw_stride deformable_conv2d_nchw "
                "dense_int8=dense depthwise_conv2d_nchw group_conv1d_ncw group_conv1d_nwc "
                "group_conv2d_nchw=group_conv2d_nchw_float sparse_dense "
                "sparse_dense_padded=sparse_dense"
            ),
            "topi.cuda.lines": (
                "argsort cumprod cumsum exclusive_scan inclusive_scan scanop searchsorted "
                "sort_by_key"
            ),
            "topi.cuda.libraries": (
                "argsort_thrust batch_matmul_cublas conv2d_cudnn conv3d_cudnn dense_cublas "
                "log_softmax_cudnn matmul_cublas scan_thrust softmax_cudnn sort_thrust "
                "stable_sort_by_key_thrust topk_thrust"
            ),
            "topi.cuda.sparse_rows": "is_valid_for_sparse_dense_padded pad_sparse_matrix",
            "topi.cuda.thrust": "can_use_thrust is_thrust_available",
            "topi.fourier": "dft stft",
            "topi.nn.blocked_convs": (
                "conv2d_NCHWc_int8=conv2d_NCHWc_by_four group_conv2d_NCHWc_int8"
            ),
            "topi.nn.deformable": "correlation_nchw",
            "topi.nn.winograd_volumes": (
                "conv3d_ncdhw_winograd_without_weight_transform"
                "=conv3d_winograd_ncdhw_without_weight_transform"
            ),
            "topi.scatter": "scatter_elements scatter_nd",
            "topi.search": "argwhere unique",
            "topi.sorting": "sort topk",
            "topi.vision.boxes": (
                "all_class_non_max_suppression get_valid_counts non_max_suppression"
            ),
            "topi.vision.multibox": "multibox_detection multibox_prior multibox_transform_loc",
            "topi.vision.proposals": "proposal",
        },
        device=True,
    ),
    modules="tensor_intrin",
)
