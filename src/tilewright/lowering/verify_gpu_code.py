"""What kernels need of a GPU, and whether that is within limits.

`verify_gpu_code` answers users and search; `require_limits` stops a build with words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.dtype import parse
from ..base.errors import CompileError
from ..loopir import expr as E
from ..loopir import stmt as S
from ..loopir.buffer import Buffer
from ..loopir.expr import const_int
from ..loopir.hopper_calls import CLUSTER, MOST_IN_CLUSTER
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..loopir.visit import children, nodes
from ..target.target import Target
from .split_host_device import launch_extents
from .thread_loops import launch_thread_loops
from .unify_threads import is_launch
from .usage import buffer_bytes

CONSTRAINTS = (
    "max_local_memory_per_block",
    "max_shared_memory_per_block",
    "max_threads_per_block",
    "max_thread_x",
    "max_thread_y",
    "max_thread_z",
    "max_vthread",
    "max_vector_bytes",
    "max_kernels",
)
_CUDA_BLOCK = {"x": 1024, "y": 1024, "z": 64}
_CUDA_GRID = {"x": 2**31 - 1, "y": 65535, "z": 65535}
_CUDA_LOCAL = 512 * 1024  # bytes of a thread


@dataclass
class KernelUsage:
    """What one kernel asks for. `threads`: constant extents of threadIdx by "x", "y", "z";
    `local` and `shared`: buffers of these scopes; sizes that are not constant are in neither.
    `clusters`: what is said of how many blocks a cluster has.
    """

    threads: dict[str, int] = field(default_factory=dict)
    vthreads: list[int] = field(default_factory=list)
    local: dict[Buffer, int] = field(default_factory=dict)
    shared: dict[Buffer, int] = field(default_factory=dict)
    vector_bytes: int = 0
    clusters: list[Any] = field(default_factory=list)

    def see_vector(self, e: Any) -> None:
        """Note the width of an expression's value, if it is a vector."""
        t = parse(e.dtype)
        if t.lanes > 1:
            self.vector_bytes = max(self.vector_bytes, t.nbytes * t.lanes)

    @property
    def threads_per_block(self) -> int:
        total = 1
        for n in self.threads.values():
            total *= n
        return total

    @property
    def local_bytes(self) -> int:
        """Bytes of one thread."""
        return sum(self.local.values())

    @property
    def shared_bytes(self) -> int:
        """Bytes of one block."""
        return sum(self.shared.values())


def gpu_usage(func: PrimFunc) -> list[KernelUsage]:
    """The kernels of a function, before or after split_host_device, in their order."""
    kernels: list[KernelUsage] = []
    stack: list[Any] = [func.body]
    while stack:
        node = stack.pop()
        if is_launch(node):
            kernels.append(_usage(node))
        elif not isinstance(node, E.PrimExpr):  # no kernel is launched within an expression
            stack.extend(reversed(children(node)))
    return kernels


def _usage(launch: S.AttrStmt) -> KernelUsage:
    """Of a kernel; what it holds time and again counts once."""
    kernel = KernelUsage()
    for node in nodes(launch):
        count = _COUNTED.get(type(node))
        if count is not None:
            count(node, kernel)
    return kernel


def _count_attribute(node: S.AttrStmt, kernel: KernelUsage) -> None:
    if is_launch(node):
        tag, extent = node.node.thread_tag, const_int(node.value)
        if tag.startswith("threadIdx") and extent is not None:
            kernel.threads[tag[-1]] = max(extent, kernel.threads.get(tag[-1], 1))
    elif node.attr_key == "virtual_thread":
        kernel.vthreads.append(const_int(node.value) or 0)
    elif node.attr_key == CLUSTER:
        kernel.clusters.append(node.value)


def _count_buffer(node: S.Allocate, kernel: KernelUsage) -> None:
    size, scope = buffer_bytes(node.buffer), node.buffer.scope()
    if scope.startswith("shared"):
        kernel.shared[node.buffer] = size
    elif scope != "global":
        kernel.local[node.buffer] = size


def _count_loop(node: S.For, kernel: KernelUsage) -> None:
    if node.loop_var.name.endswith("vthread.s"):
        kernel.vthreads.append(const_int(node.extent) or 0)


def _count_access(node: E.BufferLoad | S.BufferStore, kernel: KernelUsage) -> None:
    kernel.see_vector(node if isinstance(node, E.BufferLoad) else node.value)
    for index in node.indices:
        if type(index) is E.Ramp and const_int(index.stride) != 1:
            kernel.see_vector(index)  # indices of gathers are vectors too


def _count_cast(node: E.Cast, kernel: KernelUsage) -> None:
    kernel.see_vector(node)


_COUNTED: dict[type, Callable[[Any, KernelUsage], None]] = {
    S.AttrStmt: _count_attribute,
    S.Allocate: _count_buffer,
    S.For: _count_loop,
    E.BufferLoad: _count_access,
    S.BufferStore: _count_access,
    E.Cast: _count_cast,
}


def verify_gpu_code(
    func: PrimFunc | IRModule, constraints: Mapping[str, Any] | None = None, **kwargs: Any
) -> bool:
    """Whether every kernel of a lowered function is within the limits that are given.

    `constraints`: numbers by name. max_local_memory_per_block (bytes of a thread's own memory, as
    in TVM), max_shared_memory_per_block (bytes), max_threads_per_block, max_thread_x, _y and _z,
    max_vthread, max_vector_bytes, max_kernels. CompileError for a name that is none of these.
    """
    limits = {k: int(v) for k, v in {**(constraints or {}), **kwargs}.items()}
    unknown = [k for k in limits if k not in CONSTRAINTS]
    if unknown:
        raise CompileError(
            f"verify_gpu_code has no constraint {', '.join(map(repr, unknown))}; it has: "
            f"{', '.join(CONSTRAINTS)}"
        )
    functions = func.functions.values() if isinstance(func, IRModule) else (func,)
    for f in functions:
        kernels = gpu_usage(launch_thread_loops(f))
        if len(kernels) > limits.get("max_kernels", len(kernels)):
            return False
        if any(_exceeds(k, limits) for k in kernels):
            return False
    return True


def _exceeds(kernel: KernelUsage, limits: Mapping[str, int]) -> bool:
    figures: list[tuple[str, Iterable[int]]] = [
        ("max_local_memory_per_block", (kernel.local_bytes,)),
        ("max_shared_memory_per_block", (kernel.shared_bytes,)),
        ("max_threads_per_block", (kernel.threads_per_block,)),
        ("max_vthread", kernel.vthreads),
        ("max_vector_bytes", (kernel.vector_bytes,)),
        *((f"max_thread_{d}", (n,)) for d, n in kernel.threads.items()),
    ]
    return any(v > limits[name] for name, values in figures if name in limits for v in values)


def require_limits(kernels: Mapping[str, PrimFunc], target: Target) -> None:
    """CompileError where a kernel needs more than its target has, even if the device at hand
    would allow it."""
    for name, kernel in kernels.items():
        extents = launch_extents(kernel.body)
        for tag, extent in extents.items():
            if tag.startswith("threadIdx") and const_int(extent) is None:
                raise CompileError(
                    f"kernel {name}: the number of threads of a block must be constant, but {tag} "
                    f"has {extent}; split the axis by a constant factor, bind its outer part to "
                    f"blockIdx.{tag[-1]} and the inner one to {tag}"
                )
            if tag.startswith("blockIdx"):
                _require_grid(name, tag[-1], const_int(extent) or 0, target)
        for usage in gpu_usage(kernel):
            _require_threads(name, usage, target)
            _require_shared(name, usage, target)
            _require_cluster(name, usage, const_int(extents.get("blockIdx.x", 1)), target)
            if target.kind.name == "cuda":
                _require_local(name, usage)
        most = target.attrs.get("max_function_args")
        if most and len(kernel.params) > int(most):
            raise CompileError(
                f"kernel {name} has {len(kernel.params)} parameters, but target {target.kind} "
                f"takes {most}; give arrays constant shapes, or split the computation into "
                "several kernels"
            )


def _require_threads(name: str, usage: KernelUsage, target: Target) -> None:
    most = int(target.attrs["max_threads_per_block"])
    shape = ", ".join(f"threadIdx.{d} = {n}" for d, n in sorted(usage.threads.items()))
    if usage.threads_per_block > most:
        raise CompileError(
            f"kernel {name} has too many threads: {usage.threads_per_block} a block ({shape}), "
            f"but target {target.kind} has at most {most} (max_threads_per_block); split the axes "
            "bound to threadIdx by smaller factors"
        )
    if target.kind.name == "cuda":
        for d, n in usage.threads.items():
            if n > _CUDA_BLOCK[d]:
                raise CompileError(
                    f"kernel {name} has too many threads along threadIdx.{d}: {n}, but target "
                    f"cuda has at most {_CUDA_BLOCK[d]}; bind the longer axis to threadIdx.x"
                )


def _require_grid(name: str, dimension: str, blocks: int, target: Target) -> None:
    kind = target.kind.name
    most = _CUDA_GRID[dimension if kind == "cuda" else "x"]  # block indices are int32 everywhere
    if blocks > most:
        raise CompileError(
            f"kernel {name} has too many blocks along blockIdx.{dimension}: {blocks}, but "
            f"{'CUDA' if kind == 'cuda' else kind} has at most {most}; bind the longest axis to "
            "blockIdx.x, or split it further"
        )


def _require_cluster(name: str, usage: KernelUsage, blocks: int | None, target: Target) -> None:
    """`blocks`: along blockIdx.x, None where that is known at the launch only."""
    sizes = {const_int(n): n for n in usage.clusters}
    for n, given in sizes.items():
        if n is None or not 1 <= n <= MOST_IN_CLUSTER:
            raise CompileError(
                f"kernel {name}: a cluster is of 1 to {MOST_IN_CLUSTER} blocks, which the pragma "
                f"cluster_dims says as a constant; got {given}"
            )
    if len(sizes) > 1:
        raise CompileError(
            f"kernel {name} has clusters of {' and of '.join(map(str, sizes.values()))} blocks; "
            "give the pragma cluster_dims one number in all of a kernel"
        )
    size = next(iter(sizes), 1) or 1
    if size > 1 and target.kind.name != "cuda":
        raise CompileError(
            f"kernel {name} has clusters of {size} blocks, which CUDA has alone, from sm_90 on; "
            f"leave out the pragma cluster_dims for target {target.kind}"
        )
    if blocks is not None and blocks % size:
        raise CompileError(
            f"kernel {name} has clusters of {size} blocks along blockIdx.x, but {blocks} blocks "
            "there, which are no whole clusters; split the axis that is bound to blockIdx.x so "
            "that its extent is a multiple, or give the pragma cluster_dims a divisor of it"
        )


def _require_local(name: str, usage: KernelUsage) -> None:
    if usage.local_bytes > _CUDA_LOCAL:
        raise CompileError(
            f"kernel {name} needs too much local memory: {usage.local_bytes} bytes a thread "
            f"({_sizes(usage.local)}), but CUDA has {_CUDA_LOCAL}; compute less at once "
            "(compute_at an inner loop), or use scope global"
        )


def _require_shared(name: str, usage: KernelUsage, target: Target) -> None:
    most = int(target.attrs["max_shared_memory_per_block"])
    if usage.shared_bytes > most:
        raise CompileError(
            f"kernel {name} needs too much shared memory: {usage.shared_bytes} bytes a block "
            f"({_sizes(usage.shared)}), but target {target.kind} has {most} "
            "(max_shared_memory_per_block); use smaller tiles, or -max_shared_memory_per_block=N "
            "where all devices in question have more"
        )


def _sizes(buffers: Mapping[Buffer, int]) -> str:
    return ", ".join(f"{b.name} {n}" for b, n in buffers.items())
