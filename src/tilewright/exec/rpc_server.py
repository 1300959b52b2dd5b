"""`python -m tvm.exec.rpc_server`: a device of a fleet, as `tilewright device` runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ..base.errors import UsageError
from ..fleet.options import address_of
from ..fleet.rpc_server import PORT, PORT_END, Tracker, device_facts, refuse_options
from .rpc_tracker import add_security, run


def main(args: Sequence[str] | None = None) -> int:
    """Run it until it is interrupted; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    whose = "whose device this is; without, it has a fleet of its own, at --host and --port"
    parser.add_argument("--tracker", metavar="HOST:PORT", help=whose)
    parser.add_argument("--key", default="", help="which devices are alike (default: the target)")
    parser.add_argument("--target", default="llvm", help="what to compile for it")
    parser.add_argument("--name", default="", help="of this device, unique in its fleet")
    parser.add_argument("--host", default="127.0.0.1", help="without --tracker")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--port-end", type=int, default=PORT_END)
    parser.add_argument("--silent", action="store_true", help="print nothing")
    parser.add_argument("--no-fork", dest="fork", action="store_false", help="says nothing here")
    parser.add_argument("--load-library", help="refused: devices run what sessions upload")
    parser.add_argument("--custom-addr", help="refused: devices connect to the scheduler")
    parser.add_argument("--through-proxy", action="store_true", help="refused")
    add_security(parser)
    given = parser.parse_args(args)
    return run(lambda: _serve(given))


def _serve(given: argparse.Namespace) -> int:
    from ..fleet import server

    refuse_options(given.through_proxy, given.load_library, given.custom_addr, None)
    with ExitStack() as stack:
        if given.tracker:
            scheduler = address_of(_split(given.tracker), given.plain, given.certificates)
        else:
            secure = {"certificates": given.certificates, "plain": given.plain}
            own = Tracker(given.host, given.port, given.port_end, **secure)
            scheduler = stack.enter_context(own).address
        facts = device_facts(given.key, given.target, given.name)

        def say(up: Mapping[str, Any]) -> None:
            if not given.silent:
                print(f"device {facts.name!r} of key {facts.key!r} is up at {up['address']} for "
                      f"the fleet at {scheduler}", flush=True)  # fmt: skip

        how = {"address": scheduler, "facts": facts.as_data(), "folder": given.certificates}
        return server.serve("device", {**how, "plain": given.plain}, say)


def _split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"--tracker is HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(main())
