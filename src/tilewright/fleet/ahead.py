"""How much a search over a fleet has on the way, so that no device waits for it."""

from __future__ import annotations

AHEAD = 2  # candidates on the way to each device at least: the one that runs, and the next
_MOST = 8.0
_FEW = 4  # devices that lose less by the ends of rounds than a search by learning later
_STARVED = 1 / 16  # of the answers, where the number on the way stays as it is
_CROWD = 64  # devices that one scheduler feeds one by one
_PARCEL = 32  # candidates that travel together at most


class Window:
    """How many tasks may be on the way to each device: as many as the link is long.

    A device says of each task whether it would have begun with it earlier, had it been there: it
    had nothing to do, or has served later turns of others (see `share`). Such an answer makes the
    window wider while there are more candidates to send; any other narrows it a little.
    """

    def __init__(self) -> None:
        self.each = float(AHEAD)

    def of(self, devices: int) -> int:
        """Tasks that may be on the way to so many devices."""
        return round(self.each * devices)

    def hear(self, starved: bool, devices: int) -> None:
        """What a device has said of a task, while there were more to send."""
        step = 1.0 if starved else -_STARVED
        self.each = min(max(self.each + step / max(devices, 1), AHEAD), _MOST)


def candidates_ahead(devices: int, each: float = AHEAD) -> int:
    """Candidates that may be out when a search begins to find a round more, where `each` device has
    so many on the way.

    A search that waits for each round learns from all that was measured, and is the same whoever
    measures; what that costs is the end of the round, when devices run out of candidates one after
    the other (`simulate` says how much). With few devices none are out, therefore. With more it is
    AHEAD for each and one more, which are measured while the round is found and built.
    """
    return 0 if devices <= _FEW else (AHEAD + 1) * devices


def is_crowd(devices: int) -> bool:
    """Whether these are more devices than one scheduler feeds one by one."""
    return devices > _CROWD


def parcel_size(outstanding: int, devices: int) -> int:
    """How many candidates one task of Dask's takes, where so many have been submitted and are not
    yet measured.

    Dask's scheduler and client need milliseconds for a task, whatever it holds. Where a crowd of
    devices is owed many candidates each, tasks of several are what feeds them; a device then says
    what it measured when it has measured all of a task. Each device keeps the AHEAD tasks that it
    needs so as not to wait.
    """
    if not is_crowd(devices):
        return 1
    return min(max(outstanding // (AHEAD * devices), 1), _PARCEL)
