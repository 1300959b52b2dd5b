"""Parameters of a search, with what TVM's users know as their names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import TilewrightError
from .sketch.tiling import CPU_STRUCTURE, GPU_STRUCTURE, check_structure

TVMS: dict[str, Any] = {
    "eps_greedy": 0.05,
    "retry_search_one_round_on_empty": 1,
    "sample_init_min_population": 50,
    "sample_init_use_measured_ratio": 0.2,
    "evolutionary_search_population": 2048,
    "evolutionary_search_num_iters": 4,
    "evolutionary_search_mutation_prob": 0.85,
    "cpu_multi_level_tiling_structure": CPU_STRUCTURE,
    "gpu_multi_level_tiling_structure": GPU_STRUCTURE,
    "max_innermost_split_factor": 64,
    "max_vectorize_size": 16,
    "disable_change_compute_location": 0,
}
"""Those that TVM has."""

DEFAULTS: dict[str, Any] = {
    **TVMS,
    "algorithm_error": 0.0,
    "default_schedule_first": 1,
    "pack_operands": 1,
    "split_reduction": 1,
    "sketches": 1,
    "rule_pragmas": 1,
}
_LEAST = {
    "sample_init_min_population": 1, "evolutionary_search_population": 1,
    "max_innermost_split_factor": 1, "max_vectorize_size": 1,
}  # fmt: skip


def checked(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """DEFAULTS with changes; TilewrightError for names that there are not and for values that make
    no sense: shares from 0 to 1, whole numbers, structures of S and R; for nothing to search."""
    changes = dict(params or {})
    unknown = set(changes) - set(DEFAULTS)
    if unknown:
        raise TilewrightError(
            f"SketchPolicy has no parameters {sorted(unknown)}; it has {sorted(DEFAULTS)}"
        )
    for name, value in changes.items():
        default = DEFAULTS[name]
        if isinstance(default, str):
            check_structure(value, gpu=name.startswith("gpu"))
        elif isinstance(default, float):
            if not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise TilewrightError(f"SketchPolicy: {name} is a share from 0 to 1, got {value!r}")
        elif not isinstance(value, int) or value < _LEAST.get(name, 0):
            least = _LEAST.get(name, 0)
            raise TilewrightError(
                f"SketchPolicy: {name} is a whole number of at least {least}, got {value!r}"
            )
    chosen = {**DEFAULTS, **changes}
    if not chosen["sketches"] and not chosen["default_schedule_first"]:
        raise TilewrightError(
            "SketchPolicy: sketches=0 leaves the relatives of the default schedule, and "
            "default_schedule_first=0 leaves those out: there is nothing to search"
        )
    return chosen
