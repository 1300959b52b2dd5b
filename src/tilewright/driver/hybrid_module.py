"""Schedules printed as hybrid scripts: what `te.hybrid.build` gives, and files of it."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from ..base.errors import CompileError
from ..codegen.hybrid_source import print_hybrid
from ..loopir.expr import Var
from ..lowering.schedule_ops import schedule_ops, schedule_to_prim_func
from ..rt.files import write_atomically
from ..schedule.api import Schedule
from ..tensor.hybrid.runtime import emulate
from ..tensor.hybrid.script import _has_symbols, source_to_op
from ..tensor.tensor import Tensor

_HEAD = "import tvm\n@tvm.te.hybrid.script\n"


class HybridModule:
    """A hybrid script as text, which may be called like one.

    src: the source of one function, without its decorator. name: of the module (default: that of
    the function). CompileError where the text holds no function, or several.
    """

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.src_: str | None = None
        self.name: str | None = None
        self.func_: Any = None
        self.root_: Any = None
        if src is not None:
            self.name = name
            self._read(_HEAD + src)

    def _read(self, src: str) -> None:
        """Take the one function of a text; its decorator and imports belong to who runs the text
        by itself."""
        found = [n for n in ast.parse(src).body if isinstance(n, ast.FunctionDef)]
        if len(found) != 1:
            raise CompileError(f"a hybrid module is one function, found {len(found)}")
        self.src_, self.root_ = src, found[0]
        self.name = self.name or self.root_.name
        self.root_.decorator_list = []
        scope: dict[str, Any] = {}
        code = ast.Module([self.root_], [])
        exec(compile(code, f"<hybrid script {self.name}>", "exec"), scope)
        self.func_ = scope[self.root_.name]

    def __call__(self, *args: Any) -> Any:
        """The tensors that the script computes of tensors, or arrays of arrays."""
        if not isinstance(self.func_, FunctionType):
            raise CompileError("the hybrid module holds no script: load one")
        if not any(map(_has_symbols, args)):
            return emulate(self.func_, args)
        return source_to_op(self.root_, args, {}, {})

    def get_source(self) -> str | None:
        """The script's text, with the decorator that makes it one; None before there is one."""
        return self.src_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the script to a file; without a suffix ".py" gets added. Raises CompileError where
        the module holds no script."""
        if self.src_ is None:
            raise CompileError("the hybrid module holds no script: load one")
        place = Path(path)
        if place.suffix != ".py":
            place = place.with_name(f"{place.name}.py")
        write_atomically(place, self.src_.encode())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read the script of a file. Its code is run when it is called: trust the file."""
        self._read(Path(path).read_text(encoding="utf-8"))


def build(
    sch: Schedule, inputs: Sequence[Any], outputs: Sequence[Tensor], name: str = "hybrid_func"
) -> HybridModule:
    """The loops of a schedule, before any pass, as a hybrid script of `inputs` (tensors and
    variables) that returns `outputs`. Raises CompileError where sch is no schedule, where an
    argument is no Tensor, Buffer or Var."""
    if not isinstance(sch, Schedule):
        raise CompileError(f"te.hybrid.build takes a schedule, got {type(sch).__name__}")
    body = schedule_ops(sch)
    tensors = [t for t in inputs if not isinstance(t, Var)]
    func = schedule_to_prim_func([*inputs, *outputs], body)
    buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    of_input = dict(zip(tensors, buffers))
    given = [x if isinstance(x, Var) else of_input[x] for x in inputs]
    return HybridModule(print_hybrid(func.body, given, buffers[len(tensors) :], name), name)
