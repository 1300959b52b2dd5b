"""Others that use the machine are noticed, our own processes are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.rt import busy, threads

TICKS = os.sysconf("SC_CLK_TCK")


class Machine:
    """A made-up /proc: seconds of each core, and of processes by number and parent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, cores: dict[int, float], processes: dict[int, tuple[int, float]]) -> None:
        lines = ["cpu  1 2 3 4 5 6 7 8 9 10"]
        for core, seconds in cores.items():
            share = int(seconds * TICKS / 4)  # user, system, soft interrupts, stolen
            lines.append(f"cpu{core} {share} 0 {share} 12345 678 0 {share} {share} {share} 0")
        (self.folder / "stat").write_text("\n".join([*lines, "ctxt 1234"]))
        for number, (parent, seconds) in processes.items():
            (self.folder / str(number)).mkdir(exist_ok=True)
            half = int(seconds * TICKS / 2)
            fields = ["S", parent, *[0] * 9, half, 0, 0, half, *[0] * 30]
            text = f"{number} (a (b) c) " + " ".join(map(str, fields))
            (self.folder / str(number) / "stat").write_text(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    clock = iter([10.0, 20.0, 20.0])
    monkeypatch.setattr("tilewright.rt.busy.time.perf_counter", lambda: next(clock))
    monkeypatch.setattr(busy, "_cores", lambda: {0, 1})
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("used", "own", "team", "is_busy"),
    [
        (20.0, 19.0, 2, False),
        (20.0, 10.0, 2, True),
        (10.0, 0.0, 1, False),
        (15.0, 4.0, 1, False),
        (18.0, 4.0, 1, True),
        (20.0, 10.0, 64, True),
        (3.0, 0.0, 2, True),
    ],
)
def test_others_take_what_our_processes_do_not(
    machine: Machine, used: float, own: float, team: int, is_busy: bool
) -> None:
    me, child, other = os.getpid(), 999_998, 999_999
    machine.write({0: 50.0, 1: 50.0, 7: 1.0}, {1: (0, 9.0), me: (1, 5.0), child: (me, 1.0)})
    watch = busy.Watch(machine.folder)
    machine.write(
        {0: 50.0 + used / 2, 1: 50.0 + used / 2, 7: 99.0},
        {me: (1, 5.0 + own / 2), child: (me, 1.0 + own / 2), other: (1, 80.0)},
    )
    assert watch.others() == pytest.approx((used - own) / 10, abs=0.02)
    try:
        threads.set_num_threads(team)
        note = watch.note()
    finally:
        threads.set_num_threads(0)
    assert (note is not None) is is_busy
    if note is not None:
        assert f"used {(used - own) / 10:.1f} of its 2 cores" in note


def test_a_system_that_says_nothing_is_not_called_busy(tmp_path: Path) -> None:
    watch = busy.Watch(tmp_path)
    assert watch.others() is None and watch.note() is None


def test_this_system_is_understood() -> None:
    """A child of ours that spins is no other program, and its time is seen."""
    if not Path("/proc/stat").exists():
        pytest.skip("this system has no /proc/stat")
    code = "import time\nend = time.process_time() + .4\nwhile time.process_time() < end: pass"
    watch = busy.Watch()
    before, spent = busy._own(Path("/proc")), busy._used(Path("/proc"))
    subprocess.run([sys.executable, "-c", code], check=True)
    assert 0.35 < busy._own(Path("/proc")) - before < 5
    assert busy._used(Path("/proc")) - spent > 0.35
    others = watch.others()
    assert others is not None and 0 <= others <= len(os.sched_getaffinity(0)) + 0.5
