"""`tvm.topi.generic`: default schedules for the target in scope."""

from ..base.face import face
from .schedules.entries import renamed

_OPERATORS = (
    "schedule_adaptive_pool schedule_argsort schedule_argwhere schedule_batch_matmul "
    "schedule_batch_norm schedule_binarize_pack schedule_binary_dense "
    "schedule_bitpack schedule_bitserial_conv2d_nchw schedule_bitserial_conv2d_nhwc "
    "schedule_bitserial_dense schedule_broadcast schedule_elemwise "
    "schedule_concatenate schedule_conv1d_ncw schedule_conv1d_nwc schedule_conv1d_transpose_ncw "
    "schedule_conv2d_NCHWc schedule_conv2d_NCHWc_int8 schedule_conv2d_gemm_weight_transform "
    "schedule_conv2d_hwcn schedule_conv2d_nchw schedule_conv2d_nhwc schedule_conv2d_nhwc_pack "
    "schedule_conv2d_transpose_nchw schedule_conv2d_winograd_weight_transform "
    "schedule_conv2d_winograd_without_weight_transform schedule_conv3d_ncdhw "
    "schedule_conv3d_ndhwc schedule_conv3d_transpose_ncdhw "
    "schedule_conv3d_winograd_weight_transform schedule_correlation_nchw schedule_default "
    "schedule_deformable_conv2d_nchw schedule_deformable_conv2d_nhwc schedule_dense "
    "schedule_depthwise_conv2d_NCHWc schedule_depthwise_conv2d_nchw "
    "schedule_depthwise_conv2d_nhwc schedule_dilation2d_nchw schedule_dilation2d_nhwc "
    "schedule_einsum schedule_fast_softmax schedule_get_valid_counts schedule_group_conv1d_ncw "
    "schedule_group_conv1d_nwc schedule_group_conv2d_nchw schedule_group_conv2d_nhwc "
    "schedule_group_conv2d_transpose_nchw schedule_injective schedule_lrn schedule_lstm "
    "schedule_matmul schedule_multibox_detection schedule_multibox_prior "
    "schedule_multibox_transform_loc schedule_nms schedule_pool_grad schedule_proposal "
    "schedule_reduce schedule_reorg schedule_roi_align schedule_roi_pool schedule_scatter_nd "
    "schedule_searchsorted schedule_softmax schedule_sort schedule_sparse_conv2d "
    "schedule_sparse_dense schedule_sparse_fill_empty_rows schedule_sparse_reshape "
    "schedule_sparse_transpose schedule_topk schedule_unique"
)

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.schedules.entries": (
            f"{renamed(_OPERATORS, 'schedule')} schedule_extern "
            "schedule_injective_from_existing=from_existing schedule_pool=schedule_in_layout "
            "default_schedule=schedule_inlined"
        )
    },
)
