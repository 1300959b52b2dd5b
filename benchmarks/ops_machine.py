"""What the machine can do, served by a process of its own: FMA peak and copy bandwidth.

    python -m benchmarks.ops_machine [--threads 2]

Requests: `peak` gives float32 operations a second (`flop_per_s`); `copy` times a copy on all
threads that reads and writes `bytes` together, in whichever cache they fit, and says how many
they were.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.ops_channel import repetitions, serve
from tilewright.measure.protocol import Message

# Less is copied in so short a time that starting threads counts.
LEAST_BYTES = 1 << 20
PEAK_ATTEMPTS = 5
ROW = 1024  # floats


@lru_cache(maxsize=2)
def _copy(rows: int, target: Any) -> Callable[[], Any]:
    """A call that copies rows of ROW floats on all threads."""
    import tilewright
    from tilewright import te

    a = te.placeholder((rows, ROW), name="a")
    b = te.compute((rows, ROW), lambda i, j: a[i, j], name="b")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    _, inner = s[b].split(b.op.axis[1], factor=target.vector_bytes // 4)
    s[b].vectorize(inner)
    arrays = [tilewright.nd.array(np.ones((rows, ROW), np.float32)) for _ in range(2)]
    run: Callable[[], Any] = tilewright.build(s, [a, b], target, name="copy").prepare(*arrays)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    from tilewright.driver.peak import sample_peak
    from tilewright.rt.threads import set_num_threads
    from tilewright.target.target import Target

    target = Target("llvm")
    set_num_threads(threads)

    def peak(_request: Message) -> Message:
        return {"flop_per_s": max(sample_peak(target, threads) for _ in range(PEAK_ATTEMPTS))}

    def copy(request: Message) -> Message:
        rows = max(LEAST_BYTES, int(request["bytes"])) // (8 * ROW)
        times = repetitions(_copy(rows, target), request["seconds"])
        return {"times": times, "bytes": rows * 8 * ROW}

    serve(peak=peak, copy=copy)


if __name__ == "__main__":
    main()
