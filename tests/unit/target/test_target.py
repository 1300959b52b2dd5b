"""Targets: reading, writing, capabilities and scope."""

from __future__ import annotations

import json
import pickle
import threading

import pytest

from tilewright.base.errors import TargetError
from tilewright.target import Target, cuda, host, mali, opencl
from tilewright.target.capability import architecture, capabilities_of
from tilewright.target.llvm_probe import ask

X86 = "x86_64-unknown-linux-gnu"
ARM = "aarch64-linux-gnu"


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "llvm -mcpu=native",
        "llvm -num-cores=4 -model=a -libs=x,y",
        "llvm --mcpu native -vector-width=256",
        f"llvm -mtriple={X86} -mcpu=skylake-avx512 -mattr=+avx2,-avx512f",
        "llvm -mtriple=aarch64-linux-gnu -mattr=+neon",
        "c",
        "cuda -arch=sm_90 -max_threads_per_block=512",
        "opencl -device=mali -model='Mali G78'",
    ],
)
def test_text_and_json_read_back(text):
    t = Target(text)
    assert Target(str(t)) == t
    assert Target.from_json(t.to_json()) == t
    assert Target(t.to_json()) == Target(t) == t
    assert Target(json.loads(t.to_json())) == t
    assert pickle.loads(pickle.dumps(t)) == t
    assert len({t, Target(str(t))}) == 1
    assert repr(t) == f"Target({str(t)!r})"


def test_native_says_nothing():
    assert Target("llvm -mcpu=native") == Target("llvm")
    assert str(Target("llvm -mcpu=native")) == "llvm"


def test_spelling_of_attributes_is_free():
    assert (
        Target("llvm -num_cores=3") == Target("llvm --num-cores=3") == Target("llvm -num-cores 3")
    )
    assert Target("llvm -num_cores=3").num_cores == 3
    assert Target({"kind": "cuda", "max-num-threads": "512"}).max_num_threads == 512


def test_attributes_and_their_defaults():
    t = Target("cuda -arch=sm_80")
    assert t.kind.name == str(t.kind) == "cuda"
    assert t.attrs["arch"] == "sm_80"
    assert (t.max_num_threads, t.thread_warp_size) == (1024, 32)
    shared = {"sm_70": 48, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_90a": 227}
    for arch, kilobytes in shared.items():
        assert Target(f"cuda -arch={arch}").max_shared_memory_per_block == kilobytes << 10
    given = Target("cuda -arch=sm_80 -max_shared_memory_per_block=4096")
    assert given.max_shared_memory_per_block == 4096
    assert t.keys == ["cuda", "gpu"]
    assert (t.has_fp16, t.has_bf16, Target("cuda -arch=sm_70").has_bf16) == (True, True, False)
    m = Target("opencl -device=mali -model=g78")
    assert (m.keys, m.device_name, m.model) == (["mali", "opencl", "gpu"], "mali", "g78")
    assert (m.max_num_threads, m.thread_warp_size) == (256, 1)
    assert Target("llvm -keys=a,b").keys == ["a", "b"]
    assert Target("llvm").model == "unknown"
    assert Target("llvm -libs=mkl").libs == ["mkl"]
    assert (Target("llvm").max_num_threads, Target("llvm").max_shared_memory_per_block) == (1, 0)


def test_constructors_of_devices():
    assert cuda(arch="sm_90") == Target("cuda -arch=sm_90 -model=unknown")
    assert mali("x") == opencl("x", device="mali")
    assert mali().keys == ["mali", "opencl", "gpu"]


def test_the_host_belongs_to_the_target():
    t = Target("cuda", host="llvm -num-cores=2")
    assert t.host == Target("llvm -num-cores=2")
    assert t != Target("cuda")
    assert Target(t.to_json()) == t
    assert Target(t, host="llvm").host == Target("llvm")
    assert Target("llvm").host is None
    assert "host(" in t.fingerprint()


def test_targets_cannot_be_changed():
    with pytest.raises(AttributeError):
        Target("llvm").kind = None  # type: ignore[misc, assignment]
    with pytest.raises(TypeError):
        Target("llvm").attrs["mcpu"] = "x"  # type: ignore[index]
    with pytest.raises(TargetError, match="not int"):
        Target(3)  # type: ignore[arg-type]


def test_scopes_nest_and_belong_to_their_thread():
    assert Target.current() is None
    with pytest.raises(TargetError, match="no target is active"):
        Target.current(allow_none=False)
    a, b = Target("llvm"), Target("cuda")
    seen = []
    with a:
        with b, a:
            assert Target.current() is a
        assert Target.current() is a
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
    assert Target.current() is None
    assert seen == [None]


# -- this machine


def test_llvm_is_this_machine():
    t = Target("llvm")
    assert t.is_native
    assert t.cpu == host.host_cpu()
    assert t.triple == host.host_triple()
    assert t.features == host.host_feature_text()
    assert t.missing_on_host() == ""
    assert t.num_cores == host.host_cores() >= 1
    assert t.l1_cache_bytes >= 8 << 10
    assert t.l2_cache_bytes >= t.l1_cache_bytes
    assert t.l3_cache_bytes > 0
    assert t.vector_bytes >= 8
    named = Target(f"llvm -mcpu={host.host_cpu()}")
    assert named.is_native
    assert named.features == t.features
    assert named.vector_bytes == t.vector_bytes


def test_limits_may_be_given():
    t = Target("llvm -vector-width=128 -l1_cache_size_bytes=1000 -l2_cache_size_bytes=2000")
    assert (t.vector_bytes, t.l1_cache_bytes, t.l2_cache_bytes) == (16, 1000, 2000)
    far = Target("llvm -mtriple=aarch64-linux-gnu")
    assert (far.l1_cache_bytes, far.l3_cache_bytes) == (32 << 10, 4 << 20)


def test_ways_of_a_cache() -> None:
    """A page on x86; a quarter of a cache of Arm's."""
    x86 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -l1_cache_size_bytes=49152")
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -l1_cache_size_bytes=65536")
    assert (x86.l1_way_bytes, arm.l1_way_bytes) == (4096, 16384)
    assert "way=16384" in arm.fingerprint()
    assert Target("llvm").l1_way_bytes >= 4096


def test_fingerprints_tell_targets_apart():
    texts = [
        "llvm",
        "llvm -num-cores=7",
        "llvm -vector-width=128",
        "llvm -mattr=+neon",
        "c",
        "cuda",
    ]
    if host.host_triple().startswith("x86"):
        texts[3] = "llvm -mcpu=x86-64-v2"
    assert len({Target(t).fingerprint() for t in texts}) == len(texts)
    assert Target("llvm").fingerprint() == Target("llvm").fingerprint()


# -- other machines


@pytest.mark.parametrize(
    ("cpu", "vector", "registers", "fma", "fp16", "bf16"),
    [
        ("x86-64", 16, 16, False, False, False),
        ("core-avx2", 32, 16, True, False, False),
        ("sandybridge", 32, 16, False, False, False),
        ("skylake-avx512", 64, 32, True, False, False),
        ("sapphirerapids", 64, 32, True, True, False),
    ],
)
def test_capabilities_of_x86(cpu, vector, registers, fma, fp16, bf16):
    t = Target(f"llvm -mtriple={X86} -mcpu={cpu}")
    got = (t.vector_bytes, t.num_vector_registers, t.has_fma, t.has_fp16, t.has_bf16)
    assert got == (vector, registers, fma, fp16, bf16)


def test_features_change_capabilities():
    base = f"llvm -mtriple={X86} -mcpu=skylake-avx512"
    assert Target(f"{base} -mattr=-avx512f").vector_bytes == 32
    assert Target(f"{base} -mattr=-avx").vector_bytes == 16
    assert Target(f"llvm -mtriple={X86} -mcpu=x86-64 -mattr=avx2,+fma").has_fma
    assert Target(f"{base} -mattr=avx2").mattr == ["avx2"]


@pytest.mark.parametrize(
    ("text", "vector", "registers", "fma", "fp16"),
    [
        ("aarch64-linux-gnu", 16, 32, True, False),
        ("aarch64-linux-gnu -mcpu=neoverse-v1", 16, 32, True, True),
        ("armv7l-linux-gnueabihf -mcpu=cortex-a15", 16, 16, True, False),
        (
            "riscv64-linux-gnu -mcpu=generic-rv64 -mattr=+m,+f,+d,+v -mabi=lp64d",
            16,
            32,
            True,
            False,
        ),
        ("riscv64-linux-gnu -mcpu=generic-rv64", 8, 32, False, False),
        ("i686-linux-gnu -mcpu=pentium4", 16, 8, False, False),
        ("wasm32", 16, 16, False, False),
    ],
)
def test_capabilities_of_other_architectures(text, vector, registers, fma, fp16):
    t = Target(f"llvm -mtriple={text}")
    assert not t.is_native
    got = (t.vector_bytes, t.num_vector_registers, t.has_fma, t.has_fp16)
    assert got == (vector, registers, fma, fp16)
    assert f"it is for {architecture(t.triple)}" in t.missing_on_host()


def test_another_cpu_lists_what_is_lacking():
    reason = Target.gap_to_host(host.host_triple(), frozenset(["quantum", *host.host_features()]))
    assert reason == f"this CPU ({host.host_cpu()}) lacks quantum"


def test_bf16_arithmetic_is_more_than_conversion():
    cooper = capabilities_of(X86, frozenset(["avx512bf16"]))
    assert (cooper.has_bf16, cooper.has_bf16_convert) == (False, True)
    assert capabilities_of(X86, frozenset(["avx10.2"])).has_bf16


def test_the_probe_lists_names_of_llvm():
    known = ask(X86, "nonesuch", "", "")
    assert known["unknown"] == "CPU"
    assert {"skylake", "znver4", "x86-64-v3"} <= set(known["known"])
    assert not set(known["known"]) & {"avx2"}
    with pytest.raises(TargetError, match=r"unknown feature 'avx22'.*avx2") as caught:
        host.probe_features(X86, "x86-64", "+avx22")
    assert "znver4" not in str(caught.value)
    assert "avx2" in ask(X86, "haswell", "", "")["features"]
    assert ask("nowhere", "", "", "")["unknown"] == "triple"


@pytest.mark.parametrize(
    ("text", "start", "names"),
    [
        ("-mcpu=foo", "unknown CPU 'foo' for x86_64", []),
        ("-mcpu=Skylake", "unknown CPU 'Skylake' for x86_64", ["skylake", "skylake-avx512"]),
        ("-mcpu=cortex-a77x", "unknown CPU 'cortex-a77x' for aarch64", ["cortex-a77"]),
        ("-mattr=+nonesuch", "unknown feature 'nonesuch' for x86_64", []),
    ],
)
def test_an_unknown_name_is_one_short_line(text: str, start: str, names: list[str]):
    triple = ARM if "cortex" in text else X86
    option = "-mcpu=help" if "mcpu" in text else "-mattr=+help"
    with pytest.raises(TargetError) as caught:
        Target(f"llvm -mtriple={triple} {text}")
    said = str(caught.value)
    assert said.startswith(start) and "\n" not in said and len(said) < 250
    assert all(name in said for name in names) and said.count(", ") <= 2
    assert f"'llvm -mtriple={triple} {option}' lists all " in said


@pytest.mark.parametrize("option", ["-mcpu=help", "-mattr=+help", "-mcpu=help -mattr=+help"])
def test_help_lists_all(option: str):
    """LLVM itself lists them, and goes on with a CPU of that name."""
    for triple, names in ((X86, ("znver4", "avx2")), (ARM, ("cortex-a76", "sve"))):
        with pytest.raises(TargetError) as caught:
            Target(f"llvm -mtriple={triple} {option}")
        said = str(caught.value)
        assert (f" {names[0]}," in said) is ("mcpu" in option)
        assert (f" {names[1]}," in said) is ("mcpu" not in option)
        assert max(map(len, said.splitlines())) <= 100


def test_kinds_are_listed():
    assert set(Target.list_kinds()) >= {"c", "cuda", "llvm", "opencl", "rocm", "metal"}


def test_limits_of_gpus_come_from_presets_and_devices():
    plain, m, a = Target("opencl"), Target("opencl -device=mali"), Target("opencl -device=adreno")
    assert (plain.max_num_threads, plain.max_shared_memory_per_block) == (256, 16384)
    assert (m.max_num_threads, m.max_shared_memory_per_block, m.thread_warp_size) == (256, 32768, 1)
    assert (plain.has_fp16, m.has_fp16, a.has_fp16) == (False, True, True)
    assert not Target("opencl -device=mali -fp16=0").has_fp16
    assert (
        Target("opencl -device=mali -max_shared_memory_per_block=8192").attrs[
            "max_shared_memory_per_block"
        ]
        == 8192
    )
    assert (plain.has_subgroups, Target("opencl -subgroups=1").has_subgroups) == (False, True)
    assert Target("cuda").has_subgroups and not Target("llvm").has_subgroups
    assert (plain.vector_bytes, Target("opencl -vector_bytes=64").vector_bytes) == (16, 64)
    assert (Target("cuda").arch, Target("cuda -arch=sm_90a").arch, plain.arch) == (
        "sm_75",
        "sm_90a",
        "",
    )
    one = Target("cuda -max_num_threads=512").attrs
    assert one["max_num_threads"] == one["max_threads_per_block"] == 512
    both = Target("cuda -max_num_threads=512 -max_threads_per_block=256").attrs
    assert (both["max_num_threads"], both["max_threads_per_block"]) == (512, 256)
    assert str(m) == "opencl -device=mali"


def test_targets_of_devices():
    class Phone:
        def target_attributes(self):
            return {"kind": "opencl", "fp16": False, "subgroups": True, "max_num_threads": 64}

    t = Target.from_device(Phone())
    assert (t.has_fp16, t.has_subgroups, t.max_num_threads) == (False, True, 64)
    assert t.attrs["max_threads_per_block"] == 64
    fitted = Target("opencl -device=mali").fitted_to(Phone())
    assert (fitted.has_fp16, fitted.device_name, fitted.max_num_threads) == (False, "mali", 256)
    assert Target("opencl").fitted_to(Phone()) == Target("opencl")
    assert Target("cuda").fitted_to(Phone()) == Target("cuda")
    assert Target.from_device("cpu") == Target("llvm")


def test_hosts_in_text() -> None:
    for text in ("cuda --host llvm", "cuda -host=llvm", "cuda --host='llvm'"):
        target = Target(text)
        assert target.host is not None and target.host.kind.name == "llvm"
        assert Target(target, target.host) == target
    tagged = Target("cuda --host nvidia/jetson-nano")
    assert tagged.host is not None and tagged.host.arch == "sm_53"
    assert Target("nvidia/nvidia-a100").l2_cache_size_bytes == 41943040
    assert Target("llvm -jit=mcjit").attrs["jit"] == "mcjit"
    with pytest.raises(TargetError, match="'jit' takes a name such as mcjit, got 'fast'"):
        Target("llvm -jit=fast")


def test_how_floats_are_passed():
    target = Target({"kind": "llvm", "mtriple": "armv7l-linux-gnueabihf", "mfloat-abi": "hard"})
    assert target.attrs["mfloat-abi"] == "hard"
    assert Target(str(target)) == target
    with pytest.raises(TargetError, match="mfloat-abi"):
        Target("llvm -mfloat-abi=half")
