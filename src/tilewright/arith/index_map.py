"""Index maps as functions: apply, invert, and the shape they give to an array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from ..base.deep import deep_call, recursive
from ..base.errors import TilewrightError
from ..loopir import expr as E
from ..loopir.iter import Range
from ..loopir.operators import logical_or
from ..loopir.subst import substitute
from .analyzer import Analyzer
from .int_set import eval_set
from .iter_map import IterMapResult, detect_iter_map, inverse_affine_iter_map

AXIS_SEPARATOR = "axis_separator"  # stands between final indices, as te.AXIS_SEPARATOR


_NUMPY = {
    E.Add: "add",
    E.Sub: "subtract",
    E.Mul: "multiply",
    E.FloorDiv: "floor_divide",
    E.FloorMod: "mod",
    E.Min: "minimum",
    E.Max: "maximum",
}


@recursive
def _numbers(e: Any, places: Mapping[Any, Any]) -> Any:
    """The values of an index for arrays of values of its variables."""
    import numpy as np

    if isinstance(e, E.IntImm):
        return e.value
    if e in places:
        return places[e]
    if isinstance(e, E.Cast):
        return _numbers(e.value, places)
    if type(e) not in _NUMPY:
        raise TilewrightError(f"map_ndarray: the index {e} is no arithmetic of the initial indices")
    return getattr(np, _NUMPY[type(e)])(_numbers(e.a, places), _numbers(e.b, places))


class IndexMap:
    """Final indices as expressions of initial indices, such as those of `lambda i: [i//4, i%4]`.
    Raises OperandError where `final_indices` holds what is neither a number nor an expression."""

    __slots__ = ("final_indices", "initial_indices", "inverse_index_map")

    AXIS_SEPARATOR = AXIS_SEPARATOR

    def __init__(
        self,
        initial_indices: Sequence[E.Var],
        final_indices: Sequence[Any],
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
    ) -> None:
        self.initial_indices = tuple(initial_indices)
        self.final_indices = tuple(E.convert(e) for e in final_indices)
        if inverse_index_map is not None and not isinstance(inverse_index_map, IndexMap):
            dtype = self.initial_indices[0].dtype if self.initial_indices else "int32"
            inverse_index_map = IndexMap.from_func(
                inverse_index_map, len(self.final_indices), index_dtype=dtype
            )
        self.inverse_index_map = inverse_index_map

    @staticmethod
    def from_func(
        func: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
        *,
        index_dtype: str = "int32",
    ) -> IndexMap:
        """The map of a Python function of indices; `ndim` is needed where it takes `*indices`.

        `inverse_index_map`: the inverse, where it is known; otherwise it is derived. Raises
        TilewrightError where the map has axis separators, where the function takes *indices and
        ndim is not given.
        """
        made, separators = IndexMap.from_func_with_separators(
            func, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise TilewrightError(
                "an index map with axis separators: use IndexMap.from_func_with_separators"
            )
        return made

    @staticmethod
    def from_func_with_separators(
        func: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
        *,
        index_dtype: str = "int32",
    ) -> tuple[IndexMap, list[int]]:
        """The map of a function whose result may hold `IndexMap.AXIS_SEPARATOR`, and before which
        of the final indices one stands. Raises TilewrightError where the function takes *indices
        and ndim is not given, where `index_dtype` is no type such as 'float32'."""
        names: list[str] = []
        for p in signature(func).parameters.values():
            if p.kind is Parameter.VAR_POSITIONAL:
                if ndim is None:
                    raise TilewrightError("give ndim for an index map that takes *indices")
                names += [f"i{n}" for n in range(len(names), ndim)]
            else:
                names.append(p.name)
        initial = [E.Var(name, index_dtype) for name in names]
        final = func(*initial)
        indices: list[Any] = []
        separators: list[int] = []
        for item in final if isinstance(final, (list, tuple)) else [final]:
            if isinstance(item, str) and item == AXIS_SEPARATOR:
                separators.append(len(indices))
            else:
                indices.append(item)
        return IndexMap(initial, indices, inverse_index_map), separators

    def map_indices(self, indices: Sequence[Any], analyzer: Analyzer | None = None) -> list[Any]:
        """The final indices of given initial ones, simplified. Raises TilewrightError where the
        indices are not as many as the map takes."""
        self._check(indices)
        values = dict(zip(self.initial_indices, map(E.convert, indices)))
        analyzer = analyzer or Analyzer()
        return [analyzer.simplify(substitute(e, values)) for e in self.final_indices]

    def map_ndarray(self, arr_src: Any) -> Any:
        """The array with its elements where the map puts them, zeros between them; an NDArray for
        an NDArray, else NumPy's."""
        import numpy as np

        source = arr_src.numpy() if hasattr(arr_src, "numpy") else np.asarray(arr_src)
        made = np.zeros([int(d) for d in self.map_shape(source.shape)], source.dtype)
        places = dict(zip(self.initial_indices, np.indices(source.shape, "int64")))
        at = [deep_call(_numbers, e, places) for e in self.final_indices]
        made[tuple(np.broadcast_to(a, source.shape) for a in at)] = source
        return type(arr_src)(made) if hasattr(arr_src, "numpy") else made

    def map_shape(self, shape: Sequence[Any], analyzer: Analyzer | None = None) -> list[Any]:
        """The extents of the final indices over an array of the given shape, padding included.
        Raises TilewrightError where a result has no upper limit, where the indices are not as many
        as the map takes."""
        ranges = self._ranges(shape)
        analyzer = analyzer or Analyzer()
        result = []
        for e in self.final_indices:
            s = eval_set(e, ranges, analyzer)
            if not s.has_upper_bound():
                raise TilewrightError(f"the index map's result {e} has no upper limit")
            result.append(analyzer.simplify(s.max_value + 1))
        return result

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """The inverse of a map that is a bijection from `shape` onto its result's shape. Raises
        TilewrightError where the map has no inverse, or leaves padding for the shape."""
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        result = self._detect(shape)
        if result.padded:
            raise TilewrightError(
                f"the index map leaves padding for shape {tuple(map(str, shape))}: its extents do "
                "not divide; pad the tensor first or use non_surjective_inverse"
            )
        return self._inverted(result, shape)

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, E.PrimExpr]:
        """The inverse, and a condition on its indices that holds where there is padding only.
        Raises TilewrightError where the map has no inverse."""
        result = self._detect(shape)
        inverse = self._inverted(result, shape)
        analyzer = self._final_analyzer(inverse, shape)
        padding: Any = E.IntImm("bool", 0)
        if result.padded:
            for e, extent in zip(inverse.final_indices, shape):
                outside = analyzer.simplify(E.convert(extent) <= e)
                padding = logical_or(padding, outside)
        return inverse, analyzer.simplify(padding)

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Whether both maps give the same indices (proved). Raises TilewrightError where the
        indices are not as many as the map takes."""
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        mine = self.final_indices
        theirs = other.map_indices(self.initial_indices)
        analyzer = Analyzer()
        return len(mine) == len(theirs) and all(map(analyzer.can_prove_equal, mine, theirs))

    def _check(self, indices: Sequence[Any]) -> None:
        if len(indices) != len(self.initial_indices):
            raise TilewrightError(
                f"the index map takes {len(self.initial_indices)} indices, got {len(indices)}"
            )

    def _ranges(self, shape: Sequence[Any]) -> dict[E.Var, Range]:
        self._check(shape)
        return {
            v: Range.from_min_extent(
                E.const(0, v.dtype), d if isinstance(d, E.PrimExpr) else int(d)
            )
            for v, d in zip(self.initial_indices, shape)
        }

    def _detect(self, shape: Sequence[Any]) -> IterMapResult:
        result = detect_iter_map(self.final_indices, self._ranges(shape))
        if result.errors:
            indices = ", ".join(str(e) for e in self.final_indices)
            raise TilewrightError(f"the index map [{indices}] has no inverse: {result.errors[0]}")
        return result

    def _inverted(self, result: IterMapResult, shape: Sequence[Any]) -> IndexMap:
        outputs = [E.Var(f"axis{i}", e.dtype) for i, e in enumerate(self.final_indices)]
        analyzer = Analyzer()
        for v, extent in zip(outputs, self.map_shape(shape)):
            analyzer.bind(v, Range.from_min_extent(E.const(0, v.dtype), extent))
        found = inverse_affine_iter_map(result.indices, outputs, analyzer)
        zero = [E.const(0, v.dtype) for v in self.initial_indices]
        final = [found.get(v, z) for v, z in zip(self.initial_indices, zero)]
        return IndexMap(outputs, final)

    def _final_analyzer(self, inverse: IndexMap, shape: Sequence[Any]) -> Analyzer:
        analyzer = Analyzer()
        for v, extent in zip(inverse.initial_indices, self.map_shape(shape)):
            analyzer.bind(v, Range.from_min_extent(E.const(0, v.dtype), extent))
        return analyzer
