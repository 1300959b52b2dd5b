"""`Target`: what code is generated for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ..base.errors import TargetError
from . import host as machine
from .capability import (
    Capabilities,
    architecture,
    capabilities_of,
    gpu_capabilities,
    is_cpu,
    load_rates,
    system,
    way_of,
)
from .dots import Dot
from .kinds import KINDS, TargetKind, complete, find_kind
from .parse import Items, read_attributes, split_text, write_text
from .tags import config_of

_stack: ContextVar[tuple[Target, ...]] = ContextVar("tilewright_targets", default=())
_CPU_KINDS = ("llvm", "c")
_SYSTEM = r"cl|fsgs|fxsr|hreset|invpcid|kl|lwp|mwaitx|pconfig|pku|prfchw|ptwrite|rd|rtm|sahf|serial"
_SYSTEM_FEATURE = re.compile(rf"(?:{_SYSTEM}|sgx|shstk|tsx|uintr|waitpkg|wbnoinvd|widekl|xsave)")


@dataclass(frozen=True, init=False, repr=False)
class Target:
    """A kind of code generator and the attributes of the device; immutable and hashable.

    `Target("llvm -mcpu=skylake-avx512")`, `Target({"kind": "cuda", "arch": "sm_90"})`, JSON text,
    or another Target. "llvm" without `mcpu` (or with `-mcpu=native`) is this machine. `host` is
    the target of the code around a device's kernels. Unknown kinds, attributes, CPUs and
    features raise TargetError, which lists what exists. `str(target)` reads back as the same
    target; `with target:` makes it the one that `Target.current()` returns.
    """

    kind: TargetKind
    items: Items
    host: Target | None

    def __init__(
        self,
        target: str | Mapping[str, Any] | Target,
        host: str | Mapping[str, Any] | Target | None = None,
    ) -> None:
        if isinstance(target, Target):
            kind, items, own_host = target.kind, target.items, target.host
        elif isinstance(target, (str, Mapping)):
            kind, items, own_host = _read(target)
        else:
            raise TargetError(f"a target is text, a dict or a Target, not {type(target).__name__}")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "host", own_host if host is None else Target(host))
        if kind.name in _CPU_KINDS:
            _ = self.active_features

    # -- text and JSON

    def __str__(self) -> str:
        return write_text(self.kind, self.items)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def export(self) -> dict[str, Any]:
        """A dict that `Target(...)` reads back, host included; fit for JSON."""
        out: dict[str, Any] = {"kind": self.kind.name}
        out.update((k, list(v) if isinstance(v, tuple) else v) for k, v in self.items)
        if self.host is not None:
            out["host"] = self.host.export()
        return out

    def to_json(self) -> str:
        """The target as JSON text, which `from_json` reads."""
        return json.dumps(self.export(), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Target:
        """The target that `to_json` wrote."""
        return Target(json.loads(text))

    @staticmethod
    def from_device(device: Any) -> Target:
        """The target of a device, with the limits and capabilities that the device says it has.

        `device`: a Device, or its kind ("cuda", "opencl") for the first of that kind.
        TilewrightError where it is not there.
        """
        if isinstance(device, str):
            # rt stands above this room: it is loaded by name, and only when asked for
            device = import_module("tilewright.rt.device").device(device)
        return Target(device.target_attributes())

    def fitted_to(self, device: Any) -> Target:
        """This target, without what a device of its kind lacks: float16 arithmetic, sub-groups."""
        found = Target.from_device(device)
        if self.kind != found.kind or self.kind.name != "opencl":
            return self
        lacks = {
            n: False for n in ("fp16", "subgroups") if self.attrs.get(n) and not found.attrs[n]
        }
        return Target({**self.export(), **lacks}) if lacks else self

    @staticmethod
    def list_kinds() -> list[str]:
        """Names of the kinds of target."""
        return sorted(KINDS)

    # -- attributes

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes given, and the defaults of those that have one."""
        return _attributes(self)

    @property
    def tag(self) -> str:
        """Always empty: a tag is replaced by what it stands for."""
        return ""

    def get_kind_attr(self, attr_name: str) -> Any:
        """What is said of the target's kind under a name: nothing, None."""
        del attr_name

    def get_target_device_type(self) -> int:
        """DLPack's number of the kind of device that runs the code."""
        return self.kind.device_type

    def with_host(self, host: str | Mapping[str, Any] | Target) -> Target:
        """The same target with another host. Raises TargetError where `host` is no target, as text,
        dict or Target, where an argument has no kind of target, or no attributes by name."""
        return Target(self, host)

    @property
    def keys(self) -> list[str]:
        """What schedules are chosen by, most specific first."""
        if "keys" in self.attrs:
            return list(self.attrs["keys"])
        device = [self.attrs["device"]] if "device" in self.attrs else []
        return [*device, *(k for k in self.kind.keys if k not in device)]

    @property
    def mcpu(self) -> str:
        """The CPU as given; empty for the host's. `cpu` is the resolved one."""
        return str(self.attrs.get("mcpu", ""))

    @property
    def mattr(self) -> list[str]:
        """Features given by `-mattr`, each "+name" or "-name"."""
        return list(self.attrs.get("mattr", ()))

    @property
    def model(self) -> str:
        """The name of the machine (`-model`), by which records are told apart; "unknown" without
        one."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def device_name(self) -> str:
        """The preset given by `-device`, such as "mali"; empty without one."""
        return str(self.attrs.get("device", ""))

    @property
    def libs(self) -> list[str]:
        """The names of libraries (`-libs`) that schedules may call."""
        return list(self.attrs.get("libs", ()))

    @property
    def max_num_threads(self) -> int:
        """Most threads of a block; 1 for CPUs."""
        return int(self.attrs.get("max_num_threads", 1))

    @property
    def thread_warp_size(self) -> int:
        """Threads that run in lock step; 1 for CPUs."""
        return int(self.attrs.get("thread_warp_size", 1))

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that a block may use."""
        return int(self.attrs.get("max_shared_memory_per_block", 0))

    @property
    def l2_cache_size_bytes(self) -> int:
        """The level 2 cache as given; 0 where nothing is said of it."""
        return int(self.attrs.get("l2_cache_size_bytes", 0))

    # -- what LLVM needs

    @property
    def triple(self) -> str:
        """LLVM's target triple."""
        return str(self.attrs.get("mtriple") or machine.host_triple())

    @property
    def is_native(self) -> bool:
        """Whether the code is for this machine's CPU, by name or by default."""
        if self.attrs.get("mtriple", machine.host_triple()) != machine.host_triple():
            return False
        return self.mcpu in ("", machine.host_cpu())

    @property
    def cpu(self) -> str:
        """LLVM's name of the CPU, the host's resolved; "generic" for another triple without one."""
        return self.mcpu or (machine.host_cpu() if self.is_native else "generic")

    @property
    def features(self) -> str:
        """LLVM's feature string: of this machine, for a native target, then those given."""
        parts = [machine.host_feature_text()] if self.is_native else []
        return ",".join([*parts, *map(_signed, self.mattr)])

    @property
    def abi(self) -> str:
        """LLVM's name of the calling convention (`-mabi`); empty for the triple's own."""
        return str(self.attrs.get("mabi", ""))

    @property
    def active_features(self) -> frozenset[str]:
        """Extensions that code for the target may use: all of them for this machine's CPU, for
        another CPU those that LLVM uses for plain IR."""
        return _active_features(self)

    @property
    def required_features(self) -> frozenset[str]:
        """The active features without those that only operating systems use."""
        return frozenset(f for f in self.active_features if not _SYSTEM_FEATURE.match(f))

    def missing_on_host(self) -> str:
        """Why code for this target cannot run on this machine; empty where it can."""
        if self.kind.name not in _CPU_KINDS:
            return f"it is for {self.kind.name} devices"
        return Target.gap_to_host(self.triple, self.required_features)

    @staticmethod
    def gap_to_host(triple: str, features: frozenset[str]) -> str:
        """Why code for a triple that uses these features cannot run here; empty where it can."""
        mine, theirs = architecture(machine.host_triple()), architecture(triple)
        if mine != theirs:
            return f"it is for {theirs}, this machine is {mine}"
        here, there = system(machine.host_triple()), system(triple)
        if there and here != there:
            return f"it is for {there}, this machine runs {here}"
        lacking = machine.lacking(features)
        return f"this CPU ({machine.host_cpu()}) lacks {', '.join(lacking)}" if lacking else ""

    # -- capabilities

    @property
    def capabilities(self) -> Capabilities:
        """What the CPU's extensions come to: vector bytes, registers, arithmetic in hardware."""
        return _capabilities(self)

    @property
    def vector_bytes(self) -> int:
        """Bytes of a full vector register (or of `-vector-width`, which is in bits)."""
        width = self.attrs.get("vector-width")
        return int(width) // 8 if width else self.capabilities.vector_bytes

    @property
    def dots(self) -> tuple[Dot, ...]:
        """What adds up products of neighbours in vectors no wider than `vector_bytes`, of wider
        ones first."""
        return tuple(d for d in self.capabilities.dots if d.nbytes <= self.vector_bytes)

    @property
    def num_vector_registers(self) -> int:
        """The number of vector registers of the CPU."""
        return self.capabilities.num_vector_registers

    @property
    def has_fma(self) -> bool:
        """Whether a product and a sum are one instruction, rounded once."""
        return self.capabilities.has_fma

    @property
    def has_fp16(self) -> bool:
        """Whether float16 arithmetic (not only conversion) is in hardware."""
        return self.capabilities.has_fp16

    @property
    def has_subgroups(self) -> bool:
        """Whether threads of a warp (OpenCL: a sub-group) exchange values without memory."""
        return self.kind.name == "cuda" or bool(self.attrs.get("subgroups"))

    @property
    def unrolls_marked_loops(self) -> bool:
        """Whether the target's own compiler unrolls every loop that is marked, so that arrays which
        such loops index lie in registers. OpenCL's compilers are many, and may not."""
        return self.kind.name == "cuda"

    @property
    def arch(self) -> str:
        """CUDA's architecture, "sm_75" where none is given; empty for other kinds."""
        return str(self.attrs.get("arch", ""))

    @property
    def has_bf16(self) -> bool:
        """Whether bfloat16 arithmetic (not only conversion) is in hardware."""
        return self.capabilities.has_bf16

    @property
    def num_cores(self) -> int:
        """CPU cores to plan for: those given, else those of this machine."""
        return int(self.attrs.get("num-cores") or machine.host_cores())

    @property
    def l1_cache_bytes(self) -> int:
        """Bytes of a core's first-level data cache: as given, of this machine, or 32 KiB."""
        return self._cache(0, "l1_cache_size_bytes", 32 << 10)

    @property
    def l1_way_bytes(self) -> int:
        """Bytes of a way of a core's first-level data cache: as far apart, addresses share a set.
        Of this machine, or as `way_of` has it."""
        found = machine.host_way() if self.is_native else 0
        return found or way_of(self.triple, self.l1_cache_bytes)

    @property
    def l2_cache_bytes(self) -> int:
        """Bytes of a core's second-level cache: as given, of this machine, or 512 KiB."""
        return self._cache(1, "l2_cache_size_bytes", 512 << 10)

    @property
    def l3_cache_bytes(self) -> int:
        """Bytes of the third-level cache: as given, of this machine, or 4 MiB."""
        return self._cache(2, "l3_cache_size_bytes", 4 << 20)

    @property
    def load_rates(self) -> tuple[int, int]:
        """Bytes a cycle that a core loads from its first- and its second-level cache."""
        return load_rates(self.cpu, self.vector_bytes)

    def _cache(self, level: int, name: str, default: int) -> int:
        given = self.attrs.get(name)
        if given is not None:
            return int(given)
        found = machine.host_caches()[level] if self.is_native else 0
        return found or default

    def fingerprint(self) -> str:
        """Text that differs wherever generated code may differ: the resolved CPU and features
        beside the attributes. For keys of caches."""
        parts = [str(self)]
        if self.kind.name in _CPU_KINDS:
            parts += [self.triple, self.cpu, self.features, f"cores={self.num_cores}"]
            caches = (self.l1_cache_bytes, self.l2_cache_bytes, self.l3_cache_bytes)
            parts += [f"caches={caches}", f"way={self.l1_way_bytes}", f"vector={self.vector_bytes}"]
        if self.host is not None:
            parts.append(f"host({self.host.fingerprint()})")
        return "|".join(parts)

    # -- scope

    def __enter__(self) -> Target:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _stack.set(_stack.get()[:-1])

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with target:`; None, or TargetError, outside of any."""
        stack = _stack.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise TargetError("no target is active; use `with Target(...):` or pass a target")


def _read(target: str | Mapping[str, Any]) -> tuple[TargetKind, Items, Target | None]:
    if isinstance(target, str):
        config = config_of(target) or split_text(target)
    else:
        config = {**_tagged(target), **target}
    name = config.pop("kind", None)
    if not isinstance(name, str):
        raise TargetError(f"a target needs a 'kind': one of {', '.join(sorted(KINDS))}")
    if not all(isinstance(key, str) for key in config):
        raise TargetError(f"the attributes of a target have names, got {[*config]}")
    kind = find_kind(name)
    host = config.pop("host", None)
    config.pop("tag", None)
    return kind, read_attributes(kind, config), None if host is None else Target(host)


def _tagged(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the tag of a target stands for, where it has one."""
    tag = given.get("tag")
    if tag is None:
        return {}
    found = config_of(str(tag))
    if found is None:
        raise TargetError(f"there is no target tag {tag!r}; tvm.target.list_tags() has all")
    return found


def _signed(feature: str) -> str:
    return feature if feature[0] in "+-" else f"+{feature}"


@lru_cache(maxsize=256)
def _attributes(target: Target) -> Mapping[str, Any]:
    return MappingProxyType(complete(target.kind, dict(target.items)))


@lru_cache(maxsize=256)
def _active_features(target: Target) -> frozenset[str]:
    given = [_signed(f) for f in target.mattr]
    modes = [f for f in given if f.endswith(("bit-mode", "thumb-mode"))]
    if modes:
        raise TargetError(f"-mattr={modes[0]}: the mode of code follows from -mtriple")
    if target.mcpu == "native":
        raise TargetError(
            f"-mcpu=native with -mtriple={target.triple}: this machine is {machine.host_triple()}"
        )
    if not is_cpu(target.triple):
        raise TargetError(
            f"unknown target triple {target.triple!r}; kind {target.kind.name!r} is for CPUs "
            "(x86, AArch64, ARM, RISC-V, PowerPC, s390x, LoongArch, WebAssembly)"
        )
    if target.abi and architecture(target.triple) in ("x86_64", "x86"):
        raise TargetError(f"-mabi={target.abi}: code for {target.triple} has one ABI, without name")
    if target.is_native and not target.abi:
        host = machine.host_features()
        if all(f[0] == "+" and f[1:] in host for f in given):
            return host
    if not machine.has_llvm():  # nothing is compiled here: what code uses stands beside it
        alike = architecture(target.triple) == architecture(machine.host_triple())
        return machine.host_features() if alike else frozenset()
    found = machine.probe_features(target.triple, target.cpu, target.features, target.abi)
    if architecture(target.triple) != architecture(machine.host_triple()):
        return found
    wanted = {f[1:] for f in given if f[0] == "+"}
    return found | (wanted & machine.detectable_features())


@lru_cache(maxsize=256)
def _capabilities(target: Target) -> Capabilities:
    if target.kind.name in _CPU_KINDS:
        return capabilities_of(target.triple, target.active_features)
    return gpu_capabilities(target.kind.name, target.attrs)
