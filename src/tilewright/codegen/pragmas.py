"""Which pragma someone meant who wrote one that no generator knows."""

from __future__ import annotations

from difflib import get_close_matches

_NAMES = (
    "unroll vectorize parallel auto_unroll_max_step unroll_explicit unroll_factor import_c "
    "import_llvm loop_partition_hint parallel_launch_point parallel_stride_pattern "
    "parallel_barrier_when_finish parallel_there_and_back parallel_rows debug_skip_region "
    "tree_reduce launch_bounds_min_blocks cluster_dims persistent_blocks "
    "layout_transform tensor_core prefetch_evenly skip_zeros"
)
_PREFIX = "pragma_"


def meant(key: str) -> str:
    """What to add to an error about the attribute `key`; nothing of other attributes."""
    if not key.startswith(_PREFIX):
        return ""
    names, name = _NAMES.split(), key.removeprefix(_PREFIX)
    if name in names:
        return f"; the pragma {name!r} is for other targets"
    near = get_close_matches(name, names, 1)
    return f"; did you mean the pragma {near[0]!r}?" if near else f"; pragmas: {', '.join(names)}"
