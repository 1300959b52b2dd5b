"""Terms of a thread's indices that get names: the same program, with less to read."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tw
from tilewright import topi
from tilewright.codegen import cuda_fixed
from tilewright.rt.drivers import nvrtc

_DEFINED = re.compile(
    r"^ +(?:const )?(?:int|unsigned int) (thread_term\w*|v(?:_\d+)?) = (.*);\n", re.M
)
_USED = re.compile(r"\b(?:thread_term\w*|v(?:_\d+)?)\b")
_TERM = re.compile(r"\bthread_term\w*")


@pytest.fixture(autouse=True)
def _of_short_kernels_too(monkeypatch) -> None:
    monkeypatch.setattr(cuda_fixed, "LONG", 0)


def test_short_kernels_have_none(monkeypatch) -> None:
    monkeypatch.setattr(cuda_fixed, "LONG", 300)
    assert not _TERM.search(source("movement"))


def source(name: str, dtype: str = "float16", arch: str = "sm_80") -> str:
    with tw.target.Target(f"cuda -arch={arch}"):
        args: list[Any]
        if name == "matmul":
            args = [tw.te.placeholder((100, 72), dtype, "a"), tw.te.placeholder((90, 72), dtype)]
            args.append(topi.nn.dense(*args))
        elif name == "convolution":
            args = [tw.te.placeholder((1, 19, 21, 24), dtype, "x")]
            args.append(tw.te.placeholder((3, 3, 24, 40), dtype, "w"))
            args.append(topi.nn.conv2d_nhwc(args[0], args[1], 1, 1, 1))
        else:
            args = [tw.te.placeholder((7, 11, 13), dtype, "x")]
            args.append(topi.transpose(topi.exp(args[0]), (2, 0, 1)))
        schedule = topi.default_schedule(args[-1], tw.target.Target.current())
        text: str = tw.build(schedule, args).imported_modules[0].get_source()
    return text


def written_out(text: str) -> list[str]:
    """The kernels of a source with what integers' names stand for, without parentheses; variables
    are numbered in their order."""
    return [_written_out(kernel) for kernel in text.split('extern "C"')[1:]]


def _written_out(text: str) -> str:
    values: dict[str, str] = {}
    for m in _DEFINED.finditer(text):
        values[m[1]] = _USED.sub(lambda x: values.get(x[0], x[0]), m[2])
    text = _USED.sub(lambda x: values.get(x[0], x[0]), _DEFINED.sub("", text))
    numbers: dict[str, str] = {}
    text = re.sub(r"\bv(?:_\d+)?\b", lambda x: numbers.setdefault(x[0], f"v{len(numbers)}"), text)
    return re.sub(r"[() ]", "", text)


@pytest.mark.parametrize("name", ["matmul", "convolution", "movement"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_names_stand_for_what_was_written(name, arch, monkeypatch) -> None:
    text = source(name, arch=arch)
    monkeypatch.setattr(cuda_fixed, "_FEWEST", 1 << 30)
    plain = source(name, arch=arch)
    assert not _TERM.search(plain)
    assert written_out(text) == written_out(plain)


@pytest.mark.parametrize("name", ["matmul", "convolution"])
def test_names_are_used_twice_and_defined_before(name) -> None:
    text = source(name)
    names = _TERM.findall(text)
    assert names and len(text) < 0.9 * len(unnamed(name))
    known: set[str] = set()
    for line in text.splitlines():
        if line.startswith('extern "C"'):
            known = set()  # each kernel has its own
        found = _DEFINED.match(f"{line}\n")
        used = set(_TERM.findall(line)) - ({found[1]} if found else set())
        assert used <= known, line
        if found:
            known.add(found[1])
    for kernel in text.split('extern "C"')[1:]:
        for m in _TERM.finditer(kernel):
            assert len(re.findall(rf"\b{m[0]}\b", kernel)) > 2, m[0]


def unnamed(name: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_fixed, "_FEWEST", 1 << 30)
        return source(name)


@pytest.mark.skipif(bool(nvrtc.why_missing()), reason=nvrtc.why_missing() or "NVRTC")
@pytest.mark.parametrize("name", ["matmul", "convolution", "movement"])
def test_it_compiles_without_warnings(name) -> None:
    _, log = nvrtc.compile_cuda(source(name), "sm_80", "cubin")
    assert "warning" not in log.lower()
