"""Networks as libraries of C: a shared object with weights inside, and a header, without Python.

The functions around a network (`NAME_run` and what tells shapes) are LLVM IR written here, compiled
for the baseline CPU of the network's machine and linked with its kernels by rt/link.py. Threads of
parallel loops are the library's own (`own`: the pool of rt/pool), the caller's, through a function
that he sets (`caller`), or none (`none`: loops run on the calling thread).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..base.aligned import ALIGNMENT
from ..base.errors import TilewrightError
from ..rt import native, network_file, pool
from ..rt.files import as_path, replacing, write_atomically
from ..rt.image import Bytes
from ..rt.join import join_objects
from ..rt.link import link_shared
from ..rt.network import Executable
from ..rt.network_code import ObjectCode
from ..rt.plan import ENTRY, Tensor

THREADS = ("own", "caller", "none")
_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", "float16": "uint16_t",
    "bfloat16": "uint16_t",
}  # fmt: skip

_COMMON_IR = """target triple = "{triple}"
@tw_num_threads = hidden global i32 1
@kept = internal global ptr null
@tw_workspace = hidden global ptr @kept
@own = internal global ptr null
@weights = external hidden constant [{weights} x i8]
declare i32 @{entry}(ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
define i64 @{name}_workspace_bytes() {{
  ret i64 {workspace}
}}
define i32 @{name}_run_in(ptr %workspace, {parameters}) {{
{checks}
  br i1 %bad, label %refused, label %good
refused:
  ret i32 -2
good:
  %slots = alloca [{count} x ptr], align 8
{stores}
  %code = call i32 @{entry}(ptr %slots)
  ret i32 %code
}}
define i32 @{name}_run({parameters}) {{
  %old = atomicrmw xchg ptr @own, ptr null acq_rel
  %none = icmp eq ptr %old, null
  br i1 %none, label %make, label %run
make:
  %new = call ptr @aligned_alloc(i64 64, i64 {workspace})
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %run
nothing:
  ret i32 -1
run:
  %block = phi ptr [ %old, %0 ], [ %new, %make ]
  %code = call i32 @{name}_run_in(ptr %block, {arguments})
  %other = atomicrmw xchg ptr @own, ptr %block acq_rel
  call void @free(ptr %other)
  ret i32 %code
}}
"""
_SHAPES_IR = """
define i32 @{name}_{what}_count() {{
  ret i32 {count}
}}
define ptr @{name}_{what}_shape(i32 %k, ptr %rank) {{
  %fits = icmp ult i32 %k, {count}
  br i1 %fits, label %found, label %none
none:
  ret ptr null
found:
  %n = zext i32 %k to i64
  %rank.at = getelementptr [{count} x i32], ptr @{what}.ranks, i64 0, i64 %n
  %r = load i32, ptr %rank.at
  store i32 %r, ptr %rank
  %start.at = getelementptr [{count} x i64], ptr @{what}.starts, i64 0, i64 %n
  %start = load i64, ptr %start.at
  %shape = getelementptr i64, ptr @{what}.extents, i64 %start
  ret ptr %shape
}}
@{what}.ranks = internal constant [{count} x i32] [{ranks}]
@{what}.starts = internal constant [{count} x i64] [{starts}]
@{what}.extents = internal constant [{total} x i64] [{extents}]
"""
_LOOP = "ptr %task, ptr %context, i64 %steps, i32 %threads, i32 %homes, ptr %site"
_PARALLEL_IR = {
    "own": """
define hidden i32 @tw_parallel({loop}) {{
  %r = call i32 @tw_own_parallel({loop})
  ret i32 %r
}}
define void @{name}_set_threads(i32 %count) {{
  store i32 %count, ptr @tw_num_threads
  ret void
}}
define void @{name}_after_fork() {{
  call void @tw_own_reset()
  ret void
}}
""",
    "caller": """
@parallel = internal global ptr @serial
define internal i32 @serial({loop}) {{
  %r = call i32 %task(ptr %context, i64 0, i64 %steps, i32 0)
  ret i32 %r
}}
define hidden i32 @tw_parallel({loop}) {{
  %f = load ptr, ptr @parallel
  %r = call i32 %f({loop})
  ret i32 %r
}}
define void @{name}_set_parallel(ptr %f, i32 %threads) {{
  %none = icmp eq ptr %f, null
  %g = select i1 %none, ptr @serial, ptr %f
  %n = select i1 %none, i32 1, i32 %threads
  store ptr %g, ptr @parallel
  store i32 %n, ptr @tw_num_threads
  ret void
}}
""",
    "none": """
define hidden i32 @tw_parallel({loop}) {{
  %r = call i32 %task(ptr %context, i64 0, i64 %steps, i32 0)
  ret i32 %r
}}
""",
}
_EXTRA = {"own": ("set_threads", "after_fork"), "caller": ("set_parallel",), "none": ()}
_EXTRA_C = {
    "own": """
/* Threads that a call uses, 1 at first; up to 1024. */
void {name}_set_threads(int32_t count);
/* To be called in a child that was forked, before the first run there. */
void {name}_after_fork(void);
""",
    "caller": """
/* Lets `parallel` run the loops, on up to `threads` threads; NULL: the calling thread alone. It has
   to call task(context, begin, end, thread) for ranges that cover 0 to steps once, on any threads,
   at the same time only with different numbers of `thread`, each below `threads`; to return when
   all are done: 0, or what a task returned that was not 0. `homes` and `site` may be ignored. Not
   to be called while the network runs. */
typedef int32_t (*{name}_task)(void *context, int64_t begin, int64_t end, int32_t thread);
typedef int32_t (*{name}_parallel)({name}_task task, void *context, int64_t steps, int32_t threads,
                                   int32_t homes, double *site);
void {name}_set_parallel({name}_parallel parallel, int32_t threads);
""",
    "none": "",
}
_HEADER = """/* The network {title}, made by tilewright for {target}. */
#ifndef {guard}_H
#define {guard}_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

/* Inputs: {inputs}.
   Outputs: {outputs}.
   Arrays are compact, in row-major order; float16 and bfloat16 as their bits. 0, or the number of
   an error: -1 where there is no memory, -2 where a pointer is NULL or the workspace not aligned.
   Any number of threads may call at once. */
int32_t {name}_run({parameters});
/* The same with the caller's memory for intermediate values, {name}_workspace_bytes() bytes at a
   multiple of 64 that no other call uses meanwhile. */
int32_t {name}_run_in(void *workspace, {parameters});
int64_t {name}_workspace_bytes(void);
/* The extents of input or output number k, and how many; NULL where there is none. */
int32_t {name}_input_count(void);
int32_t {name}_output_count(void);
const int64_t *{name}_input_shape(int32_t k, int32_t *rank);
const int64_t *{name}_output_shape(int32_t k, int32_t *rank);
{extra}
#ifdef __cplusplus
}}
#endif
#endif
"""


def write_library(
    net: Executable, path: str | os.PathLike[str], name: str = "", threads: str = "own"
) -> tuple[Path, Path]:
    """Write a network as a shared object, and beside it its header; returns both paths. A path that
    ends in .o becomes a relocatable object.

    name: what its functions' names begin with (default: the file's, without "lib"). threads: "own",
    "caller" or "none". TilewrightError where the name is no name of C, or a kernel calls Python.
    """
    path = as_path(path)
    name = function_name(path, name)
    if threads not in THREADS:
        raise TilewrightError(f"threads are one of {', '.join(THREADS)}, not {threads!r}")
    if net.sizes is not None:
        raise TilewrightError(
            f"{net.name}: libraries hold networks of fixed sizes (shapes={{...}})"
        )
    code = net.code
    if not isinstance(code, ObjectCode):
        raise TilewrightError("a saved network is linked already: compile the model to a library")
    for what, obj in code.objects().items():
        if "tw_call_packed" in native.undefined_symbols(obj):
            raise TilewrightError(f"{what} calls a Python function, which a library of C has not")
    objects = {**code.objects(), "the library": native.compile_ir(
        library_ir(net, name, threads), net.target.triple
    )}  # fmt: skip
    functions = "run run_in workspace_bytes input_count output_count input_shape output_shape"
    exports = [f"{name}_{f}" for f in (*functions.split(), *_EXTRA[threads])]
    data = {"weights": _weights(net)}
    if path.suffix == ".o":
        parts: Sequence[Bytes] = [join_objects(objects, exports, data)]
    else:
        parts = link_shared(objects, exports, path.name, data)
    header = path.with_suffix(".h")
    with replacing(path) as temporary, open(temporary, "wb") as out:
        for part in parts:
            out.write(part)
    write_atomically(header, header_text(net, name, threads).encode())
    return path, header


def function_name(path: str | os.PathLike[str], name: str = "") -> str:
    """What names of a library's functions begin with: `name`, or what its file's name gives.

    TilewrightError where that is no name of C.
    """
    file = as_path(path).name
    found = name or re.sub(r"\W", "_", re.sub(r"^lib", "", file.partition(".")[0]))
    if re.fullmatch(r"[A-Za-z_]\w*", found, re.ASCII):
        return found
    if name:
        whose, remedy = "", "give another name"
    else:
        whose = f" (it comes from the name of the file, {file})"
        remedy = "give a name, on the command line by --name"
    raise TilewrightError(
        f"{found!r} cannot begin the names of C functions{whose}: they have letters from a to z, "
        f"digits and _, and no digit first; {remedy}"
    )


def _weights(net: Executable) -> bytearray:
    places = network_file.places_of(net.constants)
    out = bytearray(max(places[-1], 1))
    for array, at in zip(net.constants, places):
        out[at : at + array.nbytes] = array.tobytes()
    return out


def library_ir(net: Executable, name: str, threads: str) -> str:
    """LLVM IR of the functions around a network."""
    places = network_file.places_of(net.constants)
    arrays = [f"%a{k}" for k in range(len(net.inputs) + len(net.outputs))]
    stores = [f"  store ptr {a}, ptr %s{k}" for k, a in enumerate(arrays)]
    for k, at in enumerate(places[:-1], len(arrays)):
        stores.append(f"  store ptr getelementptr (i8, ptr @weights, i64 {at}), ptr %s{k}")
    count = len(arrays) + len(net.constants) + 1
    stores.append(f"  store ptr %workspace, ptr %s{count - 1}")
    slots = [f"  %s{k} = getelementptr ptr, ptr %slots, i64 {k}" for k in range(count)]
    triple = net.target.triple
    listed = ", ".join(f"ptr {a}" for a in arrays)
    text = _COMMON_IR.format(
        triple=triple,
        weights=max(places[-1], 1),
        entry=ENTRY,
        name=name,
        workspace=-(-max(net.workspace_bytes, 1) // ALIGNMENT) * ALIGNMENT,
        parameters=listed,
        arguments=listed,
        count=count,
        stores="\n".join([*slots, *stores]),
        checks=_checks_ir([*net.inputs, *net.outputs]),
    )
    for what, values in (("input", net.inputs), ("output", net.outputs)):
        text += _shapes_ir(name, what, values)
    text += _PARALLEL_IR[threads].format(name=name, loop=_LOOP)
    if threads == "own":
        text += pool.pool_ir(triple.partition("-")[0], "Linux", own=True)
    return text


def _checks_ir(arrays: Sequence[Tensor]) -> str:
    """%bad: an array that has elements is at NULL, or the workspace not where it must be."""
    lines = [
        "  %room = ptrtoint ptr %workspace to i64",
        f"  %odd = urem i64 %room, {ALIGNMENT}",
        "  %none = icmp eq ptr %workspace, null",
        "  %crooked = icmp ne i64 %odd, 0",
        "  %bad.0 = or i1 %none, %crooked",
    ]
    for k, v in enumerate(arrays):
        refused = "null" if v.nbytes else "inttoptr (i64 1 to ptr)"
        lines.append(f"  %null.{k} = icmp eq ptr %a{k}, {refused}")
        lines.append(f"  %bad.{k + 1} = or i1 %bad.{k}, %null.{k}")
    return "\n".join([*lines, f"  %bad = or i1 %bad.{len(arrays)}, false"])


def _shapes_ir(name: str, what: str, values: Sequence[Tensor]) -> str:
    extents = [d for v in values for d in v.shape] or [0]
    starts = [sum(len(v.shape) for v in values[:k]) for k in range(len(values))]
    return _SHAPES_IR.format(
        name=name,
        what=what,
        count=len(values),
        ranks=", ".join(f"i32 {len(v.shape)}" for v in values),
        starts=", ".join(f"i64 {s}" for s in starts),
        total=len(extents),
        extents=", ".join(f"i64 {d}" for d in extents),
    )


def _c_type(dtype: str) -> str:
    return _TYPES.get(dtype, f"{dtype}_t")


def header_text(net: Executable, name: str, threads: str) -> str:
    """The text of the header."""

    def listed(values: Sequence[Tensor]) -> str:
        return ", ".join(map(str, values)).replace("*/", "* /")

    parameters = [f"const {_c_type(v.dtype)} *in{k}" for k, v in enumerate(net.inputs)]
    parameters += [f"{_c_type(v.dtype)} *out{k}" for k, v in enumerate(net.outputs)]
    return _HEADER.format(
        title=net.name.replace("*/", "* /"),
        target=str(net.target),
        guard=name.upper(),
        name=name,
        inputs=listed(net.inputs),
        outputs=listed(net.outputs),
        parameters=", ".join(parameters),
        extra=_EXTRA_C[threads].format(name=name),
    )
