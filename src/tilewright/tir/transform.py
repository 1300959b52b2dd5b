"""Passes under the names that TVM's users know: `tir.transform.Simplify()(mod)`.

Each name makes a pass object, which takes an IRModule or a PrimFunc; options come from the present
PassContext. lowering/pipeline.py has the order in which `lower` runs them.
"""

from __future__ import annotations

from collections.abc import Callable

from ..driver import api_passes as _api
from ..driver import other_passes as _other
from ..driver import tir_passes as _own
from ..driver.passes import PrimFuncPass as PrimFuncPass
from ..driver.passes import lowering_pass, simple_pass
from ..driver.passes import prim_func_pass as prim_func_pass
from ..lowering.check_bounds import check_bounds
from ..lowering.flatten_buffers import flatten_buffers
from ..lowering.hoist_expressions import HoistedConditionals as HoistedConditionals
from ..lowering.hoist_expressions import HoistedLetBindings as HoistedLetBindings
from ..lowering.inject_double_buffer import inject_double_buffer
from ..lowering.inject_prefetch import inject_prefetch
from ..lowering.inject_rolling_buffer import inject_rolling_buffer
from ..lowering.inject_virtual_threads import inject_virtual_threads
from ..lowering.narrow_types import narrow_types
from ..lowering.rewrite_storage import rewrite_all_storage
from ..lowering.rewrite_unsafe_select import rewrite_unsafe_select
from ..lowering.simplify_statements import simplify_statements
from ..lowering.split_choices import partition_at_choices
from ..lowering.unroll_loops import unroll_as_asked

Maker = Callable[[], PrimFuncPass]

FlattenBuffer: Maker = lowering_pass("FlattenBuffer", flatten_buffers)
InjectDoubleBuffer: Maker = lowering_pass("InjectDoubleBuffer", inject_double_buffer)
InjectVirtualThread: Maker = lowering_pass("InjectVirtualThread", inject_virtual_threads)
LoopPartition: Maker = lowering_pass("LoopPartition", partition_at_choices)
RewriteUnsafeSelect: Maker = lowering_pass("RewriteUnsafeSelect", rewrite_unsafe_select)
StorageRewrite: Maker = lowering_pass("StorageRewrite", rewrite_all_storage)
UnrollLoop: Maker = lowering_pass("UnrollLoop", unroll_as_asked)
InjectPrefetch: Maker = lowering_pass("InjectPrefetch", inject_prefetch)
InjectRollingBuffer: Maker = lowering_pass("InjectRollingBuffer", inject_rolling_buffer)
InstrumentBoundCheckers: Maker = lowering_pass("InstrumentBoundCheckers", check_bounds)
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
ForceNarrowIndexToInt32: Maker = lowering_pass("ForceNarrowIndexToInt32", narrow_types)
HoistExpression = _other.hoist_expression
HoistIfThenElse = _other.hoist_if_then_else
InjectPTXAsyncCopy: Maker = simple_pass("InjectPTXAsyncCopy", _other.copy_asynchronously)
MergeDynamicSharedMemoryAllocations: Maker = simple_pass(
    "MergeDynamicSharedMemoryAllocations", _other.merge_shared_memory
)
MergeSharedMemoryAllocations: Maker = simple_pass(
    "MergeSharedMemoryAllocations", _other.merge_shared_memory
)
RemoveAssume: Maker = simple_pass("RemoveAssume", _other.remove_assume)
RemoveStoreUndef: Maker = simple_pass("RemoveStoreUndef", _other.remove_store_undef)
UnifyThreadBinding: Maker = simple_pass("UnifyThreadBinding", _other.unify_thread_axes)
ConvertSSA = _other.convert_ssa
CombineContextCall: Maker = simple_pass("CombineContextCall", _other.combine_context_calls)
CommonSubexprElimTIR = _other.eliminate_subexpressions
InjectCopyIntrin = _other.inject_copies
LiftAttrScope = _other.lift_attributes
RemoveNoOp = _other.remove_no_op
Simplify = _other.simplify
NarrowDataType = _other.narrow_data_type
StorageFlatten = _other.flatten_storage
VectorizeLoop = _other.vectorize_loop
VerifyVTCMLimit = _other.verify_vtcm_limit
VerifySSA: Maker = simple_pass("VerifySSA", _other.check_ssa)
VerifyGPUCode = _other.verify_gpu_limits
AnnotateDeviceRegions: Maker = simple_pass("AnnotateDeviceRegions", _api.annotate_device_regions)
DecorateDeviceScope: Maker = simple_pass("DecorateDeviceScope", _api.decorate_device_scope)
MakeUnpackedAPI: Maker = simple_pass("MakeUnpackedAPI", _api.make_unpacked_api)
ApplyLayoutTransforms = _other.settled("ApplyLayoutTransforms")
BF16StorageLegalize = _other.settled("BF16StorageLegalize")
CoProcSync = _other.settled("CoProcSync")
CompactBufferAllocation = _other.settled("CompactBufferAllocation")
ConvertBlocksToOpaque = _other.settled("ConvertBlocksToOpaque")
DefaultGPUSchedule = _other.settled("DefaultGPUSchedule")
ExtractPrimFuncConstants = _api.extract_constants
FP8ComputeLegalize = _other.settled("FP8ComputeLegalize")
FP8StorageLegalize = _other.settled("FP8StorageLegalize")
InferFragment = _other.settled("InferFragment")
InjectPTXLDG32 = _other.settled("InjectPTXLDG32")
InjectPermutedLayout = _other.settled("InjectPermutedLayout")
InjectSoftwarePipeline = _other.settled("InjectSoftwarePipeline")
InlinePrivateFunctions = _other.settled("InlinePrivateFunctions")
InstallDebugSpans = _other.settled("InstallDebugSpans")
LegalizePackedCalls = _other.settled("LegalizePackedCalls")
LiftThreadBinding = _other.settled("LiftThreadBinding")
LowerAsyncDMA = _other.settled("LowerAsyncDMA")
LowerAutoCopy = _other.settled("LowerAutoCopy")
LowerCrossThreadReduction = _other.settled("LowerCrossThreadReduction")
LowerCustomDatatypes = _other.settled("LowerCustomDatatypes")
LowerDeviceKernelLaunch = _other.settled("LowerDeviceKernelLaunch")
LowerDeviceStorageAccessInfo = _other.settled("LowerDeviceStorageAccessInfo")
LowerInitBlock = _other.settled("LowerInitBlock")
LowerMatchBuffer = _other.settled("LowerMatchBuffer")
LowerOpaqueBlock = _other.settled("LowerOpaqueBlock")
LowerTVMBuiltin = _other.settled("LowerTVMBuiltin")
MakePackedAPI = _other.settled("MakePackedAPI")
ManifestSharedMemoryLocalStage = _other.settled("ManifestSharedMemoryLocalStage")
PlanAndUpdateBufferAllocationLocation = _other.settled("PlanAndUpdateBufferAllocationLocation")
PointerValueTypeRewrite = _other.settled("PointerValueTypeRewrite")
ReduceBranchingThroughOvercompute = _other.settled("ReduceBranchingThroughOvercompute")
RemoveWeightLayoutRewriteBlock = _other.settled("RemoveWeightLayoutRewriteBlock")
TextureFlatten = _other.settled("TextureFlatten")
TransformMmaBufferLayout = _other.settled("TransformMmaBufferLayout")
UseAssumeToReduceBranches = _other.settled("UseAssumeToReduceBranches")
BindParams = _other.refused("BindParams")
InstrumentProfileIntrinsics = _other.refused("InstrumentProfileIntrinsics")
UnifiedStaticMemoryPlanner = _other.refused("UnifiedStaticMemoryPlanner")
