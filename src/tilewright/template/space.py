"""The space of configurations of a template: all combinations of its knobs' values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from .annotate import ANNOTATIONS, AnnotateEntity, AnnotateSpace
from .knob import OtherOptionEntity, OtherOptionSpace
from .reorder import ReorderEntity, ReorderSpace
from .split import SplitEntity, SplitSpace, divisors
from .transform import Axis, VirtualAxis

_ENTITIES: dict[str, type[Any]] = {
    "sp": SplitEntity,
    "re": ReorderEntity,
    "an": AnnotateEntity,
    "ot": OtherOptionEntity,
}
_TRIES = 10_000


class InstantiationError(TilewrightError):
    """A template cannot be built with a configuration."""


class OutOfSpaceError(TilewrightError, IndexError):
    """A space has no configuration of this number, or its filters leave it out."""


def random_from(start: int | None, end: int) -> int:
    """A number at random from `start` (None: 0) up to but not `end`, which may be large."""
    return (start or 0) + int.from_bytes(np.random.bytes(16), "little") % (end - (start or 0))


class ConfigSpace:
    """Collects the knobs that a template defines. As a mapping it gives each knob's first choice,
    so that the template runs to its end while its space is collected.

    Configurations are numbered in mixed radix, the first knob's digit the lowest; `len` counts
    those that `multi_filter` keeps, `range_length` all. Iterating gives the names of the knobs.
    """

    is_fallback = False
    cost: float | None = None

    def __init__(self) -> None:
        self.space_map: dict[str, Any] = {}
        self.errors: list[str] = []
        self.code_hash: str | None = None
        self.flop: float = 0
        self._entity_map: dict[str, Any] = {}
        self._filters: list[Callable[[Any], bool]] = []
        self._kept: np.ndarray[Any, Any] | None = None

    # -- what templates call

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """An axis of constant length for the knobs: a number or an IterVar. Raises TilewrightError
        where `var` has no constant length of 1 or more."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(
        self, name: str, axis: Any, policy: str = "factors", **kwargs: Any
    ) -> list[Axis]:
        """A knob for the lengths into which an axis is split; see `SplitSpace`."""
        return self._define(SplitSpace, name, axis, policy, kwargs)

    def define_reorder(
        self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """A knob for the order of axes; see `ReorderSpace`."""
        return self._define(ReorderSpace, name, axes, policy, kwargs)

    def define_annotate(
        self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """A knob for what happens to axes; see `AnnotateSpace`."""
        return self._define(AnnotateSpace, name, axes, policy, kwargs)

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """A knob that is one of some numbers or texts: `cfg[name].val`."""
        self._define(OtherOptionSpace, name, [], "", {"candidate": candidate})

    def add_flop(self, flop: float) -> None:
        """Count `flop` operations by hand: of several calls the numbers add up."""
        self.flop += float(getattr(flop, "value", flop))

    def multi_filter(self, filter: Callable[[Any], bool]) -> None:
        """Keep the configurations for which `filter(config)` holds: for what knobs may not do
        together, such as more threads than a block can have."""
        self._filters.append(filter)
        self._kept = None

    def raise_error(self, msg: str) -> None:
        """Say that the present configuration cannot be built; the template runs on."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Whether no error was raised."""
        return not self.errors

    def _define(self, space: Any, name: str, axes: Any, policy: str, kwargs: Any) -> list[Axis]:
        if name not in self.space_map:
            self.space_map[name] = made = space(axes, policy, **kwargs)
            self._entity_map[name] = made[0]
            self._kept = None
        known = self.space_map[name]
        return [Axis(known, i) for i in range(known.num_output)]

    # -- numbers and configurations

    @property
    def dims(self) -> list[int]:
        """The number of choices of each knob."""
        return [len(s) for s in self.space_map.values()]

    @property
    def range_length(self) -> int:
        """The number of combinations, those that filters leave out included."""
        return math.prod(self.dims)

    @property
    def filter_length(self) -> int:
        """The number of combinations that the filters keep."""
        return len(self)

    def __len__(self) -> int:
        if not self._filters:
            return self.range_length
        return len(self._indices())

    def __iter__(self) -> Iterator[str]:
        return iter(self._entity_map)

    def indices(self) -> Iterator[int]:
        """The numbers of the configurations that the filters keep, ascending."""
        return iter(map(int, self._indices()) if self._filters else range(self.range_length))

    def _indices(self) -> np.ndarray[Any, Any]:
        if self._kept is None:
            kept = [i for i in range(self.range_length) if self.is_index_valid(i)]
            self._kept = np.array(kept, dtype=np.int64)
        return self._kept

    def is_index_valid(self, index: int) -> bool:
        """Whether a number is that of a configuration that the filters keep."""
        if not 0 <= index < self.range_length:
            return False
        if not self._filters:
            return True
        config = self._make(index)
        return all(f(config) for f in self._filters)

    def get(self, index: int) -> ConfigEntity:
        """The configuration of a number; OutOfSpaceError where there is none, or the filters leave
        it out."""
        if not 0 <= index < self.range_length:
            raise OutOfSpaceError(
                f"there is no configuration {index}: the space has {self.range_length}"
            )
        config = self._make(int(index))
        if not all(f(config) for f in self._filters):
            raise OutOfSpaceError(
                f"configuration {index} does not correspond to the multi_filter conditions; "
                "is_index_valid tells which do"
            )
        return config

    def _make(self, index: int) -> ConfigEntity:
        chosen = {
            name: space[digit]
            for (name, space), digit in zip(self.space_map.items(), self.point2knob(index))
        }
        return ConfigEntity(index, self.code_hash, chosen)

    def point2knob(self, point: int) -> list[int]:
        """The digits of a number: the place of each knob's choice."""
        digits = []
        for size in self.dims:
            point, digit = divmod(point, size)
            digits.append(digit)
        return digits

    def knob2point(self, knob: Sequence[int]) -> int:
        """The number with these digits."""
        point = 0
        for digit, size in zip(reversed(knob), reversed(self.dims)):
            point = point * size + int(digit)
        return point

    def index_of(self, config: ConfigEntity) -> int | None:
        """The number that a configuration has in this space; None where it is not in it."""
        digits = []
        for name, space in self.space_map.items():
            wanted = config.encoded(name)
            place = next((i for i, e in enumerate(space.entities) if e.encode() == wanted), None)
            if place is None:
                return None
            digits.append(place)
        return self.knob2point(digits)

    def sample_ints(self, m: int, rng: np.random.Generator | None = None) -> list[int]:
        """Up to m different numbers of configurations that the filters keep, at random."""
        rng = np.random.default_rng() if rng is None else rng
        count = self.range_length
        if count <= max(4 * m, 4096):
            kept = np.array(list(self.indices()), dtype=np.int64)
            return [int(i) for i in rng.permutation(kept)[:m]]
        found: dict[int, None] = {}
        for _ in range(_TRIES * max(1, m)):
            if len(found) == m:
                break
            index = self.knob2point([int(rng.integers(d)) for d in self.dims])
            if index not in found and self.is_index_valid(index):
                found[index] = None
        return list(found)

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Any = None
    ) -> int:
        """A number of a kept configuration at random, from `start` up to but not `end`, none of
        `to_exclude`; OutOfSpaceError where there is none left."""
        last = self.range_length if end is None else min(end, self.range_length)
        excluded = frozenset(to_exclude or ())
        for _ in range(_TRIES):
            index = random_from(start, last)
            if index not in excluded and self.is_index_valid(index):
                return index
        kept = [i for i in self.indices() if (start or 0) <= i < last and i not in excluded]
        if not kept:
            raise OutOfSpaceError("no configuration is left in this part of the space")
        return kept[int(np.random.randint(len(kept)))]

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """The number of the n-th kept configuration behind `index` (before it, of a negative n),
        from `start` up to but not `end`; None where there is none."""
        first = 0 if start is None else start
        last = self.range_length if end is None else min(end, self.range_length)
        step = 1 if n > 0 else -1
        left = abs(n)
        while left:
            index += step
            if not first <= index < last:
                return None
            left -= self.is_index_valid(index)
        return index

    def subrange_length(self, start: int, end: int) -> int:
        """How many kept configurations have numbers from `start` up to but not `end`. Raises
        OutOfSpaceError where start and end are no part of the range."""
        if not 0 <= start <= end <= self.range_length:
            raise OutOfSpaceError(f"{start} to {end} is no part of 0 to {self.range_length}")
        return sum(map(self.is_index_valid, range(start, end))) if self._filters else end - start

    def random_walk(self, point: int) -> int:
        """A kept number that differs in one knob from `point`, at random. Raises OutOfSpaceError
        where no other configuration is kept."""
        dims = self.dims
        free = [k for k, size in enumerate(dims) if size > 1]
        for _ in range(_TRIES if free else 0):
            knob = self.point2knob(point)
            k = free[int(np.random.randint(len(free)))]
            knob[k] = (knob[k] + 1 + int(np.random.randint(dims[k] - 1))) % dims[k]
            moved = self.knob2point(knob)
            if self.is_index_valid(moved):
                return moved
        raise OutOfSpaceError(f"no configuration that is kept differs in one knob from {point}")

    def clear_cache(self) -> None:
        """Forget which configurations the filters keep: they are asked anew."""
        self._kept = None

    def __getitem__(self, name: str) -> Any:
        found = self._entity_map.get(name)
        if found is None:
            known = ", ".join(self._entity_map) or "none"
            raise TilewrightError(f"the configuration has no knob {name!r}; it has: {known}")
        return found

    def __setitem__(self, name: str, entity: Any) -> None:
        """Replace a knob's choice, by an entity or, for define_knob, a value."""
        known = isinstance(entity, tuple(_ENTITIES.values()))
        self._entity_map[name] = entity if known else OtherOptionEntity(entity)

    def __contains__(self, name: str) -> bool:
        return name in self._entity_map

    def __repr__(self) -> str:
        lines = [f"ConfigSpace (len={len(self)}, range_length={self.range_length}, space_map="]
        lines += [f"  {i:2} {name}: {s}" for i, (name, s) in enumerate(self.space_map.items())]
        return "\n".join(lines) + "\n)"


class ConfigEntity(ConfigSpace):
    """One configuration: `cfg["tile_x"].apply(...)`, `cfg["knob"].val`. Its `define_*` define
    nothing: the choices are made. `constraints` are kept as they are given."""

    def __init__(
        self,
        index: int | None,
        code_hash: str | None,
        entity_map: Mapping[str, Any],
        constraints: Sequence[Any] = (),
    ) -> None:
        super().__init__()
        self.constraints = list(constraints)
        self.index = index
        self.code_hash = code_hash
        self._entity_map = dict(entity_map)

    def _define(self, space: Any, name: str, axes: Any, policy: str, kwargs: Any) -> list[Axis]:
        return [Axis(None, i) for i in range(space.get_num_output(axes, policy, **kwargs))]

    def multi_filter(self, filter: Callable[[Any], bool]) -> None:
        """The space has been filtered."""

    def encoded(self, name: str) -> Any:
        """A knob's choice as data, [type, value]; None where there is no such knob."""
        entity = self._entity_map.get(name)
        return None if entity is None else entity.encode()

    def get_flatten_feature(self) -> np.ndarray[Any, Any]:
        """The choices as numbers, float32: lengths of splits, places of orders, one of eleven for
        each annotation, values of options."""
        found: list[float] = []
        for entity in self._entity_map.values():
            if isinstance(entity, SplitEntity):
                found += entity.size
            elif isinstance(entity, ReorderEntity):
                found += entity.perm
            elif isinstance(entity, AnnotateEntity):
                for ann in entity.anns:
                    found += [float(ann == known) for known in ANNOTATIONS]
            else:
                found.append(entity.val)
        return np.array(found, dtype=np.float32)

    def get_other_option(self) -> dict[OtherOptionEntity, Any]:
        """The choices of the knobs that `define_knob` made, each with its value."""
        return {e: e.val for e in self._entity_map.values() if isinstance(e, OtherOptionEntity)}

    def to_json_dict(self) -> dict[str, Any]:
        """As in records: {"index", "code_hash", "entity": [[name, type, value], ...]}."""
        entity = [[name, *e.encode()] for name, e in self._entity_map.items()]
        return {"index": self.index, "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(data: Mapping[str, Any]) -> ConfigEntity:
        """What `to_json_dict` gave; TilewrightError for anything else."""
        try:
            chosen = {str(n): _ENTITIES[kind](value) for n, kind, value in data["entity"]}
            index = data.get("index")
            if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
                raise ValueError(f"index {index!r}")
            return ConfigEntity(index, data.get("code_hash"), chosen)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TilewrightError(f"this is no configuration of a template: {error!r}") from None

    def __repr__(self) -> str:
        chosen = ", ".join(f"({n!r}, {e})" for n, e in self._entity_map.items())
        return f"[{chosen}],{self.code_hash},{self.index}"


class FallbackConfigEntity(ConfigSpace):
    """The configuration where nothing was tuned: each knob's first choice, which a template may
    better with `fallback_split`, `fallback_with_reference_log` or `cfg[name] = ...`."""

    is_fallback = True

    def encoded(self, name: str) -> Any:
        """A knob's choice as data, [type, value]; None where there is no such knob."""
        entity = self._entity_map.get(name)
        return None if entity is None else entity.encode()

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Let a split take, from the innermost loop outwards, the largest divisors of what is left
        that are not above `constraints` (-1: no limit). Raises TilewrightError where name is no
        split into as many loops, or no length is within a limit."""
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace) or len(constraints) != space.num_output:
            raise TilewrightError(
                f"fallback_split: {name!r} is no split into {len(constraints)} loops"
            )
        rest, sizes = space.product, []
        for limit in reversed(constraints):
            fit = [d for d in divisors(rest) if limit == -1 or d <= limit]
            if not fit:
                raise TilewrightError(
                    f"Cannot find feasible fallback split entity for node: {name}: no length is at "
                    f"most {limit}"
                )
            sizes.append(max(fit))
            rest //= sizes[-1]
        self._entity_map[name] = SplitEntity(sizes[::-1])

    def fallback_with_reference_log(self, ref_log: Sequence[tuple[Any, Any]]) -> None:
        """Take over the choices of that of some records, (MeasureInput, MeasureResult), whose tiles
        have most divisors in common with the axes here; the lengths of splits are fitted."""
        splits = {n: sp for n, sp in self.space_map.items() if isinstance(sp, SplitSpace)}
        best, most = None, 0.0
        for inp, _ in ref_log:
            if not all(name in inp.config for name in self.space_map):
                continue
            score = 0.0
            for name, space in splits.items():
                own = set(divisors(space.product))
                theirs = divisors(abs(math.prod(inp.config[name].size)))
                score += len(own.intersection(theirs)) / len(own)
            if score > most or not splits:
                best, most = inp.config, score
        if best is None:
            return
        for name in self.space_map:
            if name in splits:
                self.fallback_split(name, [-1, *best[name].size[1:]])
            else:
                self._entity_map[name] = best[name]

    def __repr__(self) -> str:
        chosen = ", ".join(f"({n!r}, {e})" for n, e in self._entity_map.items())
        return f"[{chosen}],None,fallback"
