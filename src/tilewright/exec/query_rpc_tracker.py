"""`python -m tvm.exec.query_rpc_tracker`: which devices a tracker has, and who waits for them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..fleet.rpc_server import TRACKER_PORT
from ..fleet.tracker import connect_tracker
from .rpc_tracker import add_security, run


def main(args: Sequence[str] | None = None) -> int:
    """Print it; the exit status. TVM_TRACKER_HOST and TVM_TRACKER_PORT stand for arguments."""
    found = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default=found("TVM_TRACKER_HOST", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=int(found("TVM_TRACKER_PORT", TRACKER_PORT)))
    add_security(parser)
    given = parser.parse_args(args)

    def work() -> int:
        secure = {"certificates": given.certificates, "plain": given.plain}
        with connect_tracker(given.host, given.port, **secure) as tracker:
            print(tracker.text_summary())
        return 0

    return run(work)


if __name__ == "__main__":
    sys.exit(main())
