"""Default schedules for devices with kernels: CUDA and OpenCL GPUs."""

from .rules import GPU_RULES as GPU_RULES
