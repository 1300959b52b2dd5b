"""Arrays and devices, under the name that users know: `tilewright.nd`."""

from .base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "rt.array": "NDArray array empty from_dlpack pinned_empty",
        "rt.values": "gpu cl mtl vpi ext_dev hexagon webgpu",
        "rt.device": "Device cpu cuda device metal opencl rocm simt vulkan",
    },
)
