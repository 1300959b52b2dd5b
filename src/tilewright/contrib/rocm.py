"""`tvm.contrib.rocm`: AMD's ROCm has no code generator here; OpenCL runs on its GPUs."""

from .libraries import refusal

_INSTEAD = "build for the target 'opencl', which AMD's drivers run"

find_lld = refusal("find_lld", "ROCm", _INSTEAD)
rocm_link = refusal("rocm_link", "ROCm", _INSTEAD)
find_rocm_path = refusal("find_rocm_path", "ROCm", _INSTEAD)
get_rocm_arch = refusal("get_rocm_arch", "ROCm", _INSTEAD)


def have_matrixcore(compute_version: object = None) -> bool:
    """Whether matrix cores of AMD's can be used: they cannot."""
    return False
