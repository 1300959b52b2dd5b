"""The kinds of target, and the attributes that each one takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..base.errors import TargetError


@dataclass(frozen=True)
class Attribute:
    """One attribute of a target kind. `type` is str, int, bool or list (a comma-separated one);
    an int is one of `choices`, or at least `least`; a str matches `form`, said as `example`."""

    name: str
    type: type
    doc: str
    default: Any = None
    least: int = 0
    choices: tuple[int, ...] = ()
    form: str = ""
    example: str = ""


@dataclass(frozen=True)
class TargetKind:
    """A family of targets that share a code generator.

    `device_type` is DLPack's number of the device that runs the code, `keys` what schedules are
    chosen by.
    """

    name: str
    device_type: int
    keys: tuple[str, ...]
    attributes: dict[str, Attribute]
    generates: bool = True
    """Whether code can be generated: other kinds choose schedules by their keys, no more."""

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TargetKind) and other.name == self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return find_kind, (self.name,)

    @property
    def options(self) -> dict[str, str]:
        """The names of the attributes, each with the name of its type."""
        return {name: a.type.__name__ for name, a in self.attributes.items()}

    @staticmethod
    def options_from_name(kind_name: str) -> dict[str, str]:
        """The `options` of the kind of that name. Raises TargetError where `kind_name` is no kind
        of target."""
        return find_kind(kind_name).options

    def find_attribute(self, name: str) -> Attribute:
        """The attribute of that name ("-" and "_" are the same); TargetError lists what exists."""
        found = self.attributes.get(name) or self.attributes.get(_other_spelling(self, name))
        if found is None:
            raise TargetError(
                f"target kind {self.name!r} has no attribute {name!r}; "
                f"it has: {', '.join(sorted(self.attributes))}"
            )
        return found


def _other_spelling(kind: TargetKind, name: str) -> str:
    plain = name.replace("-", "_")
    return next((k for k in kind.attributes if k.replace("-", "_") == plain), "")


_COMMON = (
    Attribute("keys", list, "what schedules are chosen by, most specific first"),
    Attribute("device", str, "family of devices, such as arm_cpu or mali; becomes the first key"),
    Attribute("model", str, "model of the device, for records of measurements"),
    Attribute("libs", list, "external libraries that the code may call"),
    Attribute("num-cores", int, "CPU cores to plan for (default: those of this machine)", least=1),
)
_ARCH = r"sm_\d{2,3}[af]?"
_WARPS = (1, 2, 4, 8, 16, 32, 64, 128)
_WIDTHS = (64, 128, 256, 512, 1024, 2048)
_CPU = (
    Attribute("mcpu", str, "CPU by LLVM's name; without it, or as 'native', the host's"),
    Attribute("mtriple", str, "LLVM target triple (default: the host's)"),
    Attribute("mattr", list, "features to switch on or off: +avx2,-avx512f"),
    Attribute(
        "jit",
        str,
        "how TVM runs code at once; here there is one way",
        form="mcjit|orcjit",
        example="mcjit",
    ),
    Attribute(
        "mfloat-abi", str, "how floats are passed on Arm", form="soft|softfp|hard", example="hard"
    ),
    Attribute("mabi", str, "name of the ABI, for example lp64d on RISC-V"),
    Attribute("vector-width", int, "vector width to generate code for, in bits", choices=_WIDTHS),
    Attribute("l1_cache_size_bytes", int, "level 1 data cache of a core"),
    Attribute("l2_cache_size_bytes", int, "level 2 cache of a core"),
    Attribute("l3_cache_size_bytes", int, "level 3 cache, all cores together"),
)


def _gpu(threads: int, warp: int, shared: int) -> tuple[Attribute, ...]:
    return (
        Attribute("max_num_threads", int, "most threads of a block to use", threads, least=1),
        Attribute("max_threads_per_block", int, "most threads of a block", threads, least=1),
        Attribute("thread_warp_size", int, "threads in lock step", warp, choices=_WARPS),
        Attribute("max_shared_memory_per_block", int, "bytes of shared memory of a block", shared),
        Attribute("registers_per_block", int, "32-bit registers of a block", 65536),
        Attribute("l2_cache_size_bytes", int, "level 2 cache", 0),
    )


def _kind(name: str, device: int, keys: tuple[str, ...], *groups: Attribute) -> TargetKind:
    return TargetKind(name, device, keys, {a.name: a for a in (*_COMMON, *groups)})


_VULKAN = tuple(
    Attribute(f"supports_{fact}", bool, f"whether the device says so of {fact}")
    for fact in ("float16", "float64", "int8", "int16", "int64", "8bit_buffer", "16bit_buffer")
)


def _foreign(name: str, device: int, keys: tuple[str, ...], *groups: Attribute) -> TargetKind:
    """A kind for which no code is generated."""
    given = {a.name: a for a in (*_COMMON, *groups)}
    for known in ("mcpu", "mtriple", "device_name", "device_type", "driver_name"):
        given.setdefault(known, Attribute(known, str, "as TVM's users give it"))
    return TargetKind(name, device, keys, given, generates=False)


KINDS: dict[str, TargetKind] = {
    kind.name: kind
    for kind in (
        _kind("llvm", 1, ("cpu",), *_CPU),
        _kind("c", 1, ("cpu",), *_CPU),
        _kind(
            "cuda",
            2,
            ("cuda", "gpu"),
            Attribute("arch", str, "compute capability", "sm_75", form=_ARCH, example="sm_90"),
            Attribute(
                "multi_processor_count",
                int,
                "multiprocessors to plan for (default: those of a device of the architecture)",
                least=1,
            ),
            *_gpu(1024, 32, 49152),
        ),
        _kind(
            "opencl",
            4,
            ("opencl", "gpu"),
            Attribute("max_function_args", int, "most arguments of a kernel", 128),
            Attribute("fp16", bool, "whether the device computes in float16 (cl_khr_fp16)"),
            Attribute("subgroups", bool, "whether threads of a sub-group exchange values directly"),
            Attribute("vector_bytes", int, "bytes of a vector register", 16, least=4),
            *_gpu(256, 1, 16384),
        ),
        _foreign("rocm", 10, ("rocm", "gpu"), *_gpu(256, 64, 65536)),
        _foreign("metal", 8, ("metal", "gpu"), *_gpu(256, 16, 32768)),
        _foreign("vulkan", 7, ("vulkan", "gpu"), *_VULKAN, *_gpu(256, 1, 32768)),
        _foreign("webgpu", 15, ("webgpu", "gpu"), *_gpu(256, 1, 32768)),
        _foreign("nvptx", 2, ("cuda", "gpu"), *_gpu(1024, 32, 49152)),
        _foreign("hexagon", 16, ("hexagon", "cpu")),
        _foreign("ext_dev", 12, ("ext_dev",)),
        _foreign("hybrid", 1, ("hybrid",)),
        _foreign("stackvm", 1, ("stackvm",)),
    )
}


# What -device=NAME says beside the name, unless it is given. Mali (Midgard; its limits are those of
# TVM's auto-scheduler): every thread has a program counter of its own, and 128-bit vectors.
# Adreno: 32 KiB of local memory; waves differ in size from model to model, so none is assumed.
PRESETS: dict[tuple[str, str], dict[str, Any]] = {
    ("opencl", "mali"): {
        "max_num_threads": 256,
        "max_threads_per_block": 256,
        "thread_warp_size": 1,
        "max_shared_memory_per_block": 32768,
        "fp16": True,
        "vector_bytes": 16,
    },
    ("opencl", "adreno"): {
        "max_num_threads": 256,
        "max_threads_per_block": 256,
        "thread_warp_size": 1,
        "max_shared_memory_per_block": 32768,
        "fp16": True,
        "vector_bytes": 16,
    },
}
_SAME = ("max_num_threads", "max_threads_per_block")

# Bytes of shared memory that a launch may ask for, where that is more than the 48 KiB of arrays
# with sizes (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
_OPT_IN = {
    **dict.fromkeys(("75",), 64 << 10),
    **dict.fromkeys(("80", "87"), 163 << 10),
    **dict.fromkeys(("86", "88", "89"), 99 << 10),
    **dict.fromkeys(("90", "100", "101", "103", "110"), 227 << 10),
    **dict.fromkeys(("120", "121"), 99 << 10),
}

PROCESSORS = {"75": 40, "80": 108, "86": 82, "89": 128, "90": 132}
"""Multiprocessors by compute capability, of the devices that `report.roofline` names."""


def complete(kind: TargetKind, given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes given, with what the preset of the device and the kind have for the others.
    Of the two limits of a block's threads, one that is given alone holds for both."""
    known = {a.name: a.default for a in kind.attributes.values() if a.default is not None}
    if kind.name == "cuda":
        number = "".join(c for c in str(given.get("arch", known["arch"])) if c.isdigit())
        older = [n for n in PROCESSORS if number and int(n) <= int(number)]
        known["multi_processor_count"] = PROCESSORS[max(older, key=int, default=min(PROCESSORS))]
        if "arch" in given:
            shared = "max_shared_memory_per_block"
            known[shared] = _OPT_IN.get(number, known[shared])
    known.update(PRESETS.get((kind.name, str(given.get("device", ""))), {}))
    limits = [given[name] for name in _SAME if name in given]
    if len(limits) == 1:
        known.update(dict.fromkeys(_SAME, limits[0]))
    return {**known, **given}


_MEANT = {
    **dict.fromkeys(("cpu", "host", "native", "x86", "x86_64", "arm", "aarch64"), "llvm"),
    **dict.fromkeys(("gpu", "nvidia"), "cuda"),
}  # what people write for a kind


def find_kind(name: str) -> TargetKind:
    """The kind of that name; TargetError lists the known ones."""
    kind = KINDS.get(name)
    if kind is None:
        has = ", ".join(sorted(k for k, known in KINDS.items() if known.generates))
        meant = _MEANT.get(name.lower()) or next(iter(get_close_matches(name, KINDS, 1)), None)
        hint = f" (did you mean {meant!r}?)" if meant else ""
        raise TargetError(f"unknown target kind {name!r}{hint}; known kinds: {has}")
    return kind
