"""Times as people read them: ns, us, ms or s, whichever gives a number from 1 to 999."""

from __future__ import annotations

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def time_text(seconds: float | None) -> str:
    """A time with four digits and its unit, as "12.35 us"; "-" where it is not known."""
    if seconds is None:
        return "-"
    for scale, unit in _UNITS:
        value = f"{seconds / scale:.4g}"
        if float(value) >= 1:
            return f"{value if 'e' not in value else f'{seconds / scale:.0f}'} {unit}"
    return f"{seconds * 1e9:.3g} ns"
