"""tilewright: a tensor compiler in Python.

Say what to compute with `te`, how with a schedule, and get fast code: see docs/ and README.md.
Names resolve when first used, so that `import tilewright` stays quick.
"""

from .base.face import face

__version__ = "0.1.0"

__getattr__, __dir__ = face(
    __name__,
    {
        "driver.build_module": "build",
        "driver.lower": "lower",
        "schedule.api": "create_schedule",
        "target.target": "Target",
        "loopir.module": "IRModule",
        "loopir.expr": "convert const",
        "rt.packed": "register_func get_global_func",
        "rt.values": "String DataTypeCode gpu cl mtl vpi ext_dev hexagon webgpu",
        "rt.module": "PackedFunc",
        "rt.threads": "num_threads",
        "driver.saved": "save_json load_json",
        "_ffi.registry": "register_object register_extension",
        "rt.device": "cpu cuda opencl rocm metal vulkan simt device Device",
        "interp.simt": "register_simt SimtError",
        "base.dtype": "DataType",
        "loopir.node": "Object",
        "rt.array": "NDArray",
        "graph.compile_model": "compile",
        "graph.torch.export": "from_torch",
        "rt.network": "load_network",
        "base.errors": "TilewrightError ScheduleError CompileError",
        "error": "TVMError",
        "ir": "container",
    },
    modules=(
        "arith auto_scheduler autotvm contrib _ffi driver error graph interp instrument ir nd "
        "report rpc runtime script support target te testing tir topi transform"
    ),
)
