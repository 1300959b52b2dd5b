"""The 164 columns of a feature row, by name and place (those of TVM's per-store features)."""

from __future__ import annotations

OPERATIONS = (
    "float_mad", "float_addsub", "float_mul", "float_divmod", "float_cmp", "float_math_func",
    "float_other_func",
    "int_mad", "int_addsub", "int_mul", "int_divmod", "int_cmp", "int_math_func",
    "int_other_func",
    "bool_op", "select_op",
)  # fmt: skip
FLOAT_OPERATIONS = 7

POSITIONS = (
    "none", "inner_spatial", "middle_spatial", "outer_spatial",
    "inner_reduce", "middle_reduce", "outer_reduce", "mixed",
)  # fmt: skip
ANNOTATIONS = ("vec", "unroll", "parallel")
THREADS = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    "vthread",
)  # fmt: skip

BUFFERS = 5
ACCESS_KINDS = ("read", "write", "read_write")
REUSE_KINDS = ("loop", "serial", "none")
BUFFER_COLUMNS = (
    *(f"acc_{kind}" for kind in ACCESS_KINDS),
    "bytes", "unique_bytes", "lines", "unique_lines",
    *(f"reuse_{kind}" for kind in REUSE_KINDS),
    "reuse_dis_iter", "reuse_dis_bytes", "reuse_ct",
    "bytes_per_reuse", "unique_bytes_per_reuse", "lines_per_reuse", "unique_lines_per_reuse",
    "stride",
)  # fmt: skip

SAMPLES = 10
ALLOCATION = ("alloc_size", "alloc_outer_prod", "alloc_inner_prod", "alloc_prod")
OUTER = ("outer_prod", "num_loops", "auto_unroll_max_step")


def _names() -> tuple[str, ...]:
    names = list(OPERATIONS)
    for kind in ANNOTATIONS:
        names += [f"{kind}_num", f"{kind}_prod", f"{kind}_len"]
        names += [f"{kind}_type_{position}" for position in POSITIONS]
    names += ["is_gpu", *(f"{thread}_len" for thread in THREADS)]
    for k in range(BUFFERS):
        names += [f"B{k}.{name}" for name in BUFFER_COLUMNS]
    names += [f"intensity_{k}" for k in range(SAMPLES)]
    return (*names, *ALLOCATION, *OUTER)


NAMES = _names()
COUNT = len(NAMES)
PLACE = {name: k for k, name in enumerate(NAMES)}

CACHE_LINE = 64
NO_REUSE = 2.0  # what takes the place of 1 / reuse count where nothing is used again
