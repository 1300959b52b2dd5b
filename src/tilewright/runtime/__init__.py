"""Running compiled code, under the name that users know: `tilewright.runtime`."""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "loopir.containers": "convert convert_to_object=convert",
        "loopir.expr": "const",
        "base.dtype": "DataType",
        "loopir.node": "Object",
        "loopir.object_path": "ObjectPath",
        "rt.array": "NDArray",
        "rt.values": (
            "String ShapeTuple DataTypeCode save_param_dict load_param_dict "
            "save_param_dict_to_file load_param_dict_from_file system_lib load_static_library "
            "gpu cl mtl vpi ext_dev hexagon webgpu"
        ),
        "loopir.sequences": "Array Map",
        "rt.device": "Device cpu cuda device enabled metal opencl rocm simt stream vulkan",
        "rt.device_array": "DeviceArray",
        "rt.drivers.base": "Event Stream",
        "rt.function": "Function",
        "rt.load": "load_module",
        "rt.module": "Module PackedFunc",
        "rt.packed": "get_global_func list_global_func_names register_func remove_global_func",
        "rt.signature": "FunctionInfo",
        "rt.threads": "num_threads set_num_threads",
        "rt.timing": "BenchmarkResult",
    },
    modules="container module ndarray object packed_func params",
)
