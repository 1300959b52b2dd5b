"""The words with which the runtime refuses arguments, files, targets and options."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilewright as tvm
from tests.unit.rt.kernels import array, checked, scalar
from tilewright import te
from tilewright.base import config
from tilewright.base.errors import ArgumentError, TargetError, TilewrightError
from tilewright.rt import array as nd
from tilewright.rt import threads
from tilewright.rt.device import Device, cuda
from tilewright.target import Target
from tilewright.target.host import detectable_features, host_features

MATMUL = checked(
    [
        array("A", "float32", ["m", 16]),
        array("B", "float32", [16, 32]),
        array("C", "float32", ["m", 32], is_output=True),
        scalar("alpha", "float32"),
        scalar("k", "int8"),
    ]
)


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def good() -> list:
    return [f32(4, 16), f32(16, 32), f32(4, 32), 1.0, 3]


def test_right_arguments_pass():
    MATMUL(*good())


def read_only() -> np.ndarray:
    a = f32(4, 32)
    a.flags.writeable = False
    return a


class OnGpu:
    def __dlpack__(self, stream=None):
        raise AssertionError("must not be asked for memory on another device")

    def __dlpack_device__(self):
        return 2, 1


CONVERTS = ": x.astype('float32') converts an array"
CASES = [
    (1, f32(16, 31), "argument 1 (B): expected shape (16, 32), got (16, 31)"),
    (2, f32(5, 32), "argument 2 (C): expected shape (m, 32) with m = 4, got (5, 32)"),
    (
        0,
        f32(64),
        "argument 0 (A): expected 2 dimensions, shape (m, 16), got 1, shape (64,)",
    ),
    (1, np.zeros((16, 32)), f"argument 1 (B): expected dtype float32, got float64{CONVERTS}"),
    (
        1,
        np.zeros((16, 32), "c8"),
        f"argument 1 (B): expected dtype float32, got complex64{CONVERTS}",
    ),
    (
        1,
        f32(32, 16).T,
        "argument 1 (B): expected a compact row-major array, got strides (1, 16) for shape "
        "(16, 32); numpy.ascontiguousarray(x) makes a compact copy",
    ),
    (2, read_only(), "argument 2 (C): the function writes it, got a read-only array"),
    (
        1,
        [[1.0]],
        "argument 1 (B): expected an array of float32, got list, which has neither __dlpack__ "
        "nor __array_interface__ nor __array__; numpy.asarray(x, 'float32') makes one of a list",
    ),
    (1, np.float32(1), "argument 1 (B): expected an array, got the scalar np.float32(1.0)"),
    (1, OnGpu(), "argument 1 (B): expected an array in CPU memory, got one on cuda(1)"),
    (3, "1", "argument 3 (alpha): expected a number (float32), got '1'"),
    (3, f32(2), "argument 3 (alpha): expected a number (float32), got ndarray"),
    (4, 128, "argument 4 (k): expected an integer (int8, -128 to 127), got 128"),
    (4, 1.5, "argument 4 (k): expected an integer (int8, -128 to 127), got 1.5"),
]


@pytest.mark.parametrize(("index", "value", "text"), CASES)
def test_arguments(index, value, text):
    args = good()
    args[index] = value
    with pytest.raises(ArgumentError) as caught:
        MATMUL(*args)
    assert str(caught.value) == f"f: {text}".replace("np.float32(1.0)", repr(np.float32(1)))


def test_number_of_arguments():
    with pytest.raises(ArgumentError) as caught:
        MATMUL(f32(1))
    assert str(caught.value) == (
        "f: expected 5 arguments (A, B, C, alpha, k), got 1; arrays for the results are "
        "arguments, too"
    )


def test_overlap():
    args = good()
    args[2] = args[0].reshape(2, 32)
    args[0] = args[0][:2]
    with pytest.raises(ArgumentError) as caught:
        MATMUL(*args)
    assert str(caught.value) == (
        "f: argument 2 (C): the function writes it, but its memory overlaps that of argument 0 "
        "(A); pass separate arrays"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lvm", ["unknown target kind 'lvm'", "c, cuda, llvm, opencl"]),
        ("", ["the target is empty"]),
        (
            "llvm -mcpu=skylke",
            ["unknown CPU 'skylke'", "near in name: skylake, ", "-mcpu=help' lists"],
        ),
        ("llvm -mattr=+avx9", ["unknown feature 'avx9'", "avx2", "-mattr=+help' lists all"]),
        ("llvm -mtriple=nowhere", ["unknown target triple 'nowhere'"]),
        ("llvm -march=x", ["no attribute 'march'", "mcpu, mfloat-abi, model, mtriple"]),
        ("llvm -num-cores=many", ["'num-cores' takes int, at least 1, got 'many'"]),
        ("llvm -num-cores=0", ["'num-cores' takes int, at least 1, got '0'"]),
        ("llvm -l2_cache_size_bytes=-5", ["takes int, at least 0, got '-5'"]),
        ("llvm -vector-width=7", ["'vector-width' takes one of 64, 128, 256, 512", "got '7'"]),
        ('{"kind": "llvm", "num-cores": true}', ["takes int, at least 1, got True"]),
        ('{"kind": "llvm", "num-cores": 2.5}', ["takes int, at least 1, got 2.5"]),
        ('{"kind": "llvm", "mattr": [3]}', ["'mattr' takes a list, got [3]"]),
        ('{"kind": "llvm", "mcpu": "a\\nb"}', ["'mcpu' takes str, got 'a\\nb'"]),
        ("llvm -mcpu='x", ["cannot be read: No closing quotation"]),
        ("llvm -mcpu", ["attribute 'mcpu' takes str, got ''"]),
        ("llvm -mabi=lp64d", ["-mabi=lp64d: code for x86_64", "has one ABI"]),
        ("llvm -mattr=+help", ["-mattr=+help: features that LLVM knows", "avx2"]),
        ("llvm -mattr=+16bit-mode", ["the mode of code follows from -mtriple"]),
        ("llvm -mtriple=nvptx64-nvidia-cuda", ["kind 'llvm' is for CPUs (x86, AArch64"]),
        ("llvm -mtriple=amdgcn-amd-amdhsa -mcpu=gfx900", ["kind 'llvm' is for CPUs"]),
        (
            "llvm -mtriple=sparc-linux-gnu",
            ["unknown target triple 'sparc-linux-gnu'; kind 'llvm' is"],
        ),
        ("llvm -mtriple=riscv64-linux-gnu -mabi=big", ["ABI 'big' does not fit", "'big' is not"]),
        ("llvm -mtriple=riscv64-linux-gnu -mabi=ilp32", ["ABI 'ilp32' does not fit", "32-bit ABI"]),
        (
            "llvm -mtriple=aarch64-linux-gnu -mattr=+reserve-x1",
            ["LLVM cannot generate code for CPU 'generic' with +reserve-x1", "function calls"],
        ),
        ("llvm skylake", ["expected -NAME=VALUE, got 'skylake'"]),
        ("llvm -mcpu=a -mcpu=b", ["gives 'mcpu' twice"]),
        ('{"kind": 3}', ["a target needs a 'kind'"]),
        ("{kind}", ["is not valid JSON"]),
    ],
)
def test_targets(text, words):
    if (
        "x86" not in Target("llvm").triple
        and ("mcpu" in text or "mattr" in text)
        and "{" not in text
    ):
        text = f"{text} -mtriple=x86_64-unknown-linux-gnu"
    with pytest.raises(TargetError) as caught:
        Target(text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("target", [{3: 4, "kind": "llvm"}, {"kind": None}, None, 3, [], b"llvm"])
def test_what_is_no_target(target):
    with pytest.raises(TargetError, match=r"a target is text|needs a 'kind'|have names"):
        Target(target)


@pytest.mark.parametrize(
    ("triple", "words"),
    [
        ("x86_64-apple-darwin", "it is for darwin, this machine runs linux"),
        ("x86_64-pc-windows-msvc", "it is for windows, this machine runs linux"),
        ("x86_64-linux-gnux32", "it is for linux-x32, this machine runs linux"),
        ("wasm32-unknown-unknown", "it is for wasm32, this machine is "),
    ],
)
def test_code_for_other_systems_is_not_run(triple, words):
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2.0)
    f = tvm.build(te.create_schedule(b.op), [a, b], f"llvm -mtriple={triple}")
    assert f.get_source("asm")
    with pytest.raises(TilewrightError, match=f"cannot run code for target .*: {words}"):
        f(np.zeros(8, "float32"), np.zeros(8, "float32"))


@pytest.mark.skipif("x86" not in Target("llvm").triple, reason="needs an x86 CPU")
def test_features_that_this_cpu_lacks_are_named():
    lacking = sorted(detectable_features() - host_features())[0]
    assert lacking in Target(f"llvm -mattr=+{lacking}").missing_on_host()


def test_a_cpu_that_makes_llvm_abort_is_an_error():
    with pytest.raises(TargetError, match=r"LLVM cannot generate code for CPU 'i386'.*64-bit"):
        Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=i386")


def test_native_with_a_foreign_triple():
    with pytest.raises(TargetError, match=r"-mcpu=native with -mtriple=wasm32"):
        Target("llvm -mcpu=native -mtriple=wasm32")


def test_devices():
    with pytest.raises(TilewrightError, match=r"device cuda\(99\) does not exist here"):
        nd.array([1.0], cuda(99))
    with pytest.raises(TilewrightError, match=r"unknown device 'tpu'; known: .*cpu"):
        Device("tpu")
    with pytest.raises(TilewrightError, match="index of a device cannot be -1"):
        Device("cpu", -1)


def test_options(monkeypatch):
    with pytest.raises(
        TilewrightError, match="unknown option 'unrol_max_step'; did you mean unroll"
    ):
        config.get("unrol_max_step")
    with pytest.raises(TilewrightError, match="option 'verify' takes a yes or no, got 'maybe'"):
        config.set_option("verify", "maybe")
    for value in (4, -1, 2.5, math.inf, "x"):
        with pytest.raises(
            TilewrightError, match=f"option 'opt_level' takes int up to 3, got {value!r}"
        ):
            config.set_option("opt_level", value)
    with pytest.raises(TilewrightError, match="option 'unroll_max_step' takes int, got -1"):
        config.set_option("unroll_max_step", -1)
    for count in (-1, 1025, 2.5, "2", None):
        with pytest.raises(TilewrightError, match=r"cannot be .*: it is an integer up to 1024"):
            threads.set_num_threads(count)
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "99999")
    with pytest.raises(TilewrightError, match="NUM_THREADS takes int up to 1024, got '99999'"):
        config.get("num_threads")
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "two")
    with pytest.raises(
        TilewrightError,
        match="environment variable TILEWRIGHT_NUM_THREADS takes int up to 1024, got 'two'",
    ):
        config.get("num_threads")
