"""The pool of device memory, with memory that is only counted."""

from __future__ import annotations

import pytest

from tilewright.rt.drivers.base import Event
from tilewright.rt.drivers.pool import OutOfDeviceMemory, Pool, block_size


class Mark(Event):
    def __init__(self) -> None:
        self.passed = False

    @property
    def done(self) -> bool:
        return self.passed

    def sync(self) -> None:
        self.passed = True

    def seconds_since(self, start: Event) -> float:
        raise AssertionError("the pool measures nothing")


class World:
    def __init__(self, limit: int = 1 << 20, marks: list | None = None) -> None:
        self.limit = limit
        self.used: dict[int, int] = {}
        self.next = 4096
        self.marks = marks if marks is not None else []
        self.waits = 0
        self.pool = Pool(self.allocate, self.release, lambda: list(self.marks), self.wait)

    def allocate(self, nbytes: int) -> tuple[int, int]:
        if sum(self.used.values()) + nbytes > self.limit:
            raise OutOfDeviceMemory("full")
        self.next += 1 << 20
        self.used[self.next] = nbytes
        return self.next, self.next

    def release(self, handle: int) -> None:
        del self.used[handle]

    def wait(self) -> None:
        self.waits += 1


@pytest.mark.parametrize("nbytes", [0, 1, 511, 512, 513, 4097, 100_000, 1 << 20, (1 << 20) + 1])
def test_blocks_are_little_larger_than_asked(nbytes):
    size = block_size(nbytes)
    assert size >= nbytes and size % 512 == 0
    assert size <= max(512, nbytes + max(512, nbytes // 8))
    assert block_size(size) == size


def test_a_block_is_handed_out_again():
    world = World()
    first = world.pool.take(1000)
    assert world.pool.taken_bytes == 1024
    world.pool.give(first)
    assert world.pool.take(1024) == first
    assert len(world.used) == 1
    second = world.pool.take(1000)
    assert second != first and second[2] == 1024


def test_a_block_waits_for_the_streams():
    mark = Mark()
    world = World(marks=[mark])
    first = world.pool.take(1000)
    world.pool.give(first)
    second = world.pool.take(1000)
    assert second != first
    mark.passed = True
    assert world.pool.take(1000) == first
    world.pool.give(first)
    world.pool.give(second)
    mark.passed = False
    world.pool.trim()
    assert mark.passed and not world.used
    assert (world.pool.taken_bytes, world.pool.held_bytes) == (0, 0)


def test_kept_blocks_are_released_before_memory_is_out():
    world = World(limit=10_000)
    blocks = [world.pool.take(4000) for _ in range(2)]
    for block in blocks:
        world.pool.give(block)
    large = world.pool.take(9000)
    assert world.waits == 1 and len(world.used) == 1
    with pytest.raises(OutOfDeviceMemory):
        world.pool.take(9000)
    world.pool.give(large)
    world.pool.trim()
    assert not world.used
