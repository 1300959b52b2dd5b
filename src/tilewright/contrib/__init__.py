"""Helpers under the names that TVM's users know: `from tilewright.contrib import utils`.

Modules are loaded when first used, as `tvm.contrib.utils.tempdir()` without an import of theirs.
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {},
    modules=(
        "cblas cc clang coreml_runtime cublas cublaslt cudnn debugger dlpack dnnl download emcc "
        "graph_executor graph_runtime libraries miopen mkl mps ndk nnpack nvcc pickle_memoize "
        "popen_pool popen_worker random rocblas rocm sparse spirv tar tedd tflite_runtime thrust "
        "utils xcode"
    ),
)
