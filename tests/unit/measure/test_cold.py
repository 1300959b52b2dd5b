"""Timing as in a network: where copies of constants lie, whose turn it is, what is written."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright.measure import cold
from tilewright.measure.cold import ColdConstants, network_clock


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [tvm.nd.array(rng.standard_normal(s).astype(np.float32)) for s in shapes]


def address(array: Any) -> int:
    return int(np.asarray(array).ctypes.data)


def test_copies_lie_apart_and_hold_the_same() -> None:
    args = arrays((4, 4), (1000, 100), (4, 100))
    sets = ColdConstants().copies(args, [1])
    assert len(sets) == 128
    places = sorted(address(s[1]) for s in sets)
    assert all(b - a >= args[1].nbytes for a, b in pairwise(places))
    assert all(place % 64 == 0 for place in places)
    for one in sets:
        assert one[0] is args[0] and one[2] is args[2]
        np.testing.assert_array_equal(np.asarray(one[1]), np.asarray(args[1]))


def test_copies_fill_the_memory_and_no_more(monkeypatch: Any) -> None:
    monkeypatch.setattr(cold, "POOL_BYTES", 10_000)
    args = arrays((100,), (500,))
    assert len(ColdConstants().copies(args, [0])) == 10_000 // 448
    both = ColdConstants().copies(args, [0, 1])
    assert len(both) == 10_000 // (448 + 2048)
    spans = sorted((address(a), address(a) + a.nbytes) for s in both for a in s)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_what_is_as_large_as_the_memory_stays_where_it_is(monkeypatch: Any) -> None:
    monkeypatch.setattr(cold, "POOL_BYTES", 10_000)
    args = arrays((2000,))
    (only,) = ColdConstants().copies(args, [0])
    assert only[0] is args[0]


def test_the_memory_is_filled_anew_for_other_sizes_only() -> None:
    memory = ColdConstants()
    first = memory.copies(arrays((30, 40)), [0])
    np.asarray(first[5][0])[...] = 7
    again = memory.copies(arrays((40, 30)), [0])  # another layout of as many elements
    assert again[5][0].shape == (40, 30) and np.asarray(again[5][0]).max() == 7
    other = arrays((30, 41))
    for one in memory.copies(other, [0]):
        np.testing.assert_array_equal(np.asarray(one[0]), np.asarray(other[0]))


class Counting:
    """A function that notes on which weights it runs, and what is in its first argument."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.seen: list[float] = []

    def prepare_raw(self, data: Any, weights: str) -> Callable[[], int]:
        def run() -> int:
            self.runs.append(weights)
            self.seen.append(float(np.asarray(data).sum()))
            return 0

        return run


def test_runs_take_turns_after_some_that_do_not_count() -> None:
    function: Any = Counting()
    data = arrays((3,))[0]
    seconds = network_clock(function, [[data, w] for w in "abc"], [])
    assert function.runs == ["a", "b"]
    assert seconds(4) > 0
    seconds(1)
    assert function.runs == list("ab" + "cabc" + "a")


def test_what_is_written_before_each_run_keeps_its_values(monkeypatch: Any) -> None:
    function: Any = Counting()
    written: list[Any] = []
    data = arrays((3, 4))[0]
    monkeypatch.setattr(np, "bitwise_or", lambda a, b, out: written.append((a | b, out)))
    seconds = network_clock(function, [[data, "a"]], [0])
    seconds(3)
    assert len(written) == 5 == len(function.runs)
    raw = np.asarray(data).reshape(-1).view(np.uint8)
    assert all(np.array_equal(value, raw) for value, _ in written)
    assert all(out.ctypes.data == address(data) for _, out in written)
