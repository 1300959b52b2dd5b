"""build(): what it takes, what comes out, the compile cache, dumps and errors."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.base import config
from tilewright.base.errors import CompileError, TargetError, TilewrightError
from tilewright.codegen.llvm import backend
from tilewright.driver.build_module import build
from tilewright.driver.lower import lower
from tilewright.loopir.module import IRModule
from tilewright.target.target import Target


def scaled(factor: float = 2.0, n: Any = 64) -> tuple[Any, list[Any]]:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * factor, name="B")
    return te.create_schedule(b.op), [a, b]


def check(module: Any, factor: float = 2.0, n: int = 64) -> None:
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    module(x, out)
    np.testing.assert_array_equal(out, x * np.float32(factor))


def test_what_build_takes() -> None:
    s, args = scaled()
    check(build(s, args))
    check(build(s, args, "llvm", name="mine"))
    lowered = lower(s, args, name="other")
    check(build(lowered))
    check(build(lowered["other"]))
    with Target("llvm -mcpu=x86-64-v3"):
        module = build(s, args)
    assert module.target.mcpu == "x86-64-v3"
    check(module)


def test_names_and_sources() -> None:
    s, args = scaled()
    module = build(s, args, name="mine")
    assert module.entry_name == "mine"
    assert "define i32 @mine(ptr" in module.get_source() == module.get_source("ll")
    assert "mine:" in module.get_source("asm")
    assert "mine" in module.get_source("tir") or "main" in module.get_source("tir")
    info = module["mine"].info
    assert [a.name for a in info.args] == ["A", "B"]
    assert [a.is_output for a in info.args] == [False, True]


def test_several_functions() -> None:
    one, two = lower(*scaled(2.0), name="one"), lower(*scaled(3.0), name="two")
    module = build(IRModule({**one.functions, **two.functions}))
    check(module["one"], 2.0)
    check(module["two"], 3.0)


def test_symbolic_shapes_with_any_strides() -> None:
    n = te.var("n")
    s, args = scaled(2.0, n)
    module = build(s, args)
    check(module, 2.0, 7)
    x, out = np.arange(20, dtype=np.float32)[::2], np.zeros(30, np.float32)[::3]
    module(x, out)
    np.testing.assert_array_equal(out, x * 2)


def test_wrong_use() -> None:
    s, args = scaled()
    with pytest.raises(CompileError, match="needs its arguments"):
        build(s)
    with pytest.raises(CompileError, match="Schedule, PrimFunc or IRModule"):
        build(42)
    with pytest.raises(CompileError, match="no functions"):
        build(IRModule({}))
    with pytest.raises(TargetError, match="nonsense"):
        build(s, args, "nonsense")
    with pytest.raises(CompileError, match="Did you forget to bind"):
        build(s, args, "opencl")
    with pytest.raises(CompileError, match="nothing to build"):
        build({})


# -- the compile cache


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    with config.scoped(cache=True, cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one each time that LLVM makes object code."""
    calls: list[int] = []
    real = backend.emit_object

    def counting(*args: Any, **kwargs: Any) -> bytes:
        calls.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(backend, "emit_object", counting)
    return calls


def test_the_same_program_is_compiled_once(folder: Path, emitted: list[int]) -> None:
    for _ in range(3):
        check(build(*scaled()))
    assert len(emitted) == 1
    check(build(*scaled(3.0)), 3.0)
    assert len(emitted) == 2
    build(*scaled(), "llvm -mcpu=x86-64-v2")
    with config.scoped(opt_level=3):
        build(*scaled())
    with config.scoped(llvm_vectorize=True):
        fast = build(*scaled(), "llvm -mcpu=x86-64-v3")
        assert "ymm" in fast.get_source("asm")
        check(fast)
    emitted.pop()
    assert len(emitted) == 4
    with config.scoped(cache=False):
        build(*scaled())
    assert len(emitted) == 5


def test_users_rules_change_the_key(folder: Path, emitted: list[int]) -> None:
    from tilewright.loopir.intrin_rules import register_intrin_lowering, remove_rule

    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: te.exp(a[i]), name="B")
    s = te.create_schedule(b.op)
    build(s, [a, b])
    register_intrin_lowering("tir.exp", "llvm", lambda call: call.args[0] + 1.0, level=99)
    try:
        module = build(s, [a, b])
    finally:
        remove_rule("tir.exp", "llvm")
    assert len(emitted) == 2
    module(np.zeros(8, np.float32), out := np.zeros(8, np.float32))
    assert (out == 1).all()


@pytest.mark.parametrize("damage", ["half", "empty", "flipped"])
def test_a_damaged_entry_is_compiled_again(
    folder: Path, emitted: list[int], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    build(*scaled())
    (entry,) = [p for p in folder.rglob("*") if p.is_file()]
    data = entry.read_bytes()
    spoiled = {"half": data[: len(data) // 2], "empty": b"",
               "flipped": data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]}[damage]  # fmt: skip
    entry.write_bytes(spoiled)
    with caplog.at_level(logging.WARNING, "tilewright.cache"):
        check(build(*scaled()))
    assert len(emitted) == 2 and "damaged" in caplog.text
    check(build(*scaled()))
    assert len(emitted) == 2


def test_dumps(tmp_path: Path) -> None:
    with config.scoped(dump_dir=tmp_path / "dump"):
        build(*scaled(), name="mine")
    stages = {p.suffix for p in (tmp_path / "dump").iterdir() if "mine" in p.name}
    assert {".tir", ".ll", ".s"} <= stages


def test_failed_checks_name_the_function() -> None:
    module = build(*scaled())
    with pytest.raises(TilewrightError, match="A"):
        module(np.zeros(63, np.float32), np.zeros(64, np.float32))


def test_the_loop_nest_before_the_passes() -> None:
    from tilewright import driver

    s, args = scaled()
    raw = driver.schedule_to_module(s, args, "mine")
    assert list(raw.functions) == ["mine"]
    check(driver.build(raw, target="llvm"))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        driver.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ["é", "1x", "a-b"])
def test_a_kernel_of_a_function_whose_name_is_none_in_c(name: str) -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    text = build(s, [a, b], "cuda", name=name).imported_modules[0].get_source()
    (kernel,) = re.findall(r"(\S+)\(const", text)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", kernel)
