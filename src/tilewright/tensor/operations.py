"""Operations: the nodes of a tensor program. Immutable; scheduling makes new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ..base.errors import InternalError, TilewrightError
from ..loopir.buffer import Buffer
from ..loopir.expr import Node, PrimExpr
from ..loopir.iter import IterVar, ProducerLoad, Range, Reduce
from ..loopir.stmt import Stmt
from ..loopir.visit import post_order_visit
from .arguments import check_name
from .tensor import Tensor


class Operation(Node):
    """Gives `num_outputs` tensors out of `input_tensors`. `attrs` holds the user's remarks. Raises
    TilewrightError where tag is not text, or attrs is no dictionary, where `name` is not text."""

    __slots__ = ("_checked", "_inputs", "_outputs", "attrs", "name", "tag")
    kind: ClassVar[str] = ""
    # what some kinds of operations have; of others there is none
    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]
    scan_axis: IterVar
    spatial_axis_: tuple[IterVar, ...]
    body: Any

    def __init__(self, name: str, tag: str, attrs: Mapping[str, Any] | None) -> None:
        check_name(name, "an operation")
        if not isinstance(tag, str):
            raise TilewrightError(f"{name}: the tag must be text, got {tag!r}")
        if attrs is not None and not isinstance(attrs, Mapping):
            raise TilewrightError(f"{name}: attrs must be a dictionary, got {attrs!r}")
        self.name = name
        self.tag = tag
        self.attrs: dict[str, Any] = dict(attrs) if attrs else {}
        self.forget()

    def forget(self) -> None:
        """Start with nothing remembered: for those who make operations field by field."""
        self._outputs: dict[int, Tensor] = {}
        self._inputs: tuple[Tensor, ...] | None = None
        self._checked: Any = None  # what bounds.check_program found of the program that ends here

    @property
    def num_outputs(self) -> int:
        """The number of tensors made."""
        return 1

    def output(self, index: int) -> Tensor:
        """Output `index`: always the same Tensor object. Raises TilewrightError where index is no
        output of the operation."""
        tensor = self._outputs.get(index)
        if tensor is None:
            if not 0 <= index < self.num_outputs:
                raise TilewrightError(f"{self.name} has {self.num_outputs} outputs, asked: {index}")
            tensor = Tensor(self, index, self.output_shape(index), self.output_dtype(index))
            tensor = self._outputs.setdefault(index, tensor)
        return tensor

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors made."""
        return tuple(self.output(i) for i in range(self.num_outputs))

    def output_dtype(self, index: int) -> str:
        """The dtype of output `index`."""
        raise NotImplementedError

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        """The shape of output `index`."""
        raise NotImplementedError

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors read, each once, in order of first use."""
        if self._inputs is None:
            self._inputs = tuple(dict.fromkeys(self._find_inputs()))
        return self._inputs

    def _find_inputs(self) -> Iterable[Tensor]:
        return ()

    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The loops that a schedule starts from."""
        return ()

    def __repr__(self) -> str:
        return f"{self.kind}({self.name})"

    __str__ = __repr__


class PlaceholderOp(Operation):
    """An argument of the program. Raises TilewrightError where `name` is not text."""

    __slots__ = ("dtype", "shape")
    kind = "placeholder"

    def __init__(self, name: str, shape: Sequence[PrimExpr], dtype: str) -> None:
        super().__init__(name, "", None)
        self.shape = tuple(shape)
        self.dtype = dtype

    def output_dtype(self, index: int) -> str:
        return self.dtype

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        return self.shape


class BaseComputeOp(Operation):
    """An operation whose outputs are described element by element, over `axis`. Raises
    TilewrightError where tag is not text, or attrs is no dictionary, where `name` is not text."""

    __slots__ = ("axis", "reduce_axis")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        axis: Sequence[IterVar],
        reduce_axis: Sequence[IterVar],
    ) -> None:
        super().__init__(name, tag, attrs)
        self.axis = tuple(axis)
        self.reduce_axis = tuple(reduce_axis)

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        return tuple(domain(a).extent for a in self.axis)

    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return self.axis + self.reduce_axis


class Bodies(tuple[PrimExpr, ...]):
    """The expressions of an operation, printed as the list that users of TVM know."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(str, self))}]"

    __str__ = __repr__


class ComputeOp(BaseComputeOp):
    """Element `axis` of output i is `body[i]`: expressions that read other tensors.

    Either no element is a Reduce, or all are, alike but for the value index. Raises TilewrightError
    where tag is not text, or attrs is no dictionary.
    """

    __slots__ = ("body",)
    kind = "compute"

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        axis: Sequence[IterVar],
        body: Sequence[PrimExpr],
    ) -> None:
        first = body[0]
        reduce_axis = first.axis if isinstance(first, Reduce) else ()
        super().__init__(name, tag, attrs, axis, reduce_axis)
        self.body = Bodies(body)

    @property
    def num_outputs(self) -> int:
        """The number of tensors made: more than 1 where a reduction has several values."""
        return len(self.body)

    def output_dtype(self, index: int) -> str:
        return str(self.body[index].dtype)

    def _find_inputs(self) -> Iterable[Tensor]:
        # the elements of a reduction to several values share their sources
        reads = self.body[:1] if isinstance(self.body[0], Reduce) else self.body
        return loaded_tensors(*reads)


class TensorComputeOp(BaseComputeOp):
    """A tensor intrinsic applied to regions of tensors, over the first `schedulable_ndim` axes.
    Raises TilewrightError where tag is not text, or attrs is no dictionary."""

    __slots__ = ("intrin", "regions", "scalar_inputs", "schedulable_ndim", "tensors")
    kind = "tensor_compute"

    def __init__(
        self,
        name: str,
        tag: str,
        axis: Sequence[IterVar],
        reduce_axis: Sequence[IterVar],
        schedulable_ndim: int,
        intrin: Any,
        tensors: Sequence[Tensor],
        regions: Sequence[Sequence[Range]],
        scalar_inputs: Sequence[PrimExpr],
    ) -> None:
        super().__init__(name, tag, None, axis, reduce_axis)
        self.schedulable_ndim = schedulable_ndim
        self.intrin = intrin
        self.tensors = tuple(tensors)
        self.regions = tuple(tuple(r) for r in regions)
        self.scalar_inputs = tuple(scalar_inputs)

    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return self.axis[: self.schedulable_ndim] + self.reduce_axis

    @property
    def num_outputs(self) -> int:
        """The number of tensors that the intrinsic writes."""
        return len(self.intrin.buffers) - len(self.intrin.inputs)

    def output_dtype(self, index: int) -> str:
        return str(self.intrin.buffers[len(self.intrin.inputs) + index].dtype)

    def _find_inputs(self) -> Iterable[Tensor]:
        return (*self.tensors, *loaded_tensors(*self.scalar_inputs))


class ScanOp(Operation):
    """Recurrence along the first dimension: `init` gives the first rows, `update` each next one.

    In `update`, `state_placeholder` stands for the rows computed so far. Output i has the shape of
    update[i]. `spatial_axis_` holds one axis for each output and dimension after the first. Raises
    TilewrightError where tag is not text, or attrs is no dictionary, where `name` is not text.
    """

    __slots__ = ("init", "inputs", "scan_axis", "spatial_axis_", "state_placeholder", "update")
    kind = "scan"

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        axis: IterVar,
        init: Sequence[Tensor],
        update: Sequence[Tensor],
        state_placeholder: Sequence[Tensor],
        inputs: Sequence[Tensor] = (),
        spatial_axis_: Sequence[IterVar] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.scan_axis = axis
        self.init = tuple(init)
        self.update = tuple(update)
        self.state_placeholder = tuple(state_placeholder)
        self.inputs = tuple(inputs)
        if spatial_axis_ is None:
            spatial_axis_ = [
                IterVar(Range(0, u.shape[k]), f"{name}.out{i}.i{k}", IterVar.Opaque)
                for i, u in enumerate(self.update)
                for k in range(1, u.ndim)
            ]
        self.spatial_axis_ = tuple(spatial_axis_)

    @property
    def num_outputs(self) -> int:
        """The number of states carried along."""
        return len(self.update)

    def output_dtype(self, index: int) -> str:
        return self.update[index].dtype

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        return self.state_placeholder[index].shape

    def _find_inputs(self) -> Iterable[Tensor]:
        return (*self.init, *self.update)

    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (self.scan_axis, *self.spatial_axis_)


class ExternOp(Operation):
    """Outputs that a statement writes: loops of the user's own, or calls of functions.

    `input_placeholders` and `output_placeholders` are the buffers by which `body` names the arrays.
    Raises TilewrightError where tag is not text, or attrs is no dictionary, where `name` is not
    text.
    """

    __slots__ = ("body", "input_placeholders", "inputs", "output_placeholders")
    kind = "extern"

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        inputs: Sequence[Tensor],
        input_placeholders: Sequence[Buffer],
        output_placeholders: Sequence[Buffer],
        body: Stmt,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.inputs = tuple(inputs)
        self.input_placeholders = tuple(input_placeholders)
        self.output_placeholders = tuple(output_placeholders)
        self.body = body

    @property
    def num_outputs(self) -> int:
        """The number of tensors that the statement writes."""
        return len(self.output_placeholders)

    def loops(self) -> Stmt:
        """The statement on the buffers of the placeholders."""
        found: Stmt = self.body
        return found

    def output_dtype(self, index: int) -> str:
        return self.output_placeholders[index].dtype

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        return self.output_placeholders[index].shape

    def _find_inputs(self) -> Iterable[Tensor]:
        return self.inputs


def domain(axis: IterVar) -> Range:
    """The domain of an axis that must have one."""
    if axis.dom is None:
        raise InternalError(f"axis {axis.var.name} has no domain")
    return axis.dom


def loaded_tensors(*exprs: PrimExpr) -> list[Tensor]:
    """The tensors read in expressions, each once, in the order of evaluation."""
    found: dict[Tensor, None] = {}

    def visit(e: Any) -> None:
        if type(e) is ProducerLoad:
            found.setdefault(e.producer)

    for e in exprs:
        post_order_visit(e, visit)
    return list(found)
