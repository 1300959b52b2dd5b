"""Multi-level tiling: every loop of a stage cut into the levels of a structure such as SSRSRS.

The paper's structure for CPUs (Zheng et al., OSDI 2020, section 4.1): S levels of all data loops
and R levels of all reduction loops, from outside in. All lengths are left open.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import TilewrightError
from ...loopir.iter import IterVar
from ..state import Iterator, State

CPU_STRUCTURE = "SSRSRS"
GPU_STRUCTURE = "SSSRRSRS"
KEEP_WHOLE = ("auto_scheduler_no_split_at_inner", "no_split_at_inner")


def check_structure(text: str, gpu: bool = False) -> str:
    """A structure of levels; TilewrightError where it has too few for data, none for reductions, or
    others than S and R. GPUs need three for blocks and threads, and one within a thread."""
    least, example = (4, GPU_STRUCTURE) if gpu else (2, CPU_STRUCTURE)
    if not text or set(text) - {"S", "R"} or text.count("S") < least or "R" not in text:
        raise TilewrightError(
            f"a tile structure is made of at least {('two', 'four')[gpu]} S and one R, like "
            f"{example}; got {text!r}"
        )
    return text


def kept_whole(state: State, stage_id: int) -> set[str]:
    """Names of loops that the computation's attributes keep from being split."""
    attrs = getattr(state.stage_at(stage_id).op, "attrs", None) or {}
    names: set[str] = set()
    for key in KEEP_WHOLE:
        value = attrs.get(key, ())
        names |= {str(v) for v in (value if isinstance(value, (list, tuple)) else [value])}
    return names


def tile(state: State, stage_id: int, structure: str) -> list[int]:
    """Tile a stage in place; returns the numbers of the rows that split its data loops."""
    spatial_levels, reduce_levels = structure.count("S"), structure.count("R")
    whole = kept_whole(state, stage_id)
    pieces: list[tuple[bool, list[Iterator]]] = []
    splits: list[int] = []
    for it in state[stage_id].iters:
        data = it.axis.iter_type == IterVar.DataPar
        if it.name.removesuffix(".c") in whole:
            pieces.append((data, [it]))
            continue
        levels = spatial_levels if data else reduce_levels
        if levels == 1:
            pieces.append((data, [it]))
            continue
        if data:
            splits.append(len(state.rows))
        pieces.append((data, state.split(stage_id, it, [None] * (levels - 1))))
    state.reorder(stage_id, _order(pieces, structure))
    return splits


def _order(pieces: Sequence[tuple[bool, list[Iterator]]], structure: str) -> list[Iterator]:
    order: list[Iterator] = []
    seen = {True: 0, False: 0}
    for position, kind in enumerate(structure):
        data = kind == "S"
        level = seen[data]
        seen[data] += 1
        last = structure.rfind(kind) == position
        for is_data, parts in pieces:
            if is_data != data:
                continue
            if len(parts) > 1:
                order.append(parts[level])
            elif last:  # kept whole: innermost
                order.append(parts[0])
    return order


def follow(state: State, stage_id: int, splits: Sequence[int], levels: int) -> None:
    """Tile an element-wise reader's data loops like the stage it reads, `levels` + 1 pieces
    each."""
    iters = state[stage_id].iters
    pieces = []
    for it, source in zip(iters, splits):
        pieces.append(state.follow_split(stage_id, it, source, levels))
    rest = iters[len(splits) :]
    order = [parts[level] for level in range(levels + 1) for parts in pieces]
    state.reorder(stage_id, [*order, *rest])
