"""What an OpenCL device says of itself."""

from __future__ import annotations

import re
from typing import Any

from .base import Limits

_SUBGROUPS = ("cl_khr_subgroups", "cl_intel_subgroups")


def device_limits(cl: Any, device: Any) -> Limits:
    """Facts about a `pyopencl.Device`; properties that a driver refuses count as not said."""

    def ask(name: str, otherwise: Any) -> Any:
        try:
            return getattr(device, name)
        except (cl.Error, AttributeError):
            return otherwise

    extensions = frozenset(str(device.extensions).split())
    sizes = [int(s) for s in device.max_work_item_sizes][:3]
    x, y, z = sizes + [1] * (3 - len(sizes))
    version = re.search(r"\d+\.\d+", str(device.version))
    lanes = int(ask("native_vector_width_float", 0) or ask("preferred_vector_width_float", 4) or 4)
    return Limits(
        device_name=str(device.name).strip(),
        max_threads_per_block=int(device.max_work_group_size),
        max_thread_dimensions=(x, y, z),
        warp_size=_warp_size(ask, extensions),
        max_shared_memory_per_block=int(device.local_mem_size),
        max_grid_dimensions=(2**31 - 1,) * 3,
        multi_processor_count=int(device.max_compute_units),
        max_clock_rate=int(ask("max_clock_frequency", 0)) * 1000,
        compute_version=version.group() if version else "",
        l2_cache_size_bytes=int(ask("global_mem_cache_size", 0)),
        total_global_memory=int(device.global_mem_size),
        max_allocation=int(device.max_mem_alloc_size),
        api_version=str(ask("opencl_c_version", "")).strip(),
        driver_version=str(device.driver_version).strip(),
        platform=f"{device.platform.name} {device.platform.version}",
        has_fp16="cl_khr_fp16" in extensions,
        has_fp64="cl_khr_fp64" in extensions or bool(ask("double_fp_config", 0)),
        has_subgroups=any(e in extensions for e in _SUBGROUPS),
        vector_bytes=4 * lanes,
        unified_memory=bool(ask("host_unified_memory", False)),
        extensions=extensions,
    )


def _warp_size(ask: Any, extensions: frozenset[str]) -> int:
    """Threads that run in lock step, where the vendor says; 1 else."""
    if "cl_nv_device_attribute_query" in extensions:
        return int(ask("warp_size_nv", 1))
    if "cl_amd_device_attribute_query" in extensions:
        return int(ask("wavefront_width_amd", 1))
    return 1
