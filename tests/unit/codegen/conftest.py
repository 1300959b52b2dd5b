"""Compile hand-made loop IR straight through the LLVM code generator and run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.base.dtype import parse
from tilewright.codegen.llvm import backend
from tilewright.codegen.llvm.module import generate
from tilewright.driver.prepare import prepare
from tilewright.driver.signature import function_info
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer, decl_buffer
from tilewright.rt.module import Module
from tilewright.target.target import Target


def compile_func(func: S.PrimFunc, target: Any = "llvm") -> Module:
    """A module with the one function "f"."""
    target = Target(target)
    func = prepare(func, target)
    generated = generate({"f": func}, target)
    g = generated.functions[0]
    info = function_info(func, "f", g.symbols, g.messages, str(target))
    obj = backend.emit_object(generated.text, target, generated.imports)
    asm = backend.emit_assembly(generated.text, target, generated.imports)
    return Module.from_object(obj, [info], target, {"ll": generated.text, "asm": asm})


class Program:
    """A function over flat arrays: give it arrays, a body built from their buffers, run it."""

    def __init__(self, *arrays: tuple[str, int], noalias: bool = True) -> None:
        self.params: list[E.Var] = []
        self.buffers: list[Buffer] = []
        for i, (dtype, size) in enumerate(arrays):
            self.params.append(E.Var(f"arg{i}", "handle"))
            self.buffers.append(decl_buffer((size,), dtype, f"b{i}"))
        self.attrs = {"tir.noalias": noalias, "global_symbol": "f"}

    def func(self, body: S.Stmt, *scalars: E.Var) -> S.PrimFunc:
        pairs = dict(zip(self.params, self.buffers))
        return S.PrimFunc([*self.params, *scalars], body, None, pairs, self.attrs)

    def compile(self, body: S.Stmt, *scalars: E.Var, target: Any = "llvm") -> Module:
        return compile_func(self.func(body, *scalars), target)


def elementwise(
    build: Callable[..., Any], inputs: Sequence[np.ndarray], out_dtype: str, lanes: int
) -> np.ndarray:
    """out[i] = build(*(x[i] for x in inputs)) with vectors of `lanes` lanes."""
    size = len(inputs[0])
    assert size % lanes == 0
    program = Program(*((x.dtype.name, size) for x in inputs), (out_dtype, size))
    i = E.Var("i", "int32")
    at = i * lanes if lanes == 1 else E.Ramp(i * lanes, 1, lanes)
    value = build(*(E.BufferLoad(b, [at]) for b in program.buffers[:-1]))
    body = S.For(i, 0, size // lanes, 0, S.BufferStore(program.buffers[-1], value, [at]))
    out = np.zeros(size, parse(out_dtype).numpy)
    program.compile(body)(*inputs, out)
    return out


@pytest.fixture
def run_elementwise() -> Callable[..., np.ndarray]:
    return elementwise


@pytest.fixture
def program() -> type[Program]:
    return Program


@pytest.fixture
def compiled() -> Callable[..., Module]:
    return compile_func
