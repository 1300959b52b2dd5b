"""Where the helpers of tests stand: `tvm.testing` and `tvm.testing.utils` name the same ones."""

HOMES = {
    "testing.asserts": (
        "assert_allclose assert_prim_expr_equal check_bool_expr_is_true "
        "check_int_constraints_trans_consistency check_numerical_grads"
    ),
    "testing.compare": "CompareBeforeAfter",
    "testing.cases": (
        "exclude_targets fixture known_failing_targets main parameter parameters "
        "parametrize_targets skip_parameterizations xfail_parameterizations"
    ),
    "testing.popen": (
        "after_initializer fast_summation identity_after initializer is_ampere_or_newer "
        "slow_summation strtobool terminate_self timeout_job"
    ),
    "testing.requires": (
        "Feature requires_aarch64 requires_aarch64_sme requires_aarch64_sve "
        "requires_adreno_opencl requires_adreno_vulkan requires_arm_dot requires_arm_fp16 "
        "requires_cmsisnn requires_corstone300 requires_cublas requires_cuda "
        "requires_cuda_compute_version requires_cudagraph requires_cudnn requires_cutlass "
        "requires_ethosn requires_ethosu requires_gpu requires_hexagon "
        "requires_hexagon_toolchain requires_libtorch requires_llvm "
        "requires_llvm_minimum_version requires_matrixcore requires_metal requires_micro "
        "requires_miopen requires_mps requires_mrvl requires_nnapi requires_nvcc_version "
        "requires_nvptx requires_opencl requires_openclml requires_opengl requires_package "
        "requires_rocblas requires_rocm requires_rpc requires_tensorcore requires_vitis_ai "
        "requires_vulkan requires_webgpu requires_x86 requires_x86_amx requires_x86_avx512 "
        "requires_x86_vnni skip_if_32bit skip_if_no_reference_system skip_if_wheel_test "
        "uses_gpu"
    ),
    "testing.targets": "device_enabled enabled_targets get_dtype_range multi_gpu_exists",
}
