"""`python -m tvm.exec.rpc_tracker`: a fleet's scheduler, as `tilewright fleet scheduler` is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import TilewrightError
from ..fleet.client import require_distributed
from ..fleet.rpc_server import TRACKER_PORT, TRACKER_PORT_END, free_ports


def main(args: Sequence[str] | None = None) -> int:
    """Run it until it is interrupted; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="interface to listen on")
    parser.add_argument("--port", type=int, default=TRACKER_PORT)
    parser.add_argument("--port-end", type=int, default=TRACKER_PORT_END,
                        help="the first port from --port that is free, below this one")  # fmt: skip
    parser.add_argument("--silent", action="store_true", help="print nothing")
    add_security(parser)
    given = parser.parse_args(args)

    def say(up: Mapping[str, Any]) -> None:
        if not given.silent:
            print(f"the tracker is at {up['address']}; devices join with "
                  f"`tilewright device --fleet {up['address']}`", flush=True)  # fmt: skip

    return run(lambda: _serve(given, say))


def add_security(parser: argparse.ArgumentParser) -> None:
    """The arguments that say who may join."""
    made = "what `tilewright fleet init` made (default: where it puts it)"
    parser.add_argument("--certificates", metavar="FOLDER", help=made)
    trusted = "TCP without encryption, where the network is trusted"
    parser.add_argument("--plain", action="store_true", help=trusted)


def run(work: Any) -> int:
    """The exit status of a program; what went wrong is printed."""
    try:
        require_distributed()
        return int(work())
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _serve(given: argparse.Namespace, say: Any) -> int:
    from ..fleet import server

    port = next(free_ports(given.host, given.port, given.port_end), None)
    if port is None:
        raise TilewrightError(
            f"no port of {given.host} from {given.port} to {given.port_end - 1} is free"
        )
    how = {"host": given.host, "port": port, "folder": given.certificates, "plain": given.plain}
    return server.serve("scheduler", how, say)


if __name__ == "__main__":
    sys.exit(main())
