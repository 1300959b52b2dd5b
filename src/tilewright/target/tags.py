"""Tags: names of machines that stand for a target with what is known of them,
`Target("nvidia/geforce-rtx-3090")`. Names and facts are those of the makers' tables of products and
of compute capabilities, under TVM's spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import TargetError

_GPUS = {
    "sm_20": (
        "tesla-c2075 tesla-c2050 tesla-c2070 quadro-plex-7000 geforce-gtx-590 geforce-gtx-580 "
        "geforce-gtx-570 geforce-gtx-480 geforce-gtx-470 geforce-gtx-465 geforce-gtx-480m "
        "geforce-gtx-470m geforce-gtx-580m"
    ),
    "sm_21": (
        "nvidia-nvs-315 nvidia-nvs-310 nvs-5400m nvs-5200m nvs-4200m geforce-gtx-560-ti geforce- "
        "gtx-550-ti geforce-gtx-460 geforce-gts-450 geforce-gt-630 geforce-gt-440"
    ),
    "sm_30": (
        "tesla-k10 quadro-k5000 quadro-k4200 quadro-k4000 quadro-k2000 quadro-k2000d quadro-k600 "
        "quadro-k420 quadro-410 nvidia-nvs-510 geforce-gtx-770 geforce-gtx-760 geforce-gtx-690 "
        "geforce-gtx-680 geforce-gtx-670 geforce-gtx-660-ti geforce-gtx-660 geforce-gtx-650-ti- "
        "boost geforce-gtx-650-ti geforce-gtx-650 geforce-gt-740"
    ),
    "sm_35": (
        "tesla-k40 tesla-k20 quadro-k6000 quadro-k5200 geforce-gtx-titan-z geforce-gtx-titan- "
        "black geforce-gtx-titan geforce-gtx-780-ti geforce-gtx-780 geforce-gt-730 geforce-gt-720 "
        "geforce-gt-705"
    ),
    "sm_37": "tesla-k80",
    "sm_50": (
        "quadro-k2200 quadro-k1200 quadro-k620 quadro-m1200 quadro-m520 quadro-m5000m "
        "quadro-m4000m quadro-m3000m quadro-m2000m quadro-m1000m quadro-k620m quadro-m600m "
        "quadro-m500m nvidia-nvs-810 geforce-gtx-750-ti geforce-gtx-750 geforce-gtx-960m geforce- "
        "gtx-950m geforce-940m geforce-930m"
    ),
    "sm_52": (
        "tesla-m60 tesla-m40 quadro-m6000-24gb quadro-m6000 quadro-m5000 quadro-m4000 "
        "quadro-m2000 quadro-m5500m quadro-m2200 quadro-m620 geforce-gtx-titan-x geforce- "
        "gtx-980-ti geforce-gtx-980 geforce-gtx-970 geforce-gtx-960 geforce-gtx-950 geforce- "
        "gtx-980m geforce-gtx-970m geforce-gtx-965m"
    ),
    "sm_53": "jetson-nano jetson-tx1",
    "sm_60": "tesla-p100 quadro-gp100",
    "sm_61": (
        "tesla-p40 tesla-p4 quadro-p6000 quadro-p5000 quadro-p4000 quadro-p2200 quadro-p2000 "
        "quadro-p1000 quadro-p620 quadro-p600 quadro-p400 quadro-p5200 quadro-p4200 quadro-p3200 "
        "quadro-p3000 quadro-p500 p620 p520 nvidia-titan-xp nvidia-titan-x geforce-gtx-1080-ti "
        "geforce-gtx-1080 geforce-gtx-1070-ti geforce-gtx-1070 geforce-gtx-1060 geforce- "
        "gtx-1050-ti geforce-gtx-1050 geforce-gt-1030"
    ),
    "sm_62": "jetson-tx2",
    "sm_70": "nvidia-v100 quadro-gv100 nvidia-titan-v",
    "sm_75": (
        "nvidia-t4 quadro-rtx-8000 quadro-rtx-6000 quadro-rtx-5000 quadro-rtx-4000 rtx-5000 "
        "rtx-4000 rtx-3000 t2000 t1000 nvidia-titan-rtx geforce-rtx-2080-ti geforce-rtx-2080 "
        "geforce-rtx-2070 geforce-rtx-2060 geforce-gtx-1660-ti geforce-gtx-1660 geforce- "
        "gtx-1650-ti geforce-gtx-1650"
    ),
    "sm_80": "nvidia-a100 nvidia-a30",
    "sm_86": (
        "nvidia-a40 nvidia-a10 nvidia-a10g nvidia-a16 nvidia-a2 rtx-a6000 geforce-rtx-3090-ti "
        "geforce-rtx-3090 geforce-rtx-3080-ti geforce-rtx-3080 geforce-rtx-3070-ti geforce- "
        "rtx-3070 geforce-rtx-3060"
    ),
    "sm_89": "geforce-rtx-4090 geforce-rtx-4080 geforce-rtx-4070-ti",
    "sm_90a": "nvidia-h100",
}
_L2 = {
    "nvidia-a100": 41943040,
    "nvidia-h100": 52428800,
    "geforce-rtx-4090": 75497472,
    "geforce-rtx-4070-ti": 75497472,
}
_FEW_REGISTERS = ("sm_20", "sm_21", "sm_53", "sm_62")  # 32 Ki of a block; all others 64 Ki
_BOARDS = {
    "nvidia/jetson-agx-xavier": ("sm_72", "carmel", 8),
    "nvidia/jetson-orin-nano": ("sm_87", "carmel", 6),
    "nvidia/jetson-agx-orin-32gb": ("sm_87", "cortex-a78", 8),
    "nvidia/jetson-agx-orin-64gb": ("sm_87", "cortex-a78", 12),
}
_AWS = {
    "skylake-avx512": "c5.large=1 c5.xlarge=2 c5.2xlarge=4 c5.4xlarge=8 c5.9xlarge=18",
    "cascadelake": "c5.12xlarge=24 c5.18xlarge=36 c5.24xlarge=48",
}
Config = dict[str, Any]


def _cuda(arch: str, **more: Any) -> Config:
    return {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": 32768 if arch in _FEW_REGISTERS else 65536,
        **more,
    }


def _arm(cpu: str, cores: int, *features: str) -> Config:
    config: Config = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": cpu}
    return {**config, **({"mattr": list(features)} if features else {}), "num-cores": cores}


def _built_in() -> dict[str, Config]:
    found: dict[str, Config] = {}
    for arch, names in _GPUS.items():
        for name in names.split():
            more = {"l2_cache_size_bytes": _L2[name]} if name in _L2 else {}
            found[f"nvidia/{name}"] = _cuda(arch, **more)
    for name, (arch, cpu, cores) in _BOARDS.items():
        found[name] = _cuda(arch, host=_arm(cpu, cores))
    own = _arm("cortex-a72", 4, "+neon")
    found["raspberry-pi/4b-aarch64"] = {**own, "host": dict(own)}
    for cpu, machines in _AWS.items():
        for machine in machines.split():
            name, _, cores_text = machine.partition("=")
            found[f"aws/cpu/{name}"] = {
                "kind": "llvm",
                "keys": ["x86", "cpu"],
                "mcpu": cpu,
                "num-cores": int(cores_text),
            }
    return found


_TAGS: dict[str, Config] = _built_in()


def config_of(tag: str) -> Config | None:
    """The target that a tag stands for, as a dict; None where there is no such tag."""
    found = _TAGS.get(tag)
    return None if found is None else dict(found)


def names() -> list[str]:
    """All tags, sorted."""
    return sorted(_TAGS)


def add(name: str, config: Mapping[str, Any], override: bool = False) -> None:
    """Make a tag; TargetError where there is one of that name, unless `override` is set."""
    if name in _TAGS and not override:
        raise TargetError(f'Tag "{name}" has been previously defined as: {_TAGS[name]}')
    _TAGS[name] = dict(config)
