"""From a PyTorch graph of core ATen operators to the nodes of a network."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.dtype import canonical
from ...base.errors import ImportModelError, TilewrightError
from ..ir import Graph, Value
from ..limits import Budget
from ..onnx.convert import Builder
from ..sizes import Size, same
from . import (
    complexes,
    fused,
    images,
    layers,
    linear,
    made,
    places,
    pointwise,
    recurrent,
    reduce,
    resize,
    views,
)
from .complexes import REAL_OF, any_complex, of_complex
from .convert import OPSET, Call, Converter
from .extents import fixed

CONVERTERS: dict[str, Converter] = {
    **pointwise.CONVERTERS,
    **views.CONVERTERS,
    **reduce.CONVERTERS,
    **images.CONVERTERS,
    **resize.CONVERTERS,
    **layers.CONVERTERS,
    **linear.CONVERTERS,
    **recurrent.CONVERTERS,
    **made.CONVERTERS,
    **places.CONVERTERS,
    **fused.CONVERTERS,
    **complexes.CONVERTERS,
}
"""By the operator's name without its namespace; of one overload with the overload's name. Those of
other namespaces than PyTorch's by the whole name."""

_TYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {
    "bool",
    "float16",
    "bfloat16",
    "float32",
    "float64",
}


def type_name(dtype: Any) -> str | None:
    """A type of PyTorch by its canonical name; None for those that networks have not."""
    name = str(dtype).removeprefix("torch.")
    return canonical(name) if name in _TYPES else None


_OF_COMPLEX = of_complex(CONVERTERS)


def real_type(dtype: Any) -> str | None:
    """The type of the halves of a complex type of PyTorch; None of others."""
    return REAL_OF.get(str(dtype).removeprefix("torch."))


def converter_of(target: Any, table: Mapping[str, Converter] = CONVERTERS) -> Converter | None:
    """What converts calls of an operator, or None."""
    whole = str(getattr(target, "_schema", target)).partition("(")[0]
    namespace, _, name = whole.partition("::")
    if namespace not in ("aten", "prims"):
        return table.get(whole)
    return table.get(name) or table.get(name.partition(".")[0])


def covered(target: Any) -> bool:
    return converter_of(target) is not None


def decompositions() -> dict[Any, Any]:
    """PyTorch's decompositions into core ATen, but of what is read here as it is."""
    from torch.export import default_decompositions

    table: Any = default_decompositions()
    for op in list(table.keys()):
        if covered(op):
            table.pop(op)
    return table  # type: ignore[no-any-return]


def is_assertion(target: Any) -> bool:
    """Checks that PyTorch makes while it runs; data that is out of range is limited here."""
    checks = ("aten._assert_", "aten.sym_constrain_range", "aten._linalg_check_errors")
    return str(target).startswith(checks)


def is_ordered_check(node: Any) -> bool:
    """A check that PyTorch hands a token on to, to keep it in its place."""
    return str(node.target) == "with_effects" and is_assertion(node.args[1])


def _plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, type(None), Size))


class Importer:
    """Converts the calls of a graph one by one; `known` has the value of each node that is one: a
    Value, a number, or a list.

    `metas`: what PyTorch says of each node's result, by which results are checked; `extent` makes
    a number or a Size of an extent there. `complexes`: whether there may be complex tensors, none
    of which is an input or an output then.
    """

    def __init__(
        self,
        budget: Budget,
        metas: Mapping[Any, Any],
        extent: Callable[[Any], Any] = fixed,
        complexes: bool = False,
    ) -> None:
        self.builder = Builder(OPSET, budget)
        self.metas = metas
        self.extent = extent
        self.complexes = complexes
        self.known: dict[Any, Any] = {}

    def reads(self, argument: Any) -> Any:
        """An argument of a call, with values for nodes. KeyError for nodes that have none."""
        from torch.fx.node import map_arg

        return map_arg(argument, lambda node: self.known[node])

    def convert(self, node: Any) -> None:
        """Convert a call, or raise TilewrightError, which says why it cannot be."""
        if node.target is operator.getitem:
            found = self.known[node.args[0]][node.args[1]]
            if found is None:
                raise ImportModelError(f"{node.name}: nothing computes this result")
            self.known[node] = found
            return
        if is_assertion(node.target):
            self.known[node] = None
            return
        numbers = self._number(node)
        if numbers is not None:
            self.known[node] = numbers[0]
            return
        if converter_of(node.target) is None:
            raise ImportModelError("there is no such operator here")
        metas = self._tensors(self.metas[node])
        self._check_types(node, metas)
        args, kwargs = self.reads(list(node.args)), self.reads(dict(node.kwargs))
        is_complex = bool(metas) and metas[0] is not None and metas[0].is_complex()
        table = _OF_COMPLEX if is_complex or any_complex(args, kwargs) else CONVERTERS
        function = converter_of(node.target, table)
        if function is None:
            raise ImportModelError(f"{node.target} of complex numbers is not supported")
        call = Call(
            self.builder,
            str(node.target),
            node.name,
            [_type(m) for m in metas],
            self._promoted(node),
            _read(node, len(metas)),
            self._first(node),
            is_complex,
        )
        kept = len(self.builder.nodes)
        try:
            result = function(call, *args, **kwargs)
            self._check(node, result, metas)
        except (TilewrightError, TypeError, ValueError, IndexError, AttributeError) as error:
            del self.builder.nodes[kept:]
            if isinstance(error, TilewrightError):
                raise
            raise ImportModelError(f"{node.target} {node.name!r}: {error}") from error
        self.known[node] = result

    def _number(self, node: Any) -> list[Any] | None:
        """Arithmetic on extents, and extents themselves, are numbers."""
        name = str(node.target)
        if name.startswith("aten.sym_size"):
            x, axis = self.known[node.args[0]], node.args[1]
            return [x.shape[axis]]
        if name.startswith("aten.sym_numel"):
            return [math.prod(self.known[node.args[0]].shape)]
        meta = self.metas.get(node)
        if type(meta).__name__ == "SymInt":
            return [self.extent(meta)]
        args = self.reads(list(node.args))
        python = getattr(node.target, "__module__", "") in ("_operator", "math", "builtins")
        python = python or "sym_" in getattr(node.target, "__name__", "")
        if python and all(_plain(a) for a in args) and callable(node.target):
            try:
                return [node.target(*args)]
            except TypeError as error:  # of sizes, which are no numbers yet
                raise ImportModelError(f"{node.name}: {error}") from error
        return None

    def _first(self, node: Any) -> Meta | None:
        """How the first argument lies in memory; None where it is no tensor."""
        first = node.args[0] if node.args else None
        found = self._tensors(self.metas.get(first)) if hasattr(first, "op") else [None]
        return found[0] if len(found) == 1 else None

    def _promoted(self, node: Any) -> str:
        """The type of the first two arguments together; "" where they have none."""
        import torch

        given = [self.metas.get(a, a) if isinstance(a, torch.fx.Node) else a for a in node.args[:2]]
        given = [g for g in given if isinstance(g, (torch.Tensor, bool, int, float))]
        if not any(isinstance(g, torch.Tensor) for g in given):
            return ""
        dtype = torch.result_type(given[0], given[-1])
        return type_name(dtype) or real_type(dtype) or ""

    def _check_types(self, node: Any, metas: Sequence[Any]) -> None:
        read = [self._tensors(self.metas[n]) for n in node.all_input_nodes if n in self.metas]
        for meta in [*metas, *(m for group in read for m in group)]:
            if meta is None:
                continue
            known = type_name(meta.dtype) or (self.complexes and real_type(meta.dtype))
            if not known or meta.layout_name != "strided":
                raise ImportModelError(f"{node.target}: {meta.dtype} is not supported")

    def _tensors(self, meta: Any) -> list[Any]:
        """Descriptions of the tensors of a result, None for what is none."""
        import torch

        listed = list(meta) if isinstance(meta, (list, tuple)) else [meta]
        return [Meta(m, self.extent) if isinstance(m, torch.Tensor) else None for m in listed]

    def _check(self, node: Any, result: Any, metas: Sequence[Any]) -> None:
        """A result of another shape or type than PyTorch's would be wrong."""
        values = result if isinstance(result, list) else [result]
        for value, meta in zip(values, metas):
            if value is None or meta is None:
                continue
            shape, dtype = tuple(meta.shape), type_name(meta.dtype)
            dtype = str(meta.dtype).removeprefix("torch.") if meta.is_complex() else dtype
            if not _alike(value.shape, shape) or value.dtype != dtype:
                raise ImportModelError(
                    f"{node.target} {node.name!r} gives {value!r}, and in PyTorch "
                    f"{dtype}{list(shape)}"
                )


def _alike(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(same(m, n) for m, n in zip(a, b))


def _type(meta: Any) -> str:
    return "" if meta is None else (type_name(meta.dtype) or real_type(meta.dtype) or "")


def _read(node: Any, count: int) -> list[bool]:
    """Which results are read: of a call with several, each by a getitem."""
    read = [False] * max(count, 1)
    for user in node.users:
        if user.target is operator.getitem and isinstance(user.args[1], int):
            if user.users and user.args[1] < count:
                read[user.args[1]] = True
        else:
            return [True] * max(count, 1)
    return read


class Meta:
    """Shape and type of a tensor, and how it lies in memory."""

    __slots__ = ("dtype", "layout_name", "offset", "shape", "stride")

    def __init__(self, tensor: Any, extent: Callable[[Any], Any]) -> None:
        self.shape = tuple(extent(d) for d in tensor.shape)
        self.dtype = tensor.dtype
        self.layout_name = str(tensor.layout).removeprefix("torch.")
        self.stride = tuple(extent(s) for s in tensor.stride())
        self.offset = tensor.storage_offset()  # perhaps of symbols

    def is_complex(self) -> bool:
        return bool(self.dtype.is_complex)


def graph_of(name: str, inputs: Sequence[Value], outputs: Sequence[Value], b: Builder) -> Graph:
    """A network; each output a value of its own, which a node computes."""
    found: list[Value] = []
    for value in outputs:
        found.append(b.output(value, found, "output"))
    for k, value in enumerate(found):
        value.name = f"output_{k}"
    graph = Graph(name, inputs, found, b.nodes)
    graph.drop_dead_nodes()
    return graph


def array_of(tensor: Any) -> Any:
    """The memory of a compact tensor on the CPU as an array; bfloat16 through its bits."""
    import torch

    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
