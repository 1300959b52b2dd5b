"""What the machine can do, served by a process of its own: FMA peak and copy bandwidth.

    python -m benchmarks.ops_machine [--threads 2] [--target llvm]

Requests: `peak` gives float32 operations a second (`flop_per_s`); `copy` times a copy on all
threads that reads and writes `bytes` together, in whichever cache they fit, and says how many
they were.
"""

from __future__ import annotations

import argparse
from functools import lru_cache

from benchmarks.ops_channel import repetitions, serve
from tilewright.measure.protocol import Message

PEAK_ATTEMPTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", default="llvm")
    given = parser.parse_args()
    threads = given.threads
    from tilewright.driver.bandwidth import copying
    from tilewright.driver.peak import sample_peak
    from tilewright.rt.threads import set_num_threads
    from tilewright.target.target import Target

    target = Target(given.target)
    set_num_threads(threads)

    def peak(_request: Message) -> Message:
        return {"flop_per_s": max(sample_peak(target, threads) for _ in range(PEAK_ATTEMPTS))}

    copies = lru_cache(maxsize=2)(copying)

    def copy(request: Message) -> Message:
        call, moved = copies(int(request["bytes"]), target)
        return {"times": repetitions(call, request["seconds"]), "bytes": moved}

    serve(peak=peak, copy=copy)


if __name__ == "__main__":
    main()
