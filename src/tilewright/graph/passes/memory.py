"""Give each intermediate value a place in one workspace; places are shared by values that never
live together (rt/places.py).

Some values need no place of their own. A reshape is another view of what it reads, and so is a
slice, whose readers step over what lies between its rows. What is joined
by a concatenation lies in it one behind the other where the extents before its axis are 1, so that
whoever computes such a part can write it there at once: the concatenation itself is no kernel then.
A part of several concatenations, as in a dense block, has its place in the longest, of which the
shorter ones are mostly views themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ...base.aligned import ALIGNMENT
from ...base.dtype import parse
from ...rt.array import compact_strides
from ...rt.places import places_of
from ...target.target import Target
from ..ir import Graph, Node, Value
from ..ops import OPAQUE
from .fuse import Group, Lying
from .strided import Strided, after, whole

DEVICE_ALIGN = 256  # what OpenCL devices ask of the start of a buffer within another
_CUDA_ALIGN = 32  # what the widest instruction of CUDA asks of an array: a load of fragments
_VECTOR = 16  # bytes that rows of a slice begin at multiples of: the widest load of devices


@dataclass(frozen=True)
class Part:
    """The bytes of another value from `at` on."""

    of: Value
    at: int = 0


Parts = Mapping[Value, Part]
"""Where values lie that have no place of their own."""


@dataclass(frozen=True)
class Starts:
    """Where arrays within others may begin: at multiples of `every` bytes, and, if kernels may have
    an offset `within`, between these. Tensor maps of CUDA's have none."""

    every: int = ALIGNMENT
    within: bool = True

    @staticmethod
    def of(target: Target) -> Starts:
        if target.kind.name == "cuda":
            return Starts(_CUDA_ALIGN, False)
        return Starts(DEVICE_ALIGN if "gpu" in target.keys else ALIGNMENT)

    def fits(self, at: int) -> bool:
        """Whether a slice that vectors are read of may begin there."""
        return at % (_VECTOR if self.within else self.every) == 0


def views(
    graph: Graph, groups: Sequence[Group], starts: Starts | None = None
) -> tuple[list[Group], dict[Value, Part]]:
    """The groups without those that only give other views, and what their outputs, and what else
    is written where a view of it is needed, are parts of. How those lie that are not compact from
    there on, the groups that read them say.

    What an output of the graph is a reshape of is written there."""
    found = _Views(graph, groups, starts or Starts())
    joins = _Joins(graph, found, found.starts.every)
    kept = joins.without(found.kept)
    for group in kept:
        group.lying = {v: found.lying[v] for v in group.inputs if v in found.lying}
    return kept, joins.parts()


class _Views:
    """`kept`: the groups without those that only reshape and slice; `same`: what each of their
    outputs is a part of, and `lying`: how, where that is not compact, from its first byte on."""

    def __init__(self, graph: Graph, groups: Sequence[Group], starts: Starts) -> None:
        self.starts = starts
        self.outputs = set(graph.outputs)
        self.kept: list[Group] = []
        self.same: dict[Value, Part] = {}
        self.lying: dict[Value, Lying] = {}
        self._at: dict[Value, Strided] = {}
        self._alien = {v for g in groups if _is_alien(g) for v in g.inputs}
        for group in groups:
            if not self._is_view(group):
                self.kept.append(group)

    def _is_view(self, group: Group) -> bool:
        """Whether what a group gives needs no kernel."""
        source = group.inputs[0] if group.inputs else None
        root = None if source is None else self._root(source)
        if source is None or root is None or root.is_constant:
            return False
        if source not in self._at and all(n.op == "reshape" for n in group.nodes):
            return self._is_reshape(group, root)
        return self._is_slice(group, source)

    def _root(self, v: Value) -> Value:
        return self.same[v].of if v in self.same else v

    def _is_reshape(self, group: Group, root: Value) -> bool:
        """Of a whole array: what becomes an output is written there."""
        out = group.output
        if out not in self.outputs:
            self.same[out] = Part(root)
            return True
        if root.producer is None or root in self.outputs:
            return False
        self.same |= {v: Part(out, p.at) for v, p in self.same.items() if p.of is root}
        self.same[root] = Part(out)
        return True

    def _is_slice(self, group: Group, source: Value) -> bool:
        """Of a part: its readers take it in the steps that it lies in."""
        out = group.output
        if out in self.outputs or any(n.op not in ("reshape", "slice") for n in group.nodes):
            return False
        made = (*(n.output for n in group.nodes), source)
        if not all(isinstance(d, int) and d > 0 for v in made for d in v.shape):
            return False
        at: Strided | None = self._at.get(source) or whole(source)
        for node in group.nodes:
            at = at if at is None else after(node, at)
        lying = None if at is None else _lying(at, out)
        if at is None or lying is None:
            return False
        nbytes = parse(out.dtype).nbytes
        begin, more = divmod(lying.offset * nbytes, self.starts.every)
        if more and not self.starts.within:
            return False
        compact = lying.strides == compact_strides(out.shape)
        if more or not compact:
            if out in self._alien or not _in_vectors(out.shape, lying, nbytes):
                return False
            self.lying[out] = Lying(lying.strides, more // nbytes)
        before = self.same.get(at.source, Part(at.source))
        self.same[out] = Part(before.of, before.at + begin * self.starts.every)
        self._at[out] = at
        return True


def _is_alien(group: Group) -> bool:
    """Whether the code of a kernel may be somebody else's, who knows of no steps."""
    return OPAQUE in group.kinds and any(n.op != "concat" for n in group.nodes)


def _lying(at: Strided, v: Value) -> Lying | None:
    """How a value lies, whose elements are these of a larger array; None where its rows are not in
    one piece, or its dimensions not in order."""
    strides: list[int] = []
    beyond = 1  # elements up to the next one of a dimension further out
    for extent, dim in zip(reversed(v.shape), reversed(at.dims)):
        stride = dim[0][1] if dim else beyond
        if len(dim) > 1 or stride < beyond or (beyond == 1 != stride):
            return None
        strides.insert(0, stride)
        beyond = stride * extent
    return Lying(tuple(strides), at.offset)


def _in_vectors(shape: Sequence[int], lying: Lying, nbytes: int) -> bool:
    """Whether all rows of a slice can be read by the widest loads: if not, a copy that can be is
    worth its kernel."""
    steps = [s for n, s in zip(shape[:-1], lying.strides) if n > 1]
    return all(step * nbytes % _VECTOR == 0 for step in (lying.offset, *steps))


class _Joins:
    """Concatenations of which at least half of the bytes can be written in place."""

    def __init__(self, graph: Graph, found: _Views, align: int) -> None:
        self.same, self.lying = found.same, found.lying
        self.align = align
        self.fixed = {*graph.inputs, *graph.outputs}
        self.within: dict[Value, Part] = {}

    def where(self, v: Value) -> Part:
        """The value that has a place, of which another one is a part."""
        part = self.same.get(v, Part(v))
        v, at = part.of, part.at
        while v in self.within:
            v, at = self.within[v].of, at + self.within[v].at
        return Part(v, at)

    def parts(self) -> dict[Value, Part]:
        return {v: self.where(v) for v in [*self.same, *self.within]}

    def without(self, groups: Sequence[Group]) -> list[Group]:
        """The groups without these concatenations; what else belongs in one is copied there. From
        the last to the first, as the longest of a dense block comes last."""
        kept: list[Group] = []
        for group in reversed(groups):
            starts = self._starts(group.nodes[0])
            copies = None if starts is None else self._joined(group.nodes[0], starts)
            kept += [group] if copies is None else copies[::-1]
        return kept[::-1]

    def _starts(self, node: Node) -> list[int] | None:
        """Where the inputs of a concatenation begin in its result, if they lie there whole."""
        if node.op != "concat" or self.where(node.output).of in self.fixed:
            return None
        known = all(isinstance(d, int) for v in (*node.inputs, node.output) for d in v.shape)
        if not known or any(d != 1 for d in node.output.shape[: node.attrs["axis"]]):
            return None
        *starts, _ = accumulate((v.nbytes for v in node.inputs), initial=0)
        return None if any(start % self.align for start in starts) else starts

    def _joined(self, node: Node, starts: Sequence[int]) -> list[Group] | None:
        """The kernels instead of a concatenation: copies of what cannot be computed where it
        belongs, mostly none. None where they would be more than half of it."""
        out, found = node.output, [self.where(v) for v in node.inputs]
        whole = found[0]
        alike = all(p == Part(whole.of, whole.at + start) for p, start in zip(found, starts))
        alike = alike and not any(v in self.lying for v in node.inputs)
        if alike and out not in self.within and whole.of not in self.fixed:
            self.within[out] = whole  # it stands in a longer one, as it would be here
            return []
        placed: dict[Value, Part] = {}
        copied: list[tuple[Value, Part]] = []
        inputs = list(zip(node.inputs, starts))
        while inputs:
            v, start = inputs[0]
            root = self.same.get(v, Part(v)).of
            together = self._whole([v for v, _ in inputs], root)
            free = root.producer is not None and root not in self.fixed
            if free and together and root not in self.within and root not in placed:
                placed[root] = Part(out, start)
            else:
                copied.append((v, Part(out, start)))
                together = 1
            del inputs[:together]
        if 2 * sum(v.nbytes for v in placed) < out.nbytes:
            return None
        self.within |= placed
        return [self._copy(v, part) for v, part in copied]

    def _whole(self, inputs: Sequence[Value], root: Value) -> int:
        """How many of the first inputs are together all of an array, in order; 0 where they are
        only a part of it."""
        at = 0
        for n, v in enumerate(inputs):
            if v in self.lying or self.same.get(v, Part(v)) != Part(root, at):
                break
            at += v.nbytes
            if at == root.nbytes:
                return n + 1
        return 0

    def _copy(self, v: Value, part: Part) -> Group:
        copy = Value(f"{v.name}.in.{part.of.name}", v.shape, v.dtype)
        self.within[copy] = part
        return Group([Node("identity", copy.name, [v], [copy])])


def plan_memory(
    graph: Graph, groups: Sequence[Group], align: int = ALIGNMENT, same: Parts | None = None
) -> tuple[dict[Value, int], int]:
    """Byte offset of every value between groups, and the size of the workspace. `same`: values that
    are parts of others."""
    found = lifetimes(graph, groups, same)
    sizes = [v.nbytes for v in found]
    born, last = ([life[k] for life in found.values()] for k in (0, 1))
    places, size = places_of(sizes, born, last, align)
    return dict(zip(found, places)), size


def lifetimes(
    graph: Graph, groups: Sequence[Group], same: Parts | None = None
) -> dict[Value, tuple[int, int]]:
    """The first and last step at which each value between groups, or a part of it, is needed."""
    same = same or {}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    fixed = {*graph.inputs, *graph.outputs}

    def root(v: Value) -> Value:
        return same[v].of if v in same else v

    for step, group in enumerate(groups):
        made = root(group.output)
        if made not in fixed:
            first.setdefault(made, step)
            last[made] = step
        for v in map(root, group.inputs):
            if v in first:
                last[v] = step
    return {v: (step, last[v]) for v, step in first.items()}
