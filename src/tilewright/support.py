"""`tvm.support`: what this installation is made of."""

from __future__ import annotations


def libinfo() -> dict[str, str]:
    """Versions and switches, by TVM's names."""
    import llvmlite.binding as llvm

    from . import __version__

    return {
        "GIT_COMMIT_HASH": "NOT-FOUND",
        "LLVM_VERSION": ".".join(map(str, llvm.llvm_version_info)),
        "USE_LLVM": "ON",
        "USE_OPENMP": "OFF",
        "USE_CUDA": "OFF",
        "USE_OPENCL": "OFF",
        "USE_BLAS": "none",
        "TILEWRIGHT_VERSION": __version__,
    }


def describe() -> None:
    """Print `libinfo` with the version of Python."""
    import platform

    print(f"Python {platform.python_version()}, {platform.platform()}")
    for key, value in libinfo().items():
        print(f"{key}: {value}")
