"""`te.hybrid.script`: the decorator, and from a script with tensors to their operation."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import UsageError
from ...loopir.buffer import Buffer, decl_buffer
from ...loopir.expr import Var
from ...loopir.iter import IterVar
from ...loopir.node import PrimExpr
from ...loopir.stmt import Stmt
from ..hybrid_op import HybridOp
from ..tensor import Tensor
from .parser import Parser
from .runtime import emulate
from .values import Memory


def script(pyfunc: Callable[..., Any]) -> Any:
    """Make a hybrid script of a Python function of loops.

    Called with tensors, it gives the tensors that its loops compute; with NumPy arrays and numbers
    alone, it runs as Python. Loops: range, parallel, vectorize, unroll, const_range (which is
    written out), bind("threadIdx.x", n). Memory: `output_tensor(shape, dtype)` of what is returned,
    `allocate(shape, dtype, scope)`. Also: if, assert, assignments, calls of other scripts, exp,
    log, sqrt, rsqrt, tanh, sigmoid, power, popcount, round, min, max, likely, ceil_div, len, casts
    such as float32(x). Names of the functions around and of the module are read as constants.
    Raises UsageError where the source of `pyfunc` cannot be read.
    """
    tree = function_of(source_of(pyfunc), pyfunc.__name__)
    known = _known(pyfunc)

    @functools.wraps(pyfunc)
    def call(*args: Any) -> Any:
        if not any(map(_has_symbols, args)):
            return emulate(pyfunc, args)
        return source_to_op(tree, args, known, {})

    def read_inside(args: Sequence[Any], threads: dict[str, IterVar]) -> Any:
        parser = Parser(tree, args, known, threads)
        body = parser.parse()
        return body, parser.returned

    call.read_inside = read_inside  # type: ignore[attr-defined]
    return call


def source_of(pyfunc: Callable[..., Any]) -> str:
    """The text of a function, without decorators and indentation."""
    try:
        text = textwrap.dedent(inspect.getsource(pyfunc))
    except (OSError, TypeError) as error:
        raise UsageError(
            f"the source of {pyfunc!r} cannot be read: {error}; a hybrid script stands in a file"
        ) from None
    return text


def function_of(text: str, name: str | None = None) -> ast.FunctionDef:
    """The one function in a source."""
    found = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    chosen = [n for n in found if name is None or n.name == name]
    if len(chosen) != 1:
        raise UsageError(f"a hybrid script is one function, found {len(found)}")
    return chosen[0]


def _known(pyfunc: Callable[..., Any]) -> Mapping[str, Any]:
    """What names of the function mean outside of it, looked up when they are read."""
    return _Around(pyfunc)


class _Around(Mapping[str, Any]):
    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, name: str) -> Any:
        code = self.function.__code__
        cells = self.function.__closure__ or ()
        if name in code.co_freevars:
            try:
                return cells[code.co_freevars.index(name)].cell_contents
            except ValueError:
                raise KeyError(name) from None
        return self.function.__globals__[name]

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(
            {**self.function.__globals__, **dict.fromkeys(self.function.__code__.co_freevars)}
        )

    def __len__(self) -> int:
        return len(list(iter(self)))


def _has_symbols(arg: Any) -> bool:
    if isinstance(arg, (list, tuple)):
        return any(map(_has_symbols, arg))
    return isinstance(arg, (Tensor, PrimExpr)) and not isinstance(arg, np.ndarray)


def source_to_op(
    src: str | ast.AST,
    args: Sequence[Any],
    symbols: Mapping[str, Any] | None,
    closure_vars: Mapping[str, Any] | None,
) -> Any:
    """The tensor (or the list of tensors) that a script computes of `args`: tensors, variables,
    numbers and lists of them.

    src: the function's source, or its syntax tree. symbols, closure_vars: what names mean outside.
    """
    outputs = parse_python(src, args, symbols, closure_vars).outputs
    return outputs[0] if len(outputs) == 1 else outputs


class HybridParser(Parser):
    """A script that was read with tensors. `op`: the operation; `func_name`, `parsed_body` and
    `outputs`: its name, its statement and its tensors. Raises UsageError where args are not as many
    as the script takes."""

    op: HybridOp

    @property
    def func_name(self) -> str:
        """The name of the function."""
        return self.function.name

    @property
    def parsed_body(self) -> Stmt:
        """The statement, which reads and stores tensors."""
        return self.op.body

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors that the script returns."""
        return list(self.op.outputs)


def parse_python(
    src: str | ast.AST,
    args: Sequence[Any],
    symbols: Mapping[str, Any] | None,
    closure_vars: Mapping[str, Any] | None,
) -> HybridParser:
    """What has read a script, with its statement in `parsed_body`; arguments as for
    `source_to_op`. UsageError where the source is not one function, or no hybrid script."""
    if isinstance(src, ast.FunctionDef):
        tree = src
    else:
        tree = function_of(src if isinstance(src, str) else ast.unparse(src))
    known = symbols if not closure_vars else {**dict(symbols or {}), **closure_vars}
    inputs: list[Tensor] = []
    placeholders: list[Buffer] = []

    def read(arg: Any) -> Any:
        if isinstance(arg, Tensor):
            if arg not in inputs:
                inputs.append(arg)
                placeholders.append(_declared(arg))
            return Memory(placeholders[inputs.index(arg)])
        return tuple(map(read, arg)) if isinstance(arg, (list, tuple)) else arg

    parser = HybridParser(tree, [read(a) for a in args], known or {})
    body: Stmt = parser.parse()
    outputs = [m.buffer for m in parser.returned or ()]
    parser.op = HybridOp(tree.name, "hybrid", None, inputs, placeholders, outputs, body)
    return parser


def _declared(t: Tensor) -> Buffer:
    offset = Var("elem_offset", "int32")
    return decl_buffer(t.shape, t.dtype, t.op.name, elem_offset=offset)
