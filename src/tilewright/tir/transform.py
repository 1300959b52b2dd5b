"""Passes under the names that TVM's users know: `tir.transform.Simplify()(mod)`.

Each name makes a pass object, which takes an IRModule or a PrimFunc; options come from the present
PassContext. lowering/pipeline.py has the order in which `lower` runs them.
"""

from __future__ import annotations

from collections.abc import Callable

from ..driver import tir_passes as _own
from ..driver.passes import PrimFuncPass as PrimFuncPass
from ..driver.passes import lowering_pass, simple_pass
from ..driver.passes import prim_func_pass as prim_func_pass
from ..lowering.check_bounds import check_bounds
from ..lowering.eliminate_common import eliminate_common
from ..lowering.flatten_buffers import flatten_buffers
from ..lowering.hoist_conditions import hoist_conditions
from ..lowering.inject_double_buffer import inject_double_buffer
from ..lowering.inject_prefetch import inject_prefetch
from ..lowering.inject_rolling_buffer import inject_rolling_buffer
from ..lowering.inject_virtual_threads import inject_virtual_threads
from ..lowering.narrow_types import narrow_types
from ..lowering.partition_loops import partition_loops
from ..lowering.remove_no_ops import remove_no_ops
from ..lowering.rewrite_storage import rewrite_storage
from ..lowering.rewrite_unsafe_select import rewrite_unsafe_select
from ..lowering.simplify_statements import simplify_statements
from ..lowering.unroll_loops import unroll_loops
from ..lowering.vectorize_loops import vectorize_loops

Maker = Callable[..., PrimFuncPass]

CommonSubexprElimTIR: Maker = lowering_pass("CommonSubexprElimTIR", eliminate_common)
FlattenBuffer: Maker = lowering_pass("FlattenBuffer", flatten_buffers)
HoistIfThenElse: Maker = lowering_pass("HoistIfThenElse", hoist_conditions)
InjectDoubleBuffer: Maker = lowering_pass("InjectDoubleBuffer", inject_double_buffer)
InjectVirtualThread: Maker = lowering_pass("InjectVirtualThread", inject_virtual_threads)
LoopPartition: Maker = lowering_pass("LoopPartition", partition_loops)
RemoveNoOp: Maker = lowering_pass("RemoveNoOp", remove_no_ops)
RewriteUnsafeSelect: Maker = lowering_pass("RewriteUnsafeSelect", rewrite_unsafe_select)
Simplify: Maker = lowering_pass("Simplify", simplify_statements)
StorageRewrite: Maker = lowering_pass("StorageRewrite", rewrite_storage)
UnrollLoop: Maker = lowering_pass("UnrollLoop", unroll_loops)
VectorizeLoop: Maker = lowering_pass("VectorizeLoop", vectorize_loops)
StorageFlatten: Maker = lowering_pass("StorageFlatten", flatten_buffers)
InjectPrefetch: Maker = lowering_pass("InjectPrefetch", inject_prefetch)
InjectRollingBuffer: Maker = lowering_pass("InjectRollingBuffer", inject_rolling_buffer)
InstrumentBoundCheckers: Maker = lowering_pass("InstrumentBoundCheckers", check_bounds)
NarrowDataType: Maker = lowering_pass("NarrowDataType", narrow_types)
RenormalizeSplitPattern: Maker = lowering_pass("RenormalizeSplitPattern", simplify_statements)
BF16ComputeLegalize: Maker = simple_pass("BF16ComputeLegalize", _own.legalize_narrow_floats)
ConvertForLoopsToSerial: Maker = simple_pass("ConvertForLoopsToSerial", _own.make_loops_serial)
LowerIntrin: Maker = simple_pass("LowerIntrin", _own.lower_intrin)
SkipAssert: Maker = simple_pass("SkipAssert", _own.skip_asserts)
LowerThreadAllreduce: Maker = simple_pass("LowerThreadAllreduce", _own.reduce_across_threads)
LowerWarpMemory: Maker = simple_pass("LowerWarpMemory", _own.share_within_warps)
VerifyMemory: Maker = simple_pass("VerifyMemory", _own.check_memory)
ThreadSync = _own.thread_sync
AnnotateEntryFunc = _own.annotate_entry_func
Apply = _own.apply_to_functions
BindTarget = _own.bind_target
Filter = _own.filter_functions
SplitHostDevice = _own.split_functions
