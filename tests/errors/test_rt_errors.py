"""The words with which the runtime refuses arguments, files, targets and options."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.rt.kernels import array, checked, scalar
from tilewright.base import config
from tilewright.base.errors import ArgumentError, TargetError, TilewrightError
from tilewright.rt import array as nd
from tilewright.rt.device import Device, cuda
from tilewright.target import Target

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


CASES = [
    (1, f32(16, 31), "argument 1 (B): expected shape (16, 32), got (16, 31)"),
    (2, f32(5, 32), "argument 2 (C): expected shape (m, 32) with m = 4, got (5, 32)"),
    (
        0,
        f32(64),
        "argument 0 (A): expected 2 dimensions, shape (m, 16), got 1, shape (64,)",
    ),
    (1, np.zeros((16, 32)), "argument 1 (B): expected dtype float32, got float64"),
    (1, np.zeros((16, 32), "c8"), "argument 1 (B): expected dtype float32, got complex64"),
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
        "nor __array_interface__ nor __array__",
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
    assert str(caught.value) == "f: expected 5 arguments (A, B, C, alpha, k), got 1"


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
        ("llvm -mcpu=skylke", ["unknown CPU 'skylke'", "skylake", "Known to LLVM:"]),
        ("llvm -mattr=+avx9", ["unknown feature 'avx9'", "avx2"]),
        ("llvm -mtriple=nowhere", ["unknown target triple 'nowhere'"]),
        ("llvm -march=x", ["no attribute 'march'", "mcpu, model, mtriple"]),
        ("llvm -num-cores=many", ["'num-cores' takes int, got 'many'"]),
        ("llvm skylake", ["expected -NAME=VALUE, got 'skylake'"]),
        ("llvm -mcpu=a -mcpu=b", ["gives 'mcpu' twice"]),
        ('{"kind": 3}', ["a target needs a 'kind'"]),
        ("{kind}", ["is not valid JSON"]),
    ],
)
def test_targets(text, words):
    if "x86" not in Target("llvm").triple and ("mcpu" in text or "mattr" in text):
        text = f"{text} -mtriple=x86_64-unknown-linux-gnu"
    with pytest.raises(TargetError) as caught:
        Target(text)
    for word in words:
        assert word in str(caught.value)


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
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "two")
    with pytest.raises(
        TilewrightError, match="environment variable TILEWRIGHT_NUM_THREADS takes int, got 'two'"
    ):
        config.get("num_threads")
