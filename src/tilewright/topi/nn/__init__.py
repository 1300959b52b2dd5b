"""Operations of neural networks: convolution, pooling, dense layers, activations."""

from ...base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.nn.bits": (
            "binarize_pack binary_dense bitpack bitserial_conv2d_nchw bitserial_conv2d_nhwc "
            "bitserial_dense"
        ),
        "topi.nn.blocked": "conv_nchwc depthwise_nchwc pack_depthwise pack_kernel",
        "topi.nn.blocked_convs": (
            "conv2d_NCHWc conv2d_NCHWc_OIHWo conv2d_NCHWc_int8 conv2d_gemm_weight_transform "
            "unpack_NCHWc_to_nchw"
        ),
        "topi.nn.choices": (
            "Workload add_alter_layout batch_matmul_legalize bias_add_legalize "
            "bitserial_conv2d_legalize conv2d_alter_layout conv2d_infer_layout conv2d_legalize "
            "conv2d_transpose_legalize conv3d_alter_layout dense_alter_layout dense_legalize "
            "depthwise_conv2d_infer_layout matmul_legalize qnn_add_alter_layout "
            "qnn_bias_add_legalize qnn_conv2d_alter_layout qnn_dense_alter_layout "
            "qnn_requantize_alter_layout sparse_conv2d_alter_layout sparse_dense_alter_layout"
        ),
        "topi.nn.conv_nd": "between col2im conv_nd deformable_columns",
        "topi.nn.conv_transpose": (
            "conv1d_transpose_ncw conv1d_transpose_ncw_preprocess conv2d_transpose_nchw "
            "conv2d_transpose_nchw_preprocess conv3d_transpose_ncdhw "
            "conv3d_transpose_ncdhw_preprocess declaration_conv2d_transpose_impl "
            "declaration_conv3d_transpose_impl group_conv1d_transpose_ncw "
            "group_conv2d_transpose_nchw group_conv3d_transpose_ncdhw"
        ),
        "topi.nn.convs": (
            "conv conv1d conv1d_ncw conv1d_nwc conv2d conv2d_hwcn conv2d_nchw conv2d_nhwc "
            "conv3d_ncdhw conv3d_ndhwc group_conv1d_ncw group_conv1d_nwc group_conv2d_nchw "
            "group_conv2d_nhwc grouped_conv2d"
        ),
        "topi.nn.deformable": ("correlation_nchw deformable_conv2d_nchw deformable_conv2d_nhwc"),
        "topi.nn.dense": "batch_matmul dense dense_pack dense_packed matmul",
        "topi.nn.depthwise": (
            "depthwise_conv2d_NCHWc depthwise_conv2d_backward_input_nhwc "
            "depthwise_conv2d_backward_weight_nhwc depthwise_conv2d_nchw depthwise_conv2d_nhwc"
        ),
        "topi.nn.dilation": (
            "batch_to_space_nd depth_to_space dilate space_to_batch_nd space_to_depth upsampling "
            "upsampling3d"
        ),
        "topi.nn.elemwise": (
            "bias_add flatten leaky_relu prelu relu scale_shift scale_shift_nchw "
            "scale_shift_nchwc scale_shift_nhwc"
        ),
        "topi.arrange": "mirror_pad",
        "topi.transform": "pad",
        "topi.nn.lstm_layer": "lstm",
        "topi.nn.misc": (
            "SQNN_DTYPE_TO_CODE SQNN_FP32 SQNN_INT32 SQNN_INT8 SQNN_UINT8 fifo_buffer nll_loss "
            "simulated_dequantize simulated_quantize"
        ),
        "topi.nn.norm": (
            "batch_norm group_norm instance_norm l2_normalize layer_norm lrn normalize_rows "
            "rms_norm"
        ),
        "topi.nn.pool_adaptive": "adaptive_pool adaptive_pool1d adaptive_pool3d pool_grad",
        "topi.nn.pool_nd": "max_pool_index pool_nd",
        "topi.nn.pooling": "global_pool pool1d pool2d pool3d",
        "topi.nn.rotary": "rotary_embedding",
        "topi.nn.softmax": "fast_softmax log_softmax masked_softmax softmax softmax_common",
        "topi.nn.sparse": (
            "sparse_add sparse_conv2d sparse_dense sparse_dense_sp_lhs sparse_dense_sp_rhs "
            "sparse_transpose"
        ),
        "topi.nn.spatial_pack": "conv2d_spatial_pack pack_filters",
        "topi.nn.winograd": ("winograd_input winograd_kernel winograd_output winograd_product"),
        "topi.nn.winograd_convs": (
            "conv2d_winograd_nchw conv2d_winograd_nchw_without_weight_transform "
            "conv2d_winograd_nhwc conv2d_winograd_nhwc_without_weight_transform "
            "conv2d_winograd_weight_transform conv3d_winograd_weight_transform"
        ),
    },
    modules="utils winograd_util",
)
