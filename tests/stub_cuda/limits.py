"""What devices of each architecture hold: CUDA C++ Programming Guide, "Compute Capabilities"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    """`shared_optin`: bytes of shared memory that a block can ask for by an attribute;
    `shared_sm`, `threads_sm`, `blocks_sm`: what a multiprocessor has; `reserved`: bytes of shared
    memory that the system keeps of each block's."""

    name: str
    shared_optin: int
    shared_sm: int
    threads_sm: int
    blocks_sm: int
    reserved: int
    max_threads: int = 1024
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared_block: int = 48 << 10
    registers: int = 65536
    parameter_bytes: int = 4096

    @property
    def cluster(self) -> int:
        """Blocks that a cluster has at most, where a kernel asks for no more than all take."""
        return 8 if self.capability >= (9, 0) else 1

    @property
    def capability(self) -> tuple[int, int]:
        number = int(self.name[3:])
        return number // 10, number % 10

    def attributes(self) -> dict[str, int]:
        """Of cuDeviceGetAttribute, by the names of its enumeration."""
        major, minor = self.capability
        return {
            "MAX_THREADS_PER_BLOCK": self.max_threads,
            **{f"MAX_BLOCK_DIM_{d}": n for d, n in zip("XYZ", self.block)},
            **{f"MAX_GRID_DIM_{d}": n for d, n in zip("XYZ", self.grid)},
            "WARP_SIZE": 32,
            "MAX_SHARED_MEMORY_PER_BLOCK": self.shared_block,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": self.shared_optin,
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": self.shared_sm,
            "MAX_REGISTERS_PER_BLOCK": self.registers,
            "MULTIPROCESSOR_COUNT": 40,
            "CLOCK_RATE": 1_500_000,
            "MEMORY_CLOCK_RATE": 1_215_000,
            "GLOBAL_MEMORY_BUS_WIDTH": 5120,
            "COMPUTE_CAPABILITY_MAJOR": major,
            "COMPUTE_CAPABILITY_MINOR": minor,
            "L2_CACHE_SIZE": 4 << 20,
            "INTEGRATED": 0,
        }


ARCHS = {
    a.name: a
    for a in (
        Arch("sm_75", 64 << 10, 64 << 10, 1024, 16, 0),
        Arch("sm_80", 163 << 10, 164 << 10, 2048, 32, 1024),
        Arch("sm_90", 227 << 10, 228 << 10, 2048, 32, 1024),
        Arch("sm_100", 227 << 10, 228 << 10, 2048, 32, 1024),
    )
}
