"""Operators that Python computes while the network runs: strings, sequences, random numbers,
results whose extents depend on data.

A host operator is a function of a `HostNode`. Its inputs are NumPy arrays (strings: arrays of
objects), lists (sequences), or None (left out, or an empty optional); so are its results. Results
may share memory with inputs, and none is written to.
"""

from __future__ import annotations

from ..node import HostFunction, HostNode
from . import (
    cast,
    fill,
    images,
    index,
    ml_features,
    ml_linear,
    ml_trees,
    move,
    quantize,
    random,
    search,
    sequences,
    strings,
    training,
)

__all__ = ["HOST", "RANDOM", "HostFunction", "HostNode"]

HOST: dict[str, HostFunction] = {
    **move.FUNCTIONS,
    **index.FUNCTIONS,
    **fill.FUNCTIONS,
    **search.FUNCTIONS,
    **sequences.FUNCTIONS,
    **cast.FUNCTIONS,
    **quantize.FUNCTIONS,
    **strings.FUNCTIONS,
    **random.FUNCTIONS,
    **images.FUNCTIONS,
    **training.FUNCTIONS,
    **ml_features.FUNCTIONS,
    **ml_linear.FUNCTIONS,
    **ml_trees.FUNCTIONS,
}
"""By operator, as "domain.Operator" outside the standard domain."""
RANDOM = frozenset(random.FUNCTIONS)
"""Those that give something else each time."""
