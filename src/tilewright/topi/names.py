"""What the modules of targets (topi.x86, topi.cuda, ...) hold: operators, which are written once,
under the names and signatures that TVM gives each target, and default schedules for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature
from inspect import signature as signature_of
from typing import Any

from .schedules.entries import renamed


def target_names(schedules: str, computed: Mapping[str, str], device: bool) -> dict[str, str]:
    """The names of a target's module by the modules that define them: `schedules` of any operators
    of this library, which bind threads on a `device`, and operators `computed`."""
    one = "on_device" if device else "schedule"
    existing = "from_existing_on_device" if device else "from_existing"
    own = {
        "schedule_injective_from_existing": existing,
        "schedule_pool": f"{one}_in_layout",
    }
    names = " ".join(renamed(name, own.get(name, one)) for name in schedules.split())
    return {**computed, "topi.schedules.entries": names}


INJECTIVE = (
    "schedule_injective schedule_injective_from_existing schedule_elemwise schedule_broadcast"
)
"""The schedules of operators whose elements each come from one element."""


def under(function: Callable[..., Any], required: str, **optional: Any) -> Callable[..., Any]:
    """`function` with its first parameters under other names, and with other defaults; its
    docstring calls them by those."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    signature = Signature(
        [
            *(Parameter(name, kind) for name in required.split()),
            *(Parameter(name, kind, default=value) for name, value in optional.items()),
        ]
    )

    own = list(signature_of(function).parameters)

    @wraps(function)
    def apply(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named)
        given.apply_defaults()
        return function(*given.args)

    apply.__signature__ = signature  # type: ignore[attr-defined]
    called = dict(zip(own, signature.parameters))
    apply.__doc__ = re.sub(
        r"`(\w+)`", lambda m: f"`{called.get(m[1], m[1])}`", function.__doc__ or ""
    )
    return apply
