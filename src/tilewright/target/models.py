"""Targets by the names of devices: `target.arm_cpu("rasp4b")`, `target.mali()`, ..."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..base.errors import TargetError
from .target import Target

Options = str | Sequence[str] | None

_ARM = {
    "pixel2": "-model=snapdragon835 -mtriple=arm64-linux-android -mattr=+neon",
    "mate10": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "mate10pro": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "p20": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "p20pro": "-model=kirin970 -mtriple=arm64-linux-android -mattr=+neon",
    "rasp3b": "-model=bcm2837 -mtriple=armv7l-linux-gnueabihf -mattr=+neon",
    "rasp4b": "-model=bcm2711 -mtriple=armv8l-linux-gnueabihf -mattr=+neon -mcpu=cortex-a72",
    "rasp3b64": "-model=bcm2837 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "rasp4b64": "-model=bcm2711 -mtriple=aarch64-linux-gnu -mattr=+neon -mcpu=cortex-a72",
    "rk3399": "-model=rk3399 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "pynq": "-model=pynq -mtriple=armv7a-linux-eabi -mattr=+neon",
    "ultra96": "-model=ultra96 -mtriple=aarch64-linux-gnu -mattr=+neon",
    "beagleai": "-model=beagleai -mtriple=armv7a-linux-gnueabihf -mattr=+neon,+vfp4,+thumb2 "
    "-mcpu=cortex-a15",
    "stm32mp1": "-model=stm32mp1 -mtriple=armv7a-linux-gnueabihf -mattr=+neon,+vfp4,+thumb2 "
    "-mcpu=cortex-a7",
    "thunderx": "-model=thunderx -mtriple=aarch64-linux-gnu -mattr=+neon,+crc,+lse "
    "-mcpu=thunderxt88",
}
_ARM["rasp"] = _ARM["rasp3b"]
_RISCV = {
    "sifive-e31": "-mcpu=sifive-e31 -mtriple=riscv32-unknown-linux-gnu -mabi=ilp32",
    "sifive-e76": "-mcpu=sifive-e76 -mtriple=riscv32-unknown-linux-gnu -mabi=ilp32",
    "sifive-u54": "-mcpu=sifive-u54 -mtriple=riscv64-unknown-linux-gnu -mabi=lp64d",
    "sifive-u74": "-mcpu=sifive-u74 -mtriple=riscv64-unknown-linux-gnu -mabi=lp64d",
}


def _made(words: str, options: Options) -> Target:
    """The target of a text; what `options` give stands instead of what is there."""
    more = options.split() if isinstance(options, str) else list(options or ())
    named = {word.partition("=")[0]: word for word in [*words.split()[1:], *more]}
    return Target(" ".join([words.split()[0], *named.values()]))


def create(target: Any) -> Target:
    """A target of text or a dict; the older name of `Target(...)`. Raises TargetError where
    `target` is no target, as text, dict or Target, where `target` has no kind of target, or no
    attributes by name."""
    warnings.warn("tvm.target.create() is being deprecated; use Target()", stacklevel=2)
    return Target(target)


def cuda(
    model: str = "unknown", arch: str | None = None, options: Options = None, **attributes: Any
) -> Target:
    """A CUDA target; `arch` as "sm_90" (default: of the tag of that model, else "sm_75")."""
    given = _made(f"cuda -model={model}", options).export()
    return Target({**given, **({} if arch is None else {"arch": arch}), **attributes})


def opencl(model: str = "unknown", options: Options = None, **attributes: Any) -> Target:
    """An OpenCL target."""
    return Target({**_made(f"opencl -model={model}", options).export(), **attributes})


def mali(model: str = "unknown", options: Options = None, **attributes: Any) -> Target:
    """An OpenCL target for Arm's Mali GPUs (Midgard)."""
    return opencl(model, options, device="mali", **attributes)


def bifrost(model: str = "unknown", options: Options = None) -> Target:
    """An OpenCL target for Arm's Mali GPUs (Bifrost)."""
    return opencl(model, options, device="bifrost")


def adreno(
    model: str = "unknown", options: Options = None, cfg: str | None = None, backend: str = "opencl"
) -> Target:
    """An OpenCL target for Qualcomm's Adreno GPUs; of `cfg`, TVM's choice between textures and
    buffers, there are buffers alone: TargetError for "texture" and "clml", and for Vulkan."""
    if backend != "opencl" or cfg not in (None, "cl-buffer"):
        raise TargetError(
            f"adreno with backend={backend!r}, cfg={cfg!r}: code for Adreno is OpenCL's on buffers"
        )
    return opencl(model, options, device="adreno")


def intel_graphics(model: str = "unknown", options: Options = None) -> Target:
    """An OpenCL target for Intel's integrated GPUs."""
    return opencl(model, options, device="intel_graphics", thread_warp_size=16)


def rocm(model: str = "unknown", options: Options = None) -> Target:
    """A ROCm target. Nothing can be built for it; schedules may be chosen by it."""
    return _made(f"rocm -model={model}", options)


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """An ARM CPU by the name of a board or phone; others are told by `options`, as
    "-mtriple=aarch64-linux-gnu -mcpu=cortex-a76"."""
    known = _ARM.get(model, f"-model={model}")
    return _made(f"llvm -keys=arm_cpu,cpu -device=arm_cpu {known}", options)


def rasp(options: Options = None) -> Target:
    """The older name of `arm_cpu("rasp3b")`."""
    warnings.warn("tvm.target.rasp() is being deprecated; use arm_cpu('rasp3b')", stacklevel=2)
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A RISC-V CPU by its name."""
    known = _RISCV.get(model, f"-model={model}")
    return _made(f"llvm -keys=arm_cpu,cpu -device=arm_cpu {known}", options)


def hexagon(cpu_ver: str = "v68", **kwargs: Any) -> Target:
    """TargetError: there is no code generator for Qualcomm's Hexagon."""
    raise TargetError(f"hexagon {cpu_ver}: there is no code generator for Hexagon; use arm_cpu()")


def stm32(series: str = "unknown", options: Options = None) -> Target:
    """TargetError: bare microcontrollers are reached by C (`tilewright compile`)."""
    raise TargetError(
        f"stm32 {series}: compile the model to C with `tilewright compile --c`, for any compiler"
    )


def vta(model: str = "unknown", options: Options = None) -> Target:
    """TargetError: there is no code generator for VTA."""
    raise TargetError("there is no code generator for the accelerator VTA")


def detect_target(dev: Any) -> Target:
    """The target of a device that is here, as `Target.from_device`."""
    return Target.from_device(dev)
