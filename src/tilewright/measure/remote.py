"""What says that there are no sessions on other machines."""

from __future__ import annotations

from typing import Any, NoReturn

from ..base.errors import TilewrightError


def request_remote(device_key: str, host: Any = None, port: Any = None, *more: Any) -> NoReturn:
    """There is no tracker to ask."""
    raise TilewrightError(
        f"request_remote({device_key!r}): there are no trackers and no sessions on other machines: "
        "a fleet builds and times candidates there, see RPCRunner and DaskRunner"
    )


def check_remote(*what: Any, **where: Any) -> bool:
    """Whether a session on another machine is to be had: none is ever."""
    return False
