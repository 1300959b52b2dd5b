"""Statements that TVM's users make and that passes do not see: `lowering/plain_statements.py` puts
the basic ones in their place when a function is lowered.

Statements on tensors (ProducerStore, ProducerRealize), boxes of buffers that come to be
(BufferRealize), buffers declared over memory that is there (DeclBuffer), memory with known values
(AllocateConst). Names of fields are TVM's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import OperandError
from .buffer import Buffer
from .expr import PrimExpr, Var, convert
from .iter import Range
from .stmt import Stmt


class ProducerStore(Stmt):
    """Write `value` to an element of a tensor, before it is decided where its values are kept.
    Raises OperandError where `value` or one of `indices` is neither a number nor an expression."""

    __slots__ = ("indices", "producer", "value")
    schema = "producer:any value:expr indices:expr*"

    def __init__(
        self, producer: Any, value: Any, indices: Sequence[Any], span: object = None
    ) -> None:
        self.producer = producer
        self.value: PrimExpr = convert(value)
        self.indices = tuple(convert(i) for i in indices)


class ProducerRealize(Stmt):
    """Memory for a box of a tensor during `body`. Raises OperandError where `condition` is neither
    a number nor an expression."""

    __slots__ = ("body", "bounds", "condition", "producer", "storage_scope")
    schema = "producer:any bounds:range* condition:expr body:stmt storage_scope:str"

    def __init__(
        self,
        producer: Any,
        bounds: Sequence[Range],
        condition: Any,
        body: Stmt,
        storage_scope: Any = "",
        span: object = None,
    ) -> None:
        self.producer = producer
        self.bounds = tuple(bounds)
        self.condition: PrimExpr = convert(condition)
        self.body = body
        self.storage_scope = str(getattr(storage_scope, "value", storage_scope))


class BufferRealize(Stmt):
    """Memory for a box of a buffer during `body`. Raises OperandError where `condition` is neither
    a number nor an expression."""

    __slots__ = ("body", "bounds", "buffer", "condition")
    schema = "buffer:buffer bounds:range* condition:expr body:stmt"

    def __init__(
        self,
        buffer: Buffer,
        bounds: Sequence[Range],
        condition: Any,
        body: Stmt,
        span: object = None,
    ) -> None:
        self.buffer = buffer
        self.bounds = tuple(bounds)
        self.condition: PrimExpr = convert(condition)
        self.body = body


class DeclBuffer(Stmt):
    """`body` in which a buffer stands for memory that is there already. Raises OperandError where
    buffer is no Buffer."""

    __slots__ = ("body", "buffer")
    schema = "buffer:buffer body:stmt"

    def __init__(self, buffer: Buffer, body: Stmt, span: object = None) -> None:
        if not isinstance(buffer, Buffer):
            raise OperandError(f"DeclBuffer takes a buffer, got {buffer!r}")
        self.buffer = buffer
        self.body = body


class AllocateConst(Stmt):
    """Memory with known values (`data`, an array of NumPy's or ours) during `body`. Raises
    OperandError where data_or_idx are no values, where `extents` holds what is neither a number nor
    an expression."""

    __slots__ = ("annotations", "body", "buffer_var", "data", "dtype", "extents")
    schema = "<buffer_var:var dtype:type extents:expr* data:any >body:stmt annotations:dict"

    def __init__(
        self,
        buffer_var: Var,
        dtype: str,
        extents: Sequence[Any],
        data_or_idx: Any,
        body: Stmt,
        annotations: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        if isinstance(data_or_idx, int) or not hasattr(data_or_idx, "shape"):
            raise OperandError(
                "AllocateConst takes the values, an NDArray; numbers of constants of a module "
                f"are not kept, got {data_or_idx!r}"
            )
        self.buffer_var = buffer_var
        self.dtype = dtype
        self.extents = tuple(convert(e) for e in extents)
        self.data = data_or_idx
        self.body = body
        self.annotations = dict(annotations or {})

    def values(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array of the extents' shape."""
        given = self.data.numpy() if hasattr(self.data, "numpy") else self.data
        return np.asarray(given)
