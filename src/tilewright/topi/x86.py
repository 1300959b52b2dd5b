"""`tvm.topi.x86`: operators and default schedules for x86-64."""

from ..base.face import face
from .names import INJECTIVE, target_names

_BLAS = (
    "batch_matmul_cblas batch_matmul_mkl dense_cblas dense_dnnl dense_mkl matmul_cblas matmul_dnnl "
    "matmul_mkl"
)

__getattr__, __dir__ = face(
    __name__,
    target_names(
        f"{INJECTIVE} schedule_adaptive_pool schedule_batch_matmul schedule_binarize_pack "
        "schedule_binary_dense schedule_bitserial_conv2d_nchw schedule_bitserial_conv2d_nhwc "
        "schedule_bitserial_dense schedule_concatenate schedule_conv1d_ncw schedule_conv1d_nwc "
        "schedule_conv2d_NCHWc schedule_conv2d_NCHWc_int8 schedule_conv2d_nchw "
        "schedule_conv2d_nchw_int8 schedule_conv2d_nhwc schedule_conv2d_transpose_nchw "
        "schedule_conv3d_ncdhw schedule_conv3d_ndhwc schedule_conv3d_transpose_ncdhw "
        "schedule_dense_dynamic schedule_dense_int8 schedule_dense_nopack schedule_dense_pack "
        "schedule_depthwise_conv2d_NCHWc schedule_depthwise_conv2d_nchw schedule_group_conv1d_ncw "
        "schedule_group_conv1d_nwc schedule_group_conv2d_nchw schedule_pool schedule_reduce "
        "schedule_softmax schedule_sparse_dense schedule_spconv2d_3x3_nchw "
        "schedule_spconv2d_3x3_nhwc "
        + " ".join(f"schedule_{name}=schedule_extern" for name in _BLAS.split()),
        {
            "topi.blas": _BLAS,
            "topi.by_target": (
                "batch_matmul concatenate conv2d_NCHWc conv2d_NCHWc_int8 conv2d_nchw "
                "conv2d_nchw_int8=conv2d_nchw conv2d_transpose_nchw conv3d_ncdhw conv3d_ndhwc "
                "conv3d_transpose_ncdhw dense_dynamic=dense dense_int8=dense dense_nopack=dense "
                "depthwise_conv2d_NCHWc depthwise_conv2d_nchw group_conv2d_nchw spconv2d_3x3_nchw "
                "spconv2d_3x3_nhwc"
            ),
            "topi.nn.bits": "bitserial_conv2d_nchw bitserial_conv2d_nhwc bitserial_dense",
            "topi.nn.dense": "dense_pack",
            "topi.vision.regions": "roi_align_nchw",
        },
        device=False,
    ),
)
